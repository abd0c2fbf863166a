package journal

import "time"

// PullState is the state of a pull request at its host. One that was reopened is open,
// with Reopened set.
type PullState string

// The states.
const (
	PullUnknown PullState = "unknown" // no host could be asked, or it is not found
	PullDraft   PullState = "draft"
	PullOpen    PullState = "open"
	PullMerged  PullState = "merged"
	PullClosed  PullState = "closed" // without a merge
)

// PullStates returns all states in the order in which people are shown them.
func PullStates() []PullState {
	return []PullState{PullDraft, PullOpen, PullUnknown, PullMerged, PullClosed}
}

// Ended reports whether the pull request was merged or closed.
func (s PullState) Ended() bool { return s == PullMerged || s == PullClosed }

// The review decisions. Empty: no review was requested.
const (
	ReviewApproved = "approved"
	ReviewChanges  = "changes_requested"
	ReviewRequired = "review_required"
)

// The combined result of the checks. Empty: without checks, or unknown.
const (
	ChecksSuccess = "success"
	ChecksFailure = "failure"
	ChecksPending = "pending"
)

// PullRequest is the pull request of a job, as last read.
type PullRequest struct {
	// Link is the PRLink of the job: the identity. Project is the project of the first job with it.
	Link    string `json:"link"`
	Project string `json:"project"`
	// Host is github, gitlab or gitea, or empty for one that cannot be asked. Repository is
	// owner/name; at GitLab, there can be several groups.
	Host       string `json:"host,omitempty"`
	Repository string `json:"repository,omitempty"`
	Number     int    `json:"number,omitempty"`

	State  PullState `json:"state"`
	Author string    `json:"author,omitempty"`
	// Problem is the reason, for people, why the state is unknown or old; empty if it is neither.
	Problem string `json:"problem,omitempty"`

	// Times by the host's clock. Ready is when it last stopped being a draft, zero while it
	// is one. FirstReview is by another person than its author.
	Created     time.Time `json:"created_at,omitzero"`
	Ready       time.Time `json:"ready_at,omitzero"`
	FirstReview time.Time `json:"first_review_at,omitzero"`
	Merged      time.Time `json:"merged_at,omitzero"`
	Closed      time.Time `json:"closed_at,omitzero"`
	Reopened    time.Time `json:"reopened_at,omitzero"`

	Review    string `json:"review,omitempty"`
	Checks    string `json:"checks,omitempty"`
	Files     int    `json:"files"`
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
	// Commit is the newest commit, and once it is merged the commit of the merge.
	Commit string `json:"commit,omitempty"`
	// Changed are the paths of the changed files once it is merged, at most MaxChanged; a
	// renamed file is there with both.
	Changed []string `json:"changed,omitempty"`
	// Pages are the paths of the pages that Changed are. Mapped means that the host was asked for
	// the navigation of the documentation at Commit, which names them; before, only Changed does.
	Pages  []string `json:"pages,omitempty"`
	Mapped bool     `json:"mapped,omitempty"`

	// By our clock: the last answer; the next read, zero for never again; since when it is
	// not found, or not shown to us.
	Answered time.Time `json:"answered_at,omitzero"`
	Next     time.Time `json:"next_at,omitzero"`
	Missing  time.Time `json:"missing_since,omitzero"`
	// Final means that it was read once more after its end.
	Final bool `json:"final,omitempty"`
	// ETags are the ETags of the host's answers, by resource. The fields that an unchanged answer is about stay.
	ETags map[string]string `json:"etags,omitempty"`
}

// NotRead is the problem of a pull request before its first read.
const NotRead = "it was not read yet"

// MaxChanged bounds PullRequest.Changed.
const MaxChanged = 1000

// Ended returns when it was merged or closed, zero while it is not.
func (p PullRequest) Ended() time.Time {
	switch p.State {
	case PullMerged:
		return p.Merged
	case PullClosed:
		return p.Closed
	}
	return time.Time{}
}

// Opened returns since when it waits for people, or did until its end: when it was created,
// last made ready or reopened. Zero if that is not known.
func (p PullRequest) Opened() time.Time {
	opened := p.Created
	for _, at := range []time.Time{p.Ready, p.Reopened} {
		if at.After(opened) {
			opened = at
		}
	}
	return opened
}

// Redirect is a rule of a site's file of redirects that leads from one path to one page.
type Redirect struct {
	Project string `json:"project"`
	// File is the path of the file in the repository.
	File string `json:"file"`
	// Path is the path that is missed without the rule, and Target the page, both as the archive has paths.
	Path   string `json:"path"`
	Target string `json:"target"`
	// Since is when the base branch got the rule.
	Since time.Time `json:"since"`
}
