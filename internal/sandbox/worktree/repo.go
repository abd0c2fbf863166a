package worktree

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

const (
	// DefaultTimeout is how long a command may take.
	DefaultTimeout = 30 * time.Minute
	// lockName is in the directory of worktrees.
	lockName = "lock"
)

// Config says which repository is edited, and how.
type Config struct {
	// Path of the repository: the top of a working tree, or a bare repository.
	Path string
	// Base is the branch that jobs begin at and pull requests are for; empty = the
	// one checked out when Open is called. Its newest commit counts for each job.
	Base string
	// Dir is where one process makes its worktrees; Open removes what is in it.
	// Empty = a temporary directory, removed by Close.
	Dir string
	// Command edits files: run by sh -c in the worktree, with the prompt on
	// standard input. Empty = a built-in edit that adds a line to a file.
	Command string
	// Timeout ends the command and all it started; 0 = DefaultTimeout.
	Timeout time.Duration
	// Env names variables of this process that the command gets besides the
	// ordinary ones (PATH, HOME and the like).
	Env []string
	// Remote is where branches are pushed to, a name or a URL; empty = nowhere.
	Remote string
	// Login, if set, returns the user and password for HTTPS, and the prefix of the
	// URLs that they are for. It is called for each push.
	Login func() (url, user, password string, err error)
}

// Repo is a repository being edited. It implements [agent.Editor]; jobs may be
// edited at once.
type Repo struct {
	config Config
	git    git
	remote string   // URL or path of Config.Remote
	dir    string   // of the worktrees
	lock   *os.File // held while dir is in use; nil for a temporary one

	// mu is held while git changes what worktrees share: their list and the branches.
	mu sync.Mutex
}

// Open checks the repository and removes the worktrees a crash left in c.Dir.
// Every error says what c needs to be instead.
func Open(ctx context.Context, c Config) (*Repo, error) {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("repository %s: needs git in PATH; install it (apt-get install git): %w", c.Path, err)
	}
	root, err := filepath.Abs(c.Path)
	if err != nil {
		return nil, fmt.Errorf("repository %s: %w", c.Path, err)
	}
	r := &Repo{config: c, git: git{program, root, append(environment(ordinary), gitVariables...)}}
	if err := r.check(ctx); err != nil {
		return nil, fmt.Errorf("repository %s: %w", c.Path, err)
	}
	if err := r.takeDir(ctx); err != nil {
		return nil, fmt.Errorf("worktrees: %w", err)
	}
	return r, nil
}

// check checks the repository, its branches and its remote.
func (r *Repo) check(ctx context.Context) error {
	repository, err := os.Stat(r.git.dir)
	if err != nil {
		return err
	}
	if !repository.IsDir() {
		return errors.New("is a file; want the directory of a git repository")
	}
	bare, err := r.git.run(ctx, "rev-parse", "--is-bare-repository")
	if err != nil {
		return fmt.Errorf("want a git repository: %w", err)
	}
	if bare != "true" {
		top, err := r.git.run(ctx, "rev-parse", "--show-toplevel")
		if err != nil {
			return fmt.Errorf("want the top of a working tree: %w", err)
		}
		if info, err := os.Stat(top); err != nil || !os.SameFile(info, repository) {
			return fmt.Errorf("lies inside the repository %s; want its top, or a repository of its own", top)
		}
	}
	if r.config.Base == "" {
		if r.config.Base, err = r.git.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
			return errors.New("has no branch checked out; name the branch that pull requests are for")
		}
	}
	if _, err = r.baseCommit(ctx); err != nil {
		return err
	}
	// A branch is a file to git, and cannot be a directory too.
	name := strings.TrimSuffix(agent.BranchPrefix, "/")
	if commit, err := r.branchCommit(ctx, name); err == nil && commit != "" {
		return fmt.Errorf("has a branch %s, which is in the way of %s<job>; rename it", name, agent.BranchPrefix)
	}
	r.remote, err = r.findRemote(ctx)
	return err
}

// baseCommit returns the newest commit of the base branch.
func (r *Repo) baseCommit(ctx context.Context) (string, error) {
	commit, err := r.branchCommit(ctx, r.config.Base)
	if err == nil && commit == "" {
		err = fmt.Errorf("branch %q: does not exist or has no commit; want one to base pull requests on", r.config.Base)
	}
	return commit, err
}

// branchCommit returns the newest commit of a branch, empty if there is none.
func (r *Repo) branchCommit(ctx context.Context, name string) (string, error) {
	commit, err := r.git.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+name+"^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return commit, err
}

// maxFile is the size of the largest file that File returns.
const maxFile = 1 << 20

// File returns a file at a commit or a branch; false if there is none, or a larger one.
func (r *Repo) File(ctx context.Context, commit, path string) (text []byte, found bool, err error) {
	object, err := r.git.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+":"+path)
	if code := exitCode(err); code == 1 || code == 128 { // what is no path is not there either
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	out := &head{max: maxFile}
	if err := r.git.stream(ctx, out, "", "cat-file", "blob", object); exitCode(err) == 128 {
		return nil, false, nil // a directory
	} else if err != nil {
		return nil, false, err
	}
	return []byte(out.kept.String()), !out.cut, nil
}

// Base returns the branch that pull requests are for.
func (r *Repo) Base() string { return r.config.Base }

// takeDir locks the directory of worktrees and removes what a crash left in it.
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
	name := filepath.Join(r.dir, lockName)
	if r.lock, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := agent.Lock(r.lock); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), r.lock.Close())
	}
	left, err := os.ReadDir(r.dir)
	for _, entry := range left {
		if entry.Name() != lockName {
			err = errors.Join(err, r.discard(ctx, filepath.Join(r.dir, entry.Name())))
		}
	}
	if err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return nil
}

// Close unlocks the directory of worktrees, and removes a temporary one. No Edit may
// be running.
func (r *Repo) Close() error {
	if r.lock != nil {
		return r.lock.Close()
	}
	return os.RemoveAll(r.dir)
}

// discard removes a worktree, from git's list too. What is left, or never was a
// worktree, is removed as files.
func (r *Repo) discard(ctx context.Context, path string) error {
	_, _ = r.git.run(ctx, "worktree", "remove", "--force", "--force", "--", path)
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		// A command may have made directories read-only.
		_ = filepath.WalkDir(path, func(path string, d fs.DirEntry, _ error) error {
			if d != nil && d.IsDir() {
				_ = os.Chmod(path, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(path)
	}
	if err != nil {
		return err
	}
	// A worktree whose .git the command removed is still in git's list.
	_, _ = r.git.run(ctx, "worktree", "remove", "--force", "--force", "--", path)
	return nil
}
