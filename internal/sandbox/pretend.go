package sandbox

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/site/runner"
)

// pretend is a [runner.Editor] without a repository: each instruction adds a line to a file, which
// exists only in the diff.
type pretend struct {
	// File returns the slash-separated file that a prompt changes.
	File func(prompt string) string
}

// Edit adds the subject of the prompt.
func (p pretend) Edit(_ context.Context, t runner.Task) (runner.Result, error) {
	c := t.Last
	c.Branch = runner.BranchPrefix + t.Job
	if c.Base == "" {
		c.Base = commitID("base")
	}
	file := p.File(t.Prompt)
	c.Files = slices.Clone(c.Files)
	for len(c.Files) <= len(c.Messages) { // commits of a repository have none
		c.Files = append(c.Files, file)
	}
	c.Messages = append(slices.Clone(c.Messages), runner.Subject(t.Prompt))
	c.Head = commitID(strings.Join(append(c.Messages, t.Job), "\n"))
	return runner.Result{Change: c}, nil
}

func commitID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:20])
}

// Diff shows one more line for each instruction, below the first line of its file.
func (pretend) Diff(_ context.Context, c runner.Change) (string, error) {
	var b strings.Builder
	for i, file := range c.Files {
		if slices.Contains(c.Files[:i], file) {
			continue
		}
		lines := ""
		for k, m := range c.Messages {
			if c.Files[k] == file {
				lines += "+- " + m + "\n"
			}
		}
		fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1,%[2]d @@\n %[3]s\n%[4]s",
			file, 1+strings.Count(lines, "\n"), pretendedHead(file), lines)
	}
	return b.String(), nil
}
