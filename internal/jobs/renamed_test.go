package jobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// file writes a prompt without an id.
func (w *world) file(path, text string, more ...func(*prompts.Prompt)) {
	p := prompts.Prompt{ID: path, Path: path, Body: text}
	for _, change := range more {
		change(&p)
	}
	w.prompt(p)
}

// move renames a file, as mv does.
func (w *world) move(from, to string) {
	for _, p := range w.folder {
		if p.Path == from {
			w.remove(from)
			if p.ID == p.Path {
				p.ID = to
			}
			p.Path = to
			w.prompt(p)
			return
		}
	}
}

// sentOnce is a world whose prompt old/a.md was sent and is completed. Since then it was moved
// to the path, if that is not empty.
func sentOnce(t tb, movedTo string) *world {
	w := newWorld(t)
	w.file("old/a.md", "text")
	w.passes()
	w.after(turn)
	w.has("old/a.md", journal.Completed)
	if movedTo != "" {
		w.move("old/a.md", movedTo)
	}
	return w
}

// holds fails unless a prompt is held as renamed, in the plan before a pass and after
// it, and says what can be done.
func (w *world) holds(path, from string) {
	w.Helper()
	for range 2 {
		w.waitsFor(path, whyOperator, journal.Held, "looks renamed from "+from, "docgauge jobs release "+path,
			"docgauge jobs resolve "+path+" --drop")
		if r := w.after(time.Hour); !r.isIdle() {
			w.Fatalf("%s is waited for", path)
		}
	}
	if job := w.has(path, journal.Held); job.RenamedFrom != from || Remedy(job) == "" {
		w.Fatalf("%+v", job)
	}
}

func TestRenamed(t *testing.T) {
	w := sentOnce(t, "new/a.md")
	w.holds("new/a.md", "old/a.md")
	w.sent("text", 1)

	w.move("new/a.md", "new/b.md") // once more, before the operator decided
	if p := w.planned("new/b.md"); p.State != journal.Held {
		t.Errorf("%+v", p)
	}
	all, err := Plan(t.Context(), w.opt, w.journal, w.found())
	if err != nil || len(all) != 1 {
		t.Errorf("%+v, %v: one held under a former name is not of interest", all, err)
	}
	w.after(time.Hour)
	w.has("new/b.md", journal.Held)
	w.sent("text", 1)

	w.decides("release", "new/b.md")
	w.passes()
	if job := w.has("new/b.md", journal.Active); job.RenamedFrom == "" {
		t.Errorf("%+v", job)
	}
	w.sent("text", 2)
}

// TestRenamedCountsAsDone: also for prompts that depend on it, but not as a finished job.
func TestRenamedCountsAsDone(t *testing.T) {
	for _, pass := range []bool{false, true} {
		w := sentOnce(t, "b.md")
		w.prompt(prompts.Prompt{ID: "c", DependsOn: []string{"b.md"}})
		if pass {
			w.passes()
		}
		w.waitsFor("c", whyDependency, journal.Pending, "it is held")
		w.refuses("job-1", "b.md")
		w.decides("drop", "b.md")
		if job := w.has("b.md", journal.Completed); job.Result() != "" || job.Ended.IsZero() {
			t.Errorf("%+v", job)
		}
		w.passes()
		w.has("c", journal.Active)
		w.sent("text", 1)
		if w.memory.finished["prj_a pr"] != 1 || w.memory.finished["prj_a no_pr"] != 0 {
			t.Errorf("finished %v", w.memory.finished)
		}
	}
}

// TestRenamedDecisions: what the operator may decide about a renamed prompt, before a
// pass saw it and after. A released prompt is not sent under yet another name.
func TestRenamedDecisions(t *testing.T) {
	for _, tc := range []struct {
		decision, ref string
		state         journal.State // empty: refused
	}{
		{"release", "b.md", journal.Pending}, {"resubmit", "b.md", journal.Pending},
		{"drop", "b.md", journal.Completed}, {"cancel", "b.md", journal.Cancelled},
		{"", "b.md", ""}, {"hold", "b.md", ""}, {"release", "other", ""},
	} {
		for _, pass := range []bool{false, true} {
			w := sentOnce(t, "b.md")
			w.prompt(prompts.Prompt{ID: "other", NotBefore: start.Add(1000 * time.Hour)})
			if pass {
				w.passes()
			}
			job, err := w.decide(tc.decision, tc.ref)
			switch {
			case tc.state == "" && !errors.Is(err, ErrRefused) && !errors.Is(err, journal.ErrNoJob):
				t.Errorf("%s: %+v, %v", tc.decision, job, err)
			case tc.state != "" && (err != nil || job.State != tc.state || w.job("b.md").State != tc.state):
				t.Errorf("%s: %+v, %v", tc.decision, job, err)
			}
			if tc.decision == "resubmit" && !pass {
				w.move("b.md", "c.md")
				w.holds("c.md", "old/a.md")
				continue
			}
			w.after(time.Hour)
			w.sent("text", map[bool]int{true: 2, false: 1}[tc.state == journal.Pending])
		}
	}
}

// TestFolderMoved: every path is gone, and nothing is sent. Moved back, they are completed.
func TestFolderMoved(t *testing.T) {
	w := newWorld(t)
	for i := range 5 {
		w.file(fmt.Sprintf("p%d.md", i), fmt.Sprintf("text %d", i))
	}
	w.file("same1.md", "same")
	w.file("same2.md", "same")
	w.passes()
	w.after(turn)
	for _, p := range slices.Clone(w.folder) {
		w.move(p.Path, "sub/"+p.Path)
	}
	for _, p := range w.folder {
		w.holds(p.Path, strings.TrimPrefix(p.Path, "sub/"))
	}
	for _, p := range slices.Clone(w.folder) {
		w.move(p.Path, strings.TrimPrefix(p.Path, "sub/"))
	}
	w.after(time.Hour)
	for _, p := range w.folder {
		if got := w.planned(p.ID); got.State != journal.Completed {
			t.Errorf("%+v", got)
		}
	}
	w.calls(callCreate, 7)
}

// TestNotRenamed: a prompt that only looks similar is sent.
func TestNotRenamed(t *testing.T) {
	for name, tc := range map[string]struct {
		movedTo string
		put     func(w *world)
		text    string
		times   int
	}{
		"a copy":       {"", func(w *world) { w.file("b.md", "text") }, "text", 2},
		"another text": {"b.md", func(w *world) { w.file("b.md", "another") }, "another", 1},
		"with an id":   {"gone.md", func(w *world) { w.prompt(prompts.Prompt{ID: "b", Body: "text"}) }, "text", 2},
		"that recurs": {"gone.md", func(w *world) {
			w.file("b.md", "text", func(p *prompts.Prompt) { p.Schedule = cron(w, "@every 45m") })
		}, "text", 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := sentOnce(t, tc.movedTo)
			w.remove("gone.md")
			tc.put(w)
			w.passes()
			w.after(time.Hour)
			w.sent(tc.text, tc.times)
		})
	}
}

// TestRenamedFrom: which jobs of a path that is gone keep their text from being sent
// under another.
func TestRenamedFrom(t *testing.T) {
	for _, state := range everyState {
		w := inState(t, state)
		body := w.folder[0].Body
		w.remove("a")
		w.file("b.md", body)
		want := journal.Held
		switch state {
		case journal.Pending, journal.Rejected, journal.Expired: // the service never had it
			want = journal.Pending
		}
		if got := w.planned("b.md").State; got != want {
			t.Errorf("its job was %s: it is %s, want %s", state, got, want)
		}
	}
}

// TestAnotherInItsPlace: the path exists, with another text as far as is known.
func TestAnotherInItsPlace(t *testing.T) {
	for _, put := range []func(w *world){
		func(w *world) { w.file("old/a.md", "another") },
		func(w *world) { w.bad = []prompts.Prompt{{ID: "old/a.md", Path: "old/a.md"}} },
		func(w *world) { w.changing = []string{"old/a.md"} },
	} {
		w := sentOnce(t, "b.md")
		put(w)
		w.waitsFor("b.md", whyOperator, journal.Held)
		w.after(time.Minute)
		if job := w.has("b.md", journal.Held); job.RenamedFrom != "old/a.md" {
			t.Errorf("%+v", job)
		}
		w.sent("text", 1)
	}
}

// TestMovedOver: the file of a prompt that waits is replaced by one that was sent.
func TestMovedOver(t *testing.T) {
	for _, pass := range []bool{true, false} {
		w := sentOnce(t, "")
		w.file("b.md", "another")
		w.service.down = always(throttled(time.Minute), callCreate)
		w.after(time.Second)
		w.service.down = nil
		w.has("b.md", journal.Pending)
		w.move("old/a.md", "b.md")
		if pass {
			w.holds("b.md", "old/a.md")
		}
		if p := w.planned("b.md"); p.State != journal.Held {
			t.Errorf("%+v", p)
		}
		w.sent("text", 1)
		w.decides("release", "b.md")
		w.passes()
		w.has("b.md", journal.Active)
		w.sent("text", 2)
	}
}

// TestPromptWithIDMoved: it is the same prompt under any path, so a copy without the id
// is a copy.
func TestPromptWithIDMoved(t *testing.T) {
	w := newWorld(t)
	w.prompt(prompts.Prompt{ID: "x", Path: "old/x.md", Body: "text"})
	w.passes()
	w.after(turn)
	w.move("old/x.md", "new/x.md")
	w.file("copy.md", "text")
	w.passes()
	w.after(turn)
	w.has("x", journal.Completed)
	w.has("copy.md", journal.Completed)
	w.sent("text", 2)
}

// TestCopiesOfRenamed: until the operator has decided, any of several may be the renamed one;
// afterwards the others are copies.
func TestCopiesOfRenamed(t *testing.T) {
	w := sentOnce(t, "b.md")
	w.holds("b.md", "old/a.md")
	w.file("c.md", "text")
	w.holds("c.md", "old/a.md")
	w.decides("drop", "b.md")
	w.file("d.md", "text")
	w.after(time.Hour)
	w.has("c.md", journal.Held)
	w.has("d.md", journal.Active)
	w.sent("text", 2)
	for _, path := range []string{"b.md", "c.md", "d.md"} {
		w.remove(path)
	}
	w.file("e.md", "text") // the one decided upon is gone too
	w.after(time.Hour)
	w.has("e.md", journal.Held)
}

// TestRenamedTemplate: the text of a template is the one in the file, not the rendered one.
func TestRenamedTemplate(t *testing.T) {
	w := newWorld(t)
	w.file("a.md", "[[ .date ]]", func(p *prompts.Prompt) { p.Template = true })
	w.passes()
	w.after(turn)
	w.clock = w.clock.Add(day)
	w.move("a.md", "b.md")
	w.holds("b.md", "a.md")
}

// TestRenamedExpired: a prompt that would not be sent anyway is not held.
func TestRenamedExpired(t *testing.T) {
	w := sentOnce(t, "")
	w.remove("old/a.md")
	w.file("b.md", "text", func(p *prompts.Prompt) { p.Expires = start })
	w.after(time.Hour)
	if p := w.planned("b.md"); p.Why != whyNext || p.State != journal.Expired {
		t.Errorf("%+v", p)
	}
	w.none("b.md")
}

// TestSkippedIsRenamed: what counted as done when the state was new still does under
// another name.
func TestSkippedIsRenamed(t *testing.T) {
	w := newWorld(t)
	w.opt.OnNewState = Skip
	w.file("a.md", "text")
	w.passes()
	w.move("a.md", "b.md")
	w.holds("b.md", "a.md")
	w.sent("text", 0)
}

// TestMoves: however files are moved, copied and removed between passes and crashes, a
// text is sent once, and once more for each copy and each decision to send it.
func TestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		allowed := map[string]int{}
		path := func(name string) string {
			return rapid.SampledFrom([]string{"a.md", "b.md", "c.md", "x/a.md", "x/b.md"}).Draw(t, name)
		}
		at := func(path string) (prompts.Prompt, bool) { return fileOf(path, w.found()) }
		t.Repeat(map[string]func(*rapid.T){
			"": func(*rapid.T) {
				for text, n := range allowed {
					if got := w.service.taken(text); got > n {
						t.Fatalf("%q was sent %d times, allowed were %d", text, got, n)
					}
				}
			},
			"write": func(*rapid.T) {
				if p := path("to"); len(allowed) < 4 {
					text := fmt.Sprintf("text %d", len(allowed))
					allowed[text] = 1
					w.file(p, text)
				}
			},
			"move": func(*rapid.T) {
				if from, to := path("from"), path("to"); from != to {
					w.move(from, to)
				}
			},
			"copy": func(*rapid.T) {
				from, to := path("from"), path("to")
				if p, ok := at(from); ok && from != to {
					allowed[p.Body]++
					w.file(to, p.Body)
				}
			},
			"remove": func(*rapid.T) { w.remove(path("from")) },
			"pass":   func(*rapid.T) { w.passes() },
			"crash": func(*rapid.T) {
				call := rapid.SampledFrom([]string{callCreate, callApply}).Draw(t, "call")
				f := rapid.SampledFrom([]faults.Fault{faults.KilledBefore, faults.KilledAfter}).Draw(t, "fault")
				w.failing(call, rapid.IntRange(1, 3).Draw(t, "nth"), f)
				w.queue = nil
				w.pass()
				w.faults, w.queue = nil, nil
			},
			"time": func(*rapid.T) { w.clock = w.clock.Add(turn) },
			"release": func(*rapid.T) {
				p, ok := at(path("of"))
				if _, err := w.decide("release", p.ID); ok && err == nil {
					allowed[p.Body]++
				}
			},
			"resolve": func(*rapid.T) {
				if job, err := Find(w.Context(), w.journal, path("of")); err == nil && job.State == journal.Unknown {
					w.resolve(job.Seq)
				}
			},
			"continue": func(*rapid.T) { w.releaseQueue() },
		})
	})
}
