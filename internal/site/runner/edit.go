package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// maxOutput is the size of the end of a command's output that is kept.
	maxOutput = 16 << 10
	// closeDelay is the time that a command that has ended may keep its output open through
	// processes it started.
	closeDelay = 2 * time.Second
	// maxDiff is the size at which a diff is cut.
	maxDiff = 1 << 20

	authorName  = "docgauge"
	authorEmail = "agent-jobs@docgauge.invalid"
)

// Edit carries out t in a worktree made for it. The error says which command failed; its
// output is only in output, for it may contain the prompt.
func (r *Repo) Edit(ctx context.Context, t Task) (Result, error) {
	c, output, err := r.edit(ctx, t)
	return Result{Change: c, Output: output}, err
}

func (r *Repo) edit(ctx context.Context, t Task) (c Change, output string, err error) {
	if c, err = r.begin(ctx, t); err != nil {
		return c, "", err
	}
	tree, err := r.checkOut(ctx, c.Branch, c.Head)
	if err != nil {
		return c, "", err
	}
	done := c // the change that the branch keeps: after an error, the former one
	defer func() {
		if done.Empty() {
			done.Head = ""
		}
		err = errors.Join(err, r.release(ctx, tree, done.Head))
	}()
	if r.options.Remote != "" && !t.Last.Empty() {
		if err := r.catchUp(ctx, tree); err != nil {
			return c, "", err
		}
	}
	instead := false
	if r.options.Instead != nil {
		instead, err = r.options.Instead(tree.git.dir, t)
	}
	if err == nil && !instead {
		output, err = r.command(ctx, tree.git.dir, t.Prompt)
	}
	if err == nil {
		c.Head, err = tree.commit(ctx, t)
	}
	if err != nil {
		return c, output, err
	}
	c.Messages = nil
	if !c.Empty() {
		subjects, err := r.git.run(ctx, "log", "--reverse", "--no-show-signature", "--format=%s",
			c.Base+".."+c.Head, "--")
		if err != nil {
			return c, output, err
		}
		c.Messages = strings.Split(subjects, "\n")
	}
	done = c
	return c, output, nil
}

// begin returns the change of a job before its next instruction. It includes
// commits that people have added to its branch since.
func (r *Repo) begin(ctx context.Context, t Task) (c Change, err error) {
	c = t.Last
	if c.Base == "" {
		c.Base, err = r.baseCommit(ctx)
		c.Branch, c.Head = BranchPrefix+t.Job, c.Base
		return c, err
	}
	if t.Again {
		return c, nil
	}
	if tip, err := r.branchCommit(ctx, c.Branch); err != nil || tip != "" {
		c.Head = tip
		return c, err
	}
	return c, nil
}

// tree is a worktree on the branch of a job.
type tree struct {
	git    git // in the worktree, with the repository named: it is found even if the command removes .git
	branch string
	start  string // commit the branch was at
}

// checkOut makes a worktree on branch, which is created or reset to commit. It fails if the
// branch is checked out elsewhere.
func (r *Repo) checkOut(ctx context.Context, branch, commit string) (*tree, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.git
	g.dir = filepath.Join(r.dir, filepath.Base(branch)+"-"+strings.ToLower(rand.Text()[:8]))
	_, err := r.git.run(ctx, "worktree", "add", "--quiet", "-B", branch, "--", g.dir, commit)
	if err == nil {
		var gitDir string
		if gitDir, err = g.run(ctx, "rev-parse", "--absolute-git-dir"); err == nil {
			return &tree{g.with("GIT_DIR="+gitDir, "GIT_WORK_TREE="+g.dir), branch, commit}, nil
		}
	}
	return nil, errors.Join(err, r.discard(context.WithoutCancel(ctx), g.dir))
}

// release leaves the branch at commit, or deletes it if commit is empty, and removes the
// worktree.
func (r *Repo) release(ctx context.Context, t *tree, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	args := []string{"update-ref", "refs/heads/" + t.branch, commit}
	if commit == "" {
		args = []string{"update-ref", "-d", "refs/heads/" + t.branch}
	}
	_, err := r.git.run(ctx, args...)
	return errors.Join(err, r.discard(ctx, t.git.dir))
}

// commit records what changed and returns the newest commit, start if nothing changed. A
// command may have made commits itself.
func (t *tree) commit(ctx context.Context, task Task) (head string, err error) {
	at, err := t.git.run(ctx, "symbolic-ref", "--quiet", "HEAD")
	if err != nil && exitCode(err) != 1 {
		return "", fmt.Errorf("agent command: left no worktree: %w", err)
	}
	if at != "refs/heads/"+t.branch {
		return "", fmt.Errorf("agent command: left the branch %s; want its work there", t.branch)
	}
	if _, err := t.git.run(ctx, "add", "--all", "--", "."); err != nil {
		return "", err
	}
	_, err = t.git.run(ctx, "diff", "--cached", "--quiet", "--no-ext-diff")
	if exitCode(err) == 1 {
		g := t.git.with("GIT_AUTHOR_NAME="+authorName, "GIT_AUTHOR_EMAIL="+authorEmail,
			"GIT_COMMITTER_NAME="+authorName, "GIT_COMMITTER_EMAIL="+authorEmail)
		text := Subject(task.Prompt) + "\n\nDocgauge-Job: " + task.Job + "\n"
		err = g.stream(ctx, &tail{}, text, "commit", "--quiet", "--file=-")
	}
	if err != nil {
		return "", err
	}
	if head, err = t.git.run(ctx, "rev-parse", "--verify", "HEAD"); err != nil {
		return "", err
	}
	_, err = t.git.run(ctx, "merge-base", "--is-ancestor", t.start, head)
	if exitCode(err) == 1 {
		return "", fmt.Errorf("agent command: rewrote the branch %s; want commits on top of it", t.branch)
	}
	return head, err
}

// command runs the command in dir with prompt on standard input. When it ends, so does
// everything it started (on Linux; elsewhere, everything in its session). Output is standard
// output and error.
func (r *Repo) command(ctx context.Context, dir, prompt string) (output string, err error) {
	limited, cancel := context.WithTimeout(ctx, r.options.Timeout)
	defer cancel()
	out := &tail{max: maxOutput}
	cmd := exec.CommandContext(limited, "sh", "-c", r.options.Command)
	killGroup := func() error {
		if err := killSession(cmd.Process.Pid); !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return os.ErrProcessDone
	}
	cmd.Dir, cmd.Env = dir, append(environment(ordinary, r.options.Env), "PWD="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(prompt), out, out
	cmd.Cancel, cmd.WaitDelay = killGroup, closeDelay
	supervise(cmd)
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("agent command: %w", err)
	}
	err = cmd.Wait()
	_ = killGroup() // processes that it left running must not keep writing
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil
	case ctx.Err() == nil && limited.Err() != nil:
		err = fmt.Errorf("took longer than %s and was killed", r.options.Timeout)
	}
	return out.String(), fmt.Errorf("agent command: %w", err)
}

// Diff returns c as a unified diff, cut after 1 MiB at the end of a line.
func (r *Repo) Diff(ctx context.Context, c Change) (string, error) {
	out := &head{max: maxDiff}
	err := r.git.stream(ctx, out, "", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative",
		"--unified=3", "--src-prefix=a/", "--dst-prefix=b/", "--submodule=short",
		"--end-of-options", c.Base, c.Head, "--")
	return out.String(), err
}
