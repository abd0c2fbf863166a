package agent

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// needGit skips the test where git is not installed.
func needGit(t testing.TB) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		engines.Need(t, engines.Missing{Engine: "git", Install: "apt-get install git"})
	}
}

// gitIn runs git as a person would, in a world without other configuration:
// neither the machine's nor that of a hook that runs the tests.
func gitIn(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", append([]string{"-c", "user.name=Person", "-c", "user.email=person@example.com", "-c",
		"init.defaultBranch=main"}, args...)...)
	cmd.Dir = dir
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "GIT_") })
	cmd.Env = append(cmd.Env, "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(string(out))
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// newRepository makes a repository with one commit of readme.md on main.
func newRepository(t testing.TB) string {
	t.Helper()
	needGit(t)
	for name, value := range map[string]string{"HOME": t.TempDir(), "XDG_CONFIG_HOME": "", "LC_ALL": "C"} {
		t.Setenv(name, value) // for the git and the shell of the repository
	}
	dir := filepath.Join(t.TempDir(), "docs")
	gitIn(t, ".", "init", "--quiet", dir)
	write(t, filepath.Join(dir, "readme.md"), "# Docs\n\nHello.\n")
	gitIn(t, dir, "add", ".")
	gitIn(t, dir, "commit", "--quiet", "-m", "first")
	return dir
}

// openRepo opens a repository; RepoOptions.Remote counts without GitHub, too.
func openRepo(t testing.TB, o RepoOptions, change ...func(*Repo)) *Repo {
	t.Helper()
	r := &Repo{options: o}
	for _, c := range change {
		c(r)
	}
	if err := r.open(context.Background()); err != nil {
		t.Fatal(err)
	}
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
	c, output, err := r.Edit(t.Context(), task)
	if err != nil {
		t.Fatalf("%v, output %q", err, output)
	}
	return c
}

// untouched returns what a person sees of a repository: branch, files, index,
// and every ref that is no job's.
func untouched(t testing.TB, dir string) string {
	t.Helper()
	var refs []string
	for line := range strings.Lines(gitIn(t, dir, "for-each-ref")) {
		if !strings.Contains(line, "refs/heads/"+BranchPrefix) {
			refs = append(refs, line)
		}
	}
	state := []string{gitIn(t, dir, "worktree", "list"), strings.TrimSpace(strings.Join(refs, "")),
		gitIn(t, dir, "config", "--local", "--list")}
	if gitIn(t, dir, "rev-parse", "--is-bare-repository") == "false" {
		state = append(state, gitIn(t, dir, "rev-parse", "--abbrev-ref", "HEAD"),
			gitIn(t, dir, "status", "--porcelain"), gitIn(t, dir, "diff"), gitIn(t, dir, "diff", "--cached"))
	}
	return strings.Join(state, "\n--\n")
}

func branches(t testing.TB, dir string) string {
	t.Helper()
	return gitIn(t, dir, "for-each-ref", "--format=%(refname:short)", "refs/heads/"+BranchPrefix)
}
