package jobs

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

func (w *world) paused(want journal.Pause) journal.Queue {
	w.Helper()
	queue, err := w.journal.Queue(w.Context())
	if err != nil || queue.Paused != want {
		w.Fatalf("the queue is paused for %q (%s), want %q; %v", queue.Paused, queue.Detail, want, err)
	}
	return queue
}

// manyPrompts is a world with six prompts.
func manyPrompts(t *testing.T) *world {
	w := newWorld(t)
	for _, id := range ids {
		w.prompt(prompts.Prompt{ID: id})
	}
	return w
}

// inDoubtTwice is a world whose queue is paused for two creates in doubt.
func inDoubtTwice(t *testing.T) *world {
	w := manyPrompts(t)
	w.service.down = always(lostError())
	if r := w.passes(); r.Unknown != 2 || r.Queue.Paused != journal.PausedUnknown || !r.Idle() {
		t.Fatalf("%+v", r)
	}
	w.has("a", journal.Unknown)
	w.has("b", journal.Unknown)
	w.none("c")
	if p := w.waitsFor("c", WhyPaused, journal.Pending); !strings.Contains(p.Reason, "unknown") || !strings.Contains(p.Reason, "docgauge jobs release") {
		t.Error(p.Reason)
	}
	w.toldOf("unknown", "unknown", "paused")
	return w
}

// TestOneUnknownHoldsItselfAlone: the next create is not in doubt.
func TestOneUnknownHoldsItselfAlone(t *testing.T) {
	w := manyPrompts(t)
	odd := 0
	w.service.down = func(call, _ string) error {
		if odd++; call == callCreate && odd%2 == 1 {
			return lostError()
		}
		return nil
	}
	if r := w.passes(); r.Unknown != 3 || r.Created != 3 || r.Queue.Paused != "" {
		t.Errorf("%+v", r)
	}
}

// TestPauseEndsAfterAnHour: not before, and only once the service answers.
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
	w.has("a", journal.Unknown)
}

// TestPauseAfterTheHourComesBackSooner: after the hour a single one in doubt pauses it.
func TestPauseAfterTheHourComesBackSooner(t *testing.T) {
	w := inDoubtTwice(t)
	w.service.down = always(lostError(), callCreate)
	w.after(time.Minute)
	w.after(time.Hour)
	w.has("c", journal.Unknown)
	w.none("d")
	w.paused(journal.PausedUnknown)
}

// TestReleaseOfThePause: it needs an answer of the service too, and is not forgotten.
func TestReleaseOfThePause(t *testing.T) {
	w := inDoubtTwice(t)
	w.releasesQueue()
	w.after(time.Second)
	w.paused(journal.PausedUnknown)
	w.queue = nil
	w.service.down = nil
	w.after(time.Second)
	w.paused("")
	w.has("c", journal.Active)
	if n := w.service.calls[callRead]; n != 2 {
		t.Errorf("%d reads", n)
	}
}

// TestProbesAreFew: a service that is down is asked once a minute.
func TestProbesAreFew(t *testing.T) {
	w := inDoubtTwice(t)
	for range 60 {
		w.after(10 * time.Second)
	}
	if n := w.service.calls[callRead]; n < 9 || n > 11 {
		t.Errorf("%d reads in ten minutes", n)
	}
}

// TestReadsOfJobsAnswerToo: there is no probe if a job is read anyway.
func TestReadsOfJobsAnswerToo(t *testing.T) {
	w := manyPrompts(t)
	n := 0
	w.service.down = func(call, _ string) error {
		if n++; call == callCreate && n > 1 {
			return lostError()
		}
		return nil
	}
	w.passes()
	w.after(time.Minute)
	if reads := w.service.calls[callRead]; reads != 1 {
		t.Errorf("%d reads", reads)
	}
	if queue := w.paused(journal.PausedUnknown); queue.Answered.IsZero() {
		t.Errorf("%+v", queue)
	}
}

// TestUnknownIsNeverSentAgain: not after passes, days, restarts or the end of a pause.
func TestUnknownIsNeverSentAgain(t *testing.T) {
	w := inDoubtTwice(t)
	w.service.down = nil
	for range 50 {
		w.queue = nil
		w.after(13 * time.Hour)
	}
	w.has("a", journal.Unknown)
	if w.service.taken("do a")+w.service.taken("do b") > 0 {
		t.Error("it was sent again")
	}
}

// TestOnUnknownResubmit: a prompt is sent once more, and then no more; not if it was
// edited since, or no longer asks for it.
func TestOnUnknownResubmit(t *testing.T) {
	again := prompts.Prompt{ID: "a", Resubmit: true, FollowUps: []string{"then"}}
	w := newWorld(t)
	w.prompt(again)
	w.service.down = always(lostError(), callCreate)
	if r := w.passes(); r.Idle() {
		t.Error("idle before it is sent again")
	}
	if p := w.planned("a"); p.Why != WhyRetry {
		t.Errorf("%+v", p)
	}
	w.passes()
	job := w.has("a", journal.Unknown)
	if n := w.service.calls[callCreate]; n != 2 || job.Try != 2 || job.Resubmit {
		t.Errorf("%d creates, %+v", n, job)
	}
	if first := w.memory.jobs[1]; first.State != journal.Cancelled || !first.InDoubt || !strings.Contains(first.Reason, "the service may have accepted this one") {
		t.Errorf("%+v", first)
	}
	w.service.down = nil
	w.after(2 * time.Hour)
	w.after(2 * time.Hour)
	if n := w.service.calls[callCreate]; n != 2 {
		t.Errorf("%d creates", n)
	}

	for name, p := range map[string]prompts.Prompt{
		"edited": {ID: "a", Resubmit: true, Body: "something else"},
		"hold":   {ID: "a", FollowUps: []string{"then"}},
	} {
		w := newWorld(t)
		w.prompt(again)
		w.service.down = always(lostError(), callCreate)
		w.passes()
		w.prompt(p)
		w.service.down = nil
		w.after(time.Hour)
		if n := w.service.calls[callCreate]; n != 1 {
			t.Errorf("%s: %d creates", name, n)
		}
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
	w.releasesQueue()
	w.after(time.Minute)
	w.has("a", journal.Active)
	w.has("b", journal.Active)
}

// TestOnUnknownResubmitOfAMessage: the follow-up is sent once more.
func TestOnUnknownResubmitOfAMessage(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", Resubmit: true, FollowUps: []string{"then"}})
	w.passes()
	w.service.down = always(lostError(), callMessage)
	w.after(turn)
	for range 5 {
		w.after(time.Minute)
	}
	job := w.has("a", journal.Unknown)
	if n := w.service.calls[callMessage]; n != 2 || job.Try != 1 {
		t.Errorf("%d messages, %+v", n, job)
	}
}

// TestUnauthorized: nothing is sent until the key changes, over restarts; reads go
// on, and the prompt is not used up.
func TestUnauthorized(t *testing.T) {
	for _, status := range []int{401, 403} {
		w := manyPrompts(t)
		key := "first"
		w.opt.KeyMark = func() string { return key }
		w.service.down = always(answer(status), callCreate)
		w.passes()
		w.toldOf("paused")
		if p := w.waitsFor("a", WhyPaused, journal.Pending); !strings.Contains(p.Reason, fmt.Sprint(status)) {
			t.Error(p.Reason)
		}
		w.service.down = nil
		w.queue = nil
		for range 3 {
			w.after(10 * time.Hour)
		}
		if n := w.service.calls[callCreate]; n != 1 {
			t.Errorf("%d creates with the refused key", n)
		}
		w.paused(journal.PausedUnauthorized)
		key = "second"
		w.after(time.Second)
		w.paused("")
		w.has("f", journal.Active)
	}
}

// TestReadKeyRefused: of two keys the one for reads can be refused.
func TestReadKeyRefused(t *testing.T) {
	w := manyPrompts(t)
	w.opt.MaxActive = 1
	w.passes()
	w.service.down = always(answer(401), callRead)
	w.after(turn)
	w.paused(journal.PausedUnauthorized)
	w.has("a", journal.Active)
	w.releasesQueue()
	w.paused("")
	w.service.down = nil
	w.after(5 * time.Minute)
	w.has("a", journal.Completed)
	w.has("b", journal.Active)
}

// TestOperatorPause: nothing is sent, and jobs at work are followed.
func TestOperatorPause(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"then"}})
	w.prompt(prompts.Prompt{ID: "b"})
	w.passes()
	w.prompt(prompts.Prompt{ID: "c"})
	for range 2 {
		w.pausesQueue()
	}
	for range 10 {
		w.after(turn)
	}
	w.none("c")
	w.has("a", journal.Active)
	w.has("b", journal.Completed)
	if n := w.service.calls[callMessage]; n > 0 {
		t.Errorf("%d messages", n)
	}
	if queue := w.releasesQueue(); queue.Paused != "" {
		t.Fatalf("%+v", queue)
	}
	w.after(5 * time.Minute)
	w.has("c", journal.Active)
	if n := w.service.calls[callMessage]; n != 1 {
		t.Errorf("%d messages", n)
	}
}

// TestOperatorPauseDoesNotHideDoubt: after its release the doubts still pause the queue.
func TestOperatorPauseDoesNotHideDoubt(t *testing.T) {
	w := inDoubtTwice(t)
	w.pausesQueue()
	w.service.down = nil
	w.after(3 * time.Hour)
	w.paused(journal.PausedOperator)
	w.service.down = always(lostError())
	if queue := w.releasesQueue(); queue.Paused != journal.PausedUnknown {
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
	for name, err := range map[string]error{"accepted": nil, "in doubt": lostError(), "unauthorized": answer(401)} {
		w := manyPrompts(t)
		w.service.down = always(lostError(), callCreate)
		n := 0
		w.service.down = func(call, _ string) error {
			if n++; call == callCreate && n == 1 {
				return lostError() // so that the next outcome changes the queue
			}
			if n == 2 {
				w.pausesQueue()
				return err
			}
			return nil
		}
		w.passes()
		w.paused(journal.PausedOperator)
		if n != 2 {
			t.Errorf("%s: %d calls", name, n)
		}
		w.has("a", journal.Unknown)
		want := map[string]journal.State{"accepted": journal.Active, "in doubt": journal.Unknown, "unauthorized": journal.Pending}[name]
		w.has("b", want)
	}
}
