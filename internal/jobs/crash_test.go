package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// crashed is a world whose one prompt, with a follow-up, went on until its process
// was killed at a call, and then had a new process.
func crashed(t *testing.T, call string, nth int, f fault) *world {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"and this"}})
	w.failing(call, nth, f)
	for range 100 {
		if _, err := w.pass(); err != nil && w.on.killed() {
			w.faults = nil
			if err := w.process(); err != nil {
				t.Fatal(err)
			}
			return w
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	t.Fatalf("%s %d never came", call, nth)
	return nil
}

// goesOn fails unless the story comes to its end without a person.
func (w *world) goesOn() {
	w.Helper()
	for range 100 {
		if w.passes().Settled() {
			break
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	w.once(journal.Completed)
}

// once fails unless the prompt and its message were taken once.
func (w *world) once(state journal.State) {
	w.Helper()
	w.has("a", state)
	if len(w.service.jobs) != 1 || !slices.Equal(w.service.jobs[0].texts, []string{"do a", "and this"}) {
		w.Fatalf("the service took %+v", w.service.jobs)
	}
}

// doubtful fails unless a person must say what became of the prompt, who finds
// what to do in the plan; and once that is said it goes on to its end.
func (w *world) doubtful(taken int) {
	w.Helper()
	w.waitsFor("a", WhyOperator, journal.Unknown)
	for range 5 {
		w.after(time.Hour)
	}
	job := w.has("a", journal.Unknown)
	if n := len(w.service.jobs); n > 1 || !job.Sending && n != taken {
		w.Fatalf("%d jobs at the service, %d when it was killed", n, taken)
	}
	w.resolve(job.Seq)
	w.goesOn()
}

// The calls of the story, counted: apply 1 is the adoption of the state, 2 the
// intent, 3 its outcome; once the job is completed come the reads, the intent of
// the message, its outcome, the reads, and the end.

func TestCrashBeforeTheIntentIsDurable(t *testing.T) {
	w := crashed(t, callApply, 2, killedBefore)
	w.none("a")
	w.goesOn()
}

func TestCrashAfterTheIntentIsDurable(t *testing.T) {
	crashed(t, callApply, 2, killedAfter).doubtful(0)
}

func TestCrashBeforeTheServiceAccepts(t *testing.T) {
	crashed(t, callCreate, 1, killedBefore).doubtful(0)
}

func TestCrashAfterTheServiceAccepted(t *testing.T) {
	crashed(t, callCreate, 1, killedAfter).doubtful(1)
}

func TestCrashBeforeTheJobIDIsDurable(t *testing.T) {
	crashed(t, callApply, 3, killedBefore).doubtful(1)
}

func TestCrashAfterTheJobIDIsDurable(t *testing.T) {
	w := crashed(t, callApply, 3, killedAfter)
	w.has("a", journal.Active)
	w.goesOn()
}

func TestCrashBeforeTheFirstRead(t *testing.T) {
	crashed(t, callRead, 1, killedBefore).goesOn()
}

func TestCrashAfterARead(t *testing.T) {
	crashed(t, callRead, 1, killedAfter).goesOn()
}

// applies finds which apply enters an event of the story, counted in one process.
func applies(t *testing.T, cause string) int {
	t.Helper()
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"and this"}})
	for range 100 {
		w.passes()
		for i, event := range w.memory.events[1] {
			if event.Cause == cause {
				return w.applied[i]
			}
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	t.Fatalf("no event says %q", cause)
	return 0
}

const (
	messageIntent  = "follow-up 1 of 1 is being sent"
	messageOutcome = "follow-up 1 of 1 accepted"
	theEnd         = "completed, with https://example.com/pr/job-1"
)

func TestCrashBeforeTheMessagesIntentIsDurable(t *testing.T) {
	crashed(t, callApply, applies(t, messageIntent), killedBefore).goesOn()
}

func TestCrashAfterTheMessagesIntentIsDurable(t *testing.T) {
	crashed(t, callApply, applies(t, messageIntent), killedAfter).doubtful(1)
}

func TestCrashBeforeTheServiceTakesTheMessage(t *testing.T) {
	crashed(t, callMessage, 1, killedBefore).doubtful(1)
}

func TestCrashAfterTheServiceTookTheMessage(t *testing.T) {
	crashed(t, callMessage, 1, killedAfter).doubtful(1)
}

func TestCrashBeforeTheMessagesOutcomeIsDurable(t *testing.T) {
	crashed(t, callApply, applies(t, messageOutcome), killedBefore).doubtful(1)
}

func TestCrashAfterTheMessagesOutcomeIsDurable(t *testing.T) {
	crashed(t, callApply, applies(t, messageOutcome), killedAfter).goesOn()
}

func TestCrashBeforeTheEndIsDurable(t *testing.T) {
	w := crashed(t, callApply, applies(t, theEnd), killedBefore)
	w.has("a", journal.Active)
	w.goesOn()
	w.toldOf("completed")
}

func TestCrashAfterTheEndIsDurable(t *testing.T) {
	w := crashed(t, callApply, applies(t, theEnd), killedAfter)
	w.once(journal.Completed)
	w.goesOn()
	w.toldOf("completed")
}

// toldOf fails unless these notes, and no others, wait to be delivered.
func (w *world) toldOf(kinds ...string) {
	w.Helper()
	var got []string
	for _, note := range w.memory.notes {
		got = append(got, note.Kind)
	}
	if !slices.Equal(got, kinds) {
		w.Fatalf("notes %q, want %q", got, kinds)
	}
}

// A crash while the state is adopted, and while a start heals.

func TestCrashWhileTheStateIsAdopted(t *testing.T) {
	for _, f := range []fault{killedBefore, killedAfter} {
		w := newWorld(t)
		w.cfg.OnNewState = Skip
		w.prompt(prompts.Prompt{ID: "a"})
		w.prompt(prompts.Prompt{ID: "b"})
		w.failing(callApply, 1, f)
		w.pass()
		w.faults = nil
		w.passes()
		w.cfg.OnNewState = Refuse
		w.queue = nil
		w.passes()
		w.has("a", journal.Completed)
		w.has("b", journal.Completed)
		if len(w.service.jobs) > 0 {
			t.Errorf("%s: %d jobs", f, len(w.service.jobs))
		}
	}
}

func TestCrashWhileStarting(t *testing.T) {
	for _, f := range []fault{requestLost, replyLost, killedBefore, killedAfter} {
		w := crashed(t, callCreate, 1, killedAfter)
		job := w.has("a", journal.Unknown)
		job.State = journal.Submitting // as before the start
		if _, err := w.journal.Apply(w.Context(), journal.Change{Job: job, From: journal.Unknown}); err != nil {
			t.Fatal(err)
		}
		w.failing(callApply, 1, f)
		if err := w.process(); err == nil {
			t.Fatalf("%s: no error", f)
		}
		w.faults = nil
		w.passes()
		w.doubtful(1)
	}
}

// TestCrashLoop: a process that dies of each create does not go through all
// prompts.
func TestCrashLoop(t *testing.T) {
	w := newWorld(t)
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.failing(callCreate, 1, killedAfter)
	for range 10 {
		w.pass()
	}
	if n := len(w.service.jobs); n != 2 {
		t.Errorf("%d prompts were sent", n)
	}
	if queue, err := w.journal.Queue(t.Context()); err != nil || queue.Paused != journal.PausedUnknown {
		t.Errorf("queue %+v, %v", queue, err)
	}
}
