package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// DefaultTimeout is how long a command may take.
const DefaultTimeout = 30 * time.Minute

// Config says which repository is edited, and how.
type Config struct {
	// Path of the repository: the top of a working tree, or a bare repository.
	Path string
	// Base is the branch that jobs begin at and pull requests are for; empty = the
	// one checked out when Open is called. Its newest commit counts for each job.
	Base string
	// Dir is where worktrees are made, by one process; what is there is removed by
	// Open. Empty = a temporary directory, removed by Close.
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
	// Login, if set, returns the beginning of the URLs that a password is for, and
	// the user and password for HTTPS there. It is called for each push.
	Login func() (url, user, password string, err error)
}

// Repo is a repository being edited. It implements [agent.Editor]; jobs may be
// edited at once.
type Repo struct {
	config Config
	git    git
	dir    string   // of the worktrees
	lock   *os.File // held while dir is ours; nil for a temporary one

	// mu is held where git changes what worktrees share: their list and the branches.
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
	env := append(environment(ordinary, network), "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "SSH_ASKPASS_REQUIRE=never", "GCM_INTERACTIVE=never")
	r := &Repo{config: c, git: git{program, root, env}}
	if err := r.checkRepository(ctx); err != nil {
		return nil, fmt.Errorf("repository %s: %w", c.Path, err)
	}
	if err := r.checkBranches(ctx); err != nil {
		return nil, fmt.Errorf("repository %s: %w", c.Path, err)
	}
	if err := r.takeDir(ctx); err != nil {
		return nil, fmt.Errorf("worktrees: %w", err)
	}
	return r, nil
}

func (r *Repo) checkRepository(ctx context.Context) error {
	if info, err := os.Stat(r.git.dir); err != nil {
		return err
	} else if !info.IsDir() {
		return errors.New("is a file; want the directory of a git repository")
	}
	bare, err := r.git.run(ctx, "rev-parse", "--is-bare-repository")
	if err != nil {
		return fmt.Errorf("want a git repository: %w", err)
	}
	if bare == "true" {
		return nil
	}
	top, err := r.git.run(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return fmt.Errorf("want the top of a working tree: %w", err)
	}
	if !sameFile(top, r.git.dir) {
		return fmt.Errorf("lies inside the repository %s; want its top, or a repository of its own", top)
	}
	return nil
}

func sameFile(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}

func (r *Repo) checkBranches(ctx context.Context) (err error) {
	if r.config.Base == "" {
		if r.config.Base, err = r.git.run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
			return errors.New("has no branch checked out; name the branch that pull requests are for")
		}
	}
	if _, err = r.baseCommit(ctx); err != nil {
		return err
	}
	// A branch is a file to git, and cannot be a directory too.
	if name := strings.TrimSuffix(agent.BranchPrefix, "/"); r.hasBranch(ctx, name) {
		return fmt.Errorf("has a branch %s, which is in the way of %s<job>; rename it", name, agent.BranchPrefix)
	}
	return r.checkRemote(ctx)
}

// checkRemote checks that a remote that is no URL is known.
func (r *Repo) checkRemote(ctx context.Context) error {
	if name := r.config.Remote; name != "" && !strings.ContainsAny(name, ":/") {
		if _, err := r.git.run(ctx, "config", "--get-all", "remote."+name+".url"); err != nil {
			return fmt.Errorf("has no remote %q to push to; add it (git remote add), or name another", name)
		}
	}
	return nil
}

func (r *Repo) hasBranch(ctx context.Context, name string) bool {
	commit, err := r.branchCommit(ctx, name)
	return err == nil && commit != ""
}

// baseCommit returns the newest commit of the base branch.
func (r *Repo) baseCommit(ctx context.Context) (string, error) {
	commit, err := r.branchCommit(ctx, r.config.Base)
	if err == nil && commit == "" {
		err = fmt.Errorf("branch %q: does not exist or has no commit; want one to base pull requests on", r.config.Base)
	}
	return commit, err
}

// branchCommit returns the newest commit of a branch, empty where there is none.
func (r *Repo) branchCommit(ctx context.Context, name string) (string, error) {
	commit, err := r.git.run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", "refs/heads/"+name+"^{commit}")
	if exitCode(err) == 1 {
		return "", nil
	}
	return commit, err
}

// Base returns the branch that pull requests are for.
func (r *Repo) Base() string { return r.config.Base }
