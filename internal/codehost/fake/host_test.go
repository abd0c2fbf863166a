package fake

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

var afterNoon = time.Date(2026, 10, 14, 12, 0, 0, 250e6, time.UTC)

const diff = `diff --git a/guides/errors.mdx b/guides/errors.mdx
--- a/guides/errors.mdx
+++ b/guides/errors.mdx
@@ -1,2 +1,3 @@
 # errors
-old
+new
+more
diff --git a/old.md b/new.md
similarity index 100%
rename from old.md
rename to new.md
diff --git a/gone.md b/gone.md
deleted file mode 100644
--- a/gone.md
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/come.md b/come.md
new file mode 100644
--- /dev/null
+++ b/come.md
@@ -0,0 +1 @@
+hi
`

// history makes events a minute apart, the first a minute after the opening.
func history(actions ...Action) (events []Event) {
	for i, a := range actions {
		events = append(events, Event{At: afterNoon.Add(time.Duration(i+1) * time.Minute), Action: a})
	}
	return events
}

func pullOf(number int, actions ...Action) Pull {
	return Pull{
		Number: number, Project: "prj_a", Repository: "team/docs", Base: "main", BaseCommit: "b000",
		Branch: fmt.Sprint("docgauge/job_", number),
		Head:   fmt.Sprint("h", number), Title: "Fix it", Messages: []string{"Fix it", "More"}, Diff: diff,
		OpenedAt: afterNoon, UpdatedAt: afterNoon, History: history(actions...),
	}
}

// githubOf is an API of pull requests whose clock can be moved.
func githubOf(token string, limit int, pulls ...Pull) (*Host, *time.Time) {
	now := afterNoon.Add(time.Hour)
	h := NewHost(gitHub, "", token).Over(&Store{now: func() time.Time { return now }, pulls: pulls})
	h.Prefix, h.Web, h.Limit, h.ReadOnly = "/github", "http://127.0.0.1:8787", limit, true
	h.File = func(_ context.Context, commit, path string) ([]byte, bool, error) {
		switch path {
		case "docs/docs.json":
			return fmt.Appendf(nil, "%s at %s", path, commit), true, nil
		case "broken":
			return nil, false, errors.New("disk /home/somebody is broken")
		}
		return nil, false, nil
	}
	return h, &now
}

func askGitHub(h *Host, target string, header ...string) *httptest.ResponseRecorder {
	return ask(h, http.MethodGet, "/github"+target, header...)
}

func ask(h *Host, method, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// decode returns what a success answers.
func decodeGitHub[T any](t *testing.T, w *httptest.ResponseRecorder) (o T) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &o); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return o
}

const repo = "/repos/team/docs"

func TestPullRequestByState(t *testing.T) {
	at := func(minutes int) any {
		return afterNoon.Truncate(time.Second).Add(time.Duration(minutes) * time.Minute).Format(time.RFC3339)
	}
	for name, tc := range map[string]struct {
		actions []Action
		want    map[string]any
	}{
		"open": {nil, map[string]any{"state": "open", "draft": false, "merged": false, "closed_at": nil,
			"merged_at": nil, "merge_commit_sha": nil}},
		"draft": {[]Action{ConvertToDraft}, map[string]any{"state": "open", "draft": true,
			"merged": false, "closed_at": nil}},
		"closed": {[]Action{Close}, map[string]any{"state": "closed", "merged": false,
			"closed_at": at(1), "merged_at": nil}},
		"reopened": {[]Action{Close, Reopen}, map[string]any{"state": "open", "merged": false, "closed_at": nil}},
		"merged": {
			[]Action{Approve, Merge},
			map[string]any{"state": "closed", "merged": true, "closed_at": at(2), "merged_at": at(2),
				"merge_commit_sha": "h1", "mergeable": nil},
		},
	} {
		a, _ := githubOf("", 0, pullOf(1, tc.actions...))
		o := decodeGitHub[map[string]any](t, askGitHub(a, repo+"/pulls/1"))
		if asked := len(o["requested_reviewers"].([]any)); (asked == 1) != (name == "open" || name == "reopened") {
			t.Errorf("%s: %d reviewers are asked", name, asked)
		}
		for field, want := range tc.want {
			if got, there := o[field]; !there || got != want {
				t.Errorf("%s: %s is %v, want %v", name, field, got, want)
			}
		}
		for field, want := range map[string]any{
			"number": 1.0, "html_url": "http://127.0.0.1:8787/team/docs/pull/1", "created_at": at(0),
			"additions": 3.0, "deletions": 2.0,
			"changed_files": 4.0, "commits": 2.0, "url": "http://127.0.0.1:8787/github/repos/team/docs/pulls/1",
		} {
			if o[field] != want {
				t.Errorf("%s: %s is %v, want %v", name, field, o[field], want)
			}
		}
	}
}

func TestWhatHappened(t *testing.T) {
	pr := pullOf(1, RequestChanges, ConvertToDraft, Ready, FailChecks, Approve, Close, Reopen, PassChecks,
		Merge)
	pr.History = append([]Event{{At: afterNoon, Action: ConvertToDraft}}, pr.History...) // opened as one
	a, _ := githubOf("", 0, pr)
	kinds := func(target, field string) (list []string) {
		for _, o := range decodeGitHub[[]map[string]any](t, askGitHub(a, repo+target)) {
			list = append(list, fmt.Sprint(o[field]))
			if at := fmt.Sprint(o["created_at"], o["submitted_at"]); !strings.Contains(at, "2026-10-14T12:") ||
				strings.Contains(at, ".25") {
				t.Errorf("%s: %v", target, o)
			}
		}
		return list
	}
	for target, want := range map[string]string{
		"/pulls/1/reviews": "CHANGES_REQUESTED APPROVED",
		"/issues/1/events": "convert_to_draft ready_for_review closed reopened merged closed",
	} {
		field := map[bool]string{true: "state", false: "event"}[strings.HasSuffix(target, "reviews")]
		if got := strings.Join(kinds(target, field), " "); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
	for commit, want := range map[string]string{
		"h1":               "1 completed success",
		"docgauge%2Fjob_1": "1 completed success", "b000": "0",
	} {
		o := decodeGitHub[struct {
			Count int      `json:"total_count"`
			Runs  []object `json:"check_runs"`
		}](t, askGitHub(a, repo+"/commits/"+commit+"/check-runs"))
		got := fmt.Sprint(o.Count)
		for _, run := range o.Runs {
			got += fmt.Sprint(" ", run["status"], " ", run["conclusion"])
		}
		if got != want {
			t.Errorf("%s: %s, want %s", commit, got, want)
		}
	}
	var files []string
	for _, f := range decodeGitHub[[]object](t, askGitHub(a, repo+"/pulls/1/files")) {
		patch, _ := f["patch"].(string)
		files = append(files, fmt.Sprint(f["status"], " ", f["previous_filename"], " ", f["filename"],
			" ", f["additions"], " ",
			f["deletions"], " ", strings.Count(patch, "\n")))
	}
	want := []string{
		"modified <nil> guides/errors.mdx 2 1 4", "renamed old.md new.md 0 0 0", "removed <nil> gone.md 0 1 1",
		"added <nil> come.md 1 0 1",
	}
	if d := cmp.Diff(want, files); d != "" {
		t.Error(d)
	}
}

// TestNotModified: unchanged data is not sent again and costs nothing; changed data is sent.
func TestNotModified(t *testing.T) {
	pr := pullOf(1)
	pulls := []Pull{pr}
	a, _ := githubOf("", 0, pulls...)
	first := askGitHub(a, repo+"/pulls/1")
	tag := first.Header().Get("ETag")
	for _, header := range []string{tag, `"x", ` + tag, strings.TrimPrefix(tag, "W/"), "*"} {
		w := askGitHub(a, repo+"/pulls/1", "If-None-Match", header)
		if w.Code != http.StatusNotModified || w.Body.Len() > 0 || w.Header().Get("X-RateLimit-Remaining") != "4999" ||
			w.Header().Get("ETag") != tag {
			t.Errorf("%s: %d %s %v", header, w.Code, w.Body, w.Header())
		}
	}
	pulls[0].History = history(Approve, Merge)
	w := askGitHub(a, repo+"/pulls/1", "If-None-Match", tag)
	if w.Code != http.StatusOK || w.Header().Get("ETag") == tag || w.Header().Get("X-RateLimit-Remaining") != "4998" {
		t.Errorf("changed: %d %v", w.Code, w.Header())
	}
}

var nextLink = regexp.MustCompile(`<http://127\.0\.0\.1:8787/github([^>]+)>; rel="next"`)

// TestPages follows the links of a list to its end.
func TestPages(t *testing.T) {
	var all []Pull
	for i := range 250 {
		actions := []Action{Close}
		if i%2 == 0 {
			actions = nil
		}
		all = append(all, pullOf(i+1, actions...))
	}
	a, _ := githubOf("", 0, all...)
	for query, want := range map[string][2]int{ // pages, pull requests
		"": {5, 125}, "?state=all": {9, 250}, "?state=all&per_page=100": {3, 250},
		"?state=closed&per_page=1000": {2, 125}, "?state=open&per_page=125": {2, 125},
		"?state=all&page=9": {1, 10}, "?state=all&page=99": {1, 0}, "?state=none": {1, 0},
		"?state=all&per_page=-1&page=x": {9, 250}, "?head=team:docgauge/job_3": {1, 1},
	} {
		pages, seen, target := 0, map[int]bool{}, repo+"/pulls"+query
		for target != "" {
			w := askGitHub(a, target)
			for _, o := range decodeGitHub[[]object](t, w) {
				seen[int(o["number"].(float64))] = true
			}
			pages++
			target = ""
			if next := nextLink.FindStringSubmatch(w.Header().Get("Link")); next != nil {
				target = next[1]
			}
		}
		if pages != want[0] || len(seen) != want[1] {
			t.Errorf("%s: %d pages, %d pull requests, want %v", query, pages, len(seen), want)
		}
	}
}

// TestLimit: GitHub's clients know from the headers when to come again.
func TestLimit(t *testing.T) {
	a, now := githubOf("", 2, pullOf(1))
	var got []string
	for _, minutes := range []int{0, 30, 59, 59, 60, 61} {
		*now = afterNoon.Add(time.Duration(minutes) * time.Minute)
		w := askGitHub(a, repo+"/pulls/1")
		got = append(got, fmt.Sprint(w.Code, " ", w.Header().Get("X-RateLimit-Remaining"), " ",
			w.Header().Get("X-RateLimit-Reset") == fmt.Sprint(afterNoon.Add(time.Hour).Unix())))
	}
	want := []string{"200 1 true", "200 0 true", "403 0 true", "403 0 true", "200 1 false", "200 0 false"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestToken(t *testing.T) {
	a, _ := githubOf("ghp_x", 0, pullOf(1))
	for header, want := range map[string]int{
		"": 404, "Bearer ghp_x": 200, "token ghp_x": 200,
		"Bearer ghp_y": 401, "ghp_x": 401,
	} {
		if w := askGitHub(a, repo+"/pulls/1", "Authorization", header); w.Code != want ||
			strings.Contains(w.Body.String(), "ghp_") {
			t.Errorf("%q: %d %s, want %d", header, w.Code, w.Body, want)
		}
	}
	public, _ := githubOf("", 0, pullOf(1))
	if w := askGitHub(public, repo+"/pulls/1", "Authorization", "Bearer whatever"); w.Code != http.StatusOK {
		t.Errorf("public: %d", w.Code)
	}
}

func TestContents(t *testing.T) {
	a, _ := githubOf("", 0, pullOf(1), pullOf(2, Merge))
	for target, want := range map[string]string{
		"docs/docs.json":                         "docs/docs.json at main",
		"docs/docs.json?ref=h1":                  "docs/docs.json at h1",
		"docs/docs.json?ref=h2":                  "docs/docs.json at h2",
		"docs/docs.json?ref=h3":                  "", // no commit of a pull request
		"docs/docs.json?ref=--output%3D/etc/pwd": "",
		"docs.json?ref=h2":                       "",
	} {
		w := askGitHub(a, repo+"/contents/"+target)
		if want == "" {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
			continue
		}
		o := decodeGitHub[struct {
			Content []byte
			Size    int
		}](t, w)
		if string(o.Content) != want || o.Size != len(want) {
			t.Errorf("%s: %s", target, o.Content)
		}
	}
	if w := askGitHub(a, repo+"/contents/broken"); w.Code != http.StatusInternalServerError ||
		strings.Contains(w.Body.String(), "somebody") {
		t.Errorf("broken: %d %s", w.Code, w.Body)
	}
}

func TestNotFound(t *testing.T) {
	a, _ := githubOf("", 0, pullOf(1))
	for _, target := range []string{
		"", "/", "/user", "/repos/team/other", "/repos/team/other/pulls", "/repos/team/other/pulls/1", repo +
			"/pulls/2", repo + "/pulls/01", repo + "/pulls/1/",
		repo + "/pulls/x/reviews", repo + "/pulls/1/comments", repo + "//pulls/1", repo + "/../docs/pulls/1", repo +
			"/commits/h2/check-runs",
	} {
		w := askGitHub(a, target)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"message":"Not Found"`) ||
			w.Header().Get("Location") != "" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for _, target := range []string{
		"/api/v3" + repo + "/pulls/1", "/repos/Team/Docs/pulls/1", repo + "/commits/h1/status",
	} {
		if w := askGitHub(a, target); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	for target, want := range map[string]int{"PUT /pulls/1/merge": 404, "POST /pulls": 403, "POST /pulls/1": 404} {
		method, path, _ := strings.Cut(target, " ")
		if w := ask(a, method, "/github"+repo+path); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
}

// TestReadByClient: each kind of host shows a pull request, whatever happens to it, so that docgauge's client reads it.
func TestReadByClient(t *testing.T) {
	for _, kind := range codehost.Hosts {
		t.Run(kind.Name, func(t *testing.T) {
			_, now := githubOf("", 0)
			h := NewHost(kind.Name, "team/docs", "t").Over(&Store{now: func() time.Time { return *now }})
			h.File = func(_ context.Context, commit, path string) ([]byte, bool, error) {
				return []byte(commit + " " + path), true, nil
			}
			api, token := h.Web+h.Prefix, func() (string, error) { return "t", nil }
			c, err := codehost.New(codehost.Options{GitHubURL: api, GitLabURL: api, GiteaURL: api, GitHubToken: token,
				GitLabToken: token, GiteaToken: token, Transport: h, Now: h.now})
			if err != nil {
				t.Fatal(err)
			}
			h.Add(Pull{Branch: "b", Base: "main", BaseCommit: "b000", Head: "h1", MergeCommit: "m", Title: "Fix it", Diff: diff},
				ConvertToDraft)
			pr := journal.PullRequest{Link: h.Link(1)}
			at := map[Action]time.Time{}
			for _, step := range []struct {
				do   Action
				want string
			}{
				{"", "draft"}, {PassChecks, "draft success"}, {Ready, "open review_required success"},
				{RequestChanges, "open changes_requested success"}, {Approve, "open approved success"},
				{FailChecks, "open approved failure"}, {Close, "closed approved failure"}, {Reopen, "open approved failure"},
				{Merge, "merged approved failure"},
			} {
				if *now = now.Add(time.Minute); step.do != "" {
					if at[step.do] = second(*now); h.Act(1, Event{Action: step.do}) != nil {
						t.Fatal(step.do)
					}
				}
				if pr, err = c.Read(t.Context(), pr); err != nil {
					t.Fatalf("after %q: %v", step.do, err)
				}
				got := strings.Join(strings.Fields(fmt.Sprint(pr.State, " ", pr.Review, " ", pr.Checks)), " ")
				if got != step.want {
					t.Errorf("after %q: %s, want %s", step.do, got, step.want)
				}
			}
			for what, times := range map[string][2]time.Time{
				"created": {pr.Created, second(afterNoon.Add(time.Hour))}, "ready": {pr.Ready, at[Ready]},
				"reviewed": {pr.FirstReview, at[RequestChanges]}, "reopened": {pr.Reopened, at[Reopen]},
				"merged": {pr.Merged, at[Merge]},
			} {
				if !times[0].Equal(times[1]) {
					t.Errorf("%s %s, want %s", what, times[0], times[1])
				}
			}
			want := []string{"guides/errors.mdx", "new.md", "old.md", "gone.md", "come.md"}
			if d := cmp.Diff(want, pr.Changed); d != "" || pr.Additions != 3 || pr.Deletions != 2 || pr.Files != 4 {
				t.Errorf("%s %+v", d, pr)
			}
			if text, err := c.File(t.Context(), pr, "my docs/docs.json"); err != nil || string(text) != "m my docs/docs.json" {
				t.Errorf("%s, %v", text, err)
			}
			// Of Gitea alone, such a token does not read the times at which it became ready and was reopened.
			h.ReadOnly = true
			pr, err = c.Read(t.Context(), journal.PullRequest{Link: h.Link(1)})
			if hidden := pr.Reopened.IsZero(); err != nil || pr.State != journal.PullMerged || hidden != (kind.Name == gitea) {
				t.Errorf("with a token for the repository alone: %+v, %v", pr, err)
			}
		})
	}
}
