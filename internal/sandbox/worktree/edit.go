package worktree

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// Edit carries out t in a worktree of its own. The error says which command
// failed; what it printed is in output alone, for it may hold the prompt.
func (r *Repo) Edit(ctx context.Context, t agent.Task) (c agent.Change, output string, err error) {
	if c, err = r.begin(ctx, t); err != nil {
		return c, "", err
	}
	tree, err := r.checkOut(ctx, c.Branch, c.Head)
	if err != nil {
		return c, "", err
	}
	settled := c
	defer func() {
		if settled.Empty() {
			settled.Head = ""
		}
		err = errors.Join(err, r.settle(ctx, tree, settled.Head))
	}()
	if output, err = r.change(ctx, tree, t); err != nil {
		return c, output, err
	}
	if c.Head, err = tree.commit(ctx, t); err != nil {
		return c, output, err
	}
	c.Messages, err = r.messages(ctx, c)
	if err == nil {
		settled = c
	}
	return c, output, err
}

// begin returns the change of a job as it is before its next instruction. What
// people committed to its branch since then belongs to it.
func (r *Repo) begin(ctx context.Context, t agent.Task) (c agent.Change, err error) {
	c = t.Last
	if c.Base == "" {
		c.Base, err = r.baseCommit(ctx)
		c.Branch, c.Head = agent.BranchPrefix+t.Job, c.Base
		return c, err
	}
	if t.Again {
		return c, nil
	}
	if tip, err := r.branchCommit(ctx, c.Branch); err != nil || tip != "" {
		c.Head = tip
		return c, err
	}
	return c, nil
}

// change has files edited, after catching up with what others pushed.
func (r *Repo) change(ctx context.Context, tree *tree, t agent.Task) (output string, err error) {
	if r.config.Remote != "" && !t.Last.Empty() {
		if err := r.catchUp(ctx, tree); err != nil {
			return "", err
		}
	}
	if r.config.Command == "" || t.BuiltIn {
		return "", addLine(tree.path, t)
	}
	return r.command(ctx, tree.path, t.Prompt)
}

// messages returns the subjects of the commits of c, the oldest first.
func (r *Repo) messages(ctx context.Context, c agent.Change) ([]string, error) {
	if c.Empty() {
		return nil, nil
	}
	text, err := r.git.run(ctx, "log", "--reverse", "--no-show-signature", "--format=%s", c.Base+".."+c.Head, "--")
	return strings.Split(text, "\n"), err
}

// notes is the directory of the built-in edit.
const notes = "agent-jobs"

// addLine is the built-in edit: the subject of the prompt, as a line of the
// job's own file. Links in the repository lead nowhere outside of it.
func addLine(path string, t agent.Task) error {
	root, err := os.OpenRoot(path)
	if err != nil {
		return fmt.Errorf("built-in edit: %w", err)
	}
	defer root.Close()
	if err := root.MkdirAll(notes, 0o755); err != nil {
		return fmt.Errorf("built-in edit: %w", err)
	}
	f, err := root.OpenFile(notes+"/"+t.Job+".md", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("built-in edit: %w", err)
	}
	_, err = fmt.Fprintf(f, "- %s\n", agent.Subject(t.Prompt))
	return errors.Join(err, f.Close())
}
