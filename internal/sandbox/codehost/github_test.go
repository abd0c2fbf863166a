package codehost

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/sandbox/agent"
)

// fakeGitHub has pull requests by head; create replaces its answer to a create.
type fakeGitHub struct {
	*httptest.Server
	t *testing.T

	mu     sync.Mutex
	pulls  map[string]string
	asked  []string
	create func(w http.ResponseWriter, head string) // nil = opens it
}

func newFakeGitHub(t *testing.T) *fakeGitHub {
	f := &fakeGitHub{t: t, pulls: map[string]string{}}
	f.Server = httptest.NewServer(http.HandlerFunc(f.serve))
	t.Cleanup(f.Close)
	return f
}

func (f *fakeGitHub) serve(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked = append(f.asked, r.Method)
	if r.URL.Path != "/api/v3/repos/docs-team/docs/pulls" || r.Header.Get("Authorization") != "Bearer ghp_secret" || r.Header.Get("Accept") != "application/vnd.github+json" {
		http.Error(w, `{"message":"Bad credentials: ghp_secret"}`, http.StatusUnauthorized)
		return
	}
	if r.Method == http.MethodGet {
		head := strings.TrimPrefix(r.URL.Query().Get("head"), "docs-team:")
		found := []map[string]string{}
		if link, ok := f.pulls[head]; ok && r.URL.Query().Get("state") == "open" {
			found = append(found, map[string]string{"html_url": link})
		}
		_ = json.NewEncoder(w).Encode(found)
		return
	}
	var body struct{ Title, Head, Base, Body string }
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil || body.Title != "one" || body.Base != "main" || !strings.Contains(body.Body, "agent job") {
		f.t.Errorf("create: %+v %v", body, err)
	}
	if f.create != nil {
		f.create(w, body.Head)
		return
	}
	f.open(body.Head)
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"html_url": f.pulls[body.Head]})
}

func (f *fakeGitHub) open(head string) {
	f.pulls[head] = fmt.Sprintf("https://github.example/docs-team/docs/pull/%d", 1+len(f.pulls))
}

func (f *fakeGitHub) adapter(t *testing.T, push error) *GitHub {
	t.Helper()
	g, err := NewGitHub(GitHubConfig{
		Repository: "docs-team/docs", BaseURL: f.URL + "/api/v3/", Token: func() (string, error) { return "ghp_secret\n", nil },
		Push: func(_ context.Context, branch string) error { return push },
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func TestGitHubOpensOnePullRequest(t *testing.T) {
	f := newFakeGitHub(t)
	g := f.adapter(t, nil)
	var links []string
	for _, job := range []string{"a", "a", "b", "a"} {
		links = append(links, propose(t, g, proposal(job, "", "one")))
	}
	const pull = "https://github.example/docs-team/docs/pull/"
	if diff := cmp.Diff([]string{pull + "1", pull + "1", pull + "2", pull + "1"}, links); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"GET", "POST", "GET", "GET", "POST", "GET"}, f.asked); diff != "" {
		t.Error(diff)
	}
}

// A reply that was lost after the pull request was opened is made up for.
func TestGitHubReplyLost(t *testing.T) {
	for name, lose := range map[string]func(w http.ResponseWriter){
		"502":     func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"dropped": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
		"no JSON": func(w http.ResponseWriter) { fmt.Fprint(w, "<html>") },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeGitHub(t)
			f.create = func(w http.ResponseWriter, head string) {
				f.open(head)
				lose(w)
			}
			if link := propose(t, f.adapter(t, nil), proposal("a", "", "one")); !strings.HasSuffix(link, "/pull/1") {
				t.Errorf("link %s", link)
			}
		})
	}
}

func TestGitHubErrors(t *testing.T) {
	answer := func(status int, body string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, _ string) {
			w.Header().Set("Location", "https://elsewhere.example/")
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for name, tc := range map[string]struct {
		create func(http.ResponseWriter, string)
		want   string
	}{
		"422":        {answer(422, `{"message":"Validation Failed","errors":[{"message":"No commits between main and docgauge/a"}]}`), "status 422 Unprocessable Entity: Validation Failed; No commits between"},
		"403":        {answer(403, `{"message":"Resource not accessible, ghp_secret"}`), "Resource not accessible, [redacted]"},
		"500":        {answer(500, `x`), "status 500 Internal Server Error: without a message"},
		"long":       {answer(400, `{"message":"`+strings.Repeat("ü", 1000)+`"}`), "ü…"},
		"redirect":   {answer(307, ``), "redirects are not followed"},
		"javascript": {answer(201, `{"html_url":"javascript:alert(1)"}`), "html_url"},
		"plain http": {answer(201, `{"html_url":"http://github.example/1"}`), "html_url"},
		"no link":    {answer(201, `{}`), "html_url"},
		"dropped":    {func(http.ResponseWriter, string) { panic(http.ErrAbortHandler) }, "EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeGitHub(t)
			f.create = tc.create
			_, err := f.adapter(t, nil).Propose(t.Context(), proposal("a", "", "one"))
			if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "ghp_secret") || len(err.Error()) > 500 {
				t.Errorf("%v, want %s", err, tc.want)
			}
		})
	}
}

func TestGitHubDoesNotBegin(t *testing.T) {
	f := newFakeGitHub(t)
	g := f.adapter(t, errors.New("push rejected"))
	if _, err := g.Propose(t.Context(), proposal("a", "", "one")); err == nil || !strings.Contains(err.Error(), "push rejected") || len(f.asked) > 0 {
		t.Errorf("push fails: %v, asked %v", err, f.asked)
	}
	for want, token := range map[string]func() (string, error){
		"is empty": func() (string, error) { return " \n", nil },
		"no file":  func() (string, error) { return "", errors.New("no file") },
	} {
		g := f.adapter(t, nil)
		g.config.Token = token
		if _, err := g.Propose(t.Context(), proposal("a", "", "one")); err == nil || !strings.Contains(err.Error(), want) || len(f.asked) > 0 {
			t.Errorf("%v, asked %v", err, f.asked)
		}
		if _, _, _, err := g.Login(); err == nil {
			t.Error("login without a token")
		}
	}
}

func TestGitHubConfig(t *testing.T) {
	for _, c := range []GitHubConfig{
		{Repository: "docs"}, {Repository: "a/b/c"}, {Repository: "a/.."}, {Repository: "-a/b"}, {Repository: ""},
		{Repository: "a/b", BaseURL: "http://api.github.com"}, {Repository: "a/b", BaseURL: "https://u:p@h"}, {Repository: "a/b", BaseURL: "h"}, {Repository: "a/b", BaseURL: "https://h?x"},
	} {
		if _, err := NewGitHub(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
	for base, want := range map[string]string{"": "https://github.com/", "https://ghe.example/api/v3": "https://ghe.example/"} {
		g, err := NewGitHub(GitHubConfig{Repository: "a/b", BaseURL: base, Token: func() (string, error) { return "t\n", nil }})
		if err != nil {
			t.Fatal(err)
		}
		prefix, user, password, err := g.Login()
		if prefix != want || user != "x-access-token" || password != "t" || err != nil {
			t.Errorf("%s: %s %s %s %v", base, prefix, user, password, err)
		}
	}
	var _ agent.Host = (*GitHub)(nil)
}
