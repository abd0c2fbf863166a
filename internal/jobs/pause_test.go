package jobs

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// inDoubtTwice is a world whose queue is paused for two creates in doubt.
func inDoubtTwice(t *testing.T) *world {
	w := newWorld(t, ids...)
	w.service.down = always(lostError())
	if r := w.passes(); r.Queue.Paused != journal.PausedUnknown || !r.isIdle() {
		t.Fatalf("%+v", r)
	}
	w.has("a", journal.Unknown)
	w.has("b", journal.Unknown)
	w.none("c")
	w.waitsFor("c", whyPaused, journal.Pending, "unknown", "docgauge jobs release")
	w.events("unknown", "unknown", "paused")
	return w
}

// TestOneUnknownHoldsItselfAlone: the next create is not in doubt.
func TestOneUnknownHoldsItselfAlone(t *testing.T) {
	w := newWorld(t, ids...)
	odd := 0
	w.service.down = func(call, _ string) error {
		if odd++; call == callCreate && odd%2 == 1 {
			return lostError()
		}
		return nil
	}
	if r := w.passes(); r.Created != 3 || r.Queue.Paused != "" {
		t.Errorf("%+v", r)
	}
}

// TestPauseEndsAfterAnHour: not before, and only once the service answers. A job in doubt is never sent again: not
// after passes, days, restarts or the end of a pause.
func TestPauseEndsAfterAnHour(t *testing.T) {
	w := inDoubtTwice(t)
	w.after(2 * time.Hour)
	w.paused(journal.PausedUnknown) // it does not answer
	w.none("c")
	w.service.down = nil
	w.after(time.Minute)
	w.paused("")
	w.has("c", journal.Active)

	w = inDoubtTwice(t)
	w.service.down = nil
	for range 59 {
		w.after(time.Minute)
	}
	w.paused(journal.PausedUnknown)
	w.after(time.Minute)
	w.paused("")
	w.has("f", journal.Active)
	for range 50 {
		w.queue = nil
		w.after(13 * time.Hour)
	}
	w.has("a", journal.Unknown)
	w.sent("do a", 0)
	w.sent("do b", 0)
}

// TestPauseAfterTheHourComesBackSooner: after the hour a single one in doubt pauses it.
func TestPauseAfterTheHourComesBackSooner(t *testing.T) {
	w := inDoubtTwice(t)
	w.service.down = always(lostError(), callCreate)
	w.after(time.Minute)
	w.after(time.Hour)
	w.has("c", journal.Unknown)
	w.none("d")
	w.says(w.paused(journal.PausedUnknown).Detail, "2 creates or messages in a row")
}

// TestReleaseOfThePause: it needs an answer of the service too, and is not forgotten.
func TestReleaseOfThePause(t *testing.T) {
	w := inDoubtTwice(t)
	w.releaseQueue()
	w.after(time.Second)
	w.paused(journal.PausedUnknown)
	w.queue = nil
	w.service.down = nil
	w.after(time.Second)
	w.paused("")
	w.has("c", journal.Active)
	w.calls(callRead, 2)
}

// TestProbesAreFew: a service that is down is asked once a minute, and not at all if a job is
// read anyway.
func TestProbesAreFew(t *testing.T) {
	w := inDoubtTwice(t)
	for range 60 {
		w.after(10 * time.Second)
	}
	if n := w.service.calls[callRead]; n < 9 || n > 11 {
		t.Errorf("%d reads in ten minutes", n)
	}

	w = newWorld(t, ids...)
	n := 0
	w.service.down = func(call, _ string) error {
		if n++; call == callCreate && n > 1 {
			return lostError()
		}
		return nil
	}
	w.passes()
	w.after(time.Minute)
	w.calls(callRead, 1)
	if queue := w.paused(journal.PausedUnknown); queue.Answered.IsZero() {
		t.Errorf("%+v", queue)
	}
}

// TestOnUnknownResubmit: a prompt is sent once more, and then no more; not if it was
// edited since, or no longer asks for it.
func TestOnUnknownResubmit(t *testing.T) {
	doubtful := func() *world {
		w := newWorld(t)
		w.prompt(prompts.Prompt{ID: "a", Resubmit: true, FollowUps: []string{"then"}})
		w.service.down = always(lostError(), callCreate)
		if r := w.passes(); r.isIdle() {
			t.Error("idle before it is sent again")
		}
		return w
	}
	w := doubtful()
	w.waitsFor("a", whyRetry, journal.Unknown)
	w.passes()
	if job := w.has("a", journal.Unknown); job.Try != 2 || job.Resubmit {
		t.Errorf("%+v", job)
	}
	first := w.memory.jobs[1]
	w.says(first.Reason, "the service may have accepted this one")
	if first.State != journal.Cancelled || !first.InDoubt {
		t.Errorf("%+v", first)
	}
	w.service.down = nil
	w.after(2 * time.Hour)
	w.after(2 * time.Hour)
	w.calls(callCreate, 2)

	for _, p := range []prompts.Prompt{
		{ID: "a", Resubmit: true, Body: "something else"}, {ID: "a", FollowUps: []string{"then"}},
	} {
		w := doubtful()
		w.prompt(p)
		w.service.down = nil
		w.after(time.Hour)
		w.calls(callCreate, 1)
	}
}

// TestOnUnknownResubmitWaitsForThePause: nothing gets another try while the queue pauses.
func TestOnUnknownResubmitWaitsForThePause(t *testing.T) {
	w := newWorld(t)
	for _, id := range []string{"a", "b"} {
		w.prompt(prompts.Prompt{ID: id, Resubmit: true})
	}
	w.service.down = always(lostError())
	w.passes()
	w.after(time.Minute)
	w.paused(journal.PausedUnknown)
	w.has("a", journal.Unknown)
	w.service.down = nil
	w.releaseQueue()
	w.after(time.Minute)
	w.has("a", journal.Active)
	w.has("b", journal.Active)
}

// TestOnUnknownResubmitOfAMessage: the follow-up is sent once more.
func TestOnUnknownResubmitOfAMessage(t *testing.T) {
	w := one(t, prompts.Prompt{Resubmit: true, FollowUps: []string{"then"}})
	w.service.down = always(lostError(), callMessage)
	w.after(turn)
	for range 5 {
		w.after(time.Minute)
	}
	w.calls(callMessage, 2)
	if job := w.has("a", journal.Unknown); job.Try != 1 {
		t.Errorf("%+v", job)
	}
}

// TestKeyChangesMeanwhile: a key that changes while it is being refused, and ends the pass as a reload does, holds
// nothing up.
func TestKeyChangesMeanwhile(t *testing.T) {
	for _, status := range []int{401, 403} {
		w := newWorld(t, ids...)
		key := "first"
		w.opt.KeyMark = func() string { return key }
		w.opt.RefuseKey = func(bool) { t.Error("the new key counts as refused") }
		if err := w.process(); err != nil {
			t.Fatal(err)
		}
		ctx, reload := context.WithCancel(w.Context())
		w.service.down = func(string, string) error {
			key = "second"
			reload()
			return answer(status)
		}
		if _, err := w.queue.pass(ctx, w.found()); err != nil {
			t.Fatal(err)
		}
		w.calls(callCreate, 1)
		w.paused(journal.PausedUnauthorized)
		w.service.down, w.queue = nil, nil
		w.after(time.Second)
		w.paused("")
		w.has("f", journal.Active)
	}
}

// TestUnauthorized: nothing is sent until the key changes, over restarts; reads continue, and the
// prompt is not used up.
func TestUnauthorized(t *testing.T) {
	for _, status := range []int{401, 403} {
		w := newWorld(t, ids...)
		w.prompt(prompts.Prompt{ID: "z", Project: "prj_b"})
		key := "first"
		w.opt.KeyMark = func() string { return key }
		w.service.down = always(answer(status), callCreate)
		w.passes()
		w.events("paused")
		w.waitsFor("a", whyPaused, journal.Pending, fmt.Sprint(status))
		w.waitsFor("z", whyPaused, journal.Pending)
		w.service.down = nil
		w.queue = nil
		for range 3 {
			w.after(10 * time.Hour)
		}
		w.calls(callCreate, 1+(status-401)/2) // 403 may be of the project: the other one is tried
		w.paused(journal.PausedUnauthorized)
		key = "second"
		w.after(time.Second)
		w.paused("")
		w.has("f", journal.Active)
	}
}

// TestForbiddenProject: a project that the service refuses waits by itself, longer each time, over restarts; jobs of
// other projects are created and read, and the key counts as good.
func TestForbiddenProject(t *testing.T) {
	w := newWorld(t, "a", "a2")
	w.prompt(prompts.Prompt{ID: "b", Project: "prj_b"})
	w.opt.KeyMark = func() string { return "mark" }
	w.opt.RefuseKey = func(bool) { t.Error("the key counts as refused") }
	w.service.down = func(_, project string) error {
		if project == "prj_a" {
			return answer(http.StatusForbidden)
		}
		return nil
	}
	w.passes()
	w.waitsFor("a", "forbidden", journal.Pending, "prj_a", "HTTP 403", "jobs release a")
	w.waitsFor("a2", "forbidden", journal.Pending, "HTTP 403")
	w.has("b", journal.Active)
	for _, step := range []struct{ minutes, calls int }{{9, 2}, {2, 3}, {19, 3}, {2, 4}, {38, 4}, {3, 5}} {
		w.queue = nil
		w.after(time.Duration(step.minutes) * time.Minute)
		w.calls(callCreate, step.calls)
		w.paused("")
	}
	w.has("b", journal.Completed)
	w.prompt(prompts.Prompt{ID: "c", Project: "prj_b"})
	w.passes()
	w.has("c", journal.Active)
	w.events("completed")

	// Its jobs cannot be read either, and then all is well.
	w.service.down = nil
	w.after(24 * time.Hour)
	w.has("a2", journal.Active)
	w.prompt(prompts.Prompt{ID: "d", Project: "prj_b"})
	w.passes()
	w.service.down = func(call, project string) error {
		if call == callRead && project == "prj_a" {
			return answer(http.StatusForbidden)
		}
		return nil
	}
	w.after(turn)
	w.paused("")
	w.has("d", journal.Completed)
	w.service.down = nil
	w.after(time.Hour)
	w.has("a", journal.Completed)
}

// TestReadKeyRefused: of two keys the one for reads can be refused.
func TestReadKeyRefused(t *testing.T) {
	w := newWorld(t, ids...)
	w.opt.MaxActive = 1
	w.passes()
	w.service.down = always(answer(401), callRead)
	w.after(turn)
	w.paused(journal.PausedUnauthorized)
	w.has("a", journal.Active)
	w.releaseQueue()
	w.paused("")
	w.service.down = nil
	w.after(5 * time.Minute)
	w.has("a", journal.Completed)
	w.has("b", journal.Active)
}

// TestOperatorPause: nothing is sent, and jobs at work are followed.
func TestOperatorPause(t *testing.T) {
	w := newWorld(t, "b")
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"then"}})
	w.passes()
	w.prompt(prompts.Prompt{ID: "c"})
	w.pauseQueue()
	w.pauseQueue()
	for range 10 {
		w.after(turn)
	}
	w.none("c")
	w.has("a", journal.Active)
	w.has("b", journal.Completed)
	w.calls(callMessage, 0)
	if queue := w.releaseQueue(); queue.Paused != "" {
		t.Fatalf("%+v", queue)
	}
	w.after(5 * time.Minute)
	w.has("c", journal.Active)
	w.calls(callMessage, 1)

	// Also if the operator pauses it after the plan was made, while the service is asked what time it is.
	w.prompt(prompts.Prompt{ID: "d"})
	w.opt.Confirm = func(context.Context) (bool, error) { w.pauseQueue(); return true, nil }
	w.queue = nil
	w.passes()
	w.paused(journal.PausedOperator)
	w.none("d")
}

// TestOperatorPauseDoesNotHideDoubt: after its release the doubts still pause the queue.
func TestOperatorPauseDoesNotHideDoubt(t *testing.T) {
	w := inDoubtTwice(t)
	w.pauseQueue()
	w.service.down = nil
	w.after(3 * time.Hour)
	w.paused(journal.PausedOperator)
	w.service.down = always(lostError())
	if queue := w.releaseQueue(); queue.Paused != journal.PausedUnknown {
		t.Fatalf("%+v", queue)
	}
	w.after(time.Minute)
	w.none("c")
	w.service.down = nil
	w.after(time.Minute)
	w.has("c", journal.Active)
}

// TestPauseDuringACreate: the operator changes the queue while its outcome comes.
func TestPauseDuringACreate(t *testing.T) {
	for state, err := range map[journal.State]error{
		journal.Active: nil, journal.Unknown: lostError(), journal.Pending: answer(401),
	} {
		w := newWorld(t, ids...)
		n := 0
		w.service.down = func(string, string) error {
			if n++; n == 1 {
				return lostError() // so that the next outcome changes the queue
			}
			w.pauseQueue()
			return err
		}
		w.passes()
		w.paused(journal.PausedOperator)
		w.calls(callCreate, 2)
		w.has("a", journal.Unknown)
		w.has("b", state)
	}
}

// TestReleaseByAClockAhead: a release does not end a pause that began after the clock was set back.
func TestReleaseByAClockAhead(t *testing.T) {
	w := newWorld(t, ids...)
	w.clock = w.clock.Add(30 * day)
	w.pauseQueue()
	w.releaseQueue()
	w.clock = w.clock.Add(-30 * day)
	w.service.down = always(lostError(), callCreate)
	w.passes()
	w.after(time.Minute) // the service answers reads
	w.paused(journal.PausedUnknown)
	w.none("c")

	// One that was made during the pause counts, whichever clock was ahead.
	w.clock = w.clock.Add(30 * day)
	w.queue = nil
	w.releaseQueue()
	w.clock = w.clock.Add(-30 * day)
	w.service.down = nil
	w.after(time.Minute)
	w.paused("")
}
