package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/git"
)

const (
	// DefaultTimeout is the default of RepoOptions.Timeout.
	DefaultTimeout = 30 * time.Minute
	// defaultMaxDisk is the default of RepoOptions.MaxDisk.
	defaultMaxDisk = 2 << 30
	// versionTimeout is the time that a program has to print its version.
	versionTimeout = 30 * time.Second
	// lockName is in the directory of jobs.
	lockName = "lock"
	// maxFile is the size of the largest file that File returns.
	maxFile = 1 << 20
)

// RepoOptions says which git repository jobs edit, how, and where its pull requests go.
type RepoOptions struct {
	// Path is the repository: the top of a working tree, or a bare repository. A URL takes its place:
	// then Path is the bare repository that OpenRepo makes, and it is fetched from URL before each job.
	Path, URL string
	// Base is the branch that jobs begin at and pull requests are for; empty = the one
	// checked out when OpenRepo is called, or the URL's. Its newest commit counts for each job.
	Base string
	// Command edits files: run by sh -c in a copy of the files, with the prompt on standard input.
	Command string
	// Preset names one of [Presets], which takes the place of the command.
	Preset string
	// Check is run by sh -c after a change, in the same place; it fails what must not be proposed.
	// Empty = everything passes.
	Check string
	// CheckTries is how often the agent may correct a change that does not pass, in its session.
	CheckTries int
	// Instead, if set, is asked first: it may edit the files below dir in the place of the command,
	// and reports whether it did.
	Instead func(dir string, t Task) (bool, error)
	Timeout time.Duration // ends the command, and the check, and all they started; 0 = DefaultTimeout
	// MaxDisk limits the files of one job at work, in bytes, and the homes of all others together; 0 = defaultMaxDisk.
	MaxDisk int64
	// Env has variables that the command gets besides the ordinary ones (PATH, HOME and the like). Secrets of it are
	// hidden in output, refused in changes and removed from homes.
	Env []Variable
	// OwnHome gives each job a home directory, which stays until Forget, or until MaxDisk needs its bytes; so does
	// a Jail. Without, HOME is the one of this process.
	OwnHome bool
	Jail    *Jail // confines command and check; nil = not at all
	// Gateway is a service of models that the command reaches besides the hosts of the jail; nil = none.
	Gateway *Gateway
	// Allow permits changes that are refused otherwise: some of [Allowed]. Refuse are patterns (CheckPattern) of
	// more files whose changes are refused.
	Allow, Refuse []string
	// CodeHost is the name of one of codehost.Hosts. There the Project, "owner/name", gets the pull
	// requests, by the REST API at CodeHostURL (empty = the public one; https, or http on this machine).
	// Branches are pushed to the git remote Remote, a name or a URL (empty = the URL, or "origin"). Token
	// returns a token that may read and write pull requests; it is read for each request. Without a
	// CodeHost, branches are pushed to the URL.
	CodeHost, CodeHostURL, Project, Remote string
	Token                                  func() (string, error)
	// Labels and Draft are of pull requests when they are opened; HidePrompt keeps the prompt out of them.
	Labels            []string
	Draft, HidePrompt bool
}

// Repo is a repository being edited. It implements [Editor] and [Host]. Jobs may be edited
// concurrently, the instructions of a job one after the other.
type Repo struct {
	options RepoOptions
	git     git.Client
	host    *codehost.Opener                                  // nil = none
	login   func() (prefix, user, password string, err error) // for git over HTTPS; nil = none
	remote  string                                            // URL or path that branches are pushed to; empty = none
	dir     string                                            // of the jobs' files
	lock    *os.File                                          // held while dir is in use; nil once r is closed
	temp    *durable.Temp                                     // has dir; nil if that stays

	homes    sync.Mutex      // held while homes are removed; guards atWork
	atWork   map[string]bool // the directories of jobs that are at work
	fetching sync.Mutex      // held while the base branch of a URL is fetched
	mu       sync.Mutex      // guards base
	base     string          // the branch that jobs begin at; empty before the first fetch of a URL
}

// baseRef has the base branch of a URL in the repository that OpenRepo makes: the branch may be renamed.
const baseRef = "refs/docgauge/base"

// OpenRepo checks the repository and removes what a crash left in dir, the directory of the files
// of jobs, which one process may use at a time. An empty dir is a temporary one, removed by Close.
// Nothing is fetched. Every error says what o needs to be instead.
func OpenRepo(ctx context.Context, o RepoOptions, dir string) (r *Repo, err error) {
	if !isHelper {
		return nil, errNoHelper
	}
	r = &Repo{options: o, dir: dir}
	r.options.Remote = o.URL
	if o.CodeHost != "" {
		r.options.Remote = cmp.Or(o.Remote, o.URL, "origin")
		if r.host, err = codehost.NewOpener(o.CodeHost, o.Project, o.CodeHostURL, o.Token, nil); err != nil {
			return nil, err
		}
		r.login = r.host.Login
		if _, _, _, err := r.host.Login(); err != nil {
			return nil, err
		}
	}
	if o.CodeHost == "" {
		r.login = codehost.Repository{URL: o.URL}.Login(o.Token)
	}
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	return r, nil
}

func (r *Repo) open(ctx context.Context) error {
	r.options.Timeout = cmp.Or(r.options.Timeout, DefaultTimeout)
	r.options.MaxDisk = cmp.Or(r.options.MaxDisk, defaultMaxDisk)
	r.options.OwnHome = r.options.OwnHome || r.options.Jail != nil
	r.atWork = map[string]bool{}
	if err := closeInherited(); err != nil {
		return err
	}
	if err := r.takeDir(); err != nil {
		return fmt.Errorf("files of jobs: %w", err)
	}
	program, err := exec.LookPath("git")
	if err != nil {
		err = fmt.Errorf("needs git in PATH; install it (apt-get install git): %w", err)
	} else {
		r.git = git.Client{Program: program, Env: append(git.Environment(git.Ordinary), git.Variables...), Lock: r.lock}
		err = r.check(ctx)
	}
	if err != nil {
		repository := analytics.RedactUsers(cmp.Or(r.options.URL, r.options.Path))
		return fmt.Errorf("repository %s: %w", repository, errors.Join(err, r.Close()))
	}
	return nil
}

// check checks the repository, its branches and its remote.
func (r *Repo) check(ctx context.Context) (err error) {
	if r.git.Dir, err = filepath.Abs(r.options.Path); err != nil {
		return err
	}
	r.base = r.options.Base
	if r.options.URL != "" {
		r.remote = r.options.Remote
		r.git = r.git.With("GIT_DIR=" + r.git.Dir)
		return r.makeCopy(ctx)
	}
	repository, err := os.Stat(r.git.Dir)
	if err != nil {
		return err
	}
	if !repository.IsDir() {
		return errors.New("is a file; want the directory of a git repository")
	}
	bare, err := r.git.Run(ctx, "rev-parse", "--is-bare-repository")
	if err != nil {
		return fmt.Errorf("want a git repository: %w", err)
	}
	if bare != "true" {
		top, err := r.git.Run(ctx, "rev-parse", "--show-toplevel")
		if err != nil {
			return fmt.Errorf("want the top of a working tree: %w", err)
		}
		if info, err := os.Stat(top); err != nil || !os.SameFile(info, repository) {
			return fmt.Errorf("is inside the repository %s; want its top, or a separate repository", top)
		}
	}
	if r.base == "" {
		if r.base, err = r.git.Run(ctx, "symbolic-ref", "--quiet", "--short", "HEAD"); err != nil {
			return errors.New("has no branch checked out; name the branch that pull requests are for")
		}
	}
	if _, err = r.baseCommit(ctx); err != nil {
		return err
	}
	// A branch is a file to git, and cannot be a directory too.
	name := strings.TrimSuffix(BranchPrefix, "/")
	if commit, err := r.refCommit(ctx, "refs/heads/"+name); err == nil && commit != "" {
		return fmt.Errorf("has a branch %s, which is in the way of %s<job>; rename it", name, BranchPrefix)
	}
	if r.remote, err = r.findRemote(ctx); err != nil {
		return err
	}
	dirs, err := r.git.Run(ctx, "rev-parse", "--path-format=absolute", "--git-dir", "--git-common-dir")
	if err != nil {
		return err
	}
	gitDir, common, _ := strings.Cut(dirs, "\n")
	r.git = r.git.With("GIT_DIR=" + gitDir)
	return r.sweep(filepath.Join(common, "refs", "heads", name))
}

// makeCopy makes the repository of a URL, unless it is there and whole. A damaged one is made again: what is
// missing is then fetched. One that is too large to be checked in the time of a command is taken for whole.
func (r *Repo) makeCopy(ctx context.Context) error {
	if err := r.sweep(r.git.Dir); err != nil {
		return err
	}
	err := os.MkdirAll(r.git.Dir, 0o700)
	if err != nil {
		return err
	}
	if _, damaged := r.git.Run(ctx, "fsck", "--connectivity-only", "--no-dangling"); git.ExitCode(damaged) > 0 {
		err = errors.Join(removeAll(r.git.Dir), os.Mkdir(r.git.Dir, 0o700))
	}
	if err == nil {
		_, err = r.git.Run(ctx, "init", "--quiet", "--bare", "--template=")
	}
	return err
}

// sweep removes what a git of an earlier process left below dir, which has nothing that others write. Git that is
// killed, and now and then git that is asked to end, leaves a branch locked for ever, and temporary files; after
// a power cut, references and objects may be empty. Each git of r has r.lock open, so none of theirs is running.
func (r *Repo) sweep(dir string) error {
	if r.temp != nil {
		return nil // another process may have the directory of jobs
	}
	return filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		var info fs.FileInfo
		if err == nil && !d.IsDir() {
			info, err = d.Info()
		}
		if info != nil && (info.Size() == 0 || filepath.Ext(name) == ".lock" || strings.HasPrefix(d.Name(), "tmp_")) {
			err = os.Remove(name)
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // no branch of a job yet, or a reftable
			return nil
		}
		return err
	})
}

// takeDir locks the directory of jobs and removes what a crash left in it, and homes that are too much.
func (r *Repo) takeDir() (err error) {
	if r.dir == "" {
		if r.temp, err = durable.NewTemp("", "docgauge-jobs"); err != nil {
			return err
		}
		r.dir = filepath.Join(r.temp.Path, "jobs")
	}
	if r.dir, err = filepath.Abs(r.dir); err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return err
	}
	name := filepath.Join(r.dir, lockName)
	if r.lock, err = os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return err
	}
	if err := lock(r.lock, git.Grace+durable.LockPatience); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", name, err), r.lock.Close())
	}
	left, err := os.ReadDir(r.dir)
	for _, entry := range left {
		if entry.IsDir() {
			err = errors.Join(err, r.place(entry.Name()).clear())
		}
	}
	if err = errors.Join(err, r.trimHomes()); err != nil {
		return errors.Join(err, r.lock.Close())
	}
	return nil
}

// Close unlocks the directory of jobs, and removes a temporary one. No Edit may be
// running.
func (r *Repo) Close() error {
	if r.lock == nil {
		return nil
	}
	err := r.lock.Close()
	if r.lock = nil; r.temp != nil {
		err = errors.Join(err, removeAll(r.dir), r.temp.Remove())
	}
	return err
}

// Source returns the repository, on the code host, or without its directory on this machine, and the branch that pull
// requests are for.
func (r *Repo) Source() Source {
	r.mu.Lock()
	defer r.mu.Unlock()
	repository := cmp.Or(r.options.Project, analytics.RedactUsers(r.options.URL), filepath.ToSlash(r.git.Dir))
	if u, err := url.Parse(repository); r.options.Project == "" && (err != nil || u.Host == "") {
		repository = path.Base(repository)
	}
	return Source{repository, cmp.Or(r.base, "HEAD")}
}

// Check tries what jobs need, without one: it fetches a URL, asks for the rights of the token, and tries a push.
func (r *Repo) Check(ctx context.Context) error {
	err := r.fetchBase(ctx)
	if err == nil {
		_, err = r.baseCommit(ctx)
	}
	if err == nil && r.host != nil {
		err = r.host.Check(ctx)
	}
	if err == nil && r.remote != "" { // the rights that hosts tell are the account's, not the token's
		err = r.tryPush(ctx)
	}
	return err
}

// TryCheckCommand runs RepoOptions.Check as after a change, on the newest commit that jobs begin at. The
// error has the end of its output.
func (r *Repo) TryCheckCommand(ctx context.Context) (err error) {
	commit, err := r.baseCommit(ctx)
	if err != nil {
		return err
	}
	w := r.place("check")
	defer func() { err = errors.Join(err, removeAll(w.dir)) }()
	if err := r.layOut(ctx, w, BranchPrefix+"check", commit); err != nil {
		return err
	}
	if output, err := r.runCheck(ctx, w); err != nil {
		return fmt.Errorf("DOCGAUGE_SITE_CHECK_COMMAND: does not pass without a change: %w: %s", err, lastLine(output))
	}
	return nil
}

// Version returns what the program of a preset prints as its version. It is run as in a job, in dir, but
// without the variables that agents get, and so without access to a model.
func Version(ctx context.Context, preset string, jail *Jail, dir string) (string, error) {
	r := &Repo{options: RepoOptions{Jail: jail, OwnHome: true, Timeout: versionTimeout, MaxDisk: defaultMaxDisk}, dir: dir}
	w := r.place("version")
	if err := w.make(true); err != nil {
		return "", err
	}
	output, err := r.run(ctx, w, step{name: preset, command: "exec " + preset + " --version"})
	if program, missing := exec.LookPath(preset); missing != nil {
		err = fmt.Errorf("%w: install it", missing)
	} else if err != nil && jail != nil {
		err = fmt.Errorf("%w; DOCGAUGE_SITE_AGENT_TOOLS names directories outside /usr that %s needs", err, program)
	}
	return lastLine(output), err
}

// lastLine returns the last line of text, cut.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return cmp.Or(oneLine(text[strings.LastIndexByte(text, '\n')+1:], maxWords), "no output")
}

// Propose pushes the branch, and with a code host opens its pull request, or changes the text of the one there is.
// Without, there is no link.
func (r *Repo) Propose(ctx context.Context, j Job, c Change, _ string) (link string, err error) {
	if r.remote != "" {
		if err := codehost.Retry(ctx, git.Again, func() error { return r.push(ctx, c) }); err != nil {
			return "", err
		}
	}
	if r.host == nil {
		return "", nil
	}
	r.mu.Lock()
	known := r.base != ""
	r.mu.Unlock()
	if !known { // the process was started since the edit
		if err := codehost.Retry(ctx, git.Again, func() error { return r.fetchBase(ctx) }); err != nil {
			return "", err
		}
	}
	p, err := r.proposal(ctx, j, c)
	if err != nil {
		return "", err
	}
	return r.host.Open(ctx, p)
}

// baseCommit returns the newest commit of the base branch.
func (r *Repo) baseCommit(ctx context.Context) (string, error) {
	base := r.Source().Ref
	ref := "refs/heads/" + base
	if r.options.URL != "" {
		ref = baseRef
	}
	commit, err := r.refCommit(ctx, ref)
	if err == nil && commit == "" {
		err = fmt.Errorf("branch %q: does not exist or has no commit; want one to base pull requests on", base)
	}
	return commit, err
}

// refCommit returns the newest commit of a reference, empty without such a reference.
func (r *Repo) refCommit(ctx context.Context, ref string) (string, error) {
	commit, err := r.git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", ref+"^{commit}")
	if git.ExitCode(err) == 1 {
		return "", nil
	}
	return commit, err
}

// File returns a file at a commit or a branch; found is false for a missing or too large file.
func (r *Repo) File(ctx context.Context, commit, path string) (text []byte, found bool, err error) {
	object, err := r.git.Run(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", commit+":"+path)
	if code := git.ExitCode(err); code == 1 || code == 128 { // an invalid path is not found either
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	out := &head{max: maxFile}
	if err := r.git.Stream(ctx, out, "", "cat-file", "blob", object); git.ExitCode(err) == 128 {
		return nil, false, nil // a directory
	} else if err != nil {
		return nil, false, err
	}
	return []byte(out.kept.String()), !out.cut, nil
}

// head is a writer that takes everything and keeps the beginning.
type head struct {
	max  int
	kept strings.Builder
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	left := h.max - h.kept.Len()
	h.cut = h.cut || len(p) > left
	h.kept.Write(p[:min(left, len(p))])
	return len(p), nil
}

// String returns the beginning as valid UTF-8, cut at the end of a line.
func (h *head) String() string {
	s := strings.ToValidUTF8(h.kept.String(), "�")
	if !h.cut {
		return s
	}
	return s[:strings.LastIndexByte(s, '\n')+1] + "\\ The diff is longer than what is shown.\n"
}
