package sandbox

import (
	"math/rand/v2"
	slashpath "path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// pullRequest is a pull request as pullStore keeps it, and its state at a moment.
type pullRequest struct {
	Number     int       `json:"number"` // from 1
	Project    string    `json:"project,omitempty"`
	Repository string    `json:"repository"` // owner/name, or a directory of this machine
	Base       string    `json:"base"`       // target branch
	BaseCommit string    `json:"base_commit"`
	Branch     string    `json:"branch"`
	Head       string    `json:"head"`
	Title      string    `json:"title"`
	Messages   []string  `json:"messages"` // of the commits, the oldest first
	Diff       string    `json:"diff"`     // of Head against BaseCommit
	OpenedAt   time.Time `json:"opened_at"`
	UpdatedAt  time.Time `json:"updated_at"`
	// History is the events by time. A file has the planned ones too: an event happens when
	// its time comes, even if no sandbox runs then.
	History []pullEvent `json:"history,omitempty"`
}

// pullEvent is an action on a pull request.
type pullEvent struct {
	At     time.Time  `json:"at"`
	Action pullAction `json:"action"`
	// DaysAgo of a merge is the number of days by which its whole pull request is dated back
	// once it happens.
	DaysAgo int `json:"days_ago,omitempty"`
}

// pullAction is one of the things people do to a pull request.
type pullAction string

// The actions. A pull request begins ready for review, without a review or a check.
const (
	actReady          pullAction = "ready"
	actDraft          pullAction = "draft"
	actApprove        pullAction = "approve"
	actRequestChanges pullAction = "request_changes"
	actPassChecks     pullAction = "pass_checks"
	actFailChecks     pullAction = "fail_checks"
	actMerge          pullAction = "merge"
	actClose          pullAction = "close"
	actReopen         pullAction = "reopen"
)

// pullState is the state of a pull request: draft, open, merged or closed.
type pullState string

// The states besides draft.
const (
	stateDraft  pullState = "draft"
	stateOpen   pullState = "open"
	stateMerged pullState = "merged"
	stateClosed pullState = "closed"
)

// Last returns the last event with one of the actions, or the zero pullEvent.
func (pr pullRequest) Last(actions ...pullAction) pullEvent {
	for _, e := range slices.Backward(pr.History) {
		if slices.Contains(actions, e.Action) {
			return e
		}
	}
	return pullEvent{}
}

// State returns the state of pr.
func (pr pullRequest) State() pullState {
	switch pr.Last(actMerge, actClose, actReopen).Action {
	case actMerge:
		return stateMerged
	case actClose:
		return stateClosed
	}
	if pr.isDraft() {
		return stateDraft
	}
	return stateOpen
}

// isDraft reports whether pr is not ready for review, or was not when it was closed.
func (pr pullRequest) isDraft() bool { return pr.Last(actDraft, actReady).Action == actDraft }

// Review returns actApprove, actRequestChanges, or nothing.
func (pr pullRequest) Review() pullAction { return pr.Last(actApprove, actRequestChanges).Action }

// Checks returns actPassChecks, actFailChecks, or nothing.
func (pr pullRequest) Checks() pullAction { return pr.Last(actPassChecks, actFailChecks).Action }

// Allows returns the actions that would change pr, in the order of their buttons.
func (pr pullRequest) Allows() (actions []pullAction) {
	switch pr.State() {
	case stateMerged:
		return nil
	case stateClosed:
		return []pullAction{actReopen}
	case stateDraft:
		actions = []pullAction{actReady}
	}
	for _, a := range []pullAction{actApprove, actRequestChanges, actPassChecks, actFailChecks} {
		if a != pr.Review() && a != pr.Checks() {
			actions = append(actions, a)
		}
	}
	if pr.isDraft() {
		return append(actions, actClose)
	}
	return append(actions, actDraft, actMerge, actClose)
}

// at returns pr at a moment: without planned events, and dated back if its merge is.
func (pr pullRequest) at(now time.Time) pullRequest {
	pr.History = slices.Clone(pr.happened(now))
	for _, e := range pr.History {
		if e.At.After(pr.UpdatedAt) {
			pr.UpdatedAt = e.At
		}
	}
	if days := pr.Last(actMerge).DaysAgo; days > 0 {
		pr.OpenedAt, pr.UpdatedAt = pr.OpenedAt.AddDate(0, 0, -days), pr.UpdatedAt.AddDate(0, 0, -days)
		for i := range pr.History {
			pr.History[i].At = pr.History[i].At.AddDate(0, 0, -days)
		}
	}
	return pr
}

// happened returns the events up to now.
func (pr pullRequest) happened(now time.Time) []pullEvent {
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
func (pr pullRequest) RepositoryName() string {
	if filepath.IsAbs(pr.Repository) {
		return slashpath.Base(filepath.ToSlash(pr.Repository))
	}
	return pr.Repository
}

// slug returns the owner/name of pr's repository. That of a directory has its name, and
// nothing of its parents.
func (pr pullRequest) slug() string {
	if slugForm.MatchString(pr.Repository) {
		return pr.Repository
	}
	name := slashpath.Base(filepath.ToSlash(pr.Repository))
	return "sandbox/" + notInNames.ReplaceAllString(name, "-")
}

// WebPath returns the path of pr's page, as code hosts have it.
func (pr pullRequest) WebPath() string {
	return "/" + pr.slug() + "/pull/" + strconv.Itoa(pr.Number)
}

// events returns the events of a pull request that is opened now, by time.
func (p Pulls) events(seed uint64, number int, opened time.Time) []pullEvent {
	luck := rand.New(rand.NewPCG(seed, uint64(number))).Float64()
	merged, closed := luck < p.MergeShare, luck >= p.MergeShare && luck < p.MergeShare+p.CloseShare
	events := []pullEvent{{At: opened, Action: actPassChecks}}
	ready := opened.Add(p.DraftFor)
	if p.DraftFor > 0 {
		events = append(events, pullEvent{At: opened, Action: actDraft}, pullEvent{At: ready, Action: actReady})
	}
	if p.ReviewAfter > 0 {
		review := actRequestChanges
		if merged {
			review = actApprove
		}
		events = append(events, pullEvent{At: ready.Add(p.ReviewAfter), Action: review})
	}
	end := ready.Add(max(p.EndAfter, p.ReviewAfter))
	switch {
	case merged:
		events = append(events, pullEvent{At: end, Action: actMerge, DaysAgo: p.DaysAgo})
	case closed:
		events = append(events, pullEvent{At: end, Action: actClose})
	}
	return events
}
