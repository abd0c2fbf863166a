package agent

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Status is the state of a job as the service's specification names it.
type Status string

// The states of section 3.
const (
	Active    Status = "active"
	Completed Status = "completed"
	Archived  Status = "archived"
	Failed    Status = "failed"
)

// What a call can be refused for.
var (
	ErrNotFound = errors.New("not found")
	ErrArchived = errors.New("is archived and takes no messages; create a new job")
	ErrClosed   = errors.New("the sandbox is stopping")
)

// Source is where the documentation is: a repository and a branch in it.
type Source struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
}

// Job is one job as it is now. The zero ArchivedAt is never; Link is empty
// while the job is active or has no pull request.
type Job struct {
	ID, Project string
	Status      Status
	Source      Source
	Model       string
	Link        string
	CreatedAt   time.Time
	ArchivedAt  time.Time
}

// Record is a job with all that was accepted for it: the truth to compare a
// client's view with.
type Record struct {
	Job
	// Prompts are the prompt of the create call and then the messages, in the
	// order they were accepted.
	Prompts []string
	// Worked counts the instructions that ended, Failure is why the last of them
	// failed, Output is the end of what its command printed.
	Worked  int
	Failure string
	Output  string
}

// Task is one instruction for an Editor.
type Task struct {
	Job, Prompt string
	// Last is the result of the instructions before; the zero Change for the first.
	Last Change
	// BuiltIn asks for the editor's own small edit instead of its command.
	BuiltIn bool
	// Again reports whether work on the task was begun before and interrupted:
	// whatever it added to Last must not be used.
	Again bool
}

// Change is the work of a job so far: a branch and what it is based on.
type Change struct {
	Branch string `json:"branch"` // "docgauge/<job id>"
	Base   string `json:"base"`   // commit the branch began at
	Head   string `json:"head"`   // newest commit of the branch; Base if there is none
	// Messages are those of the commits, the oldest first.
	Messages []string `json:"messages"`
	// Files are what the commits of Pretend change, one each.
	Files []string `json:"files,omitempty"`
}

// Empty reports whether the job has changed nothing.
func (c Change) Empty() bool { return c.Head == c.Base }

// Editor does the work of an instruction.
type Editor interface {
	// Edit carries out t and returns the whole change of the job, with Head as in
	// t.Last if nothing changed, and the end of what was printed, also with an
	// error. After an error the branch is as t.Last has it.
	Edit(ctx context.Context, t Task) (c Change, output string, err error)
	// Diff returns c as a unified diff of Head against Base.
	Diff(ctx context.Context, c Change) (string, error)
}

// Proposal is a change on its way into a pull request.
type Proposal struct {
	Change
	Job, Project, Title string
	Source              Source
	Diff                string
}

// Host opens pull requests.
type Host interface {
	// Propose opens the pull request of p.Branch, or brings the one that is there
	// up to date, and returns its link, absolute or a path on the sandbox.
	Propose(ctx context.Context, p Proposal) (link string, err error)
}

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
// file, which exists only in the diff.
type Pretend struct {
	// File returns the file that a prompt changes, with a slash between directories;
	// nil = a file of the job's own.
	File func(prompt string) string
}

// Edit adds the subject of the prompt.
func (p Pretend) Edit(_ context.Context, t Task) (Change, string, error) {
	c := t.Last
	c.Branch = BranchPrefix + t.Job
	if c.Base == "" {
		c.Base = commitID("base")
	}
	file := ownFile(c)
	if p.File != nil {
		file = p.File(t.Prompt)
	}
	c.Files = append(c.files(), file)
	c.Messages = append(slices.Clone(c.Messages), Subject(t.Prompt))
	c.Head = commitID(strings.Join(append(c.Messages, t.Job), "\n"))
	return c, "", nil
}

func ownFile(c Change) string {
	return "agent-jobs/" + strings.TrimPrefix(c.Branch, BranchPrefix) + ".md"
}

// files returns the file of each message. A journal of before has none.
func (c Change) files() []string {
	files := slices.Clone(c.Files)
	for len(files) < len(c.Messages) {
		files = append(files, ownFile(c))
	}
	return files
}

func commitID(text string) string {
	sum := sha256.Sum256([]byte(text))
	return fmt.Sprintf("%x", sum[:20])
}

// Diff shows a line more for each instruction, below the head of its file.
func (Pretend) Diff(_ context.Context, c Change) (string, error) {
	var b strings.Builder
	files := c.files()
	for i, file := range files {
		if slices.Contains(files[:i], file) {
			continue
		}
		lines := ""
		for k, m := range c.Messages {
			if files[k] == file {
				lines += "+- " + m + "\n"
			}
		}
		fmt.Fprintf(&b, "diff --git a/%[1]s b/%[1]s\n--- a/%[1]s\n+++ b/%[1]s\n@@ -1 +1,%[2]d @@\n %[3]s\n%[4]s",
			file, 1+strings.Count(lines, "\n"), PretendedHead(file), lines)
	}
	return b.String(), nil
}

// PretendedHead is the first line of a file that [Pretend] changes.
func PretendedHead(file string) string {
	return "# " + strings.TrimSuffix(path.Base(file), path.Ext(file))
}
