package runner

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeGitHub has pull requests by head; create replaces its response to a create.
type fakeGitHub struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	pulls  map[string]string
	asked  []string
	create func(w http.ResponseWriter) // nil = opens it
}

func newFakeGitHub(t *testing.T, create func(f *fakeGitHub, w http.ResponseWriter)) (*fakeGitHub, *github) {
	f := &fakeGitHub{t: t, pulls: map[string]string{}}
	if create != nil {
		f.create = func(w http.ResponseWriter) { create(f, w) }
	}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	g, err := newGitHub("docs-team/docs", f.URL+"/api/v3/", func() (string, error) { return "ghp_secret\n", nil })
	check(t, err)
	return f, g
}

func (f *fakeGitHub) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method)
	if r.URL.Path != "/api/v3/repos/docs-team/docs/pulls" || r.Header.Get("Authorization") != "Bearer ghp_secret" ||
		r.Header.Get("Accept") != "application/vnd.github+json" {
		http.Error(w, `{"message":"Bad credentials: ghp_secret"}`, http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		head := strings.TrimPrefix(r.URL.Query().Get("head"), "docs-team:")
		found := []map[string]string{}
		if link, ok := f.pulls[head]; ok && r.URL.Query().Get("state") == "all" {
			found = append(found, map[string]string{"html_url": link})
		}
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	var body struct{ Title, Head, Base, Body string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Title != "one" || body.Base != "main" ||
		!strings.Contains(body.Body, "agent job") {
		f.t.Errorf("create: %+v %v", body, err)
	}
	link := fmt.Sprintf("https://github.example/docs-team/docs/pull/%d", 1+len(f.pulls))
	if f.create != nil {
		f.pulls["new"] = link
		f.create(w)
		return
	}
	f.pulls[body.Head] = link
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"html_url": link})
}

var proposed = Job{ID: "job_1", Prompts: []string{"one"}, Source: Source{Ref: "main"}}

func TestGitHubOpensOnePullRequest(t *testing.T) {
	f, g := newFakeGitHub(t, nil)
	var links []string
	for _, branch := range []string{"a", "a", "b", "a"} {
		link, err := g.propose(t.Context(), proposed, branch, "main")
		check(t, err)
		links = append(links, strings.TrimPrefix(link, "https://github.example/docs-team/docs/pull/"))
	}
	if diff := cmp.Diff([]string{"1", "1", "2", "1"}, links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GET", "POST", "GET", "GET", "POST", "GET"}, f.asked); diff != "" {
		t.Error(diff)
	}
}

// A pull request whose response was lost is found; other failures are errors without the token.
func TestGitHubResponses(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	drop := func(http.ResponseWriter) { panic(http.ErrAbortHandler) }
	noCommits := `{"message":"Validation Failed","errors":[{"message":"No commits between main and docgauge/a"}]}`
	for name, tc := range map[string]struct {
		create func(http.ResponseWriter)
		want   string
	}{
		"422": {answer(422, noCommits), "status 422 Unprocessable Entity: Validation Failed; No commits " +
			"between"},
		"403":        {answer(403, `{"message":"Resource not accessible, ghp_secret"}`), "not accessible, [redacted]"},
		"500":        {answer(500, `x`), "status 500 Internal Server Error: without a message"},
		"long":       {answer(400, `{"message":"`+strings.Repeat("ü", 1000)+`"}`), "ü…"},
		"redirect":   {answer(307, ``), "redirects are not followed"},
		"javascript": {answer(201, `{"html_url":"javascript:alert(1)"}`), "html_url"},
		"plain http": {answer(201, `{"html_url":"http://github.example/1"}`), "html_url"},
		"no link":    {answer(201, `{}`), "html_url"},
		"dropped":    {drop, "EOF"},
		"lost, 502":  {answer(502, ""), ""},
		"lost":       {drop, ""},
		"lost, HTML": {answer(200, "<html>"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, g := newFakeGitHub(t, func(f *fakeGitHub, w http.ResponseWriter) {
				if tc.want != "" {
					delete(f.pulls, "new")
				}
				tc.create(w)
			})
			link, err := g.propose(t.Context(), proposed, "new", "main")
			switch {
			case tc.want == "" && (err != nil || !strings.HasSuffix(link, "/pull/1")):
				t.Errorf("%s, %v", link, err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 500 ||
				strings.Contains(err.Error(), "ghp_secret")):
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestGitHubDoesNotBegin(t *testing.T) {
	f, g := newFakeGitHub(t, nil)
	r := &Repo{github: g, remote: "origin", git: git{program: "false"}}
	if _, err := r.Propose(t.Context(), proposed, Change{Branch: "a"}, ""); err == nil || len(f.asked) > 0 {
		t.Errorf("push fails: %v, asked %v", err, f.asked)
	}
	for want, token := range map[string]func() (string, error){
		"is missing": nil,
		"is empty":   func() (string, error) { return " \n", nil },
		"no file":    func() (string, error) { return "", errors.New("no file") },
	} {
		g.token = token
		if _, err := g.propose(t.Context(), proposed, "a", "main"); err == nil ||
			!strings.Contains(err.Error(), want) || len(f.asked) > 0 {
			t.Errorf("%v, asked %v", err, f.asked)
		}
		if _, _, _, err := g.login(); err == nil {
			t.Error("login without a token")
		}
	}
}

func TestGitHubOptions(t *testing.T) {
	for _, c := range [][2]string{
		{"docs", DefaultGitHub}, {"a/b/c", DefaultGitHub}, {"a/..", DefaultGitHub},
		{"-a/b", DefaultGitHub}, {"", DefaultGitHub},
		{"a/b", "http://api.github.com"}, {"a/b", "https://u:p@h"}, {"a/b", "h"}, {"a/b", "https://h?x"},
	} {
		if _, err := newGitHub(c[0], c[1], nil); err == nil {
			t.Errorf("%v: no error", c)
		}
	}
	for base, want := range map[string]string{
		DefaultGitHub: "https://github.com/", "https://ghe.example/api/v3": "https://ghe.example/",
	} {
		g, err := newGitHub("a/b", base, func() (string, error) { return "t\n", nil })
		check(t, err)
		prefix, user, password, err := g.login()
		if prefix != want || user != "x-access-token" || password != "t" || err != nil {
			t.Errorf("%s: %s %s %s %v", base, prefix, user, password, err)
		}
	}
}
