package sandbox

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// TestBuiltInEditStaysInside: the built-in edit takes the place of the command where the script
// says so, and follows no link out of the worktree.
func TestBuiltInEditStaysInside(t *testing.T) {
	repo, outside := engines.GitRepository(t), t.TempDir()
	words, err := readAgentScript("", 0)
	check(t, err)
	opened, err := runner.OpenRepo(t.Context(), runner.RepoOptions{Path: repo, Command: "exit 1",
		Instead: words.builtIn(false)}, "")
	check(t, err)
	defer opened.Close() //nolint:errcheck // a temporary directory
	r := words.editor(opened)
	var last runner.Change
	for _, prompt := range []string{"# one [sandbox:pr]", "two [sandbox:pr]"} {
		result, err := r.Edit(t.Context(), runner.Task{Job: "job_1", Prompt: prompt, Last: last})
		check(t, err)
		last = result.Change
	}
	if got := engines.Git(t, repo, "show", last.Head+":agent-jobs/job_1.md"); got !=
		"- one [sandbox:pr]\n- two [sandbox:pr]" {
		t.Errorf("%q", got)
	}
	if _, err := r.Edit(t.Context(), runner.Task{Job: "job_2", Prompt: "x"}); err == nil {
		t.Error("the command did not run")
	}
	check(t, os.Symlink(outside, filepath.Join(repo, notesDir)))
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "link")
	_, err = r.Edit(t.Context(), runner.Task{Job: "job_2", Prompt: "[sandbox:pr]"})
	if left, _ := os.ReadDir(outside); err == nil || len(left) > 0 {
		t.Errorf("error %v, outside: %v", err, left)
	}
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

// TestReports: an instruction reports the cost that its prompt names, also if it fails, and others only if
// the script is priced.
func TestReports(t *testing.T) {
	for prompt, want := range map[string]float64{
		"x [sandbox:cost=0.42]": 0.42, "[sandbox:fail] [sandbox:cost=3]": 3, "[sandbox:cost=0]": 0,
		"x": -1, "[sandbox:cost=x]": -1, "[sandbox:cost=-1]": -1,
	} {
		for _, priced := range []bool{false, true} {
			s := agentScript{Priced: priced}
			r, _ := s.editor(pretend{File: func(string) string { return "a.mdx" }}).Edit(t.Context(),
				runner.Task{Job: "job_1", Prompt: prompt})
			switch {
			case want < 0 && !priced:
				if r.Report != nil {
					t.Errorf("%s: %+v", prompt, r.Report)
				}
			case r.Report == nil || want >= 0 && *r.Report.Cost != want || want < 0 && *r.Report.Cost < 0.2:
				t.Errorf("%s: %+v, want %v", prompt, r.Report, want)
			}
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

// TestPretendedFiles: a diff has each file once, with the lines of its instructions. A commit
// that was made in a repository is in the next file.
func TestPretendedFiles(t *testing.T) {
	files := map[string]string{"one": "a/b.mdx", "two": "c.mdx", "three": "a/b.mdx"}
	p := pretend{File: func(prompt string) string { return files[prompt] }}
	c := runner.Change{Branch: runner.BranchPrefix + "job_1", Base: "b", Head: "h", Messages: []string{"old"}}
	for _, prompt := range []string{"one", "two", "three"} {
		result, err := p.Edit(t.Context(), runner.Task{Job: "job_1", Prompt: prompt, Last: c})
		check(t, err)
		c = result.Change
	}
	diff, err := p.Diff(t.Context(), c)
	want := "diff --git a/a/b.mdx b/a/b.mdx\n--- a/a/b.mdx\n+++ b/a/b.mdx\n@@ -1 +1,4 @@\n # b\n" +
		"+- old\n+- one\n+- three\n" +
		"diff --git a/c.mdx b/c.mdx\n--- a/c.mdx\n+++ b/c.mdx\n@@ -1 +1,2 @@\n # c\n+- two\n"
	if err != nil || diff != want {
		t.Errorf("%v:\n%s", err, diff)
	}
}
