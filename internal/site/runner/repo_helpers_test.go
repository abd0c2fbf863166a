package runner

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func write(t testing.TB, path, text string) {
	t.Helper()
	check(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check(t, os.WriteFile(path, []byte(text), 0o644))
}

// variables are secrets of this process.
func variables(names ...string) (all []Variable) {
	for _, name := range names {
		all = append(all, Variable{Name: name, Value: os.Getenv(name)})
	}
	return all
}

// openRepo opens a repository; RepoOptions.Remote counts without GitHub, too.
func openRepo(t testing.TB, o RepoOptions, change ...func(*Repo)) *Repo {
	t.Helper()
	r := &Repo{options: o}
	for _, c := range change {
		c(r)
	}
	check(t, r.open(context.Background()))
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// in keeps the worktrees in dir.
func in(dir string) func(*Repo) { return func(r *Repo) { r.dir = dir } }

func edit(t testing.TB, r *Repo, task Task) Change {
	t.Helper()
	result, err := r.Edit(t.Context(), task)
	if err != nil {
		t.Fatalf("%v, output %q", err, result.Output)
	}
	return result.Change
}

// untouched returns what a person sees of a repository: branch, files, index,
// and every ref but the jobs'.
func untouched(t testing.TB, dir string) string {
	t.Helper()
	var refs []string
	for line := range strings.Lines(engines.Git(t, dir, "for-each-ref")) {
		if !strings.Contains(line, "refs/heads/"+BranchPrefix) {
			refs = append(refs, line)
		}
	}
	state := []string{engines.Git(t, dir, "worktree", "list"), strings.TrimSpace(strings.Join(refs, "")),
		engines.Git(t, dir, "config", "--local", "--list")}
	if engines.Git(t, dir, "rev-parse", "--is-bare-repository") == "false" {
		state = append(state, engines.Git(t, dir, "rev-parse", "--abbrev-ref", "HEAD"),
			engines.Git(t, dir, "status", "--porcelain"), engines.Git(t, dir, "diff"),
			engines.Git(t, dir, "diff", "--cached"))
	}
	return strings.Join(state, "\n--\n")
}

func branches(t testing.TB, dir string) string {
	t.Helper()
	return engines.Git(t, dir, "for-each-ref", "--format=%(refname:short)", "refs/heads/"+BranchPrefix)
}
