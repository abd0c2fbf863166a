package worktree

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// tree is a worktree on the branch of a job.
type tree struct {
	git    git // with the repository named: it is found even if the command removes .git
	path   string
	branch string
	start  string // commit the branch was at
}

// checkOut makes a worktree on branch, which is made or set back to commit. It
// fails where the branch is checked out by somebody.
func (r *Repo) checkOut(ctx context.Context, branch, commit string) (*tree, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	path := filepath.Join(r.dir, filepath.Base(branch)+"-"+strings.ToLower(rand.Text()[:8]))
	if _, err := r.git.run(ctx, "worktree", "add", "--quiet", "-B", branch, "--", path, commit); err != nil {
		return nil, errors.Join(err, r.discard(context.WithoutCancel(ctx), path))
	}
	g := r.git.in(path)
	dir, err := g.run(ctx, "rev-parse", "--absolute-git-dir")
	if err != nil {
		return nil, errors.Join(err, r.discard(context.WithoutCancel(ctx), path))
	}
	return &tree{g.with("GIT_DIR="+dir, "GIT_WORK_TREE="+path), path, branch, commit}, nil
}

// commit records what changed and returns the newest commit, start if nothing did.
// A command may have made commits of its own.
func (t *tree) commit(ctx context.Context, task agent.Task) (head string, err error) {
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
		err = t.record(ctx, task)
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

// author is who commits.
const (
	authorName  = "docgauge sandbox"
	authorEmail = "sandbox@docgauge.invalid"
)

func (t *tree) record(ctx context.Context, task agent.Task) error {
	g := t.git.with("GIT_AUTHOR_NAME="+authorName, "GIT_AUTHOR_EMAIL="+authorEmail,
		"GIT_COMMITTER_NAME="+authorName, "GIT_COMMITTER_EMAIL="+authorEmail)
	text := agent.Subject(task.Prompt) + "\n\nDocgauge-Job: " + task.Job + "\n"
	var out tail
	return g.stream(ctx, &out, text, "commit", "--quiet", "--file=-")
}

// settle leaves the branch at commit, or deletes it where commit is empty, and
// removes the worktree.
func (r *Repo) settle(ctx context.Context, t *tree, commit string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	args := []string{"update-ref", "refs/heads/" + t.branch, commit}
	if commit == "" {
		args = []string{"update-ref", "-d", "refs/heads/" + t.branch}
	}
	_, err := r.git.run(ctx, args...)
	return errors.Join(err, r.discard(ctx, t.path))
}
