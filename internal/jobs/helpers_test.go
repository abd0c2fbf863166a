package jobs

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

// tb is the common part of a test and a property.
type tb interface {
	Context() context.Context
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

var _ tb = (*testing.T)(nil)

// start is an odd moment, because nothing may depend on full hours.
var start = time.Date(2026, 10, 5, 13, 37, 11, 123456000, time.UTC)

// world is what a queue works with. Each process has a queue, and the world outlives it.
type world struct {
	tb
	clock   time.Time
	service *service
	journal Journal
	memory  *memory // journal, where it is one
	folder  []prompts.Prompt
	// bad are files that break a rule, changing those that have just changed.
	bad      []prompts.Prompt
	changing []string
	opt      Options
	// faults says what goes wrong with the nth call of a process, from 1.
	faults func(call string, nth int) fault
	on     *process
	queue  *Queue
	// applied are, for each event of job 1, the number of the apply that entered it.
	applied []int
}

func newWorld(t tb) *world {
	w := &world{tb: t, clock: start, memory: newMemory()}
	w.journal = w.memory
	w.service = newService(w.now)
	w.opt = Options{
		PollInterval: 15 * time.Second, OnNewState: Submit, Now: w.now, Notify: true,
		KeyMark: func() string { return "" }, Changed: func() {}, Clock: func() error { return nil },
		Mark: func(context.Context) {}, Restored: func(context.Context) error { return nil },
		Jitter: func(d time.Duration) time.Duration { return d }, Logger: slog.New(slog.DiscardHandler),
	}
	return w
}

func (w *world) now() time.Time { return w.clock }

func (w *world) found() prompts.Scanned {
	return prompts.Scanned{Prompts: w.folder, Invalid: w.bad, Changing: w.changing}
}

// prompt adds a file to the folder, or replaces the one with its id.
func (w *world) prompt(p prompts.Prompt) prompts.Prompt {
	if p.Path == "" {
		p.Path = p.ID + ".md"
	}
	if p.Project == "" {
		p.Project = "prj_a"
	}
	if p.Body == "" {
		p.Body = "do " + p.ID
	}
	p.Digest = "digest of " + p.Project + p.Body
	w.remove(p.ID)
	w.folder = append(w.folder, p)
	return p
}

func (w *world) remove(id string) {
	kept := w.folder[:0:0]
	for _, p := range w.folder {
		if p.ID != id {
			kept = append(kept, p)
		}
	}
	w.folder = kept
}

func cron(t tb, spec string) schedule.Cron {
	t.Helper()
	c, err := schedule.ParseCron(spec)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// process starts a new process, as main does.
func (w *world) process() error {
	w.Helper()
	w.on = &process{world: w, calls: map[string]int{}}
	w.queue = New(w.opt, wire{w.on}, wiredJournal{w.on})
	return w.queue.Recover(w.Context())
}

// pass makes one pass, in a new process if there is none.
func (w *world) pass() (Result, error) {
	w.Helper()
	if w.queue == nil || w.on.killed() {
		if err := w.process(); err != nil {
			return Result{}, err
		}
	}
	return w.queue.Pass(w.Context(), w.found())
}

// passes makes a pass that must not fail.
func (w *world) passes() Result {
	w.Helper()
	r, err := w.pass()
	if err != nil {
		w.Fatalf("pass: %v", err)
	}
	return r
}

func (w *world) after(d time.Duration) Result {
	w.Helper()
	w.clock = w.clock.Add(d)
	return w.passes()
}

// job returns the newest job of a prompt.
func (w *world) job(prompt string) journal.Job {
	w.Helper()
	job, err := Find(w.Context(), w.journal, prompt)
	if err != nil {
		w.Fatal(err)
	}
	return job
}

// has fails unless the newest job of a prompt is in a state.
func (w *world) has(prompt string, state journal.State) journal.Job {
	w.Helper()
	job := w.job(prompt)
	if job.State != state {
		w.Fatalf("%s is %s (%s), want %s", prompt, job.State, job.Reason, state)
	}
	return job
}

// none fails if a prompt has a job.
func (w *world) none(prompt string) {
	w.Helper()
	if job, err := Find(w.Context(), w.journal, prompt); !errors.Is(err, journal.ErrNoJob) {
		w.Fatalf("%s has a job: %+v, %v", prompt, job, err)
	}
}

// planned returns a prompt from the plan.
func (w *world) planned(id string) Planned {
	w.Helper()
	all, err := Plan(w.Context(), w.opt, w.journal, w.found())
	if err != nil {
		w.Fatal(err)
	}
	for _, p := range all {
		if p.ID == id {
			return p
		}
	}
	w.Fatalf("no %s in the plan %+v", id, all)
	return Planned{}
}

// waitsFor fails unless a prompt waits, for that reason.
func (w *world) waitsFor(id string, why Why, state journal.State) Planned {
	w.Helper()
	p := w.planned(id)
	if p.Why != why || p.State != state || p.Reason == "" {
		w.Fatalf("%s is %s for %q (%s), want %s for %q", id, p.State, p.Why, p.Reason, state, why)
	}
	return p
}

func (w *world) operator() *Operator { return NewOperator(w.journal, w.opt.Now) }

// decide makes a decision about a prompt: hold, release, cancel, retry, or an answer to
// what became of it: resubmit, drop, or the id of its job.
func (w *world) decide(decision, ref string) (journal.Job, error) {
	ctx, o, found := w.Context(), w.operator(), w.found()
	switch decision {
	case "hold":
		return o.Hold(ctx, ref, found)
	case "release":
		return o.Release(ctx, ref, found)
	case "cancel":
		return o.Cancel(ctx, ref, found)
	case "retry":
		return o.Retry(ctx, ref, found)
	case "resubmit":
		return o.Resolve(ctx, ref, Answer{Resubmit: true}, found)
	case "drop":
		return o.Resolve(ctx, ref, Answer{Drop: true}, found)
	}
	return o.Resolve(ctx, ref, Answer{JobID: decision}, found)
}

// decides makes a decision that must be possible.
func (w *world) decides(decision, ref string) journal.Job {
	w.Helper()
	job, err := w.decide(decision, ref)
	if err != nil {
		w.Fatal(err)
	}
	return job
}

func (w *world) pausesQueue() {
	w.Helper()
	if _, err := w.operator().PauseQueue(w.Context()); err != nil {
		w.Fatal(err)
	}
}

func (w *world) releasesQueue() journal.Queue {
	w.Helper()
	queue, err := w.operator().ReleaseQueue(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return queue
}

// failing makes the nth call of that name in a process go wrong.
func (w *world) failing(call string, nth int, f fault) {
	w.faults = func(c string, n int) fault {
		if c == call && n == nth {
			return f
		}
		return noFault
	}
}

// untilIdle makes passes until nothing more happens by itself, and resolves what is in
// doubt by the truth.
func (w *world) untilIdle() {
	w.Helper()
	for range 500 {
		r, err := w.pass()
		if err == nil && r.Idle() && !w.resolveAll() && r.Queue.Paused == "" {
			return
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	w.Fatalf("it does not become idle: %+v", w.memory.jobs)
}

// resolveAll resolves whatever is in doubt, as a person does after a look at the service,
// and reports whether anything was.
func (w *world) resolveAll() (any bool) {
	w.Helper()
	jobs, err := w.journal.Jobs(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for _, job := range jobs {
		if job.State == journal.Unknown {
			any = true
			w.resolve(job.Seq)
		}
	}
	return w.releasesQueue().Paused != "" || any
}

// unclaimed returns the id of a job at the service that can only be this one, or "".
func (w *world) unclaimed(job journal.Job) string {
	w.Helper()
	jobs, err := w.journal.Jobs(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	claimed := map[string]bool{}
	for _, other := range jobs {
		claimed[other.JobID] = true
	}
	for _, at := range w.service.jobs {
		if at.texts[0] == job.Text && at.project == job.Project && !claimed[at.id] {
			return at.id
		}
	}
	return ""
}

func (w *world) resolve(seq int64) {
	w.Helper()
	job, err := w.journal.Job(w.Context(), seq)
	if err != nil {
		w.Fatal(err)
	}
	answer := "resubmit"
	if job.Sending {
		if w.service.got(job.JobID, job.FollowUps[job.Sent]) > 0 {
			answer = job.JobID
		}
	} else if id := w.unclaimed(job); id != "" {
		answer = id
	}
	w.decides(answer, job.Prompt)
}
