package codehost_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/codehost"
	"github.com/docgauge/docgauge/internal/journal"
)

func TestParse(t *testing.T) {
	const v3, ghe, v4, local = "https://code.acme.example/api/v3", "https://api.acme.ghe.com",
		"https://acme.example/gitlab/api/v4", "http://127.0.0.1:8080/github"
	for _, tc := range []struct{ github, gitlab, link, want string }{
		{"", "", "https://github.com/acme/docs/pull/7", "github acme/docs 7"},
		{"", "", "https://GitHub.com:443/acme/docs.js/pull/7/files?w=1#r1", "github acme/docs.js 7"},
		{"", "", "https://www.github.com/acme/.github/pull/7/", "github acme/.github 7"},
		{"", "", "https://gitlab.com/acme/docs/-/merge_requests/7", "gitlab acme/docs 7"},
		{"", "", "https://gitlab.com/acme/team/web/docs/-/merge_requests/7/diffs", "gitlab acme/team/web/docs 7"},
		{"", "", "https://gitlab.com/acme/docs/merge_requests/7", "gitlab acme/docs 7"},
		{v3, "", "https://code.acme.example/acme/docs/pull/7", "github acme/docs 7"},
		{v3 + "/", "", "https://github.com/acme/docs/pull/7", ""},
		{ghe, "", "https://acme.ghe.com/acme/docs/pull/7", "github acme/docs 7"},
		{"", v4, "https://acme.example/gitlab/acme/docs/-/merge_requests/7", "gitlab acme/docs 7"},
		{"", v4, "https://acme.example/acme/docs/-/merge_requests/7", ""},
		{local, "", "http://127.0.0.1:8080/acme/docs/pull/7", "github acme/docs 7"},
		{local, "", "http://127.0.0.1:8081/acme/docs/pull/7", ""},
		{local, "", "http://127.0.0.1:8080/pr/7", ""},
	} {
		parses(t, codehost.Options{GitHubURL: tc.github, GitLabURL: tc.gitlab}, tc.link, tc.want)
	}
	for _, tc := range []struct{ gitea, link, want string }{
		{"", gtLink + "/files", "gitea acme/docs 7"},
		{"", "https://codeberg.org/acme/docs/issues/7", ""},
		{"", "https://git.example/acme/docs/pulls/7", ""},
		{"https://git.example/forge/api/v1/", "https://git.example/forge/acme/docs/pulls/7", "gitea acme/docs 7"},
		{"https://git.example/forge/api/v1", "https://git.example/acme/docs/pulls/7", ""},
		{"https://git.example/forge/api/v1", gtLink, ""},
		{"http://[::1]:3000/api/v1", "http://[::1]:3000/_a/.docs/pulls/7", "gitea _a/.docs 7"},
		{"http://[::1]:3000/api/v1", "http://[::1]:3000/a/../pulls/7", ""},
	} {
		parses(t, codehost.Options{GiteaURL: tc.gitea}, tc.link, tc.want)
	}
	for _, link := range []string{
		"http://github.com/acme/docs/pull/7", "http://github.com:443/acme/docs/pull/7",
		"https://github.com.evil.example/acme/docs/pull/7", "https://github.com@evil.example/acme/docs/pull/7",
		"https://user:pass@github.com/acme/docs/pull/7", "https://api.github.com/acme/docs/pull/7",
		"https://github.com:8443/acme/docs/pull/7", "https://github.com/acme/../pull/7",
		"https://github.com/acme/%2e%2e/pull/7", "https://github.com/acme/docs/pull/0",
		"https://github.com/acme/docs/issues/7", "https://gitlab.com/acme/../-/merge_requests/7",
		"https://bitbucket.org/acme/docs/pull-requests/7", "acme/docs/pull/7", "",
		"https://github.com/" + strings.Repeat("a", 1000) + "/docs/pull/7",
	} {
		parses(t, codehost.Options{}, link, "")
	}
}

func parses(t *testing.T, config codehost.Options, link, want string) {
	t.Helper()
	c, err := codehost.New(config)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	if host, repository, number, ok := c.Parse(link); ok {
		got = fmt.Sprint(host, " ", repository, " ", number)
	}
	if got != want {
		t.Errorf("%s with %q and %q: %q, want %q", link, config.GitHubURL, config.GitLabURL, got, want)
	}
}

// FuzzParse: whatever is parsed names a repository that cannot lead elsewhere, and parses
// again from its plain form.
func FuzzParse(f *testing.F) {
	for _, link := range []string{
		"https://github.com/acme/docs/pull/7", "https://gitlab.com/a/b/c/-/merge_requests/7/diffs",
		"https://github.com/../docs/pull/7",
		"https://github.com/a/b%2f..%2fc/pull/7", "https://github.com/a/b/pull/7?x=y#z",
		"https://gitlab.com/a/-/-/merge_requests/1", gtLink,
	} {
		f.Add(link)
	}
	c, err := codehost.New(codehost.Options{})
	if err != nil {
		f.Fatal(err)
	}
	plain := map[string]string{"github": "https://github.com/%s/pull/%d", "gitea": "https://codeberg.org/%s/pulls/%d",
		"gitlab": "https://gitlab.com/%s/-/merge_requests/%d"}
	f.Fuzz(func(t *testing.T, link string) {
		host, repository, number, ok := c.Parse(link)
		if !ok {
			return
		}
		for part := range strings.SplitSeq(repository, "/") {
			if part == "" || part == "." || part == ".." || strings.ContainsAny(part, "%?#\\@: ") {
				t.Errorf("%q: repository %q", link, repository)
			}
		}
		again := fmt.Sprintf(plain[host], repository, number)
		if h, r, n, ok := c.Parse(again); !ok || h != host || r != repository || n != number || number < 1 {
			t.Errorf("%q is %s %s %d, and %q is %s %s %d", link, host, repository, number, again, h, r, n)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for url, want := range map[string]string{
		"http://api.github.com": "in the clear", "ftp://api.github.com": "https://",
		"api.github.com": "scheme and host",
		"https://user:" + token + "@api.github.com": "user", "https://api.github.com?token=" + token: "query",
		"https://%zz" + token: "scheme",
	} {
		_, err := codehost.New(codehost.Options{GitHubURL: url, GitLabURL: url, GiteaURL: url})
		if err == nil || strings.Count(err.Error(), want) < 3 || !strings.Contains(err.Error(),
			"DOCGAUGE_GITLAB_URL") || !strings.Contains(err.Error(), "DOCGAUGE_GITEA_URL") ||
			strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, want %q for all", url, err, want)
		}
	}
}

// TestRefusals: each answer has its kind and a sentence with the remedy. Nothing of the
// answer is in it: it may quote the token.
func TestRefusals(t *testing.T) {
	type headers = map[string]string
	const remaining, reset = "X-RateLimit-Remaining", "X-RateLimit-Reset"
	in := func(d time.Duration) string { return fmt.Sprint(now.Add(d).Unix()) }
	const secondary = `{"documentation_url":"https://docs.github.com/rest/overview/` +
		`rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	const another = `{"number":8,"state":"open","created_at":"2026-10-05T00:00:00Z","head":{"sha":"a"}}`
	const limited = codehost.Limited
	for _, tc := range []struct {
		name   string
		code   int
		header headers
		body   string
		kind   codehost.Kind
		wait   time.Duration
		says   string
	}{
		{"expired token", 401, nil, "", codehost.Unauthorized, 0, "replace DOCGAUGE_GITHUB_TOKEN"},
		{"forbidden", 403, headers{remaining: "4000"}, "", codehost.Hidden, 0, "read access"},
		{"blocked", 451, nil, "", codehost.Hidden, 0, "451"},
		{"not found", 404, nil, "", codehost.Hidden, 0, "acme/docs"},
		{"deleted", 410, nil, "", codehost.Hidden, 0, "deleted"},
		{"renamed", 301, headers{"Location": "https://api.github.com/repositories/1/pulls/7"}, "", codehost.Hidden, 0,
			"renamed"},
		{"primary limit", 403, headers{remaining: "0", reset: in(20 * time.Minute)}, "", limited, 20 * time.Minute,
			"quota"},
		{"primary limit, their clock is an hour ahead", 403, headers{"Date": now.Add(time.Hour).Format(http.TimeFormat),
			remaining: "0", reset: in(80 * time.Minute)}, "", limited, 20 * time.Minute, "quota"},
		{"primary limit for a week", 429, headers{remaining: "0", reset: in(200 * time.Hour)}, "", limited, time.Hour,
			"quota"},
		{"secondary limit", 403, headers{"Retry-After": "90"}, secondary, limited, 90 * time.Second, "fewer"},
		{"secondary limit without a time", 403, nil, secondary, limited, 0, "fewer"},
		{"secondary limit of a self-hosted server", 403, headers{"Retry-After": "90"}, "", limited, 90 * time.Second,
			"fewer"},
		{"too many requests", 429, nil, "", limited, 0, "fewer"},
		{"endless pause", 429, headers{"Retry-After": "9223372036854775807"}, "", limited, time.Hour, "fewer"},
		{"broken", 502, nil, "<html>", codehost.Transient, 0, "502"},
		{"a proxy's page", 200, nil, "<html>", codehost.Transient, 0, "none of its API"},
		{"another pull request", 200, nil, another, codehost.Transient, 0, "none of its API"},
		{"a proxy that says unchanged unasked", 304, nil, "", codehost.Transient, 0, "304"},
	} {
		if tc.header[remaining] != "" {
			tc.header["X-RateLimit-Limit"] = "5000"
		}
		w := &wire{answer: func(*http.Request) *http.Response { return respond(tc.code, tc.header, tc.body+" "+token) }}
		if strings.HasPrefix(tc.body, "{") {
			w.answer = func(*http.Request) *http.Response {
				return respond(tc.code, tc.header, strings.Replace(tc.body, "{", `{"message":"`+token+`",`, 1))
			}
		}
		former := journal.PullRequest{Link: "https://github.com/acme/docs/pull/7", State: journal.PullOpen, Commit: "b"}
		pr, err := client(t, w).Read(t.Context(), former)
		e, ok := errors.AsType[*codehost.Error](err)
		if !ok || e.Kind != tc.kind || !strings.Contains(err.Error(), tc.says) ||
			strings.Contains(err.Error(), "nil") ||
			strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v (%+v), want kind %d and %q", tc.name, err, e, tc.kind, tc.says)
			continue
		}
		if until := e.Until; until.IsZero() != (tc.wait == 0) || tc.wait != 0 && !until.Equal(now.Add(tc.wait)) {
			t.Errorf("%s: until %v, want in %v", tc.name, until, tc.wait)
		}
		if pr.State != journal.PullOpen || pr.Commit != "b" || !pr.Answered.IsZero() || len(w.asked) != 1 {
			t.Errorf("%s: %+v after %d requests", tc.name, pr, len(w.asked))
		}
	}
}

// TestTokens: a token goes to its own host alone, over no redirect, and into no error or URL.
func TestTokens(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a redirect to %s was followed with %v", r.URL, r.Header)
	}))
	defer elsewhere.Close()
	code := 0
	server := func(want string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Authorization"); got != "Bearer "+want || strings.Contains(r.URL.String(), want) {
				t.Errorf("%s was asked with %q", r.URL, got)
			}
			w.Header().Set("Location", elsewhere.URL+r.URL.Path)
			if code == 200 {
				w.Header().Set("Content-Length", "100") // and then fewer bytes
			}
			w.WriteHeader(code)
		}))
	}
	one, two, three := server("token-of-one"), server("token-of-two"), server("token-of-three")
	defer two.Close()
	defer three.Close()
	c, err := codehost.New(codehost.Options{
		GitHubURL: one.URL, GitHubToken: fixed("token-of-one"), GitLabURL: two.URL + "/api/v4",
		GitLabToken: fixed("token-of-two"), GiteaURL: three.URL + "/api/v1", GiteaToken: fixed("token-of-three"),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, code = range []int{200, 301, 302, 303, 307, 308, 500, 0} {
		if code == 0 {
			one.Close()
			code = 500
		}
		for _, link := range []string{one.URL + "/acme/docs/pull/7", two.URL + "/acme/docs/-/merge_requests/7",
			three.URL + "/acme/docs/pulls/7"} {
			pr, err := c.Read(t.Context(), journal.PullRequest{Link: link})
			_, fileErr := c.File(t.Context(), journal.PullRequest{Link: link, Commit: "abc"}, "docs.json")
			if said := fmt.Sprintf("%v %v %+v %+v", err, fileErr, pr, c); err == nil || fileErr == nil ||
				strings.Contains(said, "token-of") {
				t.Errorf("%d from %s: %s", code, link, said)
			}
		}
		for kind, project := range projects {
			o, err := codehost.NewOpener(kind, project, one.URL, fixed("token-of-one"), nil)
			check(t, err)
			if err := o.Check(t.Context()); err == nil || strings.Contains(err.Error(), "token-of") {
				t.Errorf("%d from %s: %v", code, kind, err)
			}
			if code < 300 || code >= 400 {
				continue // it is tried again, and is slow
			}
			if _, err := o.Open(t.Context(), proposed("a")); err == nil || strings.Contains(err.Error(), "token-of") {
				t.Errorf("%d from %s: %v", code, kind, err)
			}
		}
	}
}

// TestNoToken: without a usable token nothing is asked, and the sentence says which setting
// it is, but not its value.
func TestNoToken(t *testing.T) {
	for name, get := range map[string]func() (string, error){
		"none": nil, "empty": fixed(""), "unreadable": func() (string, error) {
			return token,
				errors.New("no such file")
		},
		"two lines": fixed(token + "\nX-Evil: 1"), "binary": fixed(token + "\x00"),
	} {
		w := &wire{}
		c, err := codehost.New(codehost.Options{GitHubToken: get, GitLabToken: fixed(token), Transport: w})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Read(t.Context(), journal.PullRequest{Link: "https://github.com/acme/docs/pull/7"})
		if codehost.KindOf(err) != codehost.NoToken || !strings.Contains(err.Error(), "DOCGAUGE_GITHUB_TOKEN") ||
			strings.Contains(err.Error(), token) || len(w.asked) > 0 {
			t.Errorf("%s: %v after %v", name, err, w.asked)
		}
	}
	_, err := client(t, &wire{}).Read(t.Context(), journal.PullRequest{Link: "https://evil.example/acme/docs/pull/7"})
	if codehost.KindOf(err) != codehost.Hidden {
		t.Error(err)
	}
}

// TestFile: a file is read at the commit, with its path escaped.
func TestFile(t *testing.T) {
	const gh, gl = "/repos/acme/docs/contents/", "/api/v4/projects/acme%2Fteam%2Fdocs/repository/files/"
	const gt = "/api/v1" + gh
	w := &wire{answers: map[string]string{
		gh + "my%20docs/docs.json?ref=abc":   `{"encoding":"base64","content":"eyJh\nIjoxfQ==\n"}`,
		gt + "my%20docs/docs.json?ref=abc":   `{"encoding":"base64","content":"eyJhIjoxfQ=="}`,
		gl + "my%20docs%2Fdocs.json?ref=abc": `{"encoding":"base64","content":"eyJhIjoxfQ=="}`,
		gh + "big?ref=abc":                   `{"encoding":"none","content":""}`,
		gh + "folder?ref=abc":                `[]`,
	}}
	c := client(t, w)
	for link, path := range map[string]string{
		"https://github.com/acme/docs/pull/7": "my docs/docs.json",
		gtLink:                                "my docs/docs.json",
		"https://gitlab.com/acme/team/docs/-/merge_requests/7": "my docs/docs.json",
	} {
		got, err := c.File(t.Context(), journal.PullRequest{Link: link, Commit: "abc"}, path)
		if err != nil || string(got) != `{"a":1}` {
			t.Errorf("%s: %q, %v", link, got, err)
		}
	}
	for path, kind := range map[string]codehost.Kind{"mint.json": codehost.Hidden, "big": codehost.Hidden,
		"folder": codehost.Transient} {
		_, err := c.File(t.Context(), journal.PullRequest{Link: "https://github.com/acme/docs/pull/7", Commit: "abc"},
			path)
		if _, ok := errors.AsType[*codehost.Error](err); !ok || codehost.KindOf(err) != kind {
			t.Errorf("%s: %v", path, err)
		}
	}
}
