package fake

import (
	slashpath "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// Pull is a pull request as a [Store] keeps it, and its state at a moment.
type Pull struct {
	Number     int    `json:"number"`            // from 1
	Project    string `json:"project,omitempty"` // whose documentation it changes
	Repository string `json:"repository"`        // owner/name, a directory of this machine, or empty: the host's project
	Base       string `json:"base"`              // target branch
	BaseCommit string `json:"base_commit"`
	Branch     string `json:"branch"`
	Head       string `json:"head"`
	// MergeCommit is what a merge makes of it; empty = Head.
	MergeCommit string    `json:"merge_commit,omitempty"`
	Fork        bool      `json:"fork,omitempty"` // Branch is in a fork
	Title       string    `json:"title"`
	Body        string    `json:"body,omitempty"`
	Labels      []string  `json:"labels,omitempty"`
	Messages    []string  `json:"messages"` // of the commits, the oldest first
	Diff        string    `json:"diff"`     // of Head against BaseCommit
	OpenedAt    time.Time `json:"opened_at"`
	UpdatedAt   time.Time `json:"updated_at"`
	// History is the events by time. A file has the planned ones too: an event happens when
	// its time comes, even if no process runs then.
	History []Event `json:"history,omitempty"`
}

// Event is an action on a pull request.
type Event struct {
	At     time.Time `json:"at"`
	Action Action    `json:"action"`
	// DaysAgo of a merge is the number of days by which its whole pull request is dated back
	// once it happens.
	DaysAgo int `json:"days_ago,omitempty"`
}

// Action is one of the things people do to a pull request.
type Action string

// The actions. A pull request begins ready for review, without a review or a check.
const (
	Ready          Action = "ready"
	ConvertToDraft Action = "draft"
	Approve        Action = "approve"
	RequestChanges Action = "request_changes"
	PassChecks     Action = "pass_checks"
	FailChecks     Action = "fail_checks"
	Merge          Action = "merge"
	Close          Action = "close"
	Reopen         Action = "reopen"
)

// State is the state of a pull request: draft, open, merged or closed.
type State string

// The states besides draft.
const (
	Draft  State = "draft"
	Open   State = "open"
	Merged State = "merged"
	Closed State = "closed"
)

// Last returns the last event with one of the actions, or the zero Event.
func (pr Pull) Last(actions ...Action) Event {
	for _, e := range slices.Backward(pr.History) {
		if slices.Contains(actions, e.Action) {
			return e
		}
	}
	return Event{}
}

// State returns the state of pr.
func (pr Pull) State() State {
	switch pr.Last(Merge, Close, Reopen).Action {
	case Merge:
		return Merged
	case Close:
		return Closed
	}
	if pr.isDraft() {
		return Draft
	}
	return Open
}

// isOpen reports whether pr is neither merged nor closed.
func (pr Pull) isOpen() bool { return pr.State() != Merged && pr.State() != Closed }

// isDraft reports whether pr is not ready for review, or was not when it was closed.
func (pr Pull) isDraft() bool { return pr.Last(ConvertToDraft, Ready).Action == ConvertToDraft }

// Review returns Approve, RequestChanges, or nothing.
func (pr Pull) Review() Action { return pr.Last(Approve, RequestChanges).Action }

// Checks returns PassChecks, FailChecks, or nothing.
func (pr Pull) Checks() Action { return pr.Last(PassChecks, FailChecks).Action }

// Allows returns the actions that would change pr, in the order of their buttons.
func (pr Pull) Allows() (actions []Action) {
	switch pr.State() {
	case Merged:
		return nil
	case Closed:
		return []Action{Reopen}
	case Draft:
		actions = []Action{Ready}
	}
	for _, a := range []Action{Approve, RequestChanges, PassChecks, FailChecks} {
		if a != pr.Review() && a != pr.Checks() {
			actions = append(actions, a)
		}
	}
	if pr.isDraft() {
		return append(actions, Close)
	}
	return append(actions, ConvertToDraft, Merge, Close)
}

// asOf returns pr at a moment: without planned events, and dated back if its merge is.
func (pr Pull) asOf(now time.Time) Pull {
	pr.History = slices.Clone(pr.happened(now))
	for _, e := range pr.History {
		if e.At.After(pr.UpdatedAt) {
			pr.UpdatedAt = e.At
		}
	}
	if days := pr.Last(Merge).DaysAgo; days > 0 {
		pr.OpenedAt, pr.UpdatedAt = pr.OpenedAt.AddDate(0, 0, -days), pr.UpdatedAt.AddDate(0, 0, -days)
		for i := range pr.History {
			pr.History[i].At = pr.History[i].At.AddDate(0, 0, -days)
		}
	}
	return pr
}

// happened returns the events up to now.
func (pr Pull) happened(now time.Time) []Event {
	n := 0
	for n < len(pr.History) && !pr.History[n].At.After(now) {
		n++
	}
	return pr.History[:n:n]
}

var (
	slugForm   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9-]{0,38}/[A-Za-z0-9._-]{1,100}$`)
	notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

// RepositoryName returns the name of pr's repository without the directories that it is in.
func (pr Pull) RepositoryName() string {
	if filepath.IsAbs(pr.Repository) {
		return slashpath.Base(filepath.ToSlash(pr.Repository))
	}
	return pr.Repository
}

// slug returns the owner/name of pr's repository. The slug of a directory has its name, and
// nothing of its parents.
func (pr Pull) slug() string {
	if slugForm.MatchString(pr.Repository) {
		return pr.Repository
	}
	name := slashpath.Base(filepath.ToSlash(pr.Repository))
	return "sandbox/" + notInNames.ReplaceAllString(name, "-")
}

// WebPath returns the path of pr's page, as code hosts have it.
func (pr Pull) WebPath() string {
	return "/" + pr.slug() + "/pull/" + strconv.Itoa(pr.Number)
}
