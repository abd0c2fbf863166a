package runner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/git"
)

// findRemote returns the URL of the remote.
func (r *Repo) findRemote(ctx context.Context) (string, error) {
	name := r.options.Remote
	if name == "" || strings.ContainsAny(name, ":/") {
		return name, nil
	}
	urls, err := r.git.Run(ctx, "remote", "get-url", "--push", "--", name)
	if err != nil {
		return "", fmt.Errorf("has no remote %q to push to; add it (git remote add), or name another", name)
	}
	first, _, _ := strings.Cut(urls, "\n")
	return first, nil
}

// at reaches the remote.
func (r *Repo) at() git.Remote {
	return git.Remote{Client: r.git, Temp: r.dir, URL: r.remote, Login: r.login}
}

// push brings branch to the remote, never by force: it is an error if commits of others are in
// the way.
func (r *Repo) push(ctx context.Context, branch string) error {
	ref := "refs/heads/" + branch
	commit, err := r.refCommit(ctx, ref)
	if err != nil {
		return err
	}
	return r.pushTo(ctx, ref, commit)
}

// tryPush asks the remote for the push of a new branch that does not take place.
func (r *Repo) tryPush(ctx context.Context) error {
	commit, err := r.baseCommit(ctx)
	if err != nil {
		return err
	}
	err = r.pushTo(ctx, "refs/heads/"+BranchPrefix+"check-"+strings.ToLower(rand.Text()[:8]), commit, "--dry-run")
	if err != nil {
		err = fmt.Errorf("cannot push a branch; want a token (DOCGAUGE_SITE_TOKEN), or an SSH key, that may write: %w", err)
	}
	return err
}

// pushTo pushes a commit to a ref of the remote.
func (r *Repo) pushTo(ctx context.Context, ref, commit string, options ...string) error {
	return r.at().At(ctx, ref, commit, func(g git.Client) error {
		_, err := g.Run(ctx, slices.Concat([]string{"push", "--quiet", "--no-follow-tags", "--recurse-submodules=no",
			"--no-verify"}, options, []string{"--", r.remote, ref + ":" + ref})...)
		return err
	})
}

// catchUp returns the newest commit of a branch that is at commit here, with those that others pushed.
func (r *Repo) catchUp(ctx context.Context, branch, commit string) (string, error) {
	known := commit
	if _, err := r.git.Run(ctx, "cat-file", "-e", commit); git.ExitCode(err) > 0 {
		known = "" // the repository was damaged, and made again
	}
	var fetched string
	err := codehost.Retry(ctx, git.Again, func() (err error) {
		fetched, err = r.at().Fetch(ctx, r.remote, "refs/heads/"+branch, known)
		return err
	})
	if failed, ok := errors.AsType[git.Error](err); ok && strings.Contains(failed.Message, "couldn't find remote ref") {
		if known == "" {
			return commit, fmt.Errorf("branch %s: its commits are lost, here and on the remote; create a new job", branch)
		}
		return commit, nil // merged and deleted: the push creates it again
	}
	if err != nil {
		return commit, err
	}
	if _, err = r.git.Run(ctx, "merge-base", "--is-ancestor", fetched, commit); git.ExitCode(err) == 1 {
		_, err = r.git.Run(ctx, "merge-base", "--is-ancestor", commit, fetched)
		commit = fetched
	}
	if git.ExitCode(err) == 1 {
		return commit, fmt.Errorf("branch %s: was rewritten on the remote; want commits on top of it", branch)
	}
	return commit, err
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
		err := r.at().At(ctx, "", "", func(g git.Client) error {
			said, err := g.Run(ctx, "ls-remote", "--symref", "--", r.options.URL, "HEAD")
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
	fetched, err := r.at().Fetch(ctx, r.options.URL, "refs/heads/"+base, before)
	if err == nil {
		_, err = r.git.Run(ctx, "update-ref", baseRef, fetched)
	}
	if err != nil {
		return fmt.Errorf("repository %s: %w", analytics.RedactUsers(r.options.URL), err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.base = base
	return nil
}
