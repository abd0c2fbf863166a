package jobs

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// story is a world that is run to its end with every fault: three prompts, one with
// follow-ups, one that depends on it, and one that recurs.
func story(t tb) *world {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"a, then this", "a, and that"}})
	w.prompt(prompts.Prompt{ID: "b", DependsOn: []string{"a"}})
	w.prompt(prompts.Prompt{ID: "c", Project: "prj_c", Body: "c fails"})
	w.prompt(prompts.Prompt{ID: "d", Schedule: cron(t, "0 0 1 1 *")})
	return w
}

// atItsEnd fails unless each prompt and each follow-up of the story was accepted once, the
// journal knows it, and people were notified of it once.
func (w *world) atItsEnd() {
	w.Helper()
	for id, end := range map[string]journal.State{"a": journal.Completed, "b": journal.Completed, "c": journal.Failed} {
		job := w.has(id, end)
		w.sent(job.Text, 1)
		if at := w.service.of(job.Text); at.id != job.JobID {
			w.Fatalf("%s is job %s in the journal and %s at the service", id, job.JobID, at.id)
		}
	}
	a := w.service.of("do a")
	if want := []string{"do a", "a, then this", "a, and that"}; !slices.Equal(a.texts, want) {
		w.Fatalf("the job of a got %q", a.texts)
	}
	if done, of := w.service.of("do b").taken[0], a.taken[2].Add(turn); done.Before(of) {
		w.Fatalf("b began at %v, a ended at %v", done, of)
	}
	kinds := map[string]int{}
	for _, note := range w.memory.events {
		kinds[note.Kind]++
	}
	pr, failed := w.memory.finished["prj_a pr"], w.memory.finished["prj_c failed"]
	if pr != 2 || failed != 1 || kinds["completed"] != 2 || kinds["failed"] != 1 {
		w.Fatalf("finished %v, events %v", w.memory.finished, kinds)
	}
	w.none("d")
}

// nothingTwice fails if a prompt or a follow-up was accepted twice, two jobs have one id, or
// the journal has neither the id nor the intent of a job of the service.
func (w *world) nothingTwice() {
	w.Helper()
	seen := map[string]int64{}
	for _, job := range w.memory.jobs {
		if other, twice := seen[job.JobID]; twice && job.JobID != "" {
			w.Fatalf("jobs %d and %d have the id %s", other, job.Seq, job.JobID)
		}
		seen[job.JobID] = job.Seq
	}
	for _, j := range w.service.jobs {
		w.sent(j.texts[0], 1)
		for _, message := range j.texts[1:] {
			if n := w.service.got(j.id, message); n > 1 {
				w.Fatalf("message %q was accepted %d times", message, n)
			}
		}
		traced := seen[j.id] > 0
		for _, job := range w.memory.jobs {
			intends := job.State == journal.Submitting || job.State == journal.Unknown
			traced = traced || intends && job.Text == j.texts[0]
		}
		if !traced {
			w.Fatalf("job %s (%q) is not in the journal", j.id, j.texts[0])
		}
	}
}

// TestFaults: whatever goes wrong with any call, nothing is accepted twice, nothing is lost,
// and a person decides once about each job in doubt. After a kill those are the jobs that had an
// intent without an outcome; the others continue by themselves.
func TestFaults(t *testing.T) {
	w := story(t)
	w.untilIdle()
	w.atItsEnd()
	everyFault(t, w.on.Calls(), 1000, func(t *testing.T, call string, nth int, f faults.Fault) {
		w := story(t)
		w.failing(call, nth, f)
		for range 500 {
			w.pass()
			w.nothingTwice()
			if w.on.Calls()[call] >= nth || w.on.Dead() {
				break
			}
			w.clock = w.clock.Add(20 * time.Second)
		}
		w.faults = nil
		if w.on.Dead() {
			w.restarts()
		}
		w.untilIdle()
		w.atItsEnd()
	})
}

// restarts starts a new process after a kill.
func (w *world) restarts() {
	w.Helper()
	doubtful := map[int64]bool{}
	for seq, job := range w.memory.jobs {
		doubtful[seq] = job.State == journal.Submitting || job.Sending
	}
	if err := w.process(); err != nil {
		w.Fatal(err)
	}
	for seq, job := range w.memory.jobs {
		if job.State != journal.Unknown {
			if doubtful[seq] {
				w.Fatalf("job %d is %s, and it had an intent", seq, job.State)
			}
			continue
		}
		if !doubtful[seq] {
			w.Fatalf("job %d is unknown, and it had no intent", seq)
		}
		w.waitsFor(job.Prompt, whyOperator, journal.Unknown)
		for range 3 {
			w.after(time.Hour)
			w.nothingTwice()
		}
		w.has(job.Prompt, journal.Unknown)
	}
}

func TestCrashWhileTheStateIsAdopted(t *testing.T) {
	for _, f := range []faults.Fault{faults.KilledBefore, faults.KilledAfter} {
		w := newWorld(t, "a", "b")
		w.opt.OnNewState = Skip
		w.failing(callApply, 1, f)
		w.pass()
		w.faults = nil
		w.passes()
		w.opt.OnNewState, w.queue = Refuse, nil
		w.passes()
		w.has("a", journal.Completed)
		w.has("b", journal.Completed)
		w.calls(callCreate, 0)
	}
}

func TestCrashWhileRecovering(t *testing.T) {
	for _, f := range faults.OfCalls {
		w := newWorld(t, "a")
		w.failing(callCreate, 1, faults.KilledAfter)
		w.pass()
		w.failing(callApply, 1, f)
		var log strings.Builder
		w.opt.Logger = slog.New(slog.NewTextHandler(&log, nil))
		if err := w.process(); err == nil {
			t.Fatalf("%s: no error", f)
		}
		w.says(log.String(), "prompt=a job=1 remedy=", "docgauge jobs resolve 1")
		w.faults = nil
		w.passes()
		w.has("a", journal.Unknown)
		w.after(time.Hour)
		w.sent("do a", 1)
	}
}

// TestCrashLoop: a process that dies of each create does not send all prompts.
func TestCrashLoop(t *testing.T) {
	w := newWorld(t, ids...)
	w.failing(callCreate, 1, faults.KilledAfter)
	for range 10 {
		w.pass()
	}
	w.calls(callCreate, 2)
	w.paused(journal.PausedUnknown)
}
