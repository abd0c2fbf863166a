package jobs

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/docgauge/docgauge/internal/jobs/journal"
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

// callsOf returns how often each call is made in the story without a fault.
func callsOf(t *testing.T) map[string]int {
	w := story(t)
	w.untilIdle()
	w.atItsEnd(t)
	return w.on.calls
}

// atItsEnd fails unless each prompt and each follow-up of the story was accepted once,
// and the journal knows it.
func (w *world) atItsEnd(t tb) {
	t.Helper()
	for id, state := range map[string]journal.State{"a": journal.Completed, "b": journal.Completed, "c": journal.Failed} {
		job := w.has(id, state)
		text := w.folderText(id)
		if n := w.service.taken(text); n != 1 {
			t.Fatalf("%s was accepted %d times", id, n)
		}
		if at := w.service.of(text); at.id != job.JobID {
			t.Fatalf("%s is job %s in the journal and %s at the service", id, job.JobID, at.id)
		}
	}
	a := w.service.of("do a")
	if want := []string{"do a", "a, then this", "a, and that"}; !slices.Equal(a.texts, want) {
		t.Fatalf("the job of a got %q", a.texts)
	}
	if done, of := w.service.of("do b").taken[0], a.taken[2].Add(turn); done.Before(of) {
		t.Fatalf("b began at %v, a ended at %v", done, of)
	}
	for _, result := range []string{"prj_a pr", "prj_c failed"} {
		if n := w.memory.finished[result]; n != 2 && result == "prj_a pr" || n != 1 && result == "prj_c failed" {
			t.Fatalf("%s is counted %d times", result, n)
		}
	}
	w.none("d")
}

func (w *world) folderText(id string) string {
	for _, p := range w.folder {
		if p.ID == id {
			return p.Body
		}
	}
	return ""
}

// nothingTwice fails if a prompt or a follow-up was accepted twice, or the journal has no
// trace of it.
func (w *world) nothingTwice() {
	w.Helper()
	for _, j := range w.service.jobs {
		if n := w.service.taken(j.texts[0]); n > 1 {
			w.Fatalf("%q was accepted %d times", j.texts[0], n)
		}
		for _, message := range j.texts[1:] {
			if n := w.service.got(j.id, message); n > 1 {
				w.Fatalf("message %q was accepted %d times", message, n)
			}
		}
		if !w.traced(j) {
			w.Fatalf("job %s (%q) is not in the journal", j.id, j.texts[0])
		}
	}
}

// traced reports whether the journal has a job, or the intent of it.
func (w *world) traced(j *remote) bool {
	for _, job := range w.memory.jobs {
		if job.JobID == j.id || job.Text == j.texts[0] && (job.State == journal.Submitting || job.State == journal.Unknown) {
			return true
		}
	}
	return false
}

// TestFaults: whatever goes wrong with any call, nothing is accepted twice, nothing is
// lost, and a person decides once about what is in doubt.
func TestFaults(t *testing.T) {
	calls := callsOf(t)
	for _, call := range slices.Sorted(maps.Keys(calls)) {
		for nth := range calls[call] {
			for _, f := range faultsOf(call) {
				t.Run(fmt.Sprintf("%s %d/%s", call, nth+1, f), func(t *testing.T) {
					w := story(t)
					w.failing(call, nth+1, f)
					w.untilStruck(call, nth+1)
					w.faults = nil
					w.untilIdle()
					w.atItsEnd(t)
				})
			}
		}
	}
}

func faultsOf(call string) []fault {
	all := []fault{requestLost, replyLost, killedBefore, killedAfter}
	if call == callCreate || call == callMessage {
		all = append(all, notSentAtAll)
	}
	return all
}

// untilStruck makes passes until the call was made in this process, and checks the
// invariant after each.
func (w *world) untilStruck(call string, nth int) {
	w.Helper()
	if err := w.process(); err != nil {
		return
	}
	for range 500 {
		if w.on.calls[call] >= nth || w.on.killed() {
			return
		}
		w.pass()
		w.nothingTwice()
		w.clock = w.clock.Add(20e9)
	}
	w.Fatalf("%s %d never came", call, nth)
}
