package codehost

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// PullRequest is a pull request as Local keeps it, and as it is at the moment it was
// asked for.
type PullRequest struct {
	Number     int       `json:"number"` // from 1
	Project    string    `json:"project,omitempty"`
	Repository string    `json:"repository"` // owner/name, or a directory of this machine
	Base       string    `json:"base"`       // the branch it is for
	BaseCommit string    `json:"base_commit"`
	Branch     string    `json:"branch"`
	Head       string    `json:"head"`
	Title      string    `json:"title"`
	Messages   []string  `json:"messages"` // of the commits, the oldest first
	Diff       string    `json:"diff"`     // of Head against BaseCommit
	OpenedAt   time.Time `json:"opened_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	// History is what happened since, by time. In a file it is also what will happen:
	// an event happens when its time comes, whoever runs then.
	History []Event `json:"history,omitempty"`
}

// Event is something that somebody did to a pull request.
type Event struct {
	At     time.Time `json:"at"`
	Action Action    `json:"action"`
	// DaysAgo of a Merge: the days by which everything of its pull request is dated back
	// as soon as it happens.
	DaysAgo int `json:"days_ago,omitempty"`
}

// Action is what can be done to a pull request.
type Action string

// The actions. A pull request begins ready for review, without a review or a check.
const (
	Ready          Action = "ready"
	Draft          Action = "draft"
	Approve        Action = "approve"
	RequestChanges Action = "request_changes"
	PassChecks     Action = "pass_checks"
	FailChecks     Action = "fail_checks"
	Merge          Action = "merge"
	Close          Action = "close"
	Reopen         Action = "reopen"
)

// State is where a pull request stands.
type State string

// The states.
const (
	Drafted State = "draft"
	Open    State = "open"
	Merged  State = "merged"
	Closed  State = "closed"
)

// Last returns the last event with one of the actions; the zero Event if there is none.
func (pr PullRequest) Last(actions ...Action) Event {
	for _, e := range slices.Backward(pr.History) {
		if slices.Contains(actions, e.Action) {
			return e
		}
	}
	return Event{}
}

// State returns where pr stands.
func (pr PullRequest) State() State {
	switch pr.Last(Merge, Close, Reopen).Action {
	case Merge:
		return Merged
	case Close:
		return Closed
	}
	if pr.IsDraft() {
		return Drafted
	}
	return Open
}

// IsDraft reports whether pr is not ready for review, or was not when it was closed.
func (pr PullRequest) IsDraft() bool { return pr.Last(Draft, Ready).Action == Draft }

// Review returns Approve, RequestChanges, or nothing.
func (pr PullRequest) Review() Action { return pr.Last(Approve, RequestChanges).Action }

// Checks returns PassChecks, FailChecks, or nothing.
func (pr PullRequest) Checks() Action { return pr.Last(PassChecks, FailChecks).Action }

// Allows returns the actions that would change pr, in the order people think of them.
func (pr PullRequest) Allows() (actions []Action) {
	switch pr.State() {
	case Merged:
		return nil
	case Closed:
		return []Action{Reopen}
	case Drafted:
		actions = []Action{Ready}
	}
	for _, a := range []Action{Approve, RequestChanges, PassChecks, FailChecks} {
		if a != pr.Review() && a != pr.Checks() {
			actions = append(actions, a)
		}
	}
	if pr.IsDraft() {
		return append(actions, Close)
	}
	return append(actions, Draft, Merge, Close)
}

// at returns pr as it is at a moment: without what is to come, and dated back if it
// was merged so.
func (pr PullRequest) at(now time.Time) PullRequest {
	pr.History = slices.Clone(pr.happened(now))
	for _, e := range pr.History {
		if e.At.After(pr.UpdatedAt) {
			pr.UpdatedAt = e.At
		}
	}
	if days := pr.Last(Merge).DaysAgo; days > 0 {
		for _, t := range []*time.Time{&pr.OpenedAt, &pr.UpdatedAt} {
			*t = t.AddDate(0, 0, -days)
		}
		for i := range pr.History {
			pr.History[i].At = pr.History[i].At.AddDate(0, 0, -days)
		}
	}
	return pr
}

// happened returns the events up to now.
func (pr PullRequest) happened(now time.Time) []Event {
	n := 0
	for n < len(pr.History) && !pr.History[n].At.After(now) {
		n++
	}
	return pr.History[:n:n]
}

// Decided returns when a Merge really happened, whatever it is dated.
func (e Event) Decided() time.Time { return e.At.AddDate(0, 0, e.DaysAgo) }

var notInNames = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Slug returns the owner/name of pr's repository. That of a directory is its name, and
// nothing of the directories it is in.
func (pr PullRequest) Slug() string {
	if repositoryForm.MatchString(pr.Repository) {
		return pr.Repository
	}
	name := path.Base(filepath.ToSlash(pr.Repository))
	return "sandbox/" + notInNames.ReplaceAllString(name, "-")
}

// WebPath returns the path of pr's page, as code hosts have it.
func (pr PullRequest) WebPath() string {
	return "/" + pr.Slug() + "/pull/" + strconv.Itoa(pr.Number)
}
