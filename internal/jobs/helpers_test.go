package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

// tb is what a test and a property share.
type tb interface {
	Context() context.Context
	Helper()
	Fatal(...any)
	Fatalf(string, ...any)
	Errorf(string, ...any)
}

var _ tb = (*testing.T)(nil)

// start is an odd moment: nothing may depend on full hours.
var start = time.Date(2026, 10, 5, 13, 37, 11, 123456000, time.UTC)

// world is everything one queue stands on. A process is a queue; the world
// outlives it.
type world struct {
	tb
	clock   time.Time
	service *service
	journal Journal
	memory  *memory // journal, where it is one
	folder  []prompts.Prompt
	// bad are files that break a rule, settling those that have just changed.
	bad      []prompts.Prompt
	settling []string
	cfg      Config
	// faults says what goes wrong with the nth call of a process, from 1.
	faults func(call string, nth int) fault
	on     *power
	queue  *Queue
	// applied says, of each event of job 1, which apply of its process entered it.
	applied []int
}

func newWorld(t tb) *world {
	w := &world{tb: t, clock: start, memory: newMemory()}
	w.journal = w.memory
	w.service = newService(w.now)
	w.cfg = Config{PollInterval: 15 * time.Second, OnNewState: Submit, Now: w.now, Notify: true}
	return w
}

func (w *world) now() time.Time { return w.clock }

func (w *world) found() prompts.Scanned {
	return prompts.Scanned{Prompts: w.folder, Invalid: w.bad, Changing: w.settling}
}

// prompt puts a file in the folder, or in the place of that with its id.
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

// process begins a new process, as main does.
func (w *world) process() error {
	w.Helper()
	w.on = &power{world: w, calls: map[string]int{}}
	w.queue = New(w.cfg, wire{w.on}, wiredJournal{w.on})
	w.queue.jitter = func(d time.Duration) time.Duration { return d }
	return w.queue.Start(w.Context())
}

// pass makes one pass, in a new process where there is none.
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

// none fails where a prompt has a job.
func (w *world) none(prompt string) {
	w.Helper()
	if job, err := Find(w.Context(), w.journal, prompt); !errors.Is(err, journal.ErrNoJob) {
		w.Fatalf("%s has a job: %+v, %v", prompt, job, err)
	}
}

// planned returns a prompt as the plan has it.
func (w *world) planned(id string) Planned {
	w.Helper()
	all, err := Plan(w.Context(), w.cfg, w.journal, w.found())
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

func (w *world) operator() *Operator { return NewOperator(w.journal, w.now) }

// failing makes the nth call of that name go wrong, in one process.
func (w *world) failing(call string, nth int, f fault) {
	w.faults = func(c string, n int) fault {
		if c == call && n == nth {
			return f
		}
		return noFault
	}
}

// settle makes passes until nothing goes on by itself, and resolves what is in
// doubt by the truth.
func (w *world) settle() {
	w.Helper()
	for range 500 {
		r, err := w.pass()
		if err == nil && r.Settled() && !w.resolveAll() && r.Queue.Paused == "" {
			return
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	w.Fatalf("it does not come to rest: %+v", w.memory.jobs)
}

// resolveAll answers for all that is in doubt as somebody does who looks at the
// service, and reports whether anything was.
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
	if queue, err := w.operator().ReleaseQueue(w.Context()); err != nil || queue.Paused != "" {
		return true
	}
	return any
}

// unclaimed returns the id of a job at the service that can only be this one; empty
// where there is none.
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
	a := Answer{Resubmit: true}
	if job.Sending {
		if w.service.got(job.JobID, job.FollowUps[job.Sent]) > 0 {
			a = Answer{JobID: job.JobID}
		}
	} else if id := w.unclaimed(job); id != "" {
		a = Answer{JobID: id}
	}
	if _, err := w.operator().Resolve(w.Context(), job.Prompt, a, w.found()); err != nil {
		w.Fatal(err)
	}
}
