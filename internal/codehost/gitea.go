package codehost

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// readGitea is readGitHub for Gitea and Forgejo, whose API has the same pull requests, reviews, statuses and
// files. Drafts are those with a title that says so, and there are no check runs beside the statuses.
func (r *reading) readGitea(ctx context.Context) error {
	repository, number := r.root(r.pr.Repository), strconv.Itoa(r.pr.Number)
	path := repository + "/pulls/" + number
	p, changed, err := r.readPull(ctx, path)
	if err != nil {
		return err
	}
	if r.wants(keyEvents) && r.pr.State != journal.PullDraft {
		events, _, err := list[struct {
			Type    string
			Created time.Time `json:"created_at"`
			Old     string    `json:"old_title"`
		}](ctx, r, keyEvents, repository+"/issues/"+number+"/timeline", maxEntries)
		if err = r.unlessHidden(keyEvents, err); err != nil {
			return err
		}
		r.pr.Ready = r.pr.Created
		for _, e := range events {
			switch {
			case e.Type == "reopen":
				r.pr.Reopened = clock.Later(r.pr.Reopened, e.Created.UTC())
			case e.Type == "change_title" && inProgress(e.Old): // the last of them made it ready
				r.pr.Ready = clock.Later(r.pr.Ready, e.Created.UTC())
			}
		}
	}
	if !r.pr.State.Ended() || r.wants(keyReviews) {
		if err := r.readReviews(ctx, path+"/reviews", changed, len(p.Reviewers)+len(p.Teams) > 0); err != nil {
			return err
		}
	}
	if !r.pr.State.Ended() {
		checks, changed, err := r.readStatuses(ctx, repository+"/commits/"+r.pr.Commit)
		if err != nil {
			return err
		}
		if changed {
			r.pr.Checks = checks
		}
	}
	return r.readFiles(ctx, path+"/files")
}

// inProgress reports whether Gitea takes a pull request for a draft by its title, unless the server's
// settings name other prefixes.
func inProgress(title string) bool {
	title = strings.ToUpper(title)
	return strings.HasPrefix(title, "WIP:") || strings.HasPrefix(title, "[WIP]")
}
