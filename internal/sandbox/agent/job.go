package agent

import (
	"context"
	"errors"
	"time"
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
	// Last is what the instructions before came to; the zero Change for the first.
	Last Change
	// BuiltIn asks for the editor's own small edit instead of its command.
	BuiltIn bool
	// Again reports whether work on the task was begun before and interrupted:
	// what it left behind Last is not to be built on.
	Again bool
}

// Change is the work of a job so far: a branch and what it is based on.
type Change struct {
	Branch string `json:"branch"` // "docgauge/<job id>"
	Base   string `json:"base"`   // commit the branch began at
	Head   string `json:"head"`   // newest commit of the branch; Base if there is none
	// Messages are those of the commits, the oldest first.
	Messages []string `json:"messages"`
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
	Job, Title string
	Source     Source
	Diff       string
}

// Host opens pull requests.
type Host interface {
	// Propose opens the pull request of p.Branch, or brings the one that is there
	// up to date, and returns its link, absolute or a path on the sandbox.
	Propose(ctx context.Context, p Proposal) (link string, err error)
}
