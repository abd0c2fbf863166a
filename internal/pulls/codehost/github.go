package codehost

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/google/go-github/v89/github"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// The keys of PullRequest.ETags. A resource without one was never read, or is to be read
// again whatever the host says.
const (
	keyPull     = "pull"
	keyReviews  = "reviews"
	keyChecks   = "checks"
	keyStatuses = "statuses"
	keyEvents   = "events"
	keyFiles    = "files"
	keyNotes    = "notes"
)

const (
	maxPages     = 10
	maxFilePages = journal.MaxChanged / perPage
)

// readGitHub reads the pull request and then its other resources, as far as they may have
// changed. Each leaves the pull request whole, so that an error of a later one loses nothing.
func (r *reading) readGitHub(ctx context.Context) error {
	repository := "/repos/" + r.pr.Repository
	pull := repository + "/pulls/" + strconv.Itoa(r.pr.Number)
	var p github.PullRequest
	changed, err := r.resource(ctx, keyPull, pull, &p)
	if err != nil {
		return err
	}
	if changed && !r.githubPull(&p) {
		delete(r.pr.ETags, keyPull)
		return r.garbled()
	}
	r.pr.Answered = r.now()
	if r.wants(keyEvents) && r.pr.State != journal.PullDraft {
		// Only the events say when it became ready, and when it was reopened.
		events, _, err := list[github.IssueEvent](ctx, r, keyEvents,
			repository+"/issues/"+strconv.Itoa(r.pr.Number)+"/events", maxPages)
		if err = r.unlessHidden(keyEvents, err); err != nil {
			return err
		}
		r.pr.Ready = r.pr.Created
		for _, e := range events {
			switch e.GetEvent() {
			case "ready_for_review":
				r.pr.Ready = clock.Later(r.pr.Ready, e.GetCreatedAt().UTC())
			case "reopened":
				r.pr.Reopened = clock.Later(r.pr.Reopened, e.GetCreatedAt().UTC())
			}
		}
	}
	if !r.pr.State.Ended() || r.wants(keyReviews) {
		requested := len(p.RequestedReviewers)+len(p.RequestedTeams) > 0
		if err := r.githubReviews(ctx, pull+"/reviews", changed, requested); err != nil {
			return err
		}
	}
	if !r.pr.State.Ended() {
		if err := r.githubChecks(ctx, repository+"/commits/"+r.pr.Commit); err != nil {
			return err
		}
	}
	if r.pr.State != journal.PullMerged || !r.wants(keyFiles) {
		return nil
	}
	files, changed, err := list[githubFile](ctx, r, keyFiles, pull+"/files", maxFilePages)
	if err = r.unlessHidden(keyFiles, err); err != nil || !changed {
		return err
	}
	r.pr.Changed = nil
	for _, f := range files {
		r.addChanged(f.Name, f.Former)
	}
	return nil
}

func (r *reading) wants(key string) bool { return r.pr.ETags[key] == "" }

// githubPull takes over what the pull request says of itself; false if that is not one.
func (r *reading) githubPull(p *github.PullRequest) bool {
	state, commit := journal.PullOpen, p.GetHead().GetSHA()
	switch {
	case p.GetNumber() != r.pr.Number, p.GetCreatedAt().IsZero(), commit == "":
		return false
	case !p.GetMergedAt().IsZero():
		state, commit = journal.PullMerged, p.GetMergeCommitSHA()
	case p.GetState() == "closed":
		state = journal.PullClosed
	case p.GetState() != "open":
		return false
	case p.GetDraft():
		state = journal.PullDraft
	}
	r.become(state, commit, p.GetDraft())
	pr := &r.pr
	pr.Author = p.GetUser().GetLogin()
	pr.Created, pr.Merged, pr.Closed = p.GetCreatedAt().UTC(), p.GetMergedAt().UTC(), time.Time{}
	if state == journal.PullClosed {
		pr.Closed = p.GetClosedAt().UTC()
	}
	pr.Files, pr.Additions, pr.Deletions = p.GetChangedFiles(), p.GetAdditions(), p.GetDeletions()
	return true
}

// become takes over the state and decides which resources to read anew: the events after
// a draft or a close, the reviews once more at the end, the checks of another commit.
func (r *reading) become(state journal.PullState, commit string, draft bool) {
	pr := &r.pr
	if state.Ended() && !pr.State.Ended() {
		delete(pr.ETags, keyReviews)
	}
	if pr.State.Ended() && !state.Ended() {
		delete(pr.ETags, keyEvents)
	}
	if commit != pr.Commit {
		delete(pr.ETags, keyChecks)
		delete(pr.ETags, keyStatuses)
		if !state.Ended() {
			pr.Checks = ""
		}
	}
	if draft {
		delete(pr.ETags, keyEvents)
		delete(pr.ETags, keyNotes)
		pr.Ready = time.Time{}
		if state.Ended() {
			pr.ETags[keyEvents] = asked
		}
	}
	pr.State, pr.Commit, r.draft = state, commit, draft
}

// unlessHidden makes nothing of an error which says that the token does not show this part
// of the pull request; the part counts as read.
func (r *reading) unlessHidden(key string, err error) error {
	if KindOf(err) == Hidden {
		r.pr.ETags[key] = asked
		return nil
	}
	return err
}

// githubReviews finds the decision, and the first review by a person who is not the author.
func (r *reading) githubReviews(ctx context.Context, path string, fresh, requested bool) error {
	reviews, changed, err := list[github.PullRequestReview](ctx, r, keyReviews, path, maxPages)
	if err = r.unlessHidden(keyReviews, err); err != nil {
		return err
	}
	if !changed {
		if fresh && (r.pr.Review == "" || r.pr.Review == journal.ReviewRequired) {
			r.pr.Review = required(requested)
		}
		return nil
	}
	latest := map[string]string{}
	for _, review := range reviews {
		at, by := review.GetSubmittedAt().UTC(), review.GetUser()
		if by.GetLogin() != r.pr.Author && by.GetType() != "Bot" && !at.IsZero() &&
			(r.pr.FirstReview.IsZero() || at.Before(r.pr.FirstReview)) {
			r.pr.FirstReview = at
		}
		if state := review.GetState(); state != "COMMENTED" && state != "PENDING" {
			latest[by.GetLogin()] = state
		}
	}
	decision := required(requested || !fresh && r.pr.Review == journal.ReviewRequired)
	for _, state := range latest {
		switch {
		case state == "CHANGES_REQUESTED":
			decision = journal.ReviewChanges
		case state == "APPROVED" && decision != journal.ReviewChanges:
			decision = journal.ReviewApproved
		}
	}
	r.pr.Review = decision
	return nil
}

func required(yes bool) string {
	if yes {
		return journal.ReviewRequired
	}
	return ""
}

// githubChecks sums up the newest check runs of the commit and its statuses, which older CI
// systems set instead. Only their sum is kept: if one of the two changed, the other is read
// again.
func (r *reading) githubChecks(ctx context.Context, commit string) error {
	runs, ranAnew, err := r.githubRuns(ctx, commit)
	if err != nil {
		return err
	}
	statuses, setAnew, err := r.githubStatuses(ctx, commit)
	switch {
	case err != nil:
	case ranAnew && !setAnew && r.pr.ETags[keyStatuses] != asked:
		delete(r.pr.ETags, keyStatuses)
		statuses, _, err = r.githubStatuses(ctx, commit)
	case setAnew && !ranAnew && r.pr.ETags[keyChecks] != asked:
		delete(r.pr.ETags, keyChecks)
		runs, _, err = r.githubRuns(ctx, commit)
	case !ranAnew && !setAnew:
		return nil
	}
	if err != nil {
		delete(r.pr.ETags, keyChecks) // its result was not used
		return err
	}
	r.pr.Checks = ""
	for _, result := range []string{journal.ChecksSuccess, journal.ChecksPending, journal.ChecksFailure} {
		if runs == result || statuses == result {
			r.pr.Checks = result // the worse one comes later
		}
	}
	return nil
}

func (r *reading) githubRuns(ctx context.Context, commit string) (result string, changed bool, err error) {
	runs, changed, err := listIn(ctx, r, keyChecks, commit+"/check-runs", maxPages,
		func(page github.ListCheckRunsResults) []*github.CheckRun { return page.CheckRuns })
	for _, run := range runs {
		switch run.GetConclusion() {
		case "success", "neutral", "skipped":
			result = cmp.Or(result, journal.ChecksSuccess)
		case "":
			if result != journal.ChecksFailure {
				result = journal.ChecksPending
			}
		default:
			result = journal.ChecksFailure
		}
	}
	return result, changed, r.unlessHidden(keyChecks, err)
}

// githubStatuses reads what GitHub makes of the statuses of all contexts.
func (r *reading) githubStatuses(ctx context.Context, commit string) (result string, changed bool, err error) {
	var combined github.CombinedStatus
	changed, err = r.resource(ctx, keyStatuses, commit+"/status?per_page=1", &combined)
	if combined.GetTotalCount() > 0 { // without any it is pending
		result = map[string]string{"success": journal.ChecksSuccess,
			"pending": journal.ChecksPending}[combined.GetState()]
		result = cmp.Or(result, journal.ChecksFailure)
	}
	return result, changed, r.unlessHidden(keyStatuses, err)
}

// githubFile is a changed file, without the change that go-github keeps in memory.
type githubFile struct {
	Name   string `json:"filename"`
	Former string `json:"previous_filename"`
}

func (r *reading) addChanged(name, former string) {
	for _, path := range slices.Compact([]string{name, former}) {
		if path != "" && len(r.pr.Changed) < journal.MaxChanged {
			r.pr.Changed = append(r.pr.Changed, path)
		}
	}
}
