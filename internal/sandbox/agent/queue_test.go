package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// editor fails or changes nothing if a test says so; else it pretends.
type editor struct {
	Pretend
	err, diffErr error
	still        bool
	tasks        []Task
}

func (e *editor) Edit(ctx context.Context, t Task) (Change, string, error) {
	e.tasks = append(e.tasks, t)
	c, _, _ := e.Pretend.Edit(ctx, t)
	if e.still {
		c = t.Last
	}
	return c, "output of " + t.Prompt, e.err
}

func (e *editor) Diff(ctx context.Context, c Change) (string, error) {
	diff, _ := e.Pretend.Diff(ctx, c)
	return diff, e.diffErr
}

// A pull request that could not be opened is opened by the next instruction,
// even if that one changes nothing; then there is nothing to propose any more.
func TestFailuresAndWhatFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e, h := &editor{Pretend: pretend}, newHost()
		s := open(t, Options{Editor: e, Host: h})
		step := func(prompt string) Job {
			send(t, s, s.All()[0].ID, prompt)
			return atRest(s)[0]
		}
		e.err = errors.New("editor broken")
		create(t, s, "one")
		if got := atRest(s)[0]; got.Status != Failed || got.Failure != "editor broken" ||
			got.Output != "output of one" || link(got) != "" {
			t.Errorf("editor: %+v", got)
		}
		e.err, h.err = nil, errors.New("host broken")
		if got := step("two"); got.Status != Failed || got.Failure != "host broken" || link(got) != "" {
			t.Errorf("host: %+v", got)
		}
		h.err, e.diffErr, e.still = nil, errors.New("diff broken"), true
		if got := step("three"); got.Status != Failed || got.Failure != "diff broken" {
			t.Errorf("diff: %+v", got)
		}
		e.diffErr = nil
		if got := step("four"); got.Status != Completed || link(got) != "/pr/1" || got.Failure != "" {
			t.Errorf("again: %+v", got)
		}
		h.err = errors.New("asked once more")
		if got := step("five"); got.Status != Completed || link(got) != "/pr/1" {
			t.Errorf("nothing changed: %+v", got)
		}
		if diff := cmp.Diff([]string{"two"}, e.tasks[4].Last.Messages); diff != "" {
			t.Error(diff)
		}
		closeQueue(t, s)
	})
}

// An archived outcome archives only where nothing is left to do.
func TestArchivedWithMoreToDo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{After: time.Minute})
		id := create(t, s, "[sandbox:archive]")
		send(t, s, id, "x")
		if got := atRest(s)[0]; got.Status != Completed || got.ArchivedAt != nil {
			t.Errorf("%+v", got)
		}
		send(t, s, id, "[sandbox:archive]")
		if got := atRest(s)[0]; got.Status != Archived || !got.ArchivedAt.Equal(noon.Truncate(time.Millisecond)) {
			t.Errorf("%+v", got)
		}
		if _, err := s.Message("p", id, "x"); !errors.Is(err, ErrArchived) {
			t.Error(err)
		}
		closeQueue(t, s)
	})
}

func TestJobsOfOthers(t *testing.T) {
	s := open(t, Options{})
	defer closeQueue(t, s)
	id := create(t, s, "x")
	for _, ask := range [][2]string{{"q", id}, {"p", "job_x"}, {"", ""}} {
		if _, err := s.Get(ask[0], ask[1]); !errors.Is(err, ErrNotFound) {
			t.Errorf("get %v: %v", ask, err)
		}
		if _, err := s.Message(ask[0], ask[1], "x"); !errors.Is(err, ErrNotFound) {
			t.Errorf("message %v: %v", ask, err)
		}
	}
}

// A job with many instructions does not keep the others waiting.
func TestJobsTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{After: time.Minute})
		first := create(t, s, "1")
		second := create(t, s, "a")
		for range 2 {
			send(t, s, first, "1")
			send(t, s, second, "a")
		}
		for want := range 6 {
			synctest.Wait()
			all := s.All()
			if got := all[0].Worked + all[1].Worked; got != want || all[0].Worked-all[1].Worked > 1 ||
				all[1].Worked > all[0].Worked {
				t.Errorf("after %d minutes: %d and %d", want, all[0].Worked, all[1].Worked)
			}
			time.Sleep(time.Minute)
		}
		closeQueue(t, s)
	})
}

func TestMatch(t *testing.T) {
	words := script{{"[sandbox:fail]", outcomePR, 0}, {"later", "", time.Hour},
		{"nothing", outcomeNoChange, time.Second}}
	for prompt, want := range map[string]rule{
		"x":                                {"", outcomeEdit, time.Minute},
		"[sandbox:archive] [sandbox:fail]": {"", outcomeArchived, time.Minute},
		"[sandbox:fail]":                   {"", outcomePR, time.Minute},
		"later [sandbox:no-change]":        {"", outcomeNoChange, time.Hour},
		"[sandbox:slow=5s] later":          {"", outcomeEdit, 5 * time.Second},
		"later [sandbox:slow=5s]":          {"", outcomeEdit, time.Hour},
		"[sandbox:slow=0s] nothing":        {"", outcomeNoChange, 0},
		"[sandbox:slow=x] [sandbox:slow]":  {"", outcomeEdit, 30 * time.Second},
		"[sandbox:pr] nothing later":       {"", outcomePR, time.Second},
	} {
		if got := words.match(prompt, time.Minute); got != want {
			t.Errorf("%s: %+v, want %+v", prompt, got, want)
		}
	}
}

func TestReadScript(t *testing.T) {
	path := filepath.Join(t.TempDir(), "script.json")
	read := func(text string) (script, error) {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		return readScript(path)
	}
	got, err := read(`{"b": {"outcome": "no_change"}, "a": {"after": "1m"}, "c": {"outcome": "edit", "after": "2s"}}`)
	want := script{{"b", outcomeNoChange, 0}, {"a", "", time.Minute}, {"c", outcomeEdit, 2 * time.Second}}
	if !slices.Equal(want, got) || err != nil {
		t.Error(got, err)
	}
	for text, want := range map[string]string{
		``: "one JSON object", `[]`: "one JSON object", `{"a":`: "a", `{"a": {"outcome": "pr"}`: "EOF",
		`{} {}`: "more after it", `{"a": 1}`: `word "a"`,
		`{"a": {"outcome": "won"}}`: "want edit, pr", `{"a": {"after": "-1s"}}`: "above 0",
		`{"a": {"after": "soon"}}`: "duration", `{"a": {}}`: "an outcome, an after",
		`{"": {"outcome": "pr"}}`: "not empty", `{"a": {"outcome": "pr"}, "a": {"outcome": "pr"}}`: "twice",
		`{"a": {"then": "pr"}}`: "then",
		`{"a": {"outcome": "pr"}, ` + strings.Repeat(" ", maxScript) + `}`: "at most",
	} {
		if _, err := read(text); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%.60s: %v, want %q", text, err, want)
		}
	}
	if _, err := readScript(path + "x"); err == nil {
		t.Error("no file: no error")
	}
}

func TestSubject(t *testing.T) {
	for prompt, want := range map[string]string{
		"x": "x", "\n\n  # Fix  the\ttypos \nmore": "Fix the typos", "---\n": "Agent job",
		"\x1b[31mred\x00\u202e": "[31mred", "###\nb": "b",
		strings.Repeat("ü", 72): strings.Repeat("ü", 72), strings.Repeat("ü", 73): strings.Repeat("ü", 71) +
			"…", "--amend": "--amend",
	} {
		if got := Subject(prompt); got != want {
			t.Errorf("%q: %q, want %q", prompt, got, want)
		}
	}
}

// TestPretendedFiles: a diff has each file once, with the lines of its instructions. A commit
// that was made in a repository is in the next file.
func TestPretendedFiles(t *testing.T) {
	files := map[string]string{"one": "a/b.mdx", "two": "c.mdx", "three": "a/b.mdx"}
	p := Pretend{File: func(prompt string) string { return files[prompt] }}
	c := Change{Branch: BranchPrefix + "job_1", Base: "b", Head: "h", Messages: []string{"old"}}
	for _, prompt := range []string{"one", "two", "three"} {
		var err error
		if c, _, err = p.Edit(t.Context(), Task{Job: "job_1", Prompt: prompt, Last: c}); err != nil {
			t.Fatal(err)
		}
	}
	diff, err := p.Diff(t.Context(), c)
	want := "diff --git a/a/b.mdx b/a/b.mdx\n--- a/a/b.mdx\n+++ b/a/b.mdx\n@@ -1 +1,4 @@\n # b\n" +
		"+- old\n+- one\n+- three\n" +
		"diff --git a/c.mdx b/c.mdx\n--- a/c.mdx\n+++ b/c.mdx\n@@ -1 +1,2 @@\n # c\n+- two\n"
	if err != nil || diff != want {
		t.Errorf("%v:\n%s", err, diff)
	}
}
