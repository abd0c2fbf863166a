package redirects

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/git"
	"github.com/docgauge/docgauge/internal/journal"
)

const (
	// MaxFile is the maximum size of a file of redirects, in bytes.
	MaxFile = 8 << 20
	// maxListed is the maximum number of redirects of a grade in the text of a pull request or a prompt.
	maxListed = 50
	// baseFile has the commit of the last fetch. A reference of git would stay locked after a crash.
	baseFile   = "docgauge-base"
	branchName = "docgauge/redirects-"
	pullTitle  = "Redirect paths that agents do not find"
)

// Remote is a repository to fetch, and to propose redirects for.
type Remote struct {
	// URL is a URL or a path. Branch is the base of pull requests; empty = the one that HEAD names.
	URL, Branch string
	// Login is for git over HTTPS; nil = none is needed.
	Login func() (prefix, user, password string, err error)
}

// Copy is docgauge's copy of a repository. It has no branches: what others do to the repository does not change it.
type Copy struct {
	remote Remote
	git    git.Client
	temp   *durable.Temp
	lock   *os.File
	// Base is the branch that pull requests are for, and Commit its newest commit.
	Base, Commit string
}

// Fetch brings the base branch of a repository into the copy in dir, which is made. The caller closes the copy.
func Fetch(ctx context.Context, dir string, remote Remote) (c *Copy, err error) {
	program, err := exec.LookPath("git")
	if err != nil {
		return nil, fmt.Errorf("needs git in PATH; install it (apt-get install git): %w", err)
	}
	if dir, err = filepath.Abs(dir); err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, err
	}
	repository := filepath.Join(dir, "copy.git")
	c = &Copy{remote: remote, Base: remote.Branch, git: git.Client{Program: program, Dir: dir,
		Env: append(git.Environment(git.Ordinary), git.Clean(repository)...)}}
	defer func() {
		if err != nil {
			err = errors.Join(err, c.Close())
		}
	}()
	if c.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return c, err
	}
	if free, err := durable.Lock(c.lock, git.Grace+durable.LockPatience); err != nil {
		return c, err
	} else if !free {
		return c, errors.New("another docgauge is at work with the copy " + dir + "; run it again later")
	}
	c.git.Lock = c.lock
	if c.temp, err = durable.NewTemp(dir, "remote"); err != nil {
		return c, err
	}
	// A kill while it was made leaves half a repository.
	if _, err := c.git.Run(ctx, "rev-parse", "--git-dir"); git.ExitCode(err) > 0 {
		if err := os.RemoveAll(repository); err != nil {
			return c, err
		}
		if _, err := c.git.Run(ctx, "init", "--quiet", "--bare", "--template="); err != nil {
			return c, err
		}
	}
	return c, codehost.Retry(ctx, git.Again, func() error { return c.fetch(ctx, filepath.Join(repository, baseFile)) })
}

func (c *Copy) fetch(ctx context.Context, known string) (err error) {
	if c.Base == "" {
		if c.Base, err = c.at().DefaultBranch(ctx, c.remote.URL); err != nil {
			return err
		}
	}
	before, err := os.ReadFile(known)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := c.git.Run(ctx, "cat-file", "-e", string(before)); err != nil {
		before = nil
	}
	if c.Commit, err = c.at().Fetch(ctx, c.remote.URL, "refs/heads/"+c.Base, string(before)); err != nil {
		return err
	}
	return durable.WriteFile(known, []byte(c.Commit), 0o600)
}

func (c *Copy) at() git.Remote {
	return git.Remote{Client: c.git, Temp: c.temp.Path, URL: c.remote.URL, Login: c.remote.Login}
}

// Close releases the copy, which stays for the next fetch.
func (c *Copy) Close() (err error) {
	if c.temp != nil {
		err = c.temp.Remove()
	}
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
	}
	return err
}

// History reads the history of the base branch. complete is false if the repository lacks older commits.
func (c *Copy) History(ctx context.Context) (h History, complete bool, err error) {
	return ReadRepository(ctx, c.git, c.Commit)
}

// Rules reads a file of redirects of the newest commit; a missing one is a new file.
func (c *Copy) Rules(ctx context.Context, named Format, file string) (*File, error) {
	text, _, err := c.read(ctx, c.Commit, file)
	var rules *File
	if err == nil {
		rules, err = Parse(named, text)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return rules, nil
}

// Began is [Began] of a file of the newest commit.
func (c *Copy) Began(ctx context.Context, named Format, file string) ([]journal.Redirect, error) {
	return Began(ctx, c.git, c.Commit, named, file)
}

// read returns a file at a commit and its mode; without the file, nothing and the mode of a new one.
func (c *Copy) read(ctx context.Context, commit, file string) (text, mode string, err error) {
	if !fs.ValidPath(file) || file == "." {
		return "", "", errors.New("want the path of a file from the top of the repository, without a slash before it")
	}
	// "100644 blob 1f7a7a 123\tpath"
	entry, err := c.git.Run(ctx, "ls-tree", "--long", "--full-tree", commit, "--", file)
	if err != nil || entry == "" {
		return "", "100644", err
	}
	meta, _, _ := strings.Cut(entry, "\t")
	var kind, object string
	var size int64
	if _, err := fmt.Sscan(meta, &mode, &kind, &object, &size); err != nil || !strings.HasPrefix(mode, "100") {
		return "", "", errors.New("is a directory or a link; want the file itself")
	}
	if size > MaxFile {
		return "", "", fmt.Errorf("has %d bytes: want at most %d", size, MaxFile)
	}
	var out bytes.Buffer
	err = c.git.Stream(ctx, &out, "", "cat-file", "blob", object)
	return out.String(), mode, err
}

// PullRequest is a wanted change of a file of redirects.
type PullRequest struct {
	Project, File, Text string
	// Added are the rules that Text adds.
	Added     []Rule
	Proposals []Proposal
	// WithoutLikely keeps the likely ones out of the text.
	WithoutLikely bool
	Labels        []string
	Draft         bool
	// Host opens it; nil = the branch alone is pushed.
	Host *codehost.Opener
	// Full is the error if Host had to open another one; nil = it may.
	Full error
}

// Propose pushes the branch of the project and opens its pull request, or changes the text of the open one.
//
// The branch has one name for each project, and its file tells whether it is what this run wants. So a run after a lost
// answer or a kill finds the branch and does not push it again; the code host is asked for a pull request of the branch
// before one is opened. The file opened has the rules of the pull request that was opened last: for the same rules one that
// was closed counts too, and its branch is left alone, so that a refusal holds until the rules differ, whatever becomes of
// the base and the branch. Without that file, a branch that this run does not change says the same. After a kill between
// the push and the opening, the file has other rules, and the pull request that was closed does not count.
func (c *Copy) Propose(ctx context.Context, p PullRequest) (branch, link string, pushed bool, err error) {
	branch = branchName + p.Project
	ref := "refs/heads/" + branch
	if branch == c.Base {
		return branch, "", false, fmt.Errorf("branch %s: is the base; want another branch in DOCGAUGE_SITE_REPO", branch)
	}
	former, err := c.former(ctx, ref, p.File)
	if err != nil {
		return branch, "", false, fmt.Errorf("branch %s: %w", branch, err)
	}
	text := ""
	if former != "" {
		if text, _, err = c.read(ctx, former, p.File); err != nil {
			return branch, "", false, fmt.Errorf("branch %s: %s: %w", branch, p.File, err)
		}
	}
	opened, rules := filepath.Join(c.git.Dir, "opened"), ""
	for _, r := range p.Added {
		rules += r.From + " " + r.To + "\n"
	}
	last, err := os.ReadFile(opened)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return branch, "", false, err
	}
	// A branch with this file may be behind the base: reviews of it stay valid.
	pushed = text != p.Text
	proposal := codehost.Proposal{Branch: branch, Base: c.Base, Title: pullTitle, Body: p.body(), Labels: p.Labels,
		Draft: p.Draft, Ended: string(last) == rules || last == nil && !pushed}
	if p.Host != nil && (p.Full != nil || pushed && proposal.Ended) {
		exists, open, err := p.Host.Exists(ctx, proposal)
		if err == nil && !exists && p.Full != nil {
			err = fmt.Errorf("no pull request is opened: %w", p.Full)
		}
		if err != nil {
			return branch, "", false, err
		}
		pushed = pushed && (open || !exists)
	}
	if pushed {
		commit, err := c.commit(ctx, p)
		if err == nil {
			err = codehost.Retry(ctx, git.Again, func() error { return c.push(ctx, ref, former, commit) })
		}
		if err != nil {
			return branch, "", false, fmt.Errorf("branch %s: %w", branch, err)
		}
	}
	if p.Host == nil {
		return branch, "", pushed, nil
	}
	if link, err = p.Host.Open(ctx, proposal); err == nil {
		err = durable.WriteFile(opened, []byte(rules), 0o600)
	}
	return branch, link, pushed, err
}

// former returns the newest commit of our branch on the remote, empty without the branch. It is an error if others
// have commits on it, or if it changes another file than this one, and the base does not have that change.
func (c *Copy) former(ctx context.Context, ref, file string) (commit string, err error) {
	err = codehost.Retry(ctx, git.Again, func() error {
		return c.at().At(ctx, "refs/heads/base", c.Commit, func(g git.Client) error {
			said, err := g.Run(ctx, "ls-remote", "--", c.remote.URL, ref)
			commit, _, _ = strings.Cut(said, "\t")
			if err == nil && commit != "" {
				_, err = g.Run(ctx, "fetch", "--quiet", "--no-tags", "--recurse-submodules=no", "--", c.remote.URL, ref)
			}
			return err
		})
	})
	if err != nil || commit == "" {
		return "", err
	}
	people, err := c.git.Run(ctx, "log", "--format=%an <%ae>%n%cn <%ce>", c.Commit+".."+commit)
	if err != nil {
		return "", err
	}
	const ours = git.AuthorName + " <" + git.AuthorEmail + ">"
	for person := range strings.SplitSeq(people, "\n") {
		if person != "" && person != ours {
			return "", fmt.Errorf("has a commit of %.200s, which docgauge does not replace: merge or close its pull request "+
				"and delete the branch", person)
		}
	}
	changed, err := c.git.Run(ctx, "log", "--format=", "--name-only", "--no-renames", "-z", c.Commit+".."+commit)
	for other := range strings.SplitSeq(changed, "\x00") {
		if err != nil || other == "" || other == file {
			continue
		}
		if _, err = c.git.Run(ctx, "diff", "--quiet", c.Commit, commit, "--", other); git.ExitCode(err) == 1 {
			err = fmt.Errorf("changes %.200s, and a branch has redirects of one file: merge or close its pull request and "+
				"delete the branch", other)
		}
	}
	return commit, err
}

// commit makes a commit on top of the base that changes the file alone, without a worktree.
func (c *Copy) commit(ctx context.Context, p PullRequest) (string, error) {
	_, mode, err := c.read(ctx, c.Commit, p.File)
	if err != nil {
		return "", err
	}
	g := c.git.With("GIT_INDEX_FILE=" + filepath.Join(c.temp.Path, "index"))
	var blob bytes.Buffer
	if err := g.Stream(ctx, &blob, p.Text, "hash-object", "-w", "--stdin"); err != nil {
		return "", err
	}
	if _, err := g.Run(ctx, "read-tree", c.Commit); err != nil {
		return "", err
	}
	if _, err := g.Run(ctx, "update-index", "--add", "--cacheinfo",
		mode+","+strings.TrimSpace(blob.String())+","+p.File); err != nil {
		return "", err
	}
	tree, err := g.Run(ctx, "write-tree")
	if err != nil {
		return "", err
	}
	message := fmt.Sprintf("%s\n\nAdd %s to %s.\n", pullTitle, format.Plural(len(p.Added), "rule"), p.File)
	return g.Commit(ctx, message, tree, c.Commit)
}

// push puts the branch at a commit in the place of the former one, and of no other.
func (c *Copy) push(ctx context.Context, ref, former, commit string) error {
	return c.at().At(ctx, "", "", func(g git.Client) error {
		_, err := g.Run(ctx, "push", "--quiet", "--no-follow-tags", "--recurse-submodules=no", "--no-verify",
			"--force-with-lease="+ref+":"+former, "--", c.remote.URL, commit+":"+ref)
		return err
	})
}

// likely returns the likely proposals that may be published.
func likely(proposals []Proposal) (out []Proposal) {
	for _, p := range proposals {
		if p.Grade == Likely && WellFormed(p.Path) && WellFormed(p.Target) {
			out = append(out, p)
		}
	}
	return out
}

// body returns the text of the pull request. Paths of misses have no characters that end a span of code.
func (p PullRequest) body() string {
	reasons := map[string]string{}
	for _, one := range p.Proposals {
		reasons[strings.TrimSuffix(one.Path, "/")] = fmt.Sprintf("%s, %s", format.Plural(one.Requests, "request"),
			codehost.Neutral(strings.Join(strings.Fields(one.Reason), " ")))
	}
	added := make([]string, len(p.Added))
	for i, r := range p.Added {
		added[i] = fmt.Sprintf("- `%s` → `%s` (%s)", r.From, r.To, reasons[r.From])
	}
	parts := []string{"Agents asked for these paths and found no page:\n\n" + listed(added)}
	var questions []string
	for _, one := range likely(p.Proposals) {
		questions = append(questions, fmt.Sprintf("- [ ] `%s` → `%s`? (%s)", one.Path, one.Target,
			reasons[strings.TrimSuffix(one.Path, "/")]))
	}
	if len(questions) > 0 && !p.WithoutLikely {
		parts = append(parts, "Not added, because a person should look first:\n\n"+listed(questions))
	}
	return strings.Join(append(parts, "Proposed by `docgauge redirects`."), "\n\n")
}

// listed returns the first lines of a list.
func listed(lines []string) string {
	list := strings.Join(lines[:min(len(lines), maxListed)], "\n")
	if more := len(lines) - maxListed; more > 0 {
		list += fmt.Sprintf("\n- and %d more", more)
	}
	return list
}

// Prompt returns a prompt file that has an agent look at the likely proposals; empty without any.
func Prompt(project, file string, proposals []Proposal) string {
	var lines []string
	for _, p := range likely(proposals) {
		lines = append(lines, fmt.Sprintf("- `%s`, perhaps `%s` (%s)", p.Path, p.Target,
			format.Plural(p.Requests, "request")))
	}
	if len(lines) == 0 {
		return ""
	}
	return fmt.Sprintf("---\nproject: %s\ntitle: Check redirects for paths that agents do not find\n---\n"+
		"Agents ask for these paths, and no page has them. For each, read the page that is named. If it has what the\n"+
		"path promises, add a redirect to it to `%s`, in the style of that file. Otherwise leave the path out. Change nothing\n"+
		"else, and add no patterns.\n\n%s\n", project, file, listed(lines))
}
