package runner

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestEditAndFollowUp(t *testing.T) {
	repo := engines.GitRepository(t)
	// A person is in the middle of work.
	write(t, filepath.Join(repo, "readme.md"), "# Docs, half written")
	write(t, filepath.Join(repo, "staged.md"), "staged")
	engines.Git(t, repo, "add", "staged.md")
	write(t, filepath.Join(repo, "untracked.md"), "untracked")
	before := untouched(t, repo)

	r := openRepo(t, RepoOptions{Path: repo, Command: `cat >> notes.md && printf 'Bye.\n' >> readme.md`})
	first := edit(t, r, Task{Job: "job_1", Prompt: "Say bye\nand more\n"})
	second := edit(t, r, Task{Job: "job_1", Prompt: "-n --amend $(touch /tmp/x)\n", Last: first})
	if diff := cmp.Diff([]string{"Say bye", "-n --amend $(touch /tmp/x)"}, second.Messages); diff != "" {
		t.Error(diff)
	}
	if second.Base != first.Base || second.Branch != "docgauge/job_1" || first.Empty() || second.Head == first.Head {
		t.Errorf("first %+v, second %+v", first, second)
	}
	if after := untouched(t, repo); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 0 {
		t.Errorf("worktrees left: %v", left)
	}

	clone := filepath.Join(t.TempDir(), "clone")
	engines.Git(t, ".", "clone", "--quiet", "--branch", "docgauge/job_1", repo, clone)
	text, err := os.ReadFile(filepath.Join(clone, "notes.md"))
	if err != nil || string(text) != "Say bye\nand more\n-n --amend $(touch /tmp/x)\n" {
		t.Errorf("notes.md: %q %v", text, err)
	}
	log := engines.Git(t, clone, "log", "--format=%an <%ae> %cn|%B", "-1")
	if log != "docgauge <agent-jobs@docgauge.invalid> docgauge|-n --amend $(touch "+
		"/tmp/x)\n\nDocgauge-Job: job_1" {
		t.Errorf("log: %s", log)
	}
	diff, err := r.Diff(t.Context(), second)
	if err != nil || !strings.Contains(diff, "+Bye.\n+Bye.\n") || !strings.Contains(diff, "+++ b/notes.md") ||
		strings.Contains(diff, "half written") {
		t.Errorf("diff %v: %s", err, diff)
	}
}

func TestCommandsThatDoNotWork(t *testing.T) {
	repo := engines.GitRepository(t)
	before := untouched(t, repo)
	for name, tc := range map[string]struct{ command, err, output string }{
		"fails":         {"echo out; echo err >&2; echo x > new.md; exit 3", "exit status 3", "out\nerr\n"},
		"not found":     {"no-such-command-here", "exit status 127", "no-such-command-here"},
		"hangs":         {"echo x > new.md; sleep 1000", "took longer than 300ms and was killed", ""},
		"children hang": {"sleep 1000 & sleep 1000 | cat; wait", "took longer than 300ms and was killed", ""},
		"floods": {"head -c 3000000 /dev/zero | tr '\\0' x; echo the end; exit 1",
			"exit status 1", "xxxthe end\n"},
		"leaves":   {"git checkout -q -b other && echo x > new.md", "left the branch", ""},
		"detaches": {"git checkout -q --detach && echo x > new.md", "left the branch", ""},
		"rewrites": {"git -c user.name=x -c user.email=x@x commit -q --amend -m other", "rewrote the branch", ""},
		"is gone":  {`rm -rf "$PWD"`, "left no worktree", ""},
		"bad file": {"git init -q inner && echo x > new.md", "git add", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := openRepo(t, RepoOptions{Path: repo, Command: tc.command, Timeout: 300 * time.Millisecond})
			if name != "hangs" && name != "children hang" {
				r.options.Timeout = time.Minute
			}
			_, output, err := r.edit(t.Context(), Task{Job: "job_1", Prompt: "secret prompt"})
			if err == nil || !strings.Contains(err.Error(), tc.err) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if !strings.Contains(output, tc.output) || len(output) > maxOutput+10 {
				t.Errorf("%d bytes of output, want %q in %.200q", len(output), tc.output, output)
			}
			if name == "leaves" {
				engines.Git(t, repo, "branch", "-D", "other")
			}
			if after := untouched(t, repo); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if left := branches(t, repo); left != "" {
				t.Errorf("branches left: %s", left)
			}
		})
	}
}

// A command that was interrupted may have left commits: they are not built on.
// Commits that people make between instructions are.
func TestWhatIsBuiltOn(t *testing.T) {
	repo := engines.GitRepository(t)
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat >> new.md"})
	first := edit(t, r, Task{Job: "job_1", Prompt: "one\n"})
	edit(t, r, Task{Job: "job_1", Prompt: "lost\n", Last: first})
	again := edit(t, r, Task{Job: "job_1", Prompt: "two\n", Last: first, Again: true})
	if got := engines.Git(t, repo, "show", "docgauge/job_1:new.md"); got != "one\ntwo" {
		t.Errorf("begun again: %q", got)
	}
	engines.Git(t, repo, "checkout", "--quiet", "docgauge/job_1")
	write(t, filepath.Join(repo, "person.md"), "by hand")
	engines.Git(t, repo, "add", ".")
	engines.Git(t, repo, "commit", "--quiet", "-m", "by hand")
	_, _, err := r.edit(t.Context(), Task{Job: "job_1", Prompt: "three\n", Last: again})
	if err == nil || !strings.Contains(err.Error(), "checked out") {
		t.Errorf("branch checked out by a person: %v", err)
	}
	engines.Git(t, repo, "checkout", "--quiet", "main")
	last := edit(t, r, Task{Job: "job_1", Prompt: "three\n", Last: again})
	if diff := cmp.Diff([]string{"one", "two", "by hand", "three"}, last.Messages); diff != "" {
		t.Error(diff)
	}
}

func TestManyJobsAtOnce(t *testing.T) {
	repo := engines.GitRepository(t)
	before := untouched(t, repo)
	r := openRepo(t, RepoOptions{Path: repo, Command: "cat > new.md; git status > status.md"})
	var jobs sync.WaitGroup
	for _, id := range strings.Split("abcdefgh", "") {
		jobs.Go(func() {
			var last Change
			for _, prompt := range []string{"one", "two", "three"} {
				c, output, err := r.edit(t.Context(), Task{Job: "job_" + id, Prompt: prompt + id, Last: last})
				if err != nil || c.Head == last.Head {
					t.Errorf("%s %s: %v %s", id, prompt, err, output)
				}
				last = c
			}
			if got := engines.Git(t, repo, "show", "docgauge/job_"+id+":new.md"); got != "three"+id ||
				len(last.Messages) != 3 {
				t.Errorf("%s: %q %v", id, got, last.Messages)
			}
		})
	}
	jobs.Wait()
	if after := untouched(t, repo); after != before {
		t.Errorf("before:\n%s\nafter:\n%s", before, after)
	}
}

// The command sees neither secrets nor a way to run git anywhere else, and git
// does not run programs that the repository or the command configures.
func TestEnvironment(t *testing.T) {
	repo := engines.GitRepository(t)
	for name, value := range map[string]string{
		"DOCGAUGE_API_KEY": "leak", "GITHUB_TOKEN": "leak", "GIT_DIR": "/nowhere", "GIT_AUTHOR_NAME": "leak",
		"AWS_SECRET_ACCESS_KEY": "leak", "MODEL_KEY": "wanted",
	} {
		t.Setenv(name, value)
	}
	ran := filepath.Join(t.TempDir(), "ran")
	for _, hook := range []string{
		"pre-commit", "commit-msg", "post-commit", "post-checkout", "prepare-commit-msg",
		"reference-transaction",
	} {
		path := filepath.Join(repo, ".git", "hooks", hook)
		write(t, path, "#!/bin/sh\necho "+hook+" >> "+ran+"\nexit 1\n")
		check(t, os.Chmod(path, 0o755))
	}
	engines.Git(t, repo, "config", "commit.gpgSign", "true")
	engines.Git(t, repo, "config", "core.fsmonitor", "touch "+ran)
	engines.Git(t, repo, "config", "commit.cleanup", "no such way")
	r := openRepo(t, RepoOptions{Path: repo, Command: `env > env.txt; pwd; cat > prompt.txt`,
		Env: []string{"MODEL_KEY"}})
	c, output, err := r.edit(t.Context(), Task{Job: "job_1", Prompt: "x"})
	check(t, err)
	env := engines.Git(t, repo, "show", c.Head+":env.txt")
	for _, secret := range []string{"leak", "DOCGAUGE", "GIT_"} {
		if strings.Contains(env, secret) {
			t.Errorf("%s in the environment:\n%s", secret, env)
		}
	}
	if !strings.Contains(env, "MODEL_KEY=wanted") || !strings.Contains(env, "PATH=") ||
		!strings.HasPrefix(output, r.dir) {
		t.Errorf("directory %s, environment:\n%s", output, env)
	}
	if text, err := os.ReadFile(ran); err == nil {
		t.Errorf("git ran %s", text)
	}
}

// All processes of the command end with it, also those that keep its output open.
func TestNothingGoesOnAfterTheCommand(t *testing.T) {
	testNothingIsLeft(t, "sleep 1000 3> $FIFO &")
}

// testNothingIsLeft runs a command that starts a process that opens $FIFO and would never
// end, and waits until none has it open: once with a command that ends, once with one that
// is ended.
func testNothingIsLeft(t *testing.T, starts string) {
	t.Helper()
	for name, rest := range map[string]string{"ends": "", "times out": "; sleep 1000"} {
		dir := t.TempDir()
		fifo, begun := filepath.Join(dir, "fifo"), filepath.Join(dir, "begun")
		check(t, syscall.Mkfifo(fifo, 0o600))
		gone := make(chan error, 1)
		go func() {
			f, err := os.Open(fifo) // waits for the writer
			if err != nil {
				gone <- err
				return
			}
			defer f.Close()
			err = os.WriteFile(begun, nil, 0o600)
			_, readErr := io.Copy(io.Discard, f) // ends when no process has it open
			gone <- errors.Join(err, readErr)
		}()
		command := "echo x > new.md; export FIFO=" + fifo + "; " + starts + " until [ -e " + begun +
			" ]; do sleep 0.01; done"
		r := openRepo(t, RepoOptions{Path: engines.GitRepository(t), Command: command + rest})
		ctx, cancel := context.WithCancel(t.Context())
		if rest != "" {
			go func() {
				for _, err := os.Stat(begun); err != nil && ctx.Err() == nil; _, err = os.Stat(begun) {
					time.Sleep(time.Millisecond)
				}
				cancel()
			}()
		}
		_, output, err := r.edit(ctx, Task{Job: "job_1", Prompt: "x"})
		cancel()
		if (err != nil) != (rest != "") {
			t.Errorf("%s: %v, output %q", name, err, output)
		}
		select {
		case err := <-gone:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Errorf("%s: a process of the command is still there", name)
		}
	}
}

// A worktree without .git must not make git find the repository around it.
func TestCommandRemovesDotGit(t *testing.T) {
	repo := engines.GitRepository(t)
	outer := engines.GitRepository(t)
	before := untouched(t, outer)
	r := openRepo(t, RepoOptions{Path: repo, Command: "rm .git; echo x > new.md"},
		in(filepath.Join(outer, ".git", "worktrees-here")))
	c := edit(t, r, Task{Job: "job_1", Prompt: "x"})
	if got := engines.Git(t, repo, "show", c.Head+":new.md"); got != "x" || untouched(t, outer) != before {
		t.Errorf("new.md %q; around it %s", got, untouched(t, outer))
	}
	if list := engines.Git(t, repo, "worktree", "list"); strings.Contains(list, "\n") {
		t.Errorf("worktrees left: %s", list)
	}
}

// TestBranchAfterEdits: a branch has the commits of the command and of its changes. An
// instruction that fails, or changes nothing, does not change the branch; no worktree is left.
func TestBranchAfterEdits(t *testing.T) {
	repo := engines.GitRepository(t)
	for name, tc := range map[string]struct {
		command       string
		prompts, want []string
	}{
		"commits": {`echo a > a.md; git add a.md
			git -c user.name=Bot -c user.email=bot@x commit -qm "by the bot"; echo b > b.md`,
			[]string{"go on"}, []string{"by the bot", "go on"}},
		"nothing":       {"true", []string{"look"}, nil},
		"nothing-again": {"grep -q write && echo x >> new.md; true", []string{"write", "look"}, []string{"write"}},
		"fails":         {"grep -q good && echo x >> new.md", []string{"good", "bad"}, []string{"good"}},
		"read-only":     {"mkdir -p a/b && echo x > a/b/c && chmod 500 a/b a", []string{"x"}, []string{"x"}},
	} {
		r := openRepo(t, RepoOptions{Path: repo, Command: tc.command})
		var last Change
		for _, prompt := range tc.prompts {
			c, output, err := r.edit(t.Context(), Task{Job: name, Prompt: prompt, Last: last})
			if failed := prompt == "bad"; (err != nil) != failed {
				t.Errorf("%s, %s: %v %s", name, prompt, err, output)
			} else if !failed {
				last = c
			}
		}
		if diff := cmp.Diff(tc.want, last.Messages); diff != "" || last.Empty() != (tc.want == nil) {
			t.Errorf("%s: %+v %s", name, last, diff)
		}
		head, _ := r.branchCommit(t.Context(), BranchPrefix+name)
		if head != last.Head && !last.Empty() || head != "" && last.Empty() {
			t.Errorf("%s: the branch is at %q, want %s", name, head, last.Head)
		}
		if left, _ := os.ReadDir(r.dir); len(left) > 0 {
			t.Errorf("%s: worktrees left: %v", name, left)
		}
	}
}

func TestStoppedEditCleansUp(t *testing.T) {
	repo := engines.GitRepository(t)
	begun := filepath.Join(t.TempDir(), "begun")
	r := openRepo(t, RepoOptions{Path: repo, Command: "echo begun; touch " + begun + "; sleep 1000"})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		for {
			if _, err := os.Stat(begun); err == nil || ctx.Err() != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	_, output, err := r.edit(ctx, Task{Job: "job_1", Prompt: "x"})
	if err == nil || output != "begun\n" {
		t.Errorf("%v, output %q", err, output)
	}
	if left, _ := os.ReadDir(r.dir); len(left) > 0 || branches(t, repo) != "" {
		t.Errorf("left: %v %s", left, branches(t, repo))
	}
}
