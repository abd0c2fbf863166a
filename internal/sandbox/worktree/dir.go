package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// lockName is in the directory of worktrees.
const lockName = "lock"

// takeDir makes the directory of worktrees ours and removes what a crash left in it.
func (r *Repo) takeDir(ctx context.Context) (err error) {
	if r.config.Dir == "" {
		r.dir, err = os.MkdirTemp("", "docgauge-worktrees-")
		return err
	}
	if r.dir, err = filepath.Abs(r.config.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	if r.lock, err = lockFile(filepath.Join(r.dir, lockName)); err != nil {
		return err
	}
	if err := r.sweep(ctx); err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return nil
}

func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := agent.Lock(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f, nil
}

func (r *Repo) sweep(ctx context.Context) error {
	left, err := os.ReadDir(r.dir)
	for _, entry := range left {
		if entry.Name() != lockName {
			err = errors.Join(err, r.discard(ctx, filepath.Join(r.dir, entry.Name())))
		}
	}
	return err
}

// Close gives the directory of worktrees up, and removes it if it is a
// temporary one. No Edit may be running.
func (r *Repo) Close() error {
	if r.lock != nil {
		return r.lock.Close()
	}
	return os.RemoveAll(r.dir)
}

// discard removes a worktree and what git knows of it. Git forgets it only
// where it is one; what it leaves is removed as files.
func (r *Repo) discard(ctx context.Context, path string) error {
	_, _ = r.git.run(ctx, "worktree", "remove", "--force", "--force", "--", path)
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		unlock(path)
		err = os.RemoveAll(path)
	}
	if err != nil {
		return err
	}
	// A worktree whose .git the command removed is still in git's list.
	_, _ = r.git.run(ctx, "worktree", "remove", "--force", "--force", "--", path)
	return nil
}

// unlock lets the directories below path be emptied: a command may have made
// them read-only.
func unlock(path string) {
	_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
}
