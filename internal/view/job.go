package view

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
)

// Results are how an agent job can end.
var Results = []string{"pr", "no_pr", "failed", "archived", "lost"}

// Link is an address that came from outside. Programs are shown it only if it may be followed.
type Link string

// Safe returns the link, or an empty string if it is unsafe to follow.
func (l Link) Safe() string { return analytics.SafeLink(string(l)) }

// MarshalText returns the link if it is safe.
func (l Link) MarshalText() ([]byte, error) { return []byte(l.Safe()), nil }

// Job is an agent job, or a prompt that waits to become one: then it has only the project, the
// prompt, the title, the state and the reason. The tag api keeps a field out of the columns of
// /api/v1/jobs, which are stable.
type Job struct {
	// Seq is its number in the journal.
	Seq     int64  `json:"seq" api:"-"`
	Project string `json:"project"`
	Prompt  string `json:"prompt"`
	Title   string `json:"title"`
	// Path is the file of the prompt. Firing is the time of the firing of a recurring one, and
	// Try is 1, and one more for each retry.
	Path   string    `json:"path,omitempty" api:"-"`
	Firing time.Time `json:"firing,omitzero" api:"-"`
	Try    int       `json:"attempt,omitempty" api:"-"`
	// State is the queue's word, Status the service's; ID is the service's, empty before it
	// is known.
	State  string `json:"state"`
	Status string `json:"status"`
	ID     string `json:"job_id"`
	// Reason is why it waits or how it ended; it may be empty.
	Reason string `json:"reason"`
	// Result is one of Results for an ended job of the service, else empty.
	Result     string `json:"result"`
	PRLink     Link   `json:"pr_link"`
	Model      string `json:"model"`
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	// Begun is when the job was wanted. It, Created and Ended are zero before they come.
	Begun   time.Time `json:"begun_at,omitzero"`
	Created time.Time `json:"created_at,omitzero"`
	Ended   time.Time `json:"ended_at,omitzero"`
	// Pull is the pull request; nil: it has none.
	Pull *PullRequest `json:"pr,omitempty"`
	// Cost is what it has cost so far, in CostUnit, and Tokens the number of tokens, as the service
	// says; nil: unknown. EstimatedCost is DOCGAUGE_JOB_COST as of its beginning; 0: not set.
	Cost          *float64 `json:"cost"`
	CostUnit      string   `json:"cost_unit"`
	Tokens        *int64   `json:"tokens"`
	EstimatedCost float64  `json:"estimated_cost"`
	// Stalled means that it has been active for a very long time.
	Stalled bool `json:"stalled,omitempty" api:"-"`
}

// PullRequest is the pull request of a job, as its host last said.
type PullRequest struct {
	// State is unknown, draft, open, merged or closed.
	State string `json:"state"`
	// Opened is since when it waits for people, or did until Ended; zero before.
	Opened time.Time `json:"opened_at,omitzero"`
	Ended  time.Time `json:"ended_at,omitzero"`
	// Problem is why the state is unknown or old.
	Problem string `json:"problem,omitempty" api:"-"`
	// Review is approved, changes_requested, review_required or empty; Checks is success,
	// failure, pending or empty.
	Review string `json:"review,omitempty" api:"-"`
	Checks string `json:"checks,omitempty" api:"-"`
	// FirstReview is the first by another person than its author.
	FirstReview time.Time `json:"first_review_at,omitzero" api:"-"`
	Files       int       `json:"files" api:"-"`
	Additions   int       `json:"additions" api:"-"`
	Deletions   int       `json:"deletions" api:"-"`
}

// NewJob returns how a job of the journal is shown at now, with its pull request from those known by
// their links.
func NewJob(j journal.Job, pulls map[string]journal.PullRequest, now time.Time) Job {
	job := Job{
		Seq: j.Seq, Project: j.Project, Prompt: j.Prompt, Title: j.Title,
		Path: j.Path, Firing: j.Firing, Try: j.Try, State: string(j.State), Status: j.Status,
		ID: j.JobID, Reason: j.Reason, Result: j.Result(), PRLink: Link(j.PRLink), Model: j.Model,
		Repository: j.Repository, Ref: j.Ref, Begun: j.Begun, Created: j.Created, Ended: j.Ended,
		Stalled: j.Stalled(now), Cost: j.Cost, CostUnit: j.CostUnit, Tokens: j.Tokens,
	}
	if j.JobID != "" {
		job.EstimatedCost = j.Estimate
	}
	if p, ok := pulls[j.PRLink]; ok {
		job.Pull = &PullRequest{
			State: string(p.State), Problem: p.Problem, Review: p.Review, Checks: p.Checks,
			Opened: p.Opened(), FirstReview: p.FirstReview, Ended: p.Ended(),
			Files: p.Files, Additions: p.Additions, Deletions: p.Deletions,
		}
	}
	return job
}
