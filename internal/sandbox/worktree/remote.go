package worktree

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// maxDiff is where a diff is cut.
const maxDiff = 1 << 20

// Diff returns what c changes, as a unified diff, cut after 1 MiB at the end of
// a line.
func (r *Repo) Diff(ctx context.Context, c agent.Change) (string, error) {
	out := &head{max: maxDiff}
	err := r.git.stream(ctx, out, "", "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--no-relative", "--unified=3",
		"--src-prefix=a/", "--dst-prefix=b/", "--submodule=short", "--end-of-options", c.Base, c.Head, "--")
	return out.String(), err
}

// head is a writer that takes everything and keeps the beginning.
type head struct {
	max  int
	kept strings.Builder
	cut  bool
}

func (h *head) Write(p []byte) (int, error) {
	room := h.max - h.kept.Len()
	h.cut = h.cut || len(p) > room
	h.kept.Write(p[:min(room, len(p))])
	return len(p), nil
}

func (h *head) String() string {
	s := strings.ToValidUTF8(h.kept.String(), "�")
	if !h.cut {
		return s
	}
	return s[:strings.LastIndexByte(s, '\n')+1] + "\\ The diff is longer than what is shown.\n"
}

// Push brings branch to the remote, never by force: where somebody else's
// commits are in the way it is an error.
func (r *Repo) Push(ctx context.Context, branch string) error {
	g, err := r.remoteGit()
	if err != nil {
		return err
	}
	ref := "refs/heads/" + branch
	_, err = g.run(ctx, "push", "--quiet", "--no-follow-tags", "--recurse-submodules=no", "--", r.config.Remote, ref+":"+ref)
	return err
}

// catchUp takes in what others pushed to the branch of tree.
func (r *Repo) catchUp(ctx context.Context, t *tree) error {
	g, err := r.remoteGit()
	if err != nil {
		return err
	}
	g.dir, g.env = t.git.dir, append(g.env, t.git.env[len(r.git.env):]...)
	_, err = g.run(ctx, "fetch", "--quiet", "--no-tags", "--recurse-submodules=no", "--", r.config.Remote, "refs/heads/"+t.branch)
	if failed, ok := errors.AsType[gitError](err); ok && strings.Contains(failed.said, "couldn't find remote ref") {
		return nil // merged and deleted: the push makes it anew
	}
	if err != nil {
		return err
	}
	if _, err = t.git.run(ctx, "merge", "--quiet", "--ff-only", "FETCH_HEAD"); err != nil {
		return fmt.Errorf("branch %s: was rewritten on the remote: %w", t.branch, err)
	}
	return nil
}

// remoteGit returns git with what logs in to the remote, in its environment:
// arguments are for everybody to see.
func (r *Repo) remoteGit() (git, error) {
	if r.config.Login == nil {
		return r.git, nil
	}
	url, user, password, err := r.config.Login()
	if err != nil {
		return git{}, err
	}
	login := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	return r.git.with("GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=http."+url+".extraHeader", "GIT_CONFIG_VALUE_0=Authorization: Basic "+login), nil
}
