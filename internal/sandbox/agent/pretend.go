package agent

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"unicode"
)

// maxSubject is the length of a subject, in characters.
const maxSubject = 72

// Subject returns the first line of prompt that has text as one short line, for
// commit messages and titles.
func Subject(prompt string) string {
	for line := range strings.Lines(prompt) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
				return ' '
			}
			return r
		}, line)
		line = strings.Join(strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "# ")), " ")
		if line == "" || line == "---" {
			continue
		}
		if runes := []rune(line); len(runes) > maxSubject {
			return string(runes[:maxSubject-1]) + "…"
		}
		return line
	}
	return "Agent job"
}

// BranchPrefix begins the branch of every job; the job's id follows.
const BranchPrefix = "docgauge/"

// Pretend is an Editor without a repository: each instruction adds a line to a
// file that is nowhere but in the diff.
type Pretend struct{}

// Edit adds the subject of the prompt.
func (Pretend) Edit(_ context.Context, t Task) (Change, string, error) {
	c := t.Last
	c.Branch = BranchPrefix + t.Job
	if c.Base == "" {
		c.Base = commitID("base")
	}
	c.Messages = append(slices.Clone(c.Messages), Subject(t.Prompt))
	c.Head = commitID(strings.Join(append(c.Messages, t.Job), "\n"))
	return c, "", nil
}

func commitID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:20])
}

// Diff shows a new file with a line for each instruction.
func (Pretend) Diff(_ context.Context, c Change) (string, error) {
	name := "agent-jobs/" + strings.TrimPrefix(c.Branch, BranchPrefix) + ".md"
	var b strings.Builder
	fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\nnew file mode 100644\n--- /dev/null\n+++ b/%[1]s\n@@ -0,0 +1,%[2]d @@\n", name, len(c.Messages))
	for _, m := range c.Messages {
		fmt.Fprintf(&b, "+- %s\n", m)
	}
	return b.String(), nil
}
