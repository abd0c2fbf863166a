package runner

import (
	"cmp"
	"context"
	"net/http"
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

// callError is a reason to refuse a call.
type callError struct {
	text   string
	status int
}

func (r *callError) Error() string { return r.text }

// HTTPStatus is the status that tells a client why its call was refused.
func (r *callError) HTTPStatus() int { return r.status }

// Reasons to refuse a call.
var (
	errNotFound = &callError{"not found", http.StatusNotFound}
	errArchived = &callError{"is archived and takes no messages; create a new job", http.StatusConflict}
	errClosed   = &callError{"the service is stopping", http.StatusServiceUnavailable}
)

// Source is a repository and a branch of it.
type Source struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
}

// Job is an agent job. Its JSON is the object of section 2.1 of the service's specification.
type Job struct {
	ID     string `json:"id"`
	Status Status `json:"status"`
	Source Source `json:"source"`
	Model  string `json:"model"`
	// PRLink is nil while the job is active or if it has no pull request.
	// It may be a path on the Host.
	PRLink     *string    `json:"prLink"`
	CreatedAt  time.Time  `json:"createdAt"`
	ArchivedAt *time.Time `json:"archivedAt"`
	// Cost, in CostUnit, and Tokens are the sums over all instructions that ended, as their agents reported
	// them. They are extensions of the service's object, and nil unless each part of them is known.
	Cost     *float64 `json:"cost,omitempty"`
	CostUnit string   `json:"cost_unit,omitempty"`
	Tokens   *int64   `json:"tokens,omitempty"`
	// RetryAt is set while an instruction waits to be tried again. It is an extension, too, and so is Failure: why the
	// last instruction failed, or is tried again, in one line without secrets.
	RetryAt *time.Time `json:"retry_at,omitempty"`
	Failure string     `json:"failure,omitempty"`

	Project string `json:"-"`
	Title   string `json:"-"` // of its pull request; empty = the first line of the prompt
	// Prompts are the prompt of the create call and then the messages, as accepted.
	Prompts []string `json:"-"`
	// Worked is the number of instructions that ended, Output the end of the output of the last one's command.
	Worked int    `json:"-"`
	Output string `json:"-"`
	// Said is what the agent said at the end of the last instruction of which it said something.
	Said string `json:"-"`

	cost      total[float64]
	tokens    total[int64]
	session   *session  // of the instruction before; nil = none is known
	retries   int       // of the next instruction, so far
	last      Change    // result of the instructions that ended
	forgotten bool      // Options.Archived has returned nil
	begun     bool      // work on the next instruction has begun
	worked    int       // how often that lasted longWork, and has not ended
	pending   bool      // last is the next instruction's and only lacks its pull request
	endedAt   time.Time // of the last instruction
}

func (j *Job) active() bool { return j.Worked < len(j.Prompts) }

// shown returns j as callers see it: while an instruction is left, active and without its
// pull request.
func (j *Job) shown() Job {
	r := *j
	r.Prompts = slices.Clone(j.Prompts)
	if j.active() {
		r.Status, r.PRLink = Active, nil
		if r.RetryAt == nil {
			r.Failure = ""
		}
	}
	if r.Cost = j.cost.value(); r.Cost != nil {
		r.CostUnit = costUnit
	}
	r.Tokens = j.tokens.value()
	return r
}

// costUnit is the unit of each cost that agents report.
const costUnit = "USD"

// Report is what an agent said of its work on an instruction. What it did not say is nil, never 0.
type Report struct {
	Cost    *float64 `json:"cost,omitempty"`    // in US dollars
	Tokens  *int64   `json:"tokens,omitempty"`  // read and written
	Session *session `json:"session,omitempty"` // that the next instruction can continue
	Said    string   `json:"said,omitempty"`    // its last message, without secrets
	// Denied are tools that the agent wanted and may not use, Refused hosts.
	Denied  []string `json:"denied,omitempty"`
	Refused []string `json:"refused,omitempty"`
}

// plus returns the report of an agent that went on after r; nil before it began.
func (r *Report) plus(next *Report) *Report {
	if r == nil {
		return next
	}
	all := *next
	all.Cost, all.Tokens = plus(r.Cost, next.Cost), plus(r.Tokens, next.Tokens)
	all.Said = cmp.Or(next.Said, r.Said)
	all.Denied, all.Refused = slices.Concat(r.Denied, next.Denied), slices.Concat(r.Refused, next.Refused)
	return &all
}

// plus returns a sum, nil if a part is unknown.
func plus[T int64 | float64](a, b *T) *T {
	if a == nil || b == nil {
		return nil
	}
	return new(*a + *b)
}

// session is one of an agent, with the cost and the tokens that the agent last reported of it.
type session struct {
	Agent  string   `json:"agent,omitempty"`
	ID     string   `json:"id"`
	Cost   *float64 `json:"cost,omitempty"`
	Tokens *int64   `json:"tokens,omitempty"`
}

// spent adds what an agent said that an instruction, or an attempt at it, cost; nil = it said nothing.
func (j *Job) spent(r *Report) {
	if r == nil {
		r = &Report{}
	}
	j.cost.add(r.Cost)
	j.tokens.add(r.Tokens)
}

// report adds what an agent said of an instruction.
func (j *Job) report(r *Report) {
	j.spent(r)
	if j.session = nil; r != nil {
		j.session, j.Said = r.Session, cmp.Or(r.Said, j.Said)
	}
}

// total is a sum of parts. It is unknown without parts, and if one part is unknown.
type total[T int64 | float64] struct {
	sum            T
	known, unknown bool // whether a part is
}

func (t *total[T]) add(part *T) {
	if part == nil {
		t.unknown = true
		return
	}
	t.sum, t.known = t.sum+*part, true
}

func (t *total[T]) value() *T {
	if t.unknown || !t.known {
		return nil
	}
	return new(t.sum)
}

// Task is one instruction for an Editor.
type Task struct {
	Job, Project, Prompt string
	Title                string // of the commit; empty = the first line of the prompt
	Created              time.Time
	// Session is the session of the instruction before, to be continued; nil = none is known.
	Session *session
	// Last is the result of the instructions before; the zero Change for the first.
	Last Change
	// Again reports whether the task was begun before and interrupted: anything that it
	// added to Last must not be used.
	Again bool
}

// Change is the work of a job so far: a branch and the commit it is based on.
type Change struct {
	Branch string `json:"branch"` // "docgauge/<job id>"
	Base   string `json:"base"`   // commit the branch began at
	Head   string `json:"head"`   // newest commit of the branch; Base before the first
	// Messages are the commits' messages, the oldest first.
	Messages []string `json:"messages"`
	// Merged is the commit at which the branch was merged before it began anew; empty = it was not.
	Merged string `json:"merged,omitempty"`
	// Files are those that the commits of Pretend change, one each.
	Files []string `json:"files,omitempty"`
}

// isEmpty reports whether the job has changed nothing.
func (c Change) isEmpty() bool { return c.Head == c.Base }

// Result is what an instruction came to.
type Result struct {
	Change Change  // of the whole job, with Head as in Task.Last if nothing changed
	Output string  // the end of it
	Report *Report // nil = the agent said nothing
	// NewSession reports that Task.Session was not continued: it is another agent's, or it is lost.
	NewSession bool
	// Retries is how often to try the instruction again later, with an error that passes by itself; else 0.
	Retries int
	// Archive asks to archive the job if no instruction is left.
	Archive bool
}

// Editor carries out instructions.
type Editor interface {
	// Edit carries out t. With an error, output and report count alone, and the branch is as t.Last has it.
	Edit(ctx context.Context, t Task) (Result, error)
	// Diff returns c as a unified diff of Head against Base.
	Diff(ctx context.Context, c Change) (string, error)
}

// Host opens pull requests.
type Host interface {
	// Propose opens the pull request of c.Branch for j, or updates the existing one, and
	// returns its link, absolute or a path on the Host.
	Propose(ctx context.Context, j Job, c Change, diff string) (link string, err error)
}

// BranchPrefix begins the branch of every job; the job's id follows.
const BranchPrefix = "docgauge/"

// printable replaces characters that one line cannot show.
func printable(r rune) rune {
	if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
		return ' '
	}
	return r
}

// maxSubject is the length of a subject, in characters.
const maxSubject = 72

// noSubject is the subject of a prompt that has none, or that is not published.
const noSubject = "Agent job"

// Subject returns the first line of prompt that has text as one short line, for commit
// messages and titles.
func Subject(prompt string) string {
	for line := range strings.Lines(prompt) {
		line = strings.Map(printable, line)
		line = strings.Join(strings.Fields(strings.TrimLeft(strings.TrimSpace(line), "# ")), " ")
		if line == "" || line == "---" {
			continue
		}
		if runes := []rune(line); len(runes) > maxSubject {
			return string(runes[:maxSubject-1]) + "…"
		}
		return line
	}
	return noSubject
}
