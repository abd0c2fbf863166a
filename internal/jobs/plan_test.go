package jobs

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

func TestDependsOn(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", DependsOn: []string{"b", "c"}})
	w.prompt(prompts.Prompt{ID: "b"})
	w.prompt(prompts.Prompt{ID: "c", Body: "c fails"})
	w.waitsFor("a", whyDependency, journal.Pending)
	w.passes()
	w.waitsFor("a", whyDependency, journal.Pending, "b to be completed: it is active")
	w.after(turn)
	w.has("b", journal.Completed)
	w.has("c", journal.Failed)
	w.waitsFor("a", whyDependency, journal.Pending, "c to be completed, and that is failed: docgauge jobs retry c")
	if r := w.after(time.Hour); !r.isIdle() {
		t.Error("a dependency that failed is waited for")
	}
	w.none("a")
	w.prompt(prompts.Prompt{ID: "c", Body: "c, mended"})
	w.decides("retry", "c")
	w.passes()
	w.has("c", journal.Active)
	w.after(turn)
	w.has("c", journal.Completed)
	w.has("a", journal.Active)
	w.remove("b") // it counts when its file is gone
	w.prompt(prompts.Prompt{ID: "d", DependsOn: []string{"b"}})
	w.passes()
	w.has("d", journal.Active)
}

// TestConcurrencyKey: a job in doubt may be at work, so it blocks its key too.
func TestConcurrencyKey(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", ConcurrencyKey: "k"})
	w.prompt(prompts.Prompt{ID: "b", ConcurrencyKey: "k"})
	w.prompt(prompts.Prompt{ID: "c", ConcurrencyKey: "other"})
	w.waitsFor("b", whyConcurrency, journal.Pending, "k is taken by prompt a, which is before it")
	w.passes()
	w.has("a", journal.Active)
	w.has("c", journal.Active)
	w.none("b")
	w.waitsFor("b", whyConcurrency, journal.Pending, "job 1 of prompt a, which is active")
	w.service.down = always(lostError(), callCreate)
	w.after(turn)
	w.service.down = nil
	job := w.has("b", journal.Unknown)
	w.prompt(prompts.Prompt{ID: "d", ConcurrencyKey: "k"})
	w.after(time.Hour)
	w.none("d")
	w.resolve(job.Seq)
	w.passes()
	w.has("b", journal.Active)
	w.after(turn)
	w.has("d", journal.Active)
}

func TestTimes(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "early", NotBefore: start.Add(time.Hour)})
	w.prompt(prompts.Prompt{ID: "late", Expires: start})
	w.prompt(prompts.Prompt{ID: "just", NotBefore: start, Expires: start.Add(time.Microsecond)})
	w.waitsFor("late", whyNext, journal.Expired)
	if p := w.waitsFor("early", whyNotBefore, journal.Pending); !p.Until.Equal(start.Add(time.Hour)) {
		t.Errorf("until %v", p.Until)
	}
	if r := w.passes(); r.Created != 1 {
		t.Errorf("%d created", r.Created)
	}
	w.has("just", journal.Active)
	w.after(time.Hour - time.Microsecond)
	w.none("early")
	w.after(time.Microsecond)
	w.has("early", journal.Active)
	w.none("late")
}

// TestDrift: a prompt runs once; an edit is shown, not run.
func TestDrift(t *testing.T) {
	w := newWorld(t, "a")
	w.passes()
	if w.planned("a").Drifted {
		t.Error("drifted without an edit")
	}
	w.prompt(prompts.Prompt{ID: "a", Body: "do it otherwise"})
	w.after(turn)
	w.has("a", journal.Completed)
	w.after(time.Hour)
	w.calls(callCreate, 1)
	if p := w.waitsFor("a", whyNext, journal.Completed, "docgauge jobs retry a"); !p.Drifted {
		t.Errorf("%+v", p)
	}
	w.decides("retry", "a")
	w.passes()
	w.sent("do it otherwise", 1)
	if job := w.has("a", journal.Active); job.Try != 2 || w.planned("a").Drifted {
		t.Errorf("%+v", job)
	}
}

// TestEditBeforeItIsSent: it has not drifted, the new text is sent.
func TestEditBeforeItIsSent(t *testing.T) {
	w := newWorld(t, "a")
	w.service.down = always(throttled(time.Minute))
	w.passes()
	w.service.down = nil
	w.prompt(prompts.Prompt{ID: "a", Body: "do it otherwise", Title: "T", Project: "prj_b", ConcurrencyKey: "k"})
	if w.planned("a").Drifted {
		t.Error("drifted")
	}
	w.after(time.Minute)
	job := w.has("a", journal.Active)
	if job.Text != "do it otherwise" || job.Title != "T" || job.Project != "prj_b" || job.ConcurrencyKey != "k" ||
		job.Digest != w.folder[0].Digest {
		t.Errorf("%+v", job)
	}
	if at := w.service.jobs[0]; at.project != "prj_b" || at.texts[0] != "do it otherwise" {
		t.Errorf("%+v", at)
	}
}

// TestFilesThatDoNotCount: invalid, just changed, gone.
func TestFilesThatDoNotCount(t *testing.T) {
	w := newWorld(t, "gone")
	w.prompt(prompts.Prompt{ID: "changing", Project: "prj_b"})
	w.service.down = always(throttled(time.Minute))
	w.passes()
	w.after(2 * time.Minute)
	w.service.down = nil
	for _, id := range []string{"gone", "changing"} {
		w.remove(id)
		w.decides("release", id)
	}
	found := prompts.Scanned{
		Invalid:  []prompts.Prompt{{ID: "bad", Path: "bad.md"}},
		Findings: []prompts.Finding{{Path: "bad.md", Line: 3, Text: "schedule: it never fires"}},
		Changing: []string{"changing.md", "new.md"},
	}
	w.clock = w.clock.Add(time.Hour)
	r, err := w.queue.pass(t.Context(), found)
	if err != nil || r.Created > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	got := map[string]Why{}
	for _, p := range r.Planned {
		got[p.ID] = p.Why
	}
	want := map[string]Why{"bad": whyInvalid, "gone": whyGone, "changing": WhyChanging, "new.md": WhyChanging}
	for id, why := range want {
		if got[id] != why {
			t.Errorf("%s waits for %q, want %q", id, got[id], why)
		}
	}
}

// TestOrder: the projects take turns, beginning after the last one; within a project by
// path, then recurring prompts by firing.
func TestOrder(t *testing.T) {
	w := newWorld(t)
	w.opt.MaxActive = 2
	w.prompt(prompts.Prompt{ID: "weekly", Path: "0.md", Schedule: cron(t, "@hourly")})
	w.prompt(prompts.Prompt{ID: "daily", Path: "1.md", Schedule: cron(t, "@daily")})
	w.passes() // it is seen
	w.clock = w.clock.Add(25 * time.Hour)
	for _, id := range []string{"a3", "a1", "a2"} {
		w.prompt(prompts.Prompt{ID: id})
	}
	w.prompt(prompts.Prompt{ID: "b1", Project: "prj_b"})
	w.prompt(prompts.Prompt{ID: "c1", Project: "prj_c"})
	var sent []string
	for range 8 {
		before := len(w.service.jobs)
		w.passes()
		for _, at := range w.service.jobs[before:] {
			sent = append(sent, strings.TrimPrefix(at.texts[0], "do "))
		}
		w.clock = w.clock.Add(turn)
	}
	if want := []string{"a1", "b1", "c1", "a2", "a3", "daily", "weekly"}; !slices.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// TestPlanChangesNothing: neither in the journal nor at the service.
func TestPlanChangesNothing(t *testing.T) {
	w := newWorld(t)
	w.opt.OnNewState = Skip
	w.prompt(prompts.Prompt{ID: "a", FollowUps: []string{"then"}})
	w.prompt(prompts.Prompt{ID: "r", Schedule: cron(t, "@hourly")})
	p := w.waitsFor("a", whyNewState, journal.Pending)
	if p.Text != "do a" || !slices.Equal(p.FollowUps, []string{"then"}) || p.Ready() || p.Place != 1 {
		t.Errorf("%+v", p)
	}
	r := w.waitsFor("r", whyFiring, journal.Pending)
	if next := time.Date(2026, 10, 5, 14, 0, 0, 0, time.UTC); !r.Firing.Equal(next) || !r.Until.Equal(next) {
		t.Errorf("%+v", r)
	}
	if len(w.memory.jobs) > 0 || len(w.memory.recurring) > 0 || len(w.service.calls) > 0 || w.memory.queue.Adopted {
		t.Errorf("%+v, calls %v", w.memory, w.service.calls)
	}
}

// TestTemplateThatCannotBeRendered: its prompt waits, and no other.
func TestTemplateThatCannotBeRendered(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "a", Template: true, Body: `[[ (site_visitors "week").Total ]]`})
	w.prompt(prompts.Prompt{ID: "b"})
	w.passes()
	w.none("a")
	w.has("b", journal.Active)
	if p := w.waitsFor("a", whyRender, journal.Pending); p.Unrendered == "" {
		t.Errorf("%+v", p)
	}
}

// TestNewState: a state without any job, and prompts.
func TestNewState(t *testing.T) {
	w := newWorld(t)
	w.opt.OnNewState = Refuse
	if _, err := w.pass(); err != nil {
		t.Errorf("an empty folder: %v", err)
	}
	w.prompt(prompts.Prompt{ID: "a"})
	w.prompt(prompts.Prompt{ID: "b"})
	r, err := w.pass()
	if !errors.Is(err, ErrNewState) || len(r.Planned) != 2 || len(w.service.jobs) > 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	w.says(err.Error(), "DOCGAUGE_PROMPTS_ON_NEW_STATE")
	w.waitsFor("a", whyNewState, journal.Pending)

	w.opt.OnNewState, w.queue = Skip, nil
	w.passes()
	if job := w.has("a", journal.Completed); job.JobID != "" || job.Reason == "" || len(w.memory.finished) > 0 {
		t.Errorf("%+v, %v", job, w.memory.finished)
	}
	w.opt.OnNewState, w.queue = Refuse, nil
	w.prompt(prompts.Prompt{ID: "c", DependsOn: []string{"a"}})
	w.passes()
	w.has("c", journal.Active)
	if len(w.service.jobs) != 1 || len(w.memory.events) > 0 {
		t.Errorf("%d jobs, notes %+v", len(w.service.jobs), w.memory.events)
	}
}

// TestSkipWaitsForAllFiles: one that is being written counts as done with the rest.
func TestSkipWaitsForAllFiles(t *testing.T) {
	w := newWorld(t, "a")
	w.opt.OnNewState = Skip
	found := prompts.Scanned{Prompts: w.folder, Changing: []string{"b.md"}}
	if err := w.process(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.queue.pass(t.Context(), found); !errors.Is(err, ErrNewState) || len(w.memory.jobs) > 0 {
		t.Errorf("%v, %+v", err, w.memory.jobs)
	}
	twice := []prompts.Prompt{{ID: "b", Path: "b.md"}, {ID: "b", Path: "c.md"}}
	found = prompts.Scanned{Prompts: w.folder, Invalid: twice}
	if _, err := w.queue.pass(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	w.has("b", journal.Completed)
}
