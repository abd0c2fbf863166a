package codehost_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

const (
	gtLink     = "https://codeberg.org/acme/docs/pulls/7"
	gtPull     = "/api/v1/repos/acme/docs/pulls/7"
	gtReviews  = gtPull + "/reviews?limit=50&page=1"
	gtTimeline = "/api/v1/repos/acme/docs/issues/7/timeline?limit=50&page=1"
	gtFiles    = gtPull + "/files?limit=50&page=1"
)

func gtStatus(sha string) string {
	return "/api/v1/repos/acme/docs/commits/" + sha + "/status?per_page=1"
}

// titled is a pull request as Gitea shows it; older servers have no draft and no numbers of lines.
func titled(title, state, sha, more string) string {
	return strings.Replace(pull(state, sha, more), `{`, fmt.Sprintf(`{"title":%q,"merged":false,`, title), 1)
}

func renamed(from, to string, minute int) string {
	return fmt.Sprintf(`{"type":"change_title","old_title":%q,"new_title":%q,"created_at":"2026-10-05T00:%02d:00Z"}`,
		from, to, minute)
}

// TestGiteaLife is TestGitHubLife for Gitea: it has no ETags, so that what can change is read each time.
func TestGiteaLife(t *testing.T) {
	w := &wire{untagged: true, answers: map[string]string{
		gtPull: titled("WIP: pages", "open", "a", ""), gtReviews: "[]", gtStatus("a"): `{"state":"","total_count":0}`,
	}}
	pr := journal.PullRequest{Link: gtLink, Project: "prj_a"}
	want := journal.PullRequest{
		Link: gtLink, Project: "prj_a", Host: "gitea", Repository: "acme/docs", Number: 7, State: journal.PullDraft,
		Author: "agent", Created: at(0), Files: 3, Additions: 20, Deletions: 4, Commit: "a", Answered: now,
	}
	step := life(t, w, &pr, &want)
	step("draft", gtPull, gtReviews, gtStatus("a"))

	w.answers[gtPull] = titled("pages", "open", "b", `,"requested_reviewers":[{"login":"ann"}]`)
	w.answers[gtTimeline] = list(renamed("WIP: x", "[wip] pages", 5), renamed("[WIP] pages", "pages", 10),
		renamed("pages", "page", 11))
	w.answers[gtStatus("b")] = `{"state":"pending","total_count":2}`
	w.answers[gtReviews] = list(review("REQUEST_REVIEW", 11, "ann"))
	want.State, want.Ready, want.Commit, want.Checks = journal.PullOpen, at(10), "b", journal.ChecksPending
	want.Review = journal.ReviewRequired
	step("ready", gtPull, gtTimeline, gtReviews, gtStatus("b"))

	w.answers[gtReviews] = list(review("COMMENT", 12, "agent"), review("COMMENT", 13, "bob"),
		review("REQUEST_CHANGES", 14, "ann"))
	w.answers[gtStatus("b")] = `{"state":"error","total_count":2}`
	want.Review, want.FirstReview, want.Checks = journal.ReviewChanges, at(13), journal.ChecksFailure
	step("changes requested", gtPull, gtReviews, gtStatus("b"))

	w.answers[gtReviews] = strings.Replace(list(review("REQUEST_CHANGES", 14, "ann"), review("APPROVED", 15, "bob"),
		review("COMMENT", 16, "bob")), `{"state":"REQUEST_CHANGES"`, `{"dismissed":true,"state":"REQUEST_CHANGES"`, 1)
	w.answers[gtStatus("b")] = `{"state":"warning","total_count":2}`
	want.Review, want.Checks = journal.ReviewApproved, journal.ChecksSuccess
	step("dismissed and approved", gtPull, gtReviews, gtStatus("b"))

	w.answers[gtPull] = titled("pages", "closed", "b", `,"closed_at":"2026-10-05T02:30:00+02:00","merged_at":null`)
	want.State, want.Closed = journal.PullClosed, at(30)
	step("closed", gtPull, gtReviews)

	w.answers[gtPull] = titled("pages", "open", "b", "")
	w.answers[gtTimeline] = list(renamed("WIP: pages", "pages", 10),
		`{"type":"reopen","created_at":"2026-10-05T00:40:00Z"}`)
	want.State, want.Closed, want.Reopened = journal.PullOpen, time.Time{}, at(40)
	step("reopened", gtPull, gtTimeline, gtReviews, gtStatus("b"))

	w.answers[gtPull] = titled("pages", "closed", "b",
		`,"merged":true,"merged_at":"2026-10-05T00:50:00Z","merge_commit_sha":"m"`)
	w.answers[gtFiles] = list(`{"filename":"a.mdx","previous_filename":"","status":"changed"}`,
		`{"filename":"new.mdx","previous_filename":"old.mdx","status":"renamed"}`)
	want.State, want.Merged, want.Commit = journal.PullMerged, at(50), "m"
	want.Changed = []string{"a.mdx", "new.mdx", "old.mdx"}
	step("merged", gtPull, gtReviews, gtFiles)
	step("once more", gtPull)
}

// TestGiteaPages: the server decides how many entries a page of a list has, and says whether more follow.
func TestGiteaPages(t *testing.T) {
	const perPage = 30
	for count, requests := range map[int]int{0: 1, 30: 1, 31: 2, 250: 9, 1500: 34} {
		asked := 0
		c := client(t, &wire{answer: func(req *http.Request) *http.Response {
			switch {
			case req.URL.Path == gtPull:
				return respond(200, nil, titled("x", "closed", "b", `,"merged_at":"2026-10-05T00:50:00Z"`))
			case !strings.HasSuffix(req.URL.Path, "/files"):
				return respond(200, nil, "[]")
			}
			asked++
			var files []string
			for i := (asked - 1) * perPage; i < min(asked*perPage, count); i++ {
				files = append(files, fmt.Sprintf(`{"filename":"%d"}`, i))
			}
			header := map[string]string{}
			if asked*perPage < count {
				header["Link"] = `<https://codeberg.org/next>; rel="next",<https://codeberg.org/last>; rel="last"`
			}
			return respond(200, header, list(files...))
		}})
		pr := read(t, c, journal.PullRequest{Link: gtLink})
		if len(pr.Changed) != min(count, journal.MaxChanged) || asked != requests {
			t.Errorf("%d files: %d in %d requests, want %d", count, len(pr.Changed), asked, requests)
		}
	}
}
