package jobs

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// TestCaps: never more jobs at work, nor begun in a day, than the caps say.
func TestCaps(t *testing.T) {
	w := newWorld(t)
	w.cfg.MaxActive, w.cfg.MaxPerDay = 2, 5
	for i := range 8 {
		w.prompt(prompts.Prompt{ID: fmt.Sprintf("p%d", i), Project: fmt.Sprintf("prj_%d", i%2)})
	}
	if w.passes(); w.service.atWork() != 2 {
		t.Fatalf("%d jobs at work, want 2", w.service.atWork())
	}
	w.waitsFor("p7", WhyActive, journal.Pending)
	for range 60 {
		if w.after(time.Minute); w.service.atWork() > 2 {
			t.Fatalf("%d jobs at work", w.service.atWork())
		}
	}
	if n := len(w.service.created()); n != 5 {
		t.Fatalf("%d jobs in a day, want 5", n)
	}
	w.waitsFor("p7", WhyPerDay, journal.Pending)
	first := w.service.created()[0]
	w.clock = first.Add(day - time.Second)
	if w.passes(); len(w.service.created()) != 5 {
		t.Fatal("another job within the same day")
	}
	// The first two began at the same moment.
	if w.after(2 * time.Second); len(w.service.created()) != 7 {
		t.Fatalf("%d jobs a day after the first, want 7", len(w.service.created()))
	}
}

// TestWaits: each reason is told, and the prompt goes when it is over.
func TestWaits(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "first", ConcurrencyKey: "docs"})
	w.prompt(prompts.Prompt{ID: "key", ConcurrencyKey: "docs"})
	w.prompt(prompts.Prompt{ID: "after", DependsOn: []string{"first"}})
	w.prompt(prompts.Prompt{ID: "later", NotBefore: start.Add(time.Hour)})
	w.prompt(prompts.Prompt{ID: "past", Expires: start.Add(-time.Hour)})
	w.passes()
	w.has("first", journal.Active)
	w.waitsFor("key", WhyConcurrency, journal.Pending)
	w.waitsFor("after", WhyDependency, journal.Pending)
	w.waitsFor("later", WhyNotBefore, journal.Pending)
	if p := w.planned("past"); p.State != journal.Expired {
		t.Errorf("its time is over: %+v", p)
	}
	for range 20 {
		w.after(30 * time.Second)
	}
	for _, id := range []string{"first", "key", "after"} {
		w.has(id, journal.Completed)
	}
	w.none("later")
	if w.after(time.Hour); w.job("later").State != journal.Active {
		t.Errorf("later is %+v", w.job("later"))
	}
	w.none("past")
}

// TestThrottled: what was refused for a time goes when that is over, not before.
func TestThrottled(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a"})
	w.service.down = always(throttled(30*time.Minute), callCreate)
	w.passes()
	asked := w.service.calls[callCreate]
	w.has("a", journal.Pending)
	w.service.down = nil
	if w.after(29 * time.Minute); w.service.calls[callCreate] != asked {
		t.Fatal("it was sent before the service said it may")
	}
	if w.after(2 * time.Minute); w.job("a").State != journal.Active {
		t.Fatalf("it is %+v", w.job("a"))
	}
}

// TestRefusedKey: nothing is sent with a key that was refused, until it changes.
func TestRefusedKey(t *testing.T) {
	w := newWorld(t)
	mark := "old"
	w.cfg.KeyMark = func() string { return mark }
	w.prompt(prompts.Prompt{ID: "a"})
	w.prompt(prompts.Prompt{ID: "b"})
	w.service.down = always(answer(http.StatusUnauthorized))
	if r := w.passes(); r.Queue.Paused != journal.PausedUnauthorized {
		t.Fatalf("the queue is %+v", r.Queue)
	}
	asked := w.service.calls[callCreate]
	w.service.down = nil
	if w.after(24 * time.Hour); asked != 1 || w.service.calls[callCreate] != asked {
		t.Fatalf("asked %d times, then %d", asked, w.service.calls[callCreate])
	}
	mark = "new"
	w.after(time.Minute)
	w.has("a", journal.Active)
	w.has("b", journal.Active)
}
