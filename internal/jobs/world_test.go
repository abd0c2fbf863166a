package jobs

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

// tb is the common part of a test and a property.
type tb interface {
	rapid.TB
	Context() context.Context
}

// start is an odd moment, because nothing may depend on full hours.
var start = time.Date(2026, 10, 5, 13, 37, 11, 123456000, time.UTC)

var ids = []string{"a", "b", "c", "d", "e", "f"}

// world is the surroundings of a queue. Each process has a queue, and the world outlives it.
type world struct {
	tb
	clock   time.Time
	service *service
	journal jobStore
	memory  *memory // journal, where it is one
	folder  []prompts.Prompt
	// bad are files that break a rule, changing those that have just changed.
	bad      []prompts.Prompt
	changing []string
	opt      Options
	// faults says what goes wrong with the nth call of a process, from 1.
	faults faults.Plan
	on     *process
	queue  *Queue
}

// newWorld is a world with these prompts.
func newWorld(t tb, ids ...string) *world {
	w := &world{tb: t, clock: start, memory: newMemory()}
	w.journal = w.memory
	w.service = &service{now: w.now, calls: map[string]int{}}
	w.opt = Options{
		PollInterval: 15 * time.Second, OnNewState: Submit, Now: w.now, Notify: true,
		KeyMark: func() string { return "" }, RefuseKey: func(bool) {}, Changed: func() {},
		Clock:   func() error { return nil },
		Confirm: func(context.Context) (bool, error) { return true, nil },
		Mark:    func(context.Context) {}, Restored: func(context.Context) error { return nil },
		Jitter: func(d time.Duration) time.Duration { return d }, Logger: slog.New(slog.DiscardHandler),
	}
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
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
	w.folder = slices.DeleteFunc(slices.Clone(w.folder), func(p prompts.Prompt) bool { return p.ID == id })
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
	w.on = &process{w, faults.NewProcess(&w.faults, nil)}
	w.queue = New(w.opt, wire{w.on}, wiredJournal{w.on})
	return w.queue.Recover(w.Context())
}

// pass makes one pass, in a new process if none runs.
func (w *world) pass() (Result, error) {
	w.Helper()
	if w.queue == nil || w.on.Dead() {
		if err := w.process(); err != nil {
			return Result{}, err
		}
	}
	return w.queue.pass(w.Context(), w.found())
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

func (w *world) jobs() []journal.Job {
	w.Helper()
	all, err := w.journal.Jobs(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return all
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

// calls fails unless the service had so many calls.
func (w *world) calls(call string, want int) {
	w.Helper()
	if n := w.service.calls[call]; n != want {
		w.Fatalf("%d calls of %s, want %d", n, call, want)
	}
}

// sent fails unless the service accepted a text as a prompt so many times.
func (w *world) sent(text string, want int) {
	w.Helper()
	if n := w.service.taken(text); n != want {
		w.Fatalf("%q was sent %d times, want %d", text, n, want)
	}
}

// events fails unless these events, and no others, wait to be delivered.
func (w *world) events(kinds ...string) {
	w.Helper()
	var got []string
	for _, note := range w.memory.events {
		got = append(got, note.Kind)
	}
	if !slices.Equal(got, kinds) {
		w.Fatalf("events %q, want %q", got, kinds)
	}
}

// planned returns a prompt from the plan.
func (w *world) planned(id string) Planned {
	w.Helper()
	all, err := Plan(w.Context(), w.opt, w.journal, w.found())
	i := slices.IndexFunc(all, func(p Planned) bool { return p.ID == id })
	if err != nil || i < 0 {
		w.Fatalf("%s is not in the plan %+v, %v", id, all, err)
	}
	return all[i]
}

// waitsFor fails unless a prompt waits, for that reason, which says these words to people.
func (w *world) waitsFor(id string, why Why, state journal.State, words ...string) Planned {
	w.Helper()
	p := w.planned(id)
	if p.Why != why || p.State != state {
		w.Fatalf("%s is %s for %q (%s), want %s for %q", id, p.State, p.Why, p.Reason, state, why)
	}
	w.says(p.Reason, append(words, "")...)
	return p
}

// says fails unless a text for people has these words.
func (w *world) says(text string, words ...string) {
	w.Helper()
	for _, word := range words {
		if text == "" || !strings.Contains(text, word) {
			w.Fatalf("%q: want %q in it", text, word)
		}
	}
}

// decide makes a decision about a prompt: hold, release, cancel, retry, or an answer to
// what became of it: resubmit, drop, or the id of its job.
func (w *world) decide(decision, ref string) (journal.Job, error) {
	ctx, o, found := w.Context(), NewOperator(w.journal, w.opt.Now), w.found()
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

// refuses makes a decision that must not be possible, and say these words.
func (w *world) refuses(decision, ref string, words ...string) {
	w.Helper()
	job, err := w.decide(decision, ref)
	if !errors.Is(err, ErrRefused) {
		w.Fatalf("%s of %s: %+v, %v", decision, ref, job, err)
	}
	w.says(err.Error(), words...)
}

// pauseQueue and releaseQueue make the decisions about the whole queue.
func (w *world) pauseQueue() journal.Queue   { return w.ofQueue((*Operator).PauseQueue) }
func (w *world) releaseQueue() journal.Queue { return w.ofQueue((*Operator).ReleaseQueue) }

func (w *world) ofQueue(decide func(*Operator, context.Context) (journal.Queue, error)) journal.Queue {
	w.Helper()
	queue, err := decide(NewOperator(w.journal, w.opt.Now), w.Context())
	if err != nil {
		w.Fatal(err)
	}
	return queue
}

// paused fails unless the queue is paused for that reason.
func (w *world) paused(want journal.Pause) journal.Queue {
	w.Helper()
	queue, err := w.journal.Queue(w.Context())
	if err != nil || queue.Paused != want {
		w.Fatalf("the queue is paused for %q (%s), want %q; %v", queue.Paused, queue.Detail, want, err)
	}
	return queue
}

// failing makes the nth call of that name in a process go wrong.
func (w *world) failing(call string, nth int, f faults.Fault) {
	w.faults = faults.Nth(call, nth, f)
}

// untilIdle makes passes until nothing more happens by itself, and resolves what is in
// doubt by the truth.
func (w *world) untilIdle() {
	w.Helper()
	for range 500 {
		r, err := w.pass()
		if err == nil && r.isIdle() && !w.resolveAll() && r.Queue.Paused == "" {
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
	for _, job := range w.jobs() {
		if job.State == journal.Unknown {
			any = true
			w.resolve(job.Seq)
		}
	}
	return w.releaseQueue().Paused != "" || any
}

// resolve answers by the truth: a job of the service with the text of this one, which no other
// job of the journal has, can only be this one.
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
		w.decides(answer, job.Prompt)
		return
	}
	for _, at := range w.service.jobs {
		claims := func(other journal.Job) bool { return other.JobID == at.id }
		if at.texts[0] == job.Text && at.project == job.Project && !slices.ContainsFunc(w.jobs(), claims) {
			answer = at.id
			break
		}
	}
	w.decides(answer, job.Prompt)
}
