package state_test

import (
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// TestPullRequests: what was stored last is there after a restart, whole; a link of jobs without a row
// is reported once, with the project of the first job, until it has one.
func TestPullRequests(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	const one, two = "https://github.com/acme/docs/pull/1", "https://github.com/acme/docs/pull/2"
	for i, link := range []string{two, one, one, ""} {
		name := string(rune('a' + i))
		apply(t, db, journal.Change{At: now, Job: journal.Job{
			Prompt: "p" + name, Try: 1, Project: "prj_" + name, State: journal.Completed, PRLink: link,
		}})
	}
	same(t, []journal.PullRequest{{Link: two, Project: "prj_a"}, {Link: one, Project: "prj_b"}},
		must(db.UnfollowedPullRequests(t.Context()))(t))
	whole := journal.PullRequest{
		Link: one, Project: "prj_b", Host: "github", Repository: "acme/docs", Number: 1, State: journal.PullMerged,
		Author: "agent", Problem: "old", Created: now, Ready: now.Add(1), FirstReview: now.Add(2), Merged: now.Add(3),
		Closed: now.Add(4), Reopened: now.Add(5), Review: journal.ReviewApproved, Checks: journal.ChecksSuccess,
		Files: 1, Additions: 2, Deletions: 3, Commit: "abc", Changed: []string{"a.mdx"}, Pages: []string{"/a"},
		Mapped: true, Answered: now.Add(6), Next: now.Add(time.Hour), Missing: now.Add(7), Final: true,
		ETags: map[string]string{"pull": `W/"1"`},
	}
	second := journal.PullRequest{Link: two, State: journal.PullOpen}
	check(t, db.SetPullRequests(t.Context(), journal.PullRequest{Link: one, Project: "prj_b"}, second))
	check(t, db.SetPullRequests(t.Context(), whole))
	check(t, db.Close())
	db = open(t, dir)
	same(t, []journal.PullRequest{whole, second}, must(db.PullRequests(t.Context()))(t))
	short := whole
	short.Changed, short.Pages, short.Mapped, short.ETags = nil, nil, false, nil
	same(t, []journal.PullRequest{short, second}, must(db.PullStates(t.Context()))(t))
	same(t, []journal.PullRequest{second}, must(db.FollowedPullRequests(t.Context()))(t))
	same(t, 0, len(must(db.UnfollowedPullRequests(t.Context()))(t)))
	var state string
	var next int64
	check(t, raw(t, dir).QueryRow("SELECT state, next_at FROM pull_requests WHERE link = ?", one).Scan(&state, &next))
	if state != "merged" || next != now.Add(time.Hour).UnixMicro() {
		t.Error(state, next)
	}
}
