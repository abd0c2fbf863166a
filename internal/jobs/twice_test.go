package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/journal"
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
	w := newWorld(t, "a")
	w.passes()
	b.ID = "b"
	w.prompt(b)
	w.service.answersAs = alwaysAs("job-1")
	r := w.passes()
	w.service.answersAs = nil
	if w.has("b", journal.Unknown); r.Created != 0 {
		t.Errorf("%d created", r.Created)
	}
	return w
}

// TestOneIDForTwoPrompts: the service may have made a second job or not, so the second prompt
// is in doubt, the first is not, and nothing is counted twice.
func TestOneIDForTwoPrompts(t *testing.T) {
	w := twice(t, prompts.Prompt{Resubmit: true})
	for range 5 {
		w.after(time.Hour)
	}
	w.has("a", journal.Completed)
	w.waitsFor("b", whyOperator, journal.Unknown, "job-1", "job 1 of prompt a", "docgauge jobs resolve 2")
	if job := w.job("b"); job.JobID != "" || !job.InDoubt || job.Try != 1 || job.PRLink != "" {
		t.Errorf("%+v", job)
	}
	w.sent("do b", 1)
	if w.memory.finished["prj_a pr"] != 1 {
		t.Errorf("finished %v", w.memory.finished)
	}
	w.events("unknown", "completed")
}

// TestOneIDResolved: every answer of the operator moves it on, except the id of another job.
func TestOneIDResolved(t *testing.T) {
	for answer, state := range map[string]journal.State{
		"job-2": journal.Completed, "resubmit": journal.Active, "drop": journal.Cancelled,
	} {
		w := twice(t, prompts.Prompt{})
		w.refuses("job-1", "b", "job 1 of prompt a")
		w.decides(answer, "b")
		w.after(turn)
		if job := w.has("b", state); answer == "job-2" && job.PRLink != "https://example.com/pr/job-2" {
			t.Errorf("%+v", job)
		}
		w.has("a", journal.Completed)
	}
}

// TestOneIDForTwoTries: the id of an earlier try is another job's too.
func TestOneIDForTwoTries(t *testing.T) {
	w := inState(t, journal.Failed)
	w.decides("retry", "a")
	w.service.answersAs = alwaysAs("job-1")
	w.passes()
	w.says(w.has("a", journal.Unknown).Reason, "job 1 of prompt a")
}

// TestOneIDForAll: a service that gives every create of a project the same answer pauses the
// queue. Another project may have a job of that id.
func TestOneIDForAll(t *testing.T) {
	w := newWorld(t, ids...)
	w.prompt(prompts.Prompt{ID: "other", Project: "prj_b"})
	w.service.answersAs = alwaysAs("job-1")
	w.passes()
	w.has("a", journal.Active)
	w.has("other", journal.Active)
	w.after(time.Minute)
	w.paused(journal.PausedUnknown)
	w.calls(callCreate, 4)
}

// TestMessageAnsweredForAnother: a follow-up whose answer is about another job is in
// doubt, and the job keeps its id.
func TestMessageAnsweredForAnother(t *testing.T) {
	w := one(t, prompts.Prompt{FollowUps: []string{"one"}})
	w.service.answersAs = func(string, string) string { return "job-7" }
	if r := w.after(turn); r.Messages != 0 {
		t.Errorf("%+v", r)
	}
	w.service.answersAs = nil
	for range 3 {
		w.after(time.Hour)
	}
	job := w.has("a", journal.Unknown)
	w.says(job.Reason, "follow-up 1 of 1: ", "job-7")
	if job.JobID != "job-1" || !job.Sending || job.Sent != 0 || w.service.got("job-1", "one") != 1 {
		t.Errorf("%+v", job)
	}
	w.resolve(job.Seq)
	for range 3 {
		w.after(turn)
	}
	w.has("a", journal.Completed)
}

// TestFaultsWithOneID: every create is answered with the id of the first. Whatever else goes
// wrong, no id is in the journal twice, nothing is sent twice, and in the end the second is in
// doubt or never got an answer.
func TestFaultsWithOneID(t *testing.T) {
	run := func(t *testing.T, call string, nth int, f faults.Fault) *world {
		w := newWorld(t)
		w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"a, then this"}})
		w.prompt(prompts.Prompt{ID: "b", DependsOn: []string{"a"}})
		w.service.answersAs = alwaysAs("job-1")
		w.failing(call, nth, f)
		for range 60 {
			w.pass()
			w.nothingTwice()
			w.clock = w.clock.Add(20 * time.Second)
		}
		if w.service.taken("do b") == 1 {
			w.has("b", journal.Unknown)
		}
		return w
	}
	w := run(t, "", 0, faults.None)
	w.sent("do b", 1)
	everyFault(t, w.on.Calls(), 40, func(t *testing.T, call string, nth int, f faults.Fault) { run(t, call, nth, f) })
}

// TestChangedWhileSent: a job is changed while a create or a follow-up of it is under way. The
// journal has the outcome nevertheless, once, and an end that was decided stands.
func TestChangedWhileSent(t *testing.T) {
	for name, tc := range map[string]struct {
		call   string
		decide func(*journal.Job)
		state  journal.State
	}{
		"another title": {callCreate, func(j *journal.Job) { j.Title = "T" }, journal.Active},
		"taken back":    {callCreate, func(j *journal.Job) { j.State = journal.Pending }, journal.Active},
		"given up": {callCreate, func(j *journal.Job) {
			j.State, j.Reason, j.Ended = journal.Cancelled, "given up", start
		}, journal.Cancelled},
		"title during a message": {callMessage, func(j *journal.Job) { j.Title = "T" }, journal.Active},
		"counted during a message": {callMessage, func(j *journal.Job) {
			j.Sending, j.Sent = false, j.Sent+1
		}, journal.Active},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"one", "two"}})
			w.service.down = func(call, _ string) error {
				if call == tc.call {
					w.service.down = nil
					job := w.job("a")
					change := journal.Change{From: job.State, At: w.clock, Cause: "decided"}
					tc.decide(&job)
					change.Job = job
					if _, err := w.memory.Apply(w.Context(), change); err != nil {
						t.Fatal(err)
					}
				}
				return nil
			}
			w.passes()
			if tc.call == callMessage {
				w.after(turn)
			}
			job := w.has("a", tc.state)
			if job.JobID != "job-1" || job.Text != "do a" || job.Charged.IsZero() || job.Sending ||
				tc.call == callMessage && job.Sent != 1 || tc.state == journal.Cancelled && job.Reason != "given up" {
				t.Errorf("%+v", job)
			}
			events := w.memory.history[1]
			w.says(events[len(events)-1].Cause, "accepted")
			for range 12 {
				w.after(turn)
			}
			all := []string{"do a", "one", "two"}
			if got := w.service.jobs[0].texts; tc.state == journal.Active && !slices.Equal(got, all) {
				t.Errorf("the job got %q", got)
			}
			w.sent("do a", 1)
		})
	}
}

// TestOutcomeEnteredOnce: an outcome that was entered although the journal reported an
// error is not entered again. The journal is the real one, which keeps microseconds.
func TestOutcomeEnteredOnce(t *testing.T) {
	for name, answer := range map[string]error{
		"accepted": nil, "in doubt": lostError(), "waits": throttled(time.Hour + time.Nanosecond),
	} {
		db, err := state.OpenExisting(t.TempDir() + "/none") // in memory
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		w := newWorld(t, "a")
		w.journal = db
		w.service.down = always(answer, callCreate)
		w.failing(callApply, 3, faults.ReplyLost)
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
