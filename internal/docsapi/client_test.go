package docsapi

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestNewRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ base, key, says string }{
		"nothing":        {"", "mint_secret", "want a URL"},
		"not a URL":      {"https://bob:hunter22@a b", "mint_secret", "want a URL"},
		"http":           {"http://api.example.com", "mint_secret", "use https"},
		"query":          {"https://example.com/?hunter22", "mint_secret", "query"},
		"version":        {"https://example.com/v1", "mint_secret", "/v1"},
		"version, slash": {"https://example.com/base/v2/", "mint_secret", "/v2"},
		"operation":      {"https://example.com/v1/analytics/prj_a/visitors", "mint_secret", "/v1"},
		"no key":         {"https://example.com", "", "DOCGAUGE_API_KEY"},
		"no prefix":      {"https://example.com", "_hunter22", "DOCGAUGE_API_KEY"},
		"no secret":      {"https://example.com", "mint_", "DOCGAUGE_API_KEY"},
		"no underscore":  {"https://example.com", "hunter22", "DOCGAUGE_API_KEY"},
		"newline":        {"https://example.com", "mint_hunter22\n", "DOCGAUGE_API_KEY"},
		"space":          {"https://example.com", "mint_hunter22 x", "DOCGAUGE_API_KEY"},
		"not ASCII":      {"https://example.com", "mint_hunter22é", "DOCGAUGE_API_KEY"},
		"both":           {"http://api.example.com", "", "use https"},
	} {
		_, err := New(ClientOptions{BaseURL: tc.base, APIKey: StaticKey(tc.key)})
		if err == nil || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), "hunter22") {
			t.Errorf("%s: %v; want %q and no secret", name, err, tc.says)
		}
	}
	if _, err := New(ClientOptions{BaseURL: "ftp://x"}); err == nil || strings.Count(err.Error(), "\n") != 1 {
		t.Errorf("two problems: %v", err)
	}
}

func TestNewAccepts(t *testing.T) {
	for base, want := range map[string]string{
		"https://api.example.com":          "https://api.example.com",
		"https://api.example.com:8443/":    "https://api.example.com:8443",
		"https://api.example.com/a%2Fb/c/": "https://api.example.com/a%2Fb/c",
		"https://gw.example.com/v2/docs":   "https://gw.example.com/v2/docs",
		"http://localhost:8787":            "http://localhost:8787",
		"http://127.0.0.2":                 "http://127.0.0.2",
		"http://[::1]:1/":                  "http://[::1]:1",
		"HTTPS://api.example.com":          "https://api.example.com",
	} {
		c, err := New(ClientOptions{BaseURL: base, APIKey: StaticKey("mint_!secret~")})
		if err != nil || c.base != want {
			t.Errorf("%s: %v, %v; want base %s", base, c, err, want)
		}
	}
}

// TestTransports: each operation uses its own transport, and so its own budget.
func TestTransports(t *testing.T) {
	via := map[string]int{}
	count := func(name string, answer reply) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			via[name]++
			if r.Method == http.MethodPost && r.GetBody != nil {
				t.Error("net/http could send the body again")
			}
			return answer(r)
		})
	}
	c := agentClient(t, "https://api.example.com", func(cfg *ClientOptions) {
		cfg.Transport = count("analytics", status(200, onePage))
		cfg.WriteTransport = func(project string) http.RoundTripper {
			return count("write "+project, status(201, oneJob))
		}
	})
	c.jobTransport = count("jobs", status(200, oneJob))
	_, err1 := c.Page(t.Context(), query())
	_, err2 := c.Job(t.Context(), "a", "job_1")
	_, err3 := c.CreateJob(t.Context(), "a", "x", "")
	_, err4 := c.SendMessage(t.Context(), "b", "job_1", "x")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"analytics": 1, "jobs": 1, "write a": 1, "write b": 1}, via); diff != "" {
		t.Error(diff)
	}
}

// TestWriteKeyIsTheAdminKeyWhereThereIsNone also checks that a refusal names the
// variable that must change.
func TestWriteKeyIsTheAdminKeyWhereThereIsNone(t *testing.T) {
	for name, tc := range map[string]struct{ writeKey, sent, says, not, attempt string }{
		"one key":  {"", testKey, "DOCGAUGE_API_KEY was refused", "WRITE", KeyAdmin},
		"two keys": {testWriteKey, testWriteKey, "DOCGAUGE_WRITE_API_KEY was refused", testKey, KeyWrite},
	} {
		service := serveRaw(t, false, answers("403 Forbidden", ""))
		var seen []Attempt
		c := agentClient(t, service.base, func(cfg *ClientOptions) {
			cfg.Observe = func(a Attempt) { seen = append(seen, a) }
			if tc.writeKey == "" {
				cfg.WriteAPIKey = nil
			}
		})
		_, err := c.CreateJob(t.Context(), "prj_a", testPrompt, "")
		if !IsUnauthorized(err) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), tc.not) {
			t.Errorf("%s: %v", name, err)
		}
		_, err = c.Job(t.Context(), "prj_a", "job_1")
		if !IsUnauthorized(err) || !strings.Contains(err.Error(), "DOCGAUGE_API_KEY was refused") {
			t.Errorf("%s, a read: %v", name, err)
		}
		_, requests := service.seen()
		if got := requests[0].header.Get("Authorization"); got != "Bearer "+tc.sent {
			t.Errorf("%s: sent with another key", name)
		}
		if len(seen) != 2 || seen[0].Key != tc.attempt || seen[0].Endpoint != endpointCreate ||
			seen[0].Status != 403 || seen[1].Key != KeyAdmin {
			t.Errorf("%s: observed %+v", name, seen)
		}
	}
	_, err := New(ClientOptions{
		BaseURL: "https://api.example.com", APIKey: StaticKey(testKey),
		WriteAPIKey: StaticKey("hunter22"), JobPath: "/x",
	})
	if err == nil || !strings.Contains(err.Error(), "DOCGAUGE_WRITE_API_KEY: want") ||
		!strings.Contains(err.Error(), "DOCGAUGE_JOB_PATH") || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("unusable write key and path: %v", err)
	}
}

// TestRequestsOnTheWire compares every byte of the four requests.
func TestRequestsOnTheWire(t *testing.T) {
	sent := make(chan string, 1)
	start := func(body string) (base, common string) {
		header := "HTTP/1.1 200 OK\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n"
		service := serveRaw(t, true, records(sent, header+body))
		return service.base, "Host: " + strings.TrimPrefix(service.base, "http://") + "\r\nUser-Agent: docgauge\r\n"
	}
	const id = "j/1?é"
	base, common := start(strings.Replace(oneJob, "job_1", `j/1?\u00e9`, 1))
	c := agentClient(t, base+"/base/", func(cfg *ClientOptions) { cfg.JobPath = "/other/{id}/of/{projectId}" })
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\nAccept: application/json\r\n"+
			"Authorization: Bearer %s\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
			path, common, len(body), testWriteKey, body)
	}
	get := func(path string) string {
		return "GET " + path + " HTTP/1.1\r\n" + common + "Accept: application/json\r\n" +
			"Authorization: Bearer " + testKey + "\r\nAccept-Encoding: gzip\r\n\r\n"
	}
	for name, tc := range map[string]struct {
		do   func() (Job, error)
		want string
	}{
		"create": {func() (Job, error) { return c.CreateJob(t.Context(), "a/b", "say \"<é>\"\n", "") },
			post("/base/v2/agent/a%2Fb/job", `{"prompt":"say \"<é>\"\n"}`)},
		"titled": {func() (Job, error) { return c.CreateJob(t.Context(), "prj_a", "more", "é\n#1") },
			strings.Replace(post("/base/v2/agent/prj_a/job", `{"prompt":"more"}`), "Connection:",
				"Docgauge-Title: =?utf-8?q?=C3=A9=0A#1?=\r\nConnection:", 1)},
		"message": {func() (Job, error) { return c.SendMessage(t.Context(), "prj_a", id, "more") },
			post("/base/v2/agent/prj_a/job/j%2F1%3F%C3%A9/message", `{"prompt":"more"}`)},
		"read": {func() (Job, error) { return c.Job(t.Context(), "a/{id}", id) },
			get("/base/other/j%2F1%3F%C3%A9/of/a%2F%7Bid%7D")},
	} {
		job, err := tc.do()
		if err != nil {
			t.Fatal(name, err)
		}
		want := oneJobWant
		want.ID = id
		if diff := cmp.Diff(want, job) + cmp.Diff(tc.want, <-sent); diff != "" {
			t.Error(name, diff)
		}
	}
	base, common = start(onePage)
	q := PageQuery{Project: "a/b?c", Window: october, Limit: 7, Offset: 14}
	page, err := newClient(t, base+"/base/", nil).Page(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	want := onePageWant
	want.Offset = 14
	request := get("/base/v1/analytics/a%2Fb%3Fc/visitors?dateFrom=2026-10-01&dateTo=2026-11-01&limit=7&offset=14")
	if diff := cmp.Diff(want, page) + cmp.Diff(request, <-sent); diff != "" {
		t.Error(diff)
	}
	base, common = start(oneAgentsPage)
	q.Report = analytics.AgentsReport
	agents, err := newClient(t, base+"/base/", nil).Page(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	wantAgents := oneAgentsPageWant
	wantAgents.Offset = 14
	request = get("/base/v1/analytics/a%2Fb%3Fc/agents?dateFrom=2026-10-01&dateTo=2026-11-01&limit=7&offset=14")
	if diff := cmp.Diff(wantAgents, agents) + cmp.Diff(request, <-sent); diff != "" {
		t.Error(diff)
	}
}

// TestObserve: each attempt that asked for a connection, and no other.
func TestObserve(t *testing.T) {
	type endpoint struct {
		status int
		body   string
	}
	answers := map[string]endpoint{
		"/v1/analytics/p/visitors": {429, ""}, "/v2/agent/p/job": {201, oneJob},
		"/v2/agent/p/job/job_1/message": {200, oneJob}, "/v2/agent/p/job/job_1": {200, oneJob},
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(answers[r.URL.Path].status)
		io.WriteString(w, answers[r.URL.Path].body)
	}))
	defer server.Close()
	var seen []Attempt
	observed := func(cfg *ClientOptions) { cfg.Observe = func(a Attempt) { seen = append(seen, a) } }
	refused := func(cfg *ClientOptions) { cfg.Transport = tripper(breaks(notBefore{time.Now().Add(time.Minute)})) }
	visitors := PageQuery{Project: "p", Window: october}

	c := agentClient(t, server.URL, observed)
	_, err1 := c.CreateJob(t.Context(), "p", "x", "")
	_, err2 := c.SendMessage(t.Context(), "p", "job_1", "x")
	_, err3 := c.Job(t.Context(), "p", "job_1")
	_, err4 := c.Page(t.Context(), visitors)
	_, err5 := agentClient(t, server.URL, observed, refused).Page(t.Context(), visitors)
	_, err6 := agentClient(t, refusing(t), observed).CreateJob(t.Context(), "p", "x", "")
	err := errors.Join(err1, err2, err3)
	if err != nil || !IsThrottled(err4) || err5 == nil || fate(err6) != "not sent" {
		t.Fatal(err, err4, err5, err6)
	}
	for i := range seen {
		if d := seen[i].Duration; d <= 0 || d > time.Minute {
			t.Errorf("%+v took %v", seen[i], d)
		}
		seen[i].Duration = 0
	}
	want := []Attempt{
		{endpointCreate, KeyWrite, 201, 0, 0}, {endpointMessage, KeyWrite, 200, 0, 0},
		{endpointJob, KeyAdmin, 200, 0, 0},
		{analytics.VisitorsReport.String(), KeyAdmin, 429, 0, 0}, {endpointCreate, KeyWrite, 0, 0, 0},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}
