package jobs

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/state"
)

// alwaysAs answers every create under one id.
func alwaysAs(id string) func(string, string) string {
	return func(call, own string) string {
		if call == callCreate {
			return id
		}
		return own
	}
}

// twice is a world whose prompt b was answered with the id of a's job.
func twice(t *testing.T, b prompts.Prompt) *world {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a"})
	w.passes()
	b.ID = "b"
	w.prompt(b)
	w.service.answersAs = alwaysAs("job-1")
	r := w.passes()
	w.service.answersAs = nil
	if r.Created != 0 || r.Unknown != 1 {
		t.Errorf("%d created, %d in doubt", r.Created, r.Unknown)
	}
	return w
}

// TestOneIDForTwoPrompts: nobody can tell whether the service made a second job, so the
// second prompt is in doubt, the first is not, and nothing is counted twice.
func TestOneIDForTwoPrompts(t *testing.T) {
	w := twice(t, prompts.Prompt{Resubmit: true})
	for range 5 {
		w.after(time.Hour)
	}
	w.has("a", journal.Completed)
	p := w.waitsFor("b", WhyOperator, journal.Unknown)
	for _, word := range []string{"job-1", "job 1 of prompt a", "docgauge jobs resolve 2"} {
		if !strings.Contains(p.Reason, word) {
			t.Errorf("%q: want %q in it", p.Reason, word)
		}
	}
	if job := w.has("b", journal.Unknown); job.JobID != "" || !job.InDoubt || job.Try != 1 || job.PRLink != "" {
		t.Errorf("%+v", job)
	}
	if n := w.service.taken("do b"); n != 1 || w.memory.finished["prj_a pr"] != 1 {
		t.Errorf("b was sent %d times, finished %v", n, w.memory.finished)
	}
	w.toldOf("unknown", "completed")
}

// TestOneIDResolved: every answer of the operator moves it on, except the id of another job.
func TestOneIDResolved(t *testing.T) {
	w := twice(t, prompts.Prompt{})
	_, err := w.decide("job-1", "b")
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "job 1 of prompt a") {
		t.Error(err)
	}
	w.decides("job-2", "b")
	w.after(turn)
	w.after(turn)
	w.has("a", journal.Completed)
	if job := w.has("b", journal.Completed); job.JobID != "job-2" || job.PRLink != "https://example.com/pr/job-2" {
		t.Errorf("%+v", job)
	}
	for answer, state := range map[string]journal.State{"resubmit": journal.Active, "drop": journal.Cancelled} {
		w := twice(t, prompts.Prompt{})
		w.decides(answer, "b")
		w.after(time.Minute)
		w.has("b", state)
	}
}

// TestOneIDForTwoTries: the id of an earlier try is another job's too.
func TestOneIDForTwoTries(t *testing.T) {
	w := inState(t, journal.Failed)
	w.decides("retry", "a")
	w.service.answersAs = alwaysAs("job-1")
	w.passes()
	if job := w.has("a", journal.Unknown); job.Seq != 2 || !strings.Contains(job.Reason, "job 1 of prompt a") {
		t.Errorf("%+v", job)
	}
}

// TestOneIDInTwoProjects: an id is the service's within a project.
func TestOneIDInTwoProjects(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", Body: "slow"})
	w.prompt(prompts.Prompt{ID: "b", Body: "slow", Project: "prj_b"})
	w.service.answersAs = alwaysAs("job-1")
	w.passes()
	w.has("a", journal.Active)
	w.has("b", journal.Active)
}

// TestOneIDForAll: a service that gives every create the same answer pauses the queue.
func TestOneIDForAll(t *testing.T) {
	w := newWorld(t)
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id, Body: "slow " + id})
	}
	w.service.answersAs = alwaysAs("job-1")
	w.passes()
	if r := w.after(time.Minute); r.Queue.Paused != journal.PausedUnknown || len(w.service.jobs) != 3 {
		t.Errorf("queue %+v, %d sent", r.Queue, len(w.service.jobs))
	}
}

// TestMessageAnsweredForAnother: a follow-up whose answer is about another job is in
// doubt, and the job keeps its id.
func TestMessageAnsweredForAnother(t *testing.T) {
	w := one(t, prompts.Prompt{FollowUps: []string{"one"}})
	w.service.answersAs = func(string, string) string { return "job-7" }
	if r := w.after(turn); r.Messages != 0 || r.Unknown != 1 {
		t.Errorf("%+v", r)
	}
	w.service.answersAs = nil
	for range 3 {
		w.after(time.Hour)
	}
	job := w.has("a", journal.Unknown)
	if job.JobID != "job-1" || !job.Sending || job.Sent != 0 || !strings.Contains(job.Reason, "follow-up 1 of 1: ") || !strings.Contains(job.Reason, "job-7") {
		t.Errorf("%+v", job)
	}
	if n := w.service.got("job-1", "one"); n != 1 {
		t.Errorf("the message was sent %d times", n)
	}
	w.resolve(job.Seq)
	for range 3 {
		w.after(turn)
	}
	w.has("a", journal.Completed)
}

// oneID is a story in which every create is answered with the id of the first.
func oneID(t tb) *world {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"a, then this"}})
	w.prompt(prompts.Prompt{ID: "b", DependsOn: []string{"a"}})
	w.service.answersAs = alwaysAs("job-1")
	return w
}

// TestFaultsWithOneID: whatever else goes wrong, no id is in the journal twice, nothing
// is sent twice, and in the end the second is in doubt or never got an answer.
func TestFaultsWithOneID(t *testing.T) {
	w := oneID(t)
	for range 60 {
		w.after(20 * time.Second)
	}
	w.has("b", journal.Unknown)
	calls := w.on.calls
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		for nth := range min(calls[call], 40) {
			for _, f := range faultsOf(call) {
				t.Run(fmt.Sprintf("%s %d/%s", call, nth+1, f), func(t *testing.T) {
					w := oneID(t)
					w.failing(call, nth+1, f)
					for range 60 {
						w.pass()
						w.nothingTwice()
						w.noIDTwice()
						w.clock = w.clock.Add(20 * time.Second)
					}
					if n := w.service.taken("do b"); n == 1 {
						w.has("b", journal.Unknown)
					}
				})
			}
		}
	}
}

func (w *world) noIDTwice() {
	w.Helper()
	seen := map[string]int64{}
	for _, job := range w.memory.jobs {
		if other, twice := seen[job.JobID]; twice && job.JobID != "" {
			w.Fatalf("jobs %d and %d have the id %s", other, job.Seq, job.JobID)
		}
		seen[job.JobID] = job.Seq
	}
}

// TestMovedOnMeanwhile: somebody else changes a job while it is sent. The journal has the
// outcome nevertheless, and the decision stands.
func TestMovedOnMeanwhile(t *testing.T) {
	for name, tc := range map[string]struct {
		decide func(*journal.Job)
		state  journal.State
	}{
		"another title": {func(j *journal.Job) { j.Title = "T" }, journal.Active},
		"taken back":    {func(j *journal.Job) { j.State = journal.Pending }, journal.Active},
		"given up":      {func(j *journal.Job) { j.State, j.Reason, j.Ended = journal.Cancelled, "given up", start }, journal.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.prompt(prompts.Prompt{ID: "a"})
			w.service.down = func(string, string) error {
				w.service.down = nil
				w.meanwhile("a", tc.decide)
				return nil
			}
			w.passes()
			job := w.has("a", tc.state)
			if job.JobID != "job-1" || job.Text != "do a" || job.Charged.IsZero() || tc.state == journal.Cancelled && job.Reason != "given up" {
				t.Errorf("%+v", job)
			}
			if events := w.memory.events[1]; !strings.Contains(events[len(events)-1].Cause, "accepted as job job-1") {
				t.Errorf("%+v", events)
			}
			w.after(time.Hour)
			if n := w.service.taken("do a"); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// TestMessageMovedOnMeanwhile: the same with a follow-up, which is counted once.
func TestMessageMovedOnMeanwhile(t *testing.T) {
	for name, decide := range map[string]func(*journal.Job){
		"another title": func(j *journal.Job) { j.Title = "T" },
		"counted":       func(j *journal.Job) { j.Sending, j.Sent = false, j.Sent+1 },
	} {
		w := one(t, prompts.Prompt{FollowUps: []string{"one", "two"}})
		w.service.down = func(call, _ string) error {
			if call == callMessage {
				w.meanwhile("a", decide)
			}
			return nil
		}
		w.after(turn)
		w.service.down = nil
		if job := w.has("a", journal.Active); job.Sending || job.Sent != 1 {
			t.Errorf("%s: %+v", name, job)
		}
		for range 12 {
			w.after(turn)
		}
		w.has("a", journal.Completed)
		if got := w.service.jobs[0].texts; !slices.Equal(got, []string{"do a", "one", "two"}) {
			t.Errorf("%s: the job got %q", name, got)
		}
	}
}

// meanwhile changes a job without asking whether it is being sent.
func (w *world) meanwhile(prompt string, decide func(*journal.Job)) {
	w.Helper()
	job := w.job(prompt)
	from := job.State
	decide(&job)
	if _, err := w.memory.Apply(w.Context(), journal.Change{Job: job, From: from, At: w.clock, Cause: "decided"}); err != nil {
		w.Fatal(err)
	}
}

// TestOutcomeEnteredOnce: an outcome that was entered although the journal reported an
// error is not entered again. The journal is the real one, which keeps microseconds.
func TestOutcomeEnteredOnce(t *testing.T) {
	for name, answer := range map[string]error{"accepted": nil, "in doubt": lostError(), "waits": throttled(time.Hour + time.Nanosecond)} {
		db, err := state.OpenExisting(t.TempDir() + "/none") // in memory
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := newWorld(t)
		w.journal = db
		w.prompt(prompts.Prompt{ID: "a"})
		w.service.down = always(answer, callCreate)
		w.failing(callApply, 3, replyLost)
		if _, err := w.pass(); err == nil {
			t.Fatalf("%s: no error", name)
		}
		entered := w.job("a")
		w.clock = w.clock.Add(time.Second)
		r := w.passes()
		if job := w.job("a"); job.Version != entered.Version || r.Queue.Paused != "" {
			t.Errorf("%s: %+v was %+v, queue %+v", name, job, entered, r.Queue)
		}
	}
}
