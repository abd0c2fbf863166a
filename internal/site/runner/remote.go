package runner

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
)

// The command of a job can write the configuration and the hooks of the repository and of the
// user. Git would run the programs they name (pushurl, insteadOf, sshCommand, helpers), or ask
// their proxies, with the token in its environment. So git reaches the remote from a repository
// made for one call: it has no configuration, hooks or attributes, only the objects of the
// other one, and the URL that the remote had when the repository was opened.

// findRemote returns the URL of the remote.
func (r *Repo) findRemote(ctx context.Context) (string, error) {
	name := r.options.Remote
	if name == "" || strings.ContainsAny(name, ":/") {
		return name, nil
	}
	urls, err := r.git.run(ctx, "remote", "get-url", "--push", "--", name)
	if err != nil {
		return "", fmt.Errorf("has no remote %q to push to; add it (git remote add), or name another", name)
	}
	first, _, _ := strings.Cut(urls, "\n")
	return first, nil
}

// passing are messages of git about errors that may pass: the remote was not reached, did not finish, or has too
// much to do. status has the HTTP status, if there is one.
var (
	passing = regexp.MustCompile(`(?i)could ?n[o']t (resolve|connect)|connection (was )?(refused|reset|closed)|` +
		`failed to connect|timed out|temporary failure|broken pipe|early eof|empty reply|(recv|send) failure|` +
		`unexpected disconnect|hung up unexpectedly|was not closed cleanly|bytes remaining to read|` +
		`(SSL|TLS|GnuTLS).*(EOF|terminated)|network is unreachable|no route to host`)
	status = regexp.MustCompile(`returned error: ([0-9]{3})|HTTP ([0-9]{3})`)
	// raced is what a server says to a push that another one, which may be ours without its answer, has overtaken.
	raced = regexp.MustCompile(`reference already exists|cannot lock ref|failed to (update|lock) ref|` +
		`incorrect old value`)
)

// again reports whether to try git at a remote again. A push that is tried again finds what the one before has done:
// the remote says first where its branches are.
func again(err error, n int) (time.Duration, bool) {
	failed, ok := errors.AsType[gitError](err)
	if !ok {
		return 0, false
	}
	code := ""
	for _, found := range status.FindAllStringSubmatch(failed.message, -1) {
		code = found[1] + found[2]
	}
	switch {
	case raced.MatchString(failed.message):
		return 0, n == 1
	case strings.Contains(failed.message, "rejected]"):
		return 0, false
	case code != "":
		return 0, code == "408" || code == "429" || code[0] == '5'
	}
	return 0, errors.Is(failed, context.DeadlineExceeded) || passing.MatchString(failed.message)
}

// push brings branch to the remote, never by force: it is an error if commits of others are in
// the way.
func (r *Repo) push(ctx context.Context, branch string) error {
	ref := "refs/heads/" + branch
	commit, err := r.refCommit(ctx, ref)
	if err != nil {
		return err
	}
	return r.atRemote(ctx, ref, commit, func(g git) error {
		_, err := g.run(ctx, "push", "--quiet", "--no-follow-tags", "--recurse-submodules=no", "--no-verify",
			"--", r.remote, ref+":"+ref)
		return err
	})
}

// catchUp returns the newest commit of a branch that is at commit here, with those that others pushed.
func (r *Repo) catchUp(ctx context.Context, branch, commit string) (string, error) {
	known := commit
	if _, err := r.git.run(ctx, "cat-file", "-e", commit); exitCode(err) > 0 {
		known = "" // the repository was damaged, and made again
	}
	var fetched string
	err := codehost.Retry(ctx, again, func() (err error) {
		fetched, err = r.fetch(ctx, r.remote, "refs/heads/"+branch, known)
		return err
	})
	if failed, ok := errors.AsType[gitError](err); ok && strings.Contains(failed.message, "couldn't find remote ref") {
		if known == "" {
			return commit, fmt.Errorf("branch %s: its commits are lost, here and on the remote; create a new job", branch)
		}
		return commit, nil // merged and deleted: the push creates it again
	}
	if err != nil {
		return commit, err
	}
	if _, err = r.git.run(ctx, "merge-base", "--is-ancestor", fetched, commit); exitCode(err) == 1 {
		_, err = r.git.run(ctx, "merge-base", "--is-ancestor", commit, fetched)
		commit = fetched
	}
	if exitCode(err) == 1 {
		return commit, fmt.Errorf("branch %s: was rewritten on the remote; want commits on top of it", branch)
	}
	return commit, err
}

// fetch brings the commits of ref at a remote here and returns the newest. If commit is not empty,
// that is where the ref is here.
func (r *Repo) fetch(ctx context.Context, remote, ref, commit string) (fetched string, err error) {
	err = r.atRemote(ctx, ref, commit, func(g git) (err error) {
		_, err = g.run(ctx, "fetch", "--quiet", "--no-tags", "--recurse-submodules=no", "--", remote, ref)
		if err == nil {
			fetched, err = g.run(ctx, "rev-parse", "--verify", "FETCH_HEAD")
		}
		return err
	})
	return fetched, err
}

// fetchBase brings the base branch of the URL here, if there is one.
func (r *Repo) fetchBase(ctx context.Context) error {
	if r.options.URL == "" {
		return nil
	}
	r.fetching.Lock()
	defer r.fetching.Unlock()
	base := r.options.Base
	if base == "" { // it is asked for each time: it may be renamed
		err := r.atRemote(ctx, "", "", func(g git) error {
			said, err := g.run(ctx, "ls-remote", "--symref", "--", r.options.URL, "HEAD")
			// "ref: refs/heads/main\tHEAD"
			line, _, _ := strings.Cut(said, "\t")
			base = strings.TrimPrefix(line, "ref: refs/heads/")
			if err == nil && base == line {
				err = errors.New("has no default branch; name the one that pull requests are for: URL#branch")
			}
			return err
		})
		if err != nil {
			return fmt.Errorf("repository %s: %w", analytics.RedactUsers(r.options.URL), err)
		}
	}
	before, err := r.refCommit(ctx, baseRef)
	if err != nil {
		return err
	}
	fetched, err := r.fetch(ctx, r.options.URL, "refs/heads/"+base, before)
	if err == nil {
		_, err = r.git.run(ctx, "update-ref", baseRef, fetched)
	}
	if err != nil {
		return fmt.Errorf("repository %s: %w", analytics.RedactUsers(r.options.URL), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = base
	return nil
}

// atRemote calls do with git in a repository made for this call, in which ref is at commit, unless
// that is empty.
func (r *Repo) atRemote(ctx context.Context, ref, commit string, do func(git) error) (err error) {
	clean, err := os.MkdirTemp(r.dir, "remote-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(clean)) }()
	format, err := r.git.run(ctx, "rev-parse", "--show-object-format")
	if err != nil {
		return err
	}
	common, err := r.git.run(ctx, "rev-parse", "--path-format=absolute", "--git-common-dir")
	if err != nil {
		return err
	}
	g := git{program: r.git.program, dir: r.git.dir, env: environment(ordinary, network), lock: r.git.lock}
	g = g.with(cleanGit(clean)...).with("GIT_ALLOW_PROTOCOL=https:http:ssh:file")
	if _, err := g.run(ctx, "init", "--quiet", "--bare", "--template=", "--object-format="+format); err != nil {
		return err
	}
	g = g.with("GIT_OBJECT_DIRECTORY=" + filepath.Join(common, "objects"))
	shallow := filepath.Join(common, "shallow")
	if info, err := os.Stat(shallow); err == nil && info.Mode().IsRegular() {
		g = g.with("GIT_SHALLOW_FILE=" + shallow)
	}
	if commit != "" {
		if _, err := g.run(ctx, "update-ref", ref, commit); err != nil {
			return err
		}
	}
	credentials, err := r.credentials()
	if err != nil {
		return err
	}
	return do(g.with(credentials...))
}

// credentials returns those for the remote as environment, because anyone can see arguments. A
// remote that they are not for gets none: ssh, for one, passes its environment to what the
// user's configuration names.
func (r *Repo) credentials() (env []string, err error) {
	if r.login == nil {
		return nil, nil
	}
	prefix, user, password, err := r.login()
	if err != nil {
		return nil, err
	}
	remote, err := url.Parse(r.remote)
	if err != nil {
		return nil, nil //nolint:nilerr // a path, or host:path of ssh
	}
	remote.Host = strings.ToLower(remote.Host)
	if remote.User = nil; !strings.HasPrefix(remote.String(), prefix) {
		return nil, nil
	}
	basic := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return []string{"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http." + prefix + ".extraHeader",
		"GIT_CONFIG_VALUE_0=Authorization: Basic " + basic}, nil
}
