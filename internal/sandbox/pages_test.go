package sandbox

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// browse asks as a browser does, over a connection from an address to another.
func browse(t *testing.T, s *Sandbox, method, target, from, to string) *httptest.ResponseRecorder {
	t.Helper()
	local, err := net.ResolveTCPAddr("tcp", to)
	check(t, err)
	r := httptest.NewRequest(method, target, nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, net.Addr(local)))
	r.RemoteAddr, r.Host = from, to
	r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	return respond(s, r)
}

const here = "127.0.0.1:8787"

// TestIndex: a browser gets a page that says how to use the sandbox and lists its work.
func TestIndex(t *testing.T) {
	s := newTest(t, Config{Pages: 10, Scenario: Growth, Faults: Faults{RateLimit: 3}})
	for range 4 {
		get(s, path)
	}
	settled(t, s, createJob(t, s, "Fix the typos.").ID)
	w := browse(t, s, http.MethodGet, "/", "127.0.0.1:40000", here)
	engines.Wants(t, w.Body.String(), "export DOCGAUGE_BASE_URL=http://"+here, "export DOCGAUGE_PROJECTS=prj_sandbox",
		"export DOCGAUGE_API_KEY="+DefaultAPIKey)
	engines.Wants(t, engines.VisibleText(w.Body.String()),
		"120 days of traffic (growth) on 10 pages", "Visitor analytics 3 0 of 3", "prj_sandbox 1 no limit",
		"Fix the typos.", "completed , pull request", "in 1 file")
	for _, r := range s.Requests() {
		if r.Path == "/" {
			t.Error("a page is one of the requests")
		}
	}
	for target, want := range map[string]int{
		"/pr/": 200, "/pr/1": 200, "/pr/2": 404, "/nowhere": 404, "/docgauge/sandbox/pull/1": 200,
		"/docgauge/sandbox/pull/2": 404,
		"/docgauge/other/pull/1":   404, "/docgauge/sandbox/pull/": 404, "/docgauge/sandbox/pull/01": 404,
	} {
		if w := browse(t, s, http.MethodGet, target, "127.0.0.1:40000", here); w.Code != want {
			t.Errorf("%s: %d, want %d", target, w.Code, want)
		}
	}
	for method, target := range map[string]string{http.MethodPost: "/pr/", http.MethodPut: "/pr/1"} {
		if w := browse(t, s, method, target, "127.0.0.1:40000", here); w.Code != http.StatusMethodNotAllowed ||
			w.Header().Get("Allow") == "" {
			t.Errorf("%s: %d", method, w.Code)
		}
	}
}

// TestIndexIsForBrowsers: API clients get JSON for an unknown path.
func TestIndexIsForBrowsers(t *testing.T) {
	s := newTest(t, Config{Pages: 10})
	if w := get(s, "/"); w.Code != http.StatusNotFound || !strings.Contains(message(t, w), "not found") {
		t.Errorf("GET: %d", w.Code)
	}
	if w := browse(t, s, http.MethodPost, "/", "127.0.0.1:40000", here); w.Code != http.StatusNotFound {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestIndexKeepsTheKey: only people at this machine see the well-known key and the
// prompts; a key that was chosen is never shown.
func TestIndexKeepsTheKey(t *testing.T) {
	for name, tc := range map[string]struct {
		key, from, to        string
		wantKey, wantPrompts bool
	}{
		"here":            {DefaultAPIKey, "127.0.0.1:1", here, true, true},
		"here, IPv6":      {DefaultAPIKey, "[::1]:1", "[::1]:8787", true, true},
		"another machine": {DefaultAPIKey, "192.0.2.7:1", "192.0.2.1:8787", false, false},
		"another key":     {"sbx_chosen", "127.0.0.1:1", here, false, true},
	} {
		s := newTest(t, Config{Pages: 10, APIKey: tc.key})
		if _, err := s.jobs.Create(DefaultProject, "Fix the typos. [sandbox:no-change]", ""); err != nil {
			t.Fatal(err)
		}
		text := browse(t, s, http.MethodGet, "/", tc.from, tc.to).Body.String()
		if got := strings.Contains(text, tc.key); got != tc.wantKey {
			t.Errorf("%s: key %t, want %t", name, got, tc.wantKey)
		}
		if got := strings.Contains(text, "Fix the typos."); got != tc.wantPrompts {
			t.Errorf("%s: prompts %t, want %t", name, got, tc.wantPrompts)
		}
		if strings.Contains(text, "export DOCGAUGE_API_KEY") != tc.wantKey ||
			!strings.Contains(text, "export DOCGAUGE_PROJECTS") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestIndexKeepsTheToken: one that was chosen is not shown.
func TestIndexKeepsTheToken(t *testing.T) {
	for token, want := range map[string]bool{"": true, "ghp_chosen": false} {
		s := newTest(t, Config{Pages: 10, Agent: Agent{Pulls: Pulls{Token: token}}})
		text := browse(t, s, http.MethodGet, "/", "127.0.0.1:1", here).Body.String()
		if strings.Contains(text, "export DOCGAUGE_GITHUB_TOKEN="+AnyToken) != want || strings.Contains(text, "ghp_") ||
			!strings.Contains(text, "export DOCGAUGE_GITHUB_URL=http://"+here+"/github") {
			t.Errorf("%q: %s", token, text)
		}
	}
	if _, err := New(Config{Agent: Agent{Pulls: Pulls{Token: "two words"}}}); err == nil {
		t.Error("a token with a space is taken")
	}
}

func TestIndexOfAnEventLog(t *testing.T) {
	f := newLogFile(t, `{"time":"2026-10-13T08:00:00Z","visitor":"a","kind":"human","path":"/x"}`+"\n")
	s := newTest(t, Config{DataDir: f.dir})
	engines.Wants(t, engines.VisibleText(browse(t, s, http.MethodGet, "/", "127.0.0.1:1", here).Body.String()),
		"come from the event log events.ndjson")
}

// TestButtons: the buttons of a page decide; pages of other sites cannot press them.
func TestButtons(t *testing.T) {
	s := newTest(t, Config{Pages: 10, Projects: []string{DefaultProject, "pull"}})
	const target = "/docgauge/sandbox/pull/1"
	settled(t, s, createJob(t, s, "Fix the typos.").ID)
	for _, tc := range []struct {
		target, action string
		header         []string
		want           int
	}{
		{target, "approve", nil, 303},
		{target, "fail_checks", []string{"Sec-Fetch-Site", "", "Origin", "http://" + here}, 303},
		{target, "pass_checks", []string{"Sec-Fetch-Site", ""}, 303}, // no browser
		{target, "merge", []string{"Sec-Fetch-Site", "cross-site"}, 403},
		{target, "merge", []string{"Sec-Fetch-Site", "same-site"}, 403},
		{target, "merge", []string{"Sec-Fetch-Site", "", "Origin", "http://evil.example"}, 403},
		{target, "merge", []string{"Sec-Fetch-Site", "", "Origin", "null"}, 403},
		{target, "reopen", nil, 409},
		{target, "dance", nil, 409},
		{target, strings.Repeat("x", maxForm), nil, 400},
		{"/docgauge/sandbox/pull/2", "merge", nil, 404},
		{"/docgauge/other/pull/1", "merge", nil, 404},
		{"/pr/1", "draft", nil, 303},
		{target, "merge", nil, 409},
		{target, "ready", nil, 303},
		{target, "merge", nil, 303},
		{target, "merge", nil, 409},
	} {
		w := press(s, tc.target, tc.action, tc.header...)
		if w.Code != tc.want || (tc.want == 303) != (w.Header().Get("Location") == target) {
			t.Errorf("%s %.10s %v: %d %s, want %d", tc.target, tc.action, tc.header, w.Code, w.Body, tc.want)
		}
	}
	text := engines.VisibleText(browse(t, s, http.MethodGet, target, "127.0.0.1:40000", here).Body.String())
	engines.Wants(t, text, "merged , approved, checks passed", "History", "Checks failed", "Merged 14 Oct")
	for _, button := range []string{"Reopen", "Request changes"} {
		if strings.Contains(text, button) {
			t.Errorf("merged, and there is %s", button)
		}
	}
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader("action=close"))
	r.Host = "evil.example:8787"
	if w := respond(s, r); w.Code != http.StatusMisdirectedRequest {
		t.Errorf("another host: %d", w.Code)
	}
	if w := request(s, http.MethodPost, "/v2/agent/pull/job", promptBody("x")); w.Code != http.StatusCreated {
		t.Errorf("a project called pull: %d", w.Code)
	}
}
