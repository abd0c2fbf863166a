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

// push brings the branch of a change to the remote. It is an error if commits of others are in the way; a branch that
// is still where it was merged is replaced.
func (r *Repo) push(ctx context.Context, c Change) error {
	ref := "refs/heads/" + c.Branch
	commit, err := r.refCommit(ctx, ref)
	if err != nil {
		return err
	}
	return r.pushTo(ctx, ref, commit, c.Merged)
}

// tryPush asks the remote for the push of a new branch that does not take place.
func (r *Repo) tryPush(ctx context.Context) error {
	commit, err := r.baseCommit(ctx)
	if err != nil {
		return err
	}
	err = r.pushTo(ctx, "refs/heads/"+BranchPrefix+"check-"+strings.ToLower(rand.Text()[:8]), commit, "", "--dry-run")
	if err != nil {
		err = fmt.Errorf("cannot push a branch; want a token (DOCGAUGE_SITE_TOKEN), or an SSH key, that may write: %w", err)
	}
	return err
}

// pushTo pushes a commit to a ref of the remote, in the place of the commit that was merged, if it is still there.
func (r *Repo) pushTo(ctx context.Context, ref, commit, merged string, options ...string) error {
	return r.at().At(ctx, ref, commit, func(g git.Client) error {
		args := slices.Concat([]string{"push", "--quiet", "--no-follow-tags", "--recurse-submodules=no", "--no-verify"}, options)
		if merged != "" {
			at, err := g.Run(ctx, "ls-remote", "--", r.remote, ref)
			if err != nil {
				return err
			}
			if at, _, _ = strings.Cut(at, "\t"); at == merged {
				args = append(args, "--force-with-lease="+ref+":"+merged)
			}
		}
		_, err := g.Run(ctx, append(args, "--", r.remote, ref+":"+ref)...)
		return err
	})
}

// catchUp returns the newest commit of the branch of c, with those that others pushed.
func (r *Repo) catchUp(ctx context.Context, c Change) (string, error) {
	branch, commit, known := c.Branch, c.Head, c.Head
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
	if err != nil || fetched == c.Merged {
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

// refresh returns c on the newest base: begun anew there after its pull request was merged, else with the base merged
// into it, unless they conflict or git is older than 2.38.
func (r *Repo) refresh(ctx context.Context, t Task, c Change) (Change, error) {
	base, err := r.baseCommit(ctx)
	if err != nil || base == c.Base {
		return c, err
	}
	anew := Change{Branch: c.Branch, Base: base, Head: base, Merged: c.Head}
	if c.isEmpty() {
		return Change{Branch: c.Branch, Base: base, Head: base}, nil
	}
	if _, err := r.git.Run(ctx, "merge-base", "--is-ancestor", c.Head, base); git.ExitCode(err) != 1 {
		return anew, err
	}
	if r.host != nil {
		merged, err := r.host.Merged(ctx, codehost.Proposal{Branch: c.Branch, Since: t.Created.Add(-clockSkew)})
		if err != nil || merged {
			return anew, err
		}
	}
	if _, err := r.git.Run(ctx, "merge-base", "--is-ancestor", base, c.Head); git.ExitCode(err) != 1 {
		c.Base = base // people merged it
		return c, err
	}
	var tree string
	err = r.at().At(ctx, "", "", func(g git.Client) (err error) { // without programs that a configuration names
		tree, err = g.Run(ctx, "merge-tree", "--write-tree", "--no-messages", c.Head, base)
		return err
	})
	if git.ExitCode(err) > 0 {
		return c, nil
	}
	if err == nil {
		c.Head, err = r.git.Commit(ctx, "Merge "+r.Source().Ref+"\n\nDocgauge-Job: "+t.Job+"\n", tree, c.Head, base)
		c.Base = base
	}
	return c, err
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
		var err error
		if base, err = r.at().DefaultBranch(ctx, r.options.URL); err != nil {
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
