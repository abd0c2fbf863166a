package codehost_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

const (
	ghLink    = "https://github.com/acme/docs/pull/7"
	ghPull    = "/repos/acme/docs/pulls/7"
	ghReviews = ghPull + "/reviews?per_page=100&page=1"
	ghEvents  = "/repos/acme/docs/issues/7/events?per_page=100&page=1"
	ghFiles   = ghPull + "/files?per_page=100&page=1"
)

func ghChecks(sha string) string {
	return "/repos/acme/docs/commits/" + sha + "/check-runs?per_page=100&page=1"
}

func ghStatuses(sha string) string { return "/repos/acme/docs/commits/" + sha + "/status?per_page=1" }

// pull is a pull request as GitHub shows it; updated_at must not matter.
func pull(state, sha, more string) string {
	return fmt.Sprintf(`{"number":7,"state":%q,"created_at":"2026-10-05T00:00:00Z","updated_at":"2026-10-09T00:00:00Z",
		"user":{"login":"agent"},"head":{"sha":%q},"changed_files":3,"additions":20,"deletions":4%s}`, state, sha, more)
}

func event(name string, minute int) string {
	return fmt.Sprintf(`{"event":%q,"created_at":"2026-10-05T00:%02d:00Z"}`, name, minute)
}

func review(state string, minute int, login string) string {
	return fmt.Sprintf(`{"state":%q,"submitted_at":"2026-10-05T00:%02d:00Z","user":{"login":%q}}`, state, minute, login)
}

// run is a check run, at work without a conclusion.
func run(conclusion string) string { return fmt.Sprintf(`{"conclusion":%q}`, conclusion) }

func runs(of ...string) string {
	return fmt.Sprintf(`{"total_count":%d,"check_runs":%s}`, len(of), list(of...))
}

// TestGitHubChecks: what fails fails, in whatever run, and whether it is a run or a status. The
// next read takes over a change of either with three requests.
func TestGitHubChecks(t *testing.T) {
	hundred := runs(slices.Repeat([]string{run("success")}, 100)...)
	second := strings.Replace(ghChecks("a"), "&page=1", "&page=2", 1)
	none, failed := `{"state":"pending","total_count":0}`, `{"state":"failure","total_count":2}`
	for name, tc := range map[string]struct{ first, second, statuses, want string }{
		"run 101 failed":     {hundred, runs(run("failure")), none, journal.ChecksFailure},
		"run 101 is at work": {hundred, runs(run("")), none, journal.ChecksPending},
		"101 runs succeeded": {hundred, runs(run("success")), none, journal.ChecksSuccess},
		"a status failed":    {runs(run("success")), "", failed, journal.ChecksFailure},
		"a status is at work": {runs(run("success")), "", `{"state":"pending","total_count":1}`,
			journal.ChecksPending},
		"statuses alone": {runs(), "", `{"state":"success","total_count":1}`, journal.ChecksSuccess},
		"a run failed": {runs(run("failure")), "", `{"state":"success","total_count":1}`,
			journal.ChecksFailure},
		"statuses are hidden":    {runs(run("success")), "", "", journal.ChecksSuccess},
		"runs are hidden":        {"", "", failed, journal.ChecksFailure},
		"neither is there":       {runs(), "", none, ""},
		"an error of the status": {runs(), "", `{"state":"error","total_count":1}`, journal.ChecksFailure},
	} {
		w := &wire{answers: map[string]string{
			ghPull: pull("open", "a", ""), ghReviews: `[]`, ghEvents: `[]`, ghChecks("a"): tc.first, second: tc.second,
			ghStatuses("a"): tc.statuses,
		}}
		c := client(t, w)
		pr := read(t, c, journal.PullRequest{Link: ghLink})
		if pr.Checks != tc.want {
			t.Errorf("%s: %q, want %q", name, pr.Checks, tc.want)
		}
		if pr = read(t, c, pr); pr.Checks != tc.want {
			t.Errorf("%s, read again: %q, want %q", name, pr.Checks, tc.want)
		}
		w.answers[ghStatuses("a")] = failed
		w.asked = nil
		if pr = read(t, c, pr); pr.Checks != journal.ChecksFailure {
			t.Errorf("%s, then a status failed: %q", name, pr.Checks)
		}
		if n := len(w.asked); tc.second == "" && n > 5 { // the pull request and its reviews too
			t.Errorf("%s: %d requests: %q", name, n, w.asked)
		}
		// A status that cannot be read now costs nothing of the runs.
		w.answers[ghChecks("a")], w.answers[ghStatuses("a")] = runs(run("success")), none
		w.answer = func(req *http.Request) *http.Response {
			if strings.HasSuffix(req.URL.Path, "/status") {
				return respond(http.StatusBadGateway, nil, "")
			}
			return respond(http.StatusOK, nil, w.answers[req.URL.RequestURI()])
		}
		broken, err := c.Read(t.Context(), pr)
		if err == nil || broken.Checks != journal.ChecksFailure {
			t.Errorf("%s, status 502: %q, %v", name, broken.Checks, err)
		}
		w.answer = nil
		if pr = read(t, c, broken); pr.Checks != journal.ChecksSuccess {
			t.Errorf("%s, after status 502: %q", name, pr.Checks)
		}
	}
}

// TestGitHubLife follows one pull request through everything that can become of it, and
// counts the requests, in this order, and those that cost nothing.
func TestGitHubLife(t *testing.T) {
	w := &wire{answers: map[string]string{
		ghPull: pull("open", "a", `,"draft":true`), ghReviews: `[]`, ghEvents: `[]`,
		ghChecks("a"):   `{"total_count":0,"check_runs":[]}`,
		ghStatuses("a"): `{"state":"pending","total_count":0}`, ghStatuses("b"): `{"state":"pending","total_count":0}`,
	}}
	pr := journal.PullRequest{Link: ghLink, Project: "prj_a", State: journal.PullUnknown, Problem: "kept"}
	want := journal.PullRequest{
		Link: ghLink, Project: "prj_a", Host: "github", Repository: "acme/docs", Number: 7, State: journal.PullDraft,
		Author:  "agent",
		Problem: "kept", Created: at(0), Files: 3, Additions: 20, Deletions: 4, Commit: "a", Answered: now,
	}
	step := life(t, w, &pr, &want)
	step("draft", ghPull, ghReviews, ghChecks("a"), ghStatuses("a"))
	step("unchanged", ghPull+"=304", ghReviews+"=304", ghChecks("a")+"=304", ghStatuses("a")+"=304")

	w.answers[ghPull] = pull("open", "a", `,"requested_reviewers":[{"login":"ann"}]`)
	w.answers[ghEvents] = list(event("labeled", 9), event("ready_for_review", 10))
	w.answers[ghChecks("a")] = runs(run("success"), run(""))
	want.State, want.Ready = journal.PullOpen, at(10)
	want.Checks, want.Review = journal.ChecksPending, journal.ReviewRequired
	step("ready", ghPull, ghEvents, ghReviews+"=304", ghChecks("a"), ghStatuses("a")+"=304", ghStatuses("a"))
	for _, want.Checks = range []string{journal.ChecksFailure, journal.ChecksPending} {
		w.answers[ghStatuses("a")] = `{"state":"` + want.Checks + `","total_count":1}`
		step("a status", ghPull+"=304", ghReviews+"=304", ghChecks("a")+"=304", ghStatuses("a"), ghChecks("a"))
	}
	step("unchanged", ghPull+"=304", ghReviews+"=304", ghChecks("a")+"=304", ghStatuses("a")+"=304")

	w.answers[ghReviews] = list(review("COMMENTED", 11, "agent"),
		`{"state":"COMMENTED","submitted_at":"2026-10-05T00:12:00Z","user":{"login":"bot","type":"Bot"}}`,
		`{"state":"PENDING","user":{"login":"cy"}}`, review("CHANGES_REQUESTED", 14, "ann"), review("APPROVED", 13,
			"bob"))
	w.answers[ghChecks("a")] = runs(run("failure"), run(""), run("success"))
	want.Review, want.FirstReview, want.Checks = journal.ReviewChanges, at(13), journal.ChecksFailure
	step("changes requested", ghPull+"=304", ghReviews, ghChecks("a"), ghStatuses("a")+"=304", ghStatuses("a"))

	w.answers[ghPull] = pull("open", "b", "")
	w.answers[ghReviews] = strings.Replace(w.answers[ghReviews], "]",
		","+review("DISMISSED", 15, "ann")+"]", 1)
	w.answers[ghChecks("b")] = w.answers[ghChecks("a")]
	want.Commit, want.Review = "b", journal.ReviewApproved
	step("force-pushed, and the review dismissed: the checks of another commit are another resource", ghPull, ghReviews,
		ghChecks("b"), ghStatuses("b"))

	w.answers[ghPull] = pull("open", "b", `,"draft":true`)
	want.State, want.Ready = journal.PullDraft, time.Time{}
	step("draft again", ghPull, ghReviews+"=304", ghChecks("b")+"=304", ghStatuses("b")+"=304")

	w.answers[ghPull] = pull("open", "b", "")
	w.answers[ghEvents] = strings.Replace(w.answers[ghEvents], "]",
		","+event("ready_for_review", 20)+"]", 1)
	want.State, want.Ready = journal.PullOpen, at(20)
	step("ready again", ghPull, ghEvents, ghReviews+"=304", ghChecks("b")+"=304", ghStatuses("b")+"=304")

	w.answers[ghPull] = pull("closed", "b", `,"closed_at":"2026-10-05T00:30:00Z","merge_commit_sha":"test-merge"`)
	want.State, want.Closed = journal.PullClosed, at(30)
	step("closed: the reviews are read once more", ghPull, ghReviews)
	step("unchanged", ghPull+"=304")

	w.answers[ghPull] = pull("open", "b", "")
	w.answers[ghEvents] = strings.Replace(w.answers[ghEvents], "]",
		","+event("reopened", 40)+"]", 1)
	want.State, want.Closed, want.Reopened = journal.PullOpen, time.Time{}, at(40)
	step("reopened", ghPull, ghEvents, ghReviews+"=304", ghChecks("b")+"=304", ghStatuses("b")+"=304")

	w.answers[ghPull] = pull("closed", "b",
		`,"merged_at":"2026-10-05T00:50:00Z","closed_at":"2026-10-05T00:50:00Z","merge_commit_sha":"m"`)
	w.answers[ghFiles] = `[{"filename":"a.mdx"},{"filename":"new.mdx","previous_filename":"old.mdx"}]`
	want.State, want.Merged, want.Commit, want.Changed = journal.PullMerged, at(50), "m", []string{"a.mdx", "new.mdx",
		"old.mdx"}
	step("merged", ghPull, ghReviews, ghFiles)
	step("unchanged", ghPull+"=304")
}

// TestFirstSight: one that ended, as a draft, before it was ever read is known whole after one read.
func TestFirstSight(t *testing.T) {
	for link, answers := range map[string]map[string]string{
		ghLink: {ghPull: pull("closed", "b", `,"draft":true,"closed_at":"2026-10-05T00:50:00Z"`),
			ghReviews: list(review("APPROVED", 12, "bob"))},
		glLink: {glPull: merge("closed", `,"draft":true,"closed_at":"2026-10-05T00:50:00Z"`),
			glNotes: list(note("x", 12, "ann", ""))},
	} {
		w := &wire{answers: answers}
		pr := read(t, client(t, w), journal.PullRequest{Link: link})
		if pr.State != journal.PullClosed || !pr.FirstReview.Equal(at(12)) || !pr.Ready.IsZero() ||
			!pr.Ended().Equal(at(50)) {
			t.Errorf("%+v", pr)
		}
		if link == ghLink {
			w.want(t, ghPull, ghReviews)
		}
	}
}

// TestGitHubPages: long lists are read to their end or bound, and never taken for unchanged
// because their first page is.
func TestGitHubPages(t *testing.T) {
	files := func(from, to int) string {
		var all []string
		for i := from; i < to; i++ {
			all = append(all, fmt.Sprintf(`{"filename":"%d"}`, i))
		}
		return list(all...)
	}
	merged := pull("closed", "b", `,"merged_at":"2026-10-05T00:50:00Z"`)
	for count, requests := range map[int]int{99: 1, 100: 2, 250: 3, 1500: 10} {
		w := &wire{}
		w.answers = map[string]string{ghPull: merged, ghReviews: "[]", ghEvents: "[]"}
		for page := range 15 {
			w.answers[fmt.Sprintf("%s/files?per_page=100&page=%d", ghPull, page+1)] = files(min(page*100, count),
				min(page*100+100, count))
		}
		pr := read(t, client(t, w), journal.PullRequest{Link: ghLink})
		asked := len(slices.DeleteFunc(w.asked, func(uri string) bool { return !strings.Contains(uri, "/files") }))
		if len(pr.Changed) != min(count, journal.MaxChanged) || asked != requests {
			t.Errorf("%d files: %d in %d requests, want %d", count, len(pr.Changed), asked, requests)
		}
	}

	full := list(slices.Repeat([]string{review("CHANGES_REQUESTED", 12, "ann")}, 100)...)
	approval := list(review("APPROVED", 13, "ann"))
	const second = ghPull + "/reviews?per_page=100&page=2"
	w := &wire{answers: map[string]string{ghPull: pull("open", "a", ""), ghReviews: full, second: "[]", ghEvents: "[]"}}
	c := client(t, w)
	pr := journal.PullRequest{Link: ghLink}
	for _, step := range []struct{ first, second, want string }{
		{full, "[]", journal.ReviewChanges}, {full, approval, journal.ReviewApproved},
		{approval, "", journal.ReviewApproved},
		{full, strings.Replace(approval, "ann", "bob", 1), journal.ReviewChanges},
		{strings.Replace(approval, "ann", "bob", 1), "", journal.ReviewApproved},
	} {
		w.answers[ghReviews], w.answers[second] = step.first, step.second
		if pr = read(t, c, pr); pr.Review != step.want {
			t.Errorf("%.60s… and %.60s…: %s, want %s", step.first, step.second, pr.Review, step.want)
		}
	}
}

// TestGitHubParts: what the token does not show is left empty, and what fails later loses
// nothing read before it, and does not count as read.
func TestGitHubParts(t *testing.T) {
	merged := pull("closed", "b", `,"merged_at":"2026-10-05T00:50:00Z"`)
	for path, hidden := range map[string]bool{"/reviews": true, "/files": true, "/events": true, "": false} {
		for _, code := range []int{http.StatusForbidden, http.StatusBadGateway, http.StatusTooManyRequests} {
			w := &wire{answers: map[string]string{ghPull: merged, ghReviews: "[]", ghEvents: "[]",
				ghFiles: `[{"filename":"a.mdx"}]`}}
			broken := true
			c := client(t, &wire{answer: func(req *http.Request) *http.Response {
				if broken && path != "" && strings.HasSuffix(req.URL.Path, path) {
					return respond(code, nil, "{}")
				}
				resp, _ := w.RoundTrip(req)
				return resp
			}})
			pr, err := c.Read(t.Context(), journal.PullRequest{Link: ghLink})
			if fails := path != "" && code != http.StatusForbidden; (err != nil) != fails ||
				pr.State != journal.PullMerged || !pr.Answered.Equal(now) {
				t.Errorf("%s with %d: %v, %+v", path, code, err, pr)
			}
			broken = false
			if pr = read(t, c, pr); hidden && code != http.StatusForbidden &&
				(len(pr.Changed) != 1 || !pr.Ready.Equal(at(0))) {
				t.Errorf("%s after %d: %+v", path, code, pr)
			}
		}
	}
}
