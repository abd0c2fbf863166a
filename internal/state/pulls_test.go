package state_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// TestPullRequests: what was stored last is there after a restart, whole; a link of jobs
// without a row is told once, with the project of the first job, and not for ever.
func TestPullRequests(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	const one, two = "https://github.com/acme/docs/pull/1", "https://github.com/acme/docs/pull/2"
	for i, link := range []string{two, one, one, ""} {
		job := journal.Job{Prompt: "p" + string(rune('a'+i)), Try: 1, Project: "prj_" + string(rune('a'+i)), State: journal.Completed, PRLink: link}
		_, err := db.Apply(t.Context(), journal.Change{Job: job, At: now})
		check(t, err)
	}
	unfollowed, err := db.UnfollowedPullRequests(t.Context())
	if diff := cmp.Diff([]journal.PullRequest{{Link: two, Project: "prj_a"}, {Link: one, Project: "prj_b"}}, unfollowed); err != nil || diff != "" {
		t.Error(err, diff)
	}
	whole := journal.PullRequest{
		Link: one, Project: "prj_b", Host: "github", Repository: "acme/docs", Number: 1, State: journal.PullMerged, Author: "agent", Problem: "old",
		Created: now, Ready: now.Add(1), FirstReview: now.Add(2), Merged: now.Add(3), Closed: now.Add(4), Reopened: now.Add(5),
		Review: journal.ReviewApproved, Checks: journal.ChecksSuccess, Files: 1, Additions: 2, Deletions: 3, Commit: "abc", Changed: []string{"a.mdx"}, Pages: []string{"/a"}, Mapped: true,
		Answered: now.Add(6), Next: now.Add(time.Hour), Missing: now.Add(7), Final: true, ETags: map[string]string{"pull": `W/"1"`},
	}
	check(t, db.SetPullRequests(t.Context(), journal.PullRequest{Link: one, Project: "prj_b"}, journal.PullRequest{Link: two, State: journal.PullOpen}))
	check(t, db.SetPullRequests(t.Context(), whole))
	check(t, db.Close())
	db = open(t, dir)
	pulls, err := db.PullRequests(t.Context())
	if diff := cmp.Diff([]journal.PullRequest{whole, {Link: two, State: journal.PullOpen}}, pulls); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if pulls, err = db.FollowedPullRequests(t.Context()); err != nil || len(pulls) != 1 || pulls[0].Link != two {
		t.Error(pulls, err)
	}
	if unfollowed, err = db.UnfollowedPullRequests(t.Context()); err != nil || len(unfollowed) != 0 {
		t.Error(unfollowed, err)
	}
	var state string
	var next int64
	check(t, raw(t, dir).QueryRow("SELECT state, next_at FROM pull_requests WHERE link = ?", one).Scan(&state, &next))
	if state != "merged" || next != now.Add(time.Hour).UnixMicro() {
		t.Error(state, next)
	}
}
