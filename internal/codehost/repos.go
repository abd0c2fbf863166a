package codehost

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/journal"
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

// maxEntries is the number of entries of a list that are read.
const maxEntries = 1000

// pull is a pull request, as GitHub and Gitea show it.
type pull struct {
	Number      int
	State       string
	Draft       bool
	Title       string
	User        user
	Created     time.Time `json:"created_at"`
	Merged      time.Time `json:"merged_at"`
	Closed      time.Time `json:"closed_at"`
	MergeCommit string    `json:"merge_commit_sha"`
	Head        struct{ SHA string }
	Files       int `json:"changed_files"`
	Additions   int
	Deletions   int
	Reviewers   []struct{} `json:"requested_reviewers"`
	Teams       []struct{} `json:"requested_teams"`
}

// user is an account of GitHub or Gitea.
type user struct{ Login, Type string }

// readAtRepos reads a pull request of GitHub or Gitea and then its other resources, as far as they may have
// changed. Each leaves the pull request whole, so that an error of a later one loses nothing. Gitea has no ETags;
// its drafts are those with a title that says so, and it has no check runs beside the statuses.
func (r *reading) readAtRepos(ctx context.Context) error {
	repository, number := r.root(r.pr.Repository), strconv.Itoa(r.pr.Number)
	path := repository + "/pulls/" + number
	var p pull
	changed, err := r.resource(ctx, keyPull, path, &p)
	if err != nil {
		return err
	}
	if changed && !r.takeOver(&p) {
		delete(r.pr.ETags, keyPull)
		return r.garbled()
	}
	r.pr.Answered = r.now()
	if r.wants(keyEvents) && r.pr.State != journal.PullDraft {
		// Only the events say when it became ready, and when it was reopened.
		from := map[string]string{gitHub: "/events", gitea: "/timeline"}[r.Name]
		events, _, err := list[event](ctx, r, keyEvents, repository+"/issues/"+number+from, maxEntries)
		if err = r.unlessHidden(keyEvents, err); err != nil {
			return err
		}
		r.pr.Ready = r.pr.Created
		for _, e := range events {
			switch at := e.Created.UTC(); {
			case e.Event == "reopened", e.Type == "reopen":
				r.pr.Reopened = clock.Later(r.pr.Reopened, at)
			case e.Event == "ready_for_review", e.Type == "change_title" && inProgress(e.Old):
				r.pr.Ready = clock.Later(r.pr.Ready, at) // the last of them made it ready
			}
		}
	}
	if !r.pr.State.Ended() || r.wants(keyReviews) {
		if err := r.readReviews(ctx, path+"/reviews", changed, len(p.Reviewers)+len(p.Teams) > 0); err != nil {
			return err
		}
	}
	if !r.pr.State.Ended() {
		if err := r.readChecks(ctx, repository+"/commits/"+r.pr.Commit); err != nil {
			return err
		}
	}
	return r.readFiles(ctx, path+"/files")
}

// event is one of the history of a pull request: Event of GitHub, State of GitLab, Type of Gitea.
type event struct {
	Event, State, Type string
	Created            time.Time `json:"created_at"`
	Old                string    `json:"old_title"`
}

// inProgress reports whether Gitea takes a pull request for a draft by its title, unless the server's
// settings name other prefixes.
func inProgress(title string) bool {
	title = strings.ToUpper(title)
	return strings.HasPrefix(title, "WIP:") || strings.HasPrefix(title, "[WIP]")
}

// readFiles reads which files it changed, once it is merged.
func (r *reading) readFiles(ctx context.Context, path string) error {
	if r.pr.State != journal.PullMerged || !r.wants(keyFiles) {
		return nil
	}
	files, changed, err := list[changedFile](ctx, r, keyFiles, path, journal.MaxChanged)
	if err = r.unlessHidden(keyFiles, err); err != nil || !changed {
		return err
	}
	r.pr.Changed = nil
	if r.Name == gitLab { // it counts no lines
		r.pr.Additions, r.pr.Deletions = 0, 0
	}
	for _, f := range files {
		for _, path := range slices.Compact([]string{cmp.Or(f.Name, f.New), cmp.Or(f.Former, f.Old)}) {
			if path != "" && len(r.pr.Changed) < journal.MaxChanged {
				r.pr.Changed = append(r.pr.Changed, path)
			}
		}
		for line := range strings.Lines(f.Diff) {
			switch line[0] {
			case '+':
				r.pr.Additions++
			case '-':
				r.pr.Deletions++
			}
		}
	}
	return nil
}

// changedFile is a changed file: GitLab sends New, Old and Diff, GitHub and Gitea the other fields.
type changedFile struct {
	Name   string `json:"filename"`
	Former string `json:"previous_filename"`
	New    string `json:"new_path"`
	Old    string `json:"old_path"`
	Diff   string
}

func (r *reading) wants(key string) bool { return r.pr.ETags[key] == "" }

// takeOver takes over what the pull request says of itself; false if that is not one.
func (r *reading) takeOver(p *pull) bool {
	state, commit := journal.PullOpen, p.Head.SHA
	p.Draft = p.Draft || r.Name == gitea && inProgress(p.Title)
	switch {
	case p.Number != r.pr.Number, p.Created.IsZero(), commit == "":
		return false
	case !p.Merged.IsZero():
		state, commit = journal.PullMerged, p.MergeCommit
	case p.State == "closed":
		state = journal.PullClosed
	case p.State != "open":
		return false
	case p.Draft:
		state = journal.PullDraft
	}
	r.become(state, commit, p.Draft)
	pr := &r.pr
	pr.Author = p.User.Login
	pr.Created, pr.Merged, pr.Closed = p.Created.UTC(), p.Merged.UTC(), time.Time{}
	if state == journal.PullClosed {
		pr.Closed = p.Closed.UTC()
	}
	pr.Files, pr.Additions, pr.Deletions = p.Files, p.Additions, p.Deletions
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

// review is a review, as GitHub and Gitea show it.
type review struct {
	State     string
	Submitted time.Time `json:"submitted_at"`
	User      user
	Dismissed bool // of Gitea; of GitHub it is a state
}

// readReviews finds the decision, and the first review by a person who is not the author.
func (r *reading) readReviews(ctx context.Context, path string, fresh, requested bool) error {
	reviews, changed, err := list[review](ctx, r, keyReviews, path, maxEntries)
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
		// Gitea's REQUEST_REVIEW is that one was requested.
		at, by, state := review.Submitted.UTC(), review.User, review.State
		if by.Login != r.pr.Author && by.Type != "Bot" && !at.IsZero() && state != "REQUEST_REVIEW" && state != "PENDING" &&
			(r.pr.FirstReview.IsZero() || at.Before(r.pr.FirstReview)) {
			r.pr.FirstReview = at
		}
		switch state {
		case "COMMENTED", "COMMENT", "PENDING":
		case "REQUEST_CHANGES":
			state = "CHANGES_REQUESTED"
			fallthrough
		default:
			if review.Dismissed {
				state = "DISMISSED"
			}
			latest[by.Login] = state
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

// readChecks sums up the newest check runs of the commit, of GitHub, and its statuses, which older CI
// systems set instead. Only their sum is kept: if one of the two changed, the other is read
// again.
func (r *reading) readChecks(ctx context.Context, commit string) error {
	runs, ranAnew, err := r.githubRuns(ctx, commit)
	if err != nil {
		return err
	}
	statuses, setAnew, err := r.readStatuses(ctx, commit)
	switch {
	case err != nil:
	case ranAnew && !setAnew && r.pr.ETags[keyStatuses] != asked:
		delete(r.pr.ETags, keyStatuses)
		statuses, _, err = r.readStatuses(ctx, commit)
	case setAnew && !ranAnew && r.Name == gitHub && r.pr.ETags[keyChecks] != asked:
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
	if r.Name != gitHub {
		return "", false, nil
	}
	type run struct{ Conclusion string }
	type answer struct {
		Runs []run `json:"check_runs"`
	}
	runs, changed, err := listIn(ctx, r, keyChecks, commit+"/check-runs", maxEntries,
		func(page answer) []run { return page.Runs })
	for _, run := range runs {
		switch run.Conclusion {
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

// readStatuses reads what the host makes of the statuses of all contexts.
func (r *reading) readStatuses(ctx context.Context, commit string) (result string, changed bool, err error) {
	var combined struct {
		State string
		Count int `json:"total_count"`
	}
	changed, err = r.resource(ctx, keyStatuses, commit+"/status?per_page=1", &combined)
	if combined.Count > 0 { // without any it is pending
		result = map[string]string{"success": journal.ChecksSuccess, "pending": journal.ChecksPending,
			"warning": journal.ChecksSuccess, "skipped": journal.ChecksSuccess}[combined.State] // the latter of Gitea
		result = cmp.Or(result, journal.ChecksFailure)
	}
	return result, changed, r.unlessHidden(keyStatuses, err)
}
