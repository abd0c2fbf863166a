package codehost

import (
	"cmp"
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/journal"
)

// gitlabUser is an account.
type gitlabUser struct {
	Username string `json:"username"`
	Bot      bool   `json:"bot"`
}

// gitlabPull is a merge request.
type gitlabPull struct {
	Number       int          `json:"iid"`
	State        string       `json:"state"`
	Draft        bool         `json:"draft"`
	Author       gitlabUser   `json:"author"`
	Created      time.Time    `json:"created_at"`
	Merged       *time.Time   `json:"merged_at"`
	Closed       *time.Time   `json:"closed_at"`
	SHA          string       `json:"sha"`
	MergeCommit  string       `json:"merge_commit_sha"`
	SquashCommit string       `json:"squash_commit_sha"`
	Changes      string       `json:"changes_count"` // "1000+" above a thousand
	MergeStatus  string       `json:"detailed_merge_status"`
	Reviewers    []gitlabUser `json:"reviewers"`
	Pipeline     struct {
		Status string `json:"status"`
	} `json:"head_pipeline"`
}

// readGitLab is readAtRepos for merge requests.
func (r *reading) readGitLab(ctx context.Context) error {
	path := r.root(r.pr.Repository) + "/merge_requests/" + strconv.Itoa(r.pr.Number)
	var p gitlabPull
	changed, err := r.resource(ctx, keyPull, path, &p)
	if err != nil {
		return err
	}
	if changed && !r.gitlabPull(&p) {
		delete(r.pr.ETags, keyPull)
		return r.garbled()
	}
	r.pr.Answered = r.now()
	if !r.pr.State.Ended() || r.wants(keyReviews) {
		var a struct {
			Approved bool       `json:"approved"`
			By       []struct{} `json:"approved_by"`
		}
		changed, err := r.resource(ctx, keyReviews, path+"/approvals", &a)
		if err = r.unlessHidden(keyReviews, err); err != nil {
			return err
		}
		switch {
		case !changed, r.pr.Review == journal.ReviewChanges:
		case a.Approved && len(a.By) > 0:
			r.pr.Review = journal.ReviewApproved
		case r.pr.Review == journal.ReviewApproved:
			r.pr.Review = journal.ReviewRequired
		}
	}
	if r.wants(keyNotes) || !r.pr.State.Ended() && r.pr.FirstReview.IsZero() {
		if err := r.gitlabNotes(ctx, path+"/notes"); err != nil {
			return err
		}
	}
	if r.wants(keyEvents) {
		events, _, err := list[event](ctx, r, keyEvents, path+"/resource_state_events", maxEntries)
		if err = r.unlessHidden(keyEvents, err); err != nil {
			return err
		}
		for _, e := range events {
			if e.State == "reopened" {
				r.pr.Reopened = clock.Later(r.pr.Reopened, e.Created.UTC())
			}
		}
	}
	return r.readFiles(ctx, path+"/diffs")
}

func (r *reading) gitlabPull(p *gitlabPull) bool {
	state, commit := journal.PullOpen, p.SHA
	switch {
	case p.Number != r.pr.Number, p.Created.IsZero():
		return false
	case p.State == "merged":
		state, commit = journal.PullMerged, cmp.Or(p.MergeCommit, p.SquashCommit, p.SHA)
	case p.State == "closed":
		state = journal.PullClosed
	case p.State != "opened" && p.State != "locked":
		return false
	case p.Draft:
		state = journal.PullDraft
	}
	// After the end the notes have the reviews since the last read.
	if state.Ended() && !r.pr.State.Ended() && r.pr.FirstReview.IsZero() {
		delete(r.pr.ETags, keyNotes)
	}
	if r.pr.State == journal.PullDraft && state != journal.PullDraft {
		delete(r.pr.ETags, keyNotes)
	}
	r.become(state, commit, p.Draft)
	pr := &r.pr
	pr.Author, pr.Created = p.Author.Username, p.Created.UTC()
	pr.Merged, pr.Closed = gitlabTime(p.Merged), time.Time{}
	if state == journal.PullClosed {
		pr.Closed = gitlabTime(p.Closed)
	}
	if n, err := strconv.Atoi(strings.TrimSuffix(p.Changes, "+")); err == nil {
		pr.Files = n
	}
	pr.Checks = gitlabChecks[p.Pipeline.Status]
	// Whether it is approved is another resource, which is read next.
	switch {
	case p.MergeStatus == "requested_changes":
		pr.Review = journal.ReviewChanges
	case pr.Review != journal.ReviewApproved:
		pr.Review = required(len(p.Reviewers) > 0 || p.MergeStatus == "not_approved")
	}
	return true
}

func gitlabTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// gitlabChecks are the states of a pipeline. A skipped one says nothing.
var gitlabChecks = map[string]string{
	"success": journal.ChecksSuccess,
	"failed":  journal.ChecksFailure, "canceled": journal.ChecksFailure, "canceling": journal.ChecksFailure,
	"created": journal.ChecksPending, "waiting_for_resource": journal.ChecksPending, "preparing": journal.ChecksPending,
	"pending": journal.ChecksPending, "running": journal.ChecksPending, "scheduled": journal.ChecksPending,
	"manual": journal.ChecksPending,
}

// gitlabNotes finds the first review by a person who is not the author, and when it last
// stopped being a draft: GitLab says so in notes that it writes itself.
func (r *reading) gitlabNotes(ctx context.Context, path string) error {
	type note struct {
		System  bool       `json:"system"`
		Body    string     `json:"body"`
		Author  gitlabUser `json:"author"`
		Created time.Time  `json:"created_at"`
	}
	notes, changed, err := list[note](ctx, r, keyNotes, path, maxEntries)
	if err = r.unlessHidden(keyNotes, err); err != nil {
		return err
	}
	draft := r.draft || r.pr.State == journal.PullDraft
	if !draft && r.pr.Ready.IsZero() {
		r.pr.Ready = r.pr.Created
	}
	if !changed {
		return nil
	}
	for _, n := range notes {
		review := !n.System || strings.HasPrefix(n.Body, "approved this") ||
			strings.HasPrefix(n.Body, "requested changes")
		if review && n.Author.Username != r.pr.Author && !n.Author.Bot &&
			(r.pr.FirstReview.IsZero() || n.Created.Before(r.pr.FirstReview)) {
			r.pr.FirstReview = n.Created.UTC()
		}
		if n.System && !draft && strings.Contains(n.Body, "as **ready**") {
			r.pr.Ready = clock.Later(r.pr.Ready, n.Created.UTC())
		}
	}
	return nil
}
