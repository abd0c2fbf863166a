package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// crashed is a world with one prompt and a follow-up. Its process was killed at a call,
// and a new one was started.
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

// goesOn fails unless the story ends without a person.
func (w *world) goesOn() {
	w.Helper()
	for range 100 {
		if w.passes().Idle() {
			break
		}
		w.clock = w.clock.Add(20 * time.Second)
	}
	w.once(journal.Completed)
}

// once fails unless the prompt and its follow-up were accepted once.
func (w *world) once(state journal.State) {
	w.Helper()
	w.has("a", state)
	if len(w.service.jobs) != 1 || !slices.Equal(w.service.jobs[0].texts, []string{"do a", "and this"}) {
		w.Fatalf("the service took %+v", w.service.jobs)
	}
}

// doubtful fails unless a person must say what became of the prompt, the plan says how,
// and after that it goes on to its end.
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

// TestCrashes: a process is killed before or after each step of a prompt with a
// follow-up. Either the story goes on by itself, or a person must decide.
func TestCrashes(t *testing.T) {
	const intent, outcome = 2, 3 // applies; the first one adopts the state
	followUpIntent, followUpOutcome := applies(t, "follow-up 1 of 1 is being sent"), applies(t, "follow-up 1 of 1 accepted")
	end := applies(t, "completed, with https://example.com/pr/job-1")
	for name, tc := range map[string]struct {
		call  string
		nth   int
		fault fault
		then  func(w *world)
	}{
		"before the intent is durable":              {callApply, intent, killedBefore, func(w *world) { w.none("a"); w.goesOn() }},
		"after the intent is durable":               {callApply, intent, killedAfter, func(w *world) { w.doubtful(0) }},
		"before the service accepts":                {callCreate, 1, killedBefore, func(w *world) { w.doubtful(0) }},
		"after the service accepted":                {callCreate, 1, killedAfter, func(w *world) { w.doubtful(1) }},
		"before the job's id is durable":            {callApply, outcome, killedBefore, func(w *world) { w.doubtful(1) }},
		"after the job's id is durable":             {callApply, outcome, killedAfter, func(w *world) { w.has("a", journal.Active); w.goesOn() }},
		"before the first read":                     {callRead, 1, killedBefore, (*world).goesOn},
		"after a read":                              {callRead, 1, killedAfter, (*world).goesOn},
		"before the follow-up's intent is durable":  {callApply, followUpIntent, killedBefore, (*world).goesOn},
		"after the follow-up's intent is durable":   {callApply, followUpIntent, killedAfter, func(w *world) { w.doubtful(1) }},
		"before the service accepts the follow-up":  {callMessage, 1, killedBefore, func(w *world) { w.doubtful(1) }},
		"after the service accepted the follow-up":  {callMessage, 1, killedAfter, func(w *world) { w.doubtful(1) }},
		"before the follow-up's outcome is durable": {callApply, followUpOutcome, killedBefore, func(w *world) { w.doubtful(1) }},
		"after the follow-up's outcome is durable":  {callApply, followUpOutcome, killedAfter, (*world).goesOn},
		"before the end is durable": {callApply, end, killedBefore, func(w *world) {
			w.has("a", journal.Active)
			w.goesOn()
			w.toldOf("completed")
		}},
		"after the end is durable": {callApply, end, killedAfter, func(w *world) {
			w.once(journal.Completed)
			w.goesOn()
			w.toldOf("completed")
		}},
	} {
		t.Run(name, func(t *testing.T) { tc.then(crashed(t, tc.call, tc.nth, tc.fault)) })
	}
}

// applies returns the number of the apply that enters an event of the story.
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

func TestCrashWhileTheStateIsAdopted(t *testing.T) {
	for _, f := range []fault{killedBefore, killedAfter} {
		w := newWorld(t)
		w.opt.OnNewState = Skip
		w.prompt(prompts.Prompt{ID: "a"})
		w.prompt(prompts.Prompt{ID: "b"})
		w.failing(callApply, 1, f)
		w.pass()
		w.faults = nil
		w.passes()
		w.opt.OnNewState = Refuse
		w.queue = nil
		w.passes()
		w.has("a", journal.Completed)
		w.has("b", journal.Completed)
		if len(w.service.jobs) > 0 {
			t.Errorf("%s: %d jobs", f, len(w.service.jobs))
		}
	}
}

func TestCrashWhileRecovering(t *testing.T) {
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

// TestCrashLoop: a process that dies of each create does not send all prompts.
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
