package codehost_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

const (
	glLink      = "https://gitlab.com/acme/team/docs/-/merge_requests/7"
	glPull      = "/api/v4/projects/acme%2Fteam%2Fdocs/merge_requests/7"
	glApprovals = glPull + "/approvals"
	glNotes     = glPull + "/notes?per_page=100&page=1"
	glEvents    = glPull + "/resource_state_events?per_page=100&page=1"
	glDiffs     = glPull + "/diffs?per_page=100&page=1"
)

func merge(state, more string) string {
	return fmt.Sprintf(`{"iid":7,"state":%q,"created_at":"2026-10-05T02:00:00.000+02:00",
		"updated_at":"2026-10-09T00:00:00Z","author":{"username":"agent"},"sha":"a","changes_count":"3"%s}`,
		state, more)
}

func note(body string, minute int, author, more string) string {
	return fmt.Sprintf(`{"body":%q,"created_at":"2026-10-05T00:%02d:00Z","author":{"username":%q}%s}`, body, minute,
		author, more)
}

func stateEvent(state string, minute int) string {
	return fmt.Sprintf(`{"state":%q,"created_at":"2026-10-05T00:%02d:00Z"}`, state, minute)
}

// TestGitLabLife is TestGitHubLife for a merge request.
func TestGitLabLife(t *testing.T) {
	w := &wire{answers: map[string]string{
		glPull:      merge("opened", `,"draft":true,"merged_at":null,"head_pipeline":null`),
		glApprovals: `{"approved":true,"approved_by":[]}`, glEvents: `[]`,
		// It became ready after the merge request was read, and before the notes were.
		glNotes: list(note("marked this merge request as **ready**", 10, "bob", `,"system":true`)),
	}}
	pr := journal.PullRequest{Link: glLink, Project: "prj_a"}
	want := journal.PullRequest{
		Link: pr.Link, Project: "prj_a", Host: "gitlab", Repository: "acme/team/docs", Number: 7,
		State: journal.PullDraft, Author: "agent",
		Created: at(0), Files: 3, Commit: "a", Answered: now,
	}
	step := life(t, w, &pr, &want)
	step("draft", glPull, glApprovals, glNotes, glEvents)
	step("unchanged", glPull+"=304", glApprovals+"=304", glNotes+"=304")

	w.answers[glPull] = merge("opened", `,"reviewers":[{"username":"ann"}],"head_pipeline":{"status":"running"}`)
	want.State, want.Ready = journal.PullOpen, at(10)
	want.Checks, want.Review = journal.ChecksPending, journal.ReviewRequired
	step("ready", glPull, glApprovals+"=304", glNotes)

	w.answers[glPull] = merge("opened",
		`,"detailed_merge_status":"requested_changes","head_pipeline":{"status":"failed"}`)
	w.answers[glNotes] = strings.Replace(w.answers[glNotes], "]", ","+note("self", 11, "agent", "")+","+
		note("x", 12, "ann", "")+"]", 1)
	want.Review, want.FirstReview, want.Checks = journal.ReviewChanges, at(12), journal.ChecksFailure
	step("changes requested", glPull, glApprovals+"=304", glNotes)

	w.answers[glPull] = merge("opened", `,"head_pipeline":{"status":"success"}`)
	w.answers[glApprovals] = `{"approved":true,"approved_by":[{"user":{"username":"ann"}}]}`
	want.Review, want.Checks = journal.ReviewApproved, journal.ChecksSuccess
	step("approved", glPull, glApprovals)

	w.answers[glApprovals] = `{"approved":false,"approved_by":[]}`
	want.Review = journal.ReviewRequired
	step("approval taken back", glPull+"=304", glApprovals)

	w.answers[glPull] = merge("closed", `,"closed_at":"2026-10-05T00:30:00Z"`)
	want.State, want.Closed, want.Review, want.Checks = journal.PullClosed, at(30), "", ""
	step("closed", glPull, glApprovals)
	step("unchanged", glPull+"=304")

	w.answers[glPull] = merge("opened", ``)
	w.answers[glEvents] = list(stateEvent("closed", 30), stateEvent("reopened", 40))
	want.State, want.Closed, want.Reopened = journal.PullOpen, time.Time{}, at(40)
	step("reopened", glPull, glApprovals+"=304", glEvents)

	w.answers[glPull] = merge("merged",
		`,"merged_at":"2026-10-05T00:50:00Z","squash_commit_sha":"s","changes_count":"1000+"`)
	w.answers[glDiffs] = list(`{"new_path":"a.mdx","old_path":"a.mdx","diff":"@@ -1 +1,2 @@\n-x\n+y\n+z\n"}`,
		`{"new_path":"new.mdx","old_path":"old.mdx","diff":""}`)
	want.State, want.Merged, want.Commit = journal.PullMerged, at(50), "s"
	want.Files, want.Additions, want.Deletions = 1000, 2, 1
	want.Changed = []string{"a.mdx", "new.mdx", "old.mdx"}
	step("merged", glPull, glApprovals, glDiffs)
	step("unchanged", glPull+"=304")
}
