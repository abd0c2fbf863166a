package docsapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var oneJobWant = Job{
	ID: "job_1", Status: StatusActive, Repository: "o/r", Ref: "main", Model: "m",
	CreatedAt: time.Date(2026, 10, 1, 8, 0, 0, 0, time.UTC),
}

func TestAgentRequestsOnTheWire(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	sent := make(chan string, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buf := make([]byte, 4096)
			n, _ := conn.Read(buf) // header and body leave in one write
			sent <- string(buf[:n])
			io.WriteString(conn, "HTTP/1.1 200 OK\r\n\r\n"+strings.Replace(oneJob, "job_1", `j/1?\u00e9`, 1))
			conn.Close()
		}
	}()
	host := listener.Addr().String()
	c := agentClient(t, "http://"+host+"/base/", func(cfg *Config) {
		cfg.JobPath = "/other/{id}/of/{projectId}"
	})
	common := "Host: " + host + "\r\nUser-Agent: docgauge\r\n"
	post := func(path, body string) string {
		return fmt.Sprintf("POST %s HTTP/1.1\r\n%sContent-Length: %d\r\nAccept: application/json\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n%s",
			path, common, len(body), testWriteKey, body)
	}
	for name, tc := range map[string]struct {
		do   func() (Job, error)
		want string
	}{
		"create": {func() (Job, error) { return c.CreateJob(t.Context(), "a/b", "say \"<é>\"\n") },
			post("/base/v2/agent/a%2Fb/job", `{"prompt":"say \"<é>\"\n"}`)},
		"message": {func() (Job, error) { return c.SendMessage(t.Context(), "prj_a", "j/1?é", "more") },
			post("/base/v2/agent/prj_a/job/j%2F1%3F%C3%A9/message", `{"prompt":"more"}`)},
		"read": {func() (Job, error) { return c.Job(t.Context(), "a/{id}", "j/1?é") },
			"GET /base/other/j%2F1%3F%C3%A9/of/a%2F%7Bid%7D HTTP/1.1\r\n" + common + "Accept: application/json\r\nAuthorization: Bearer " + testKey + "\r\nAccept-Encoding: gzip\r\n\r\n"},
	} {
		job, err := tc.do()
		if err != nil {
			t.Fatal(name, err)
		}
		want := oneJobWant
		want.ID = "j/1?é"
		if diff := cmp.Diff(want, job) + cmp.Diff(tc.want, <-sent); diff != "" {
			t.Error(name, diff)
		}
	}
}

// TestWriteKeyIsTheAdminKeyWhereThereIsNone also holds the words of a refusal to
// the variable that must change.
func TestWriteKeyIsTheAdminKeyWhereThereIsNone(t *testing.T) {
	for name, tc := range map[string]struct {
		change         func(*Config)
		key, says, not string
		attempt        string
	}{
		"one key":  {func(cfg *Config) { cfg.WriteAPIKey = nil }, testKey, "DOCGAUGE_API_KEY was refused", "WRITE", KeyAdmin},
		"two keys": {func(*Config) {}, testWriteKey, "DOCGAUGE_WRITE_API_KEY was refused", testKey, KeyWrite},
	} {
		service := serveRaw(t, false, answers("403 Forbidden", ""))
		var seen []Attempt
		c := agentClient(t, service.base, tc.change, func(cfg *Config) { cfg.Observe = func(a Attempt) { seen = append(seen, a) } })
		_, err := c.CreateJob(t.Context(), "prj_a", testPrompt)
		if !IsUnauthorized(err) || !strings.Contains(err.Error(), tc.says) || strings.Contains(err.Error(), tc.not) {
			t.Errorf("%s: %v", name, err)
		}
		_, err = c.Job(t.Context(), "prj_a", "job_1")
		if !IsUnauthorized(err) || !strings.Contains(err.Error(), "DOCGAUGE_API_KEY was refused") {
			t.Errorf("%s, a read: %v", name, err)
		}
		_, requests := service.seen()
		if got := requests[0].header.Get("Authorization"); got != "Bearer "+tc.key {
			t.Errorf("%s: sent with another key", name)
		}
		if len(seen) != 2 || seen[0].Key != tc.attempt || seen[0].Endpoint != EndpointCreate || seen[0].Status != 403 || seen[1].Key != KeyAdmin {
			t.Errorf("%s: observed %+v", name, seen)
		}
	}
	_, err := New(Config{BaseURL: "https://api.example.com", APIKey: StaticKey(testKey), WriteAPIKey: StaticKey("hunter22"), JobPath: "/x"})
	if err == nil || !strings.Contains(err.Error(), "DOCGAUGE_WRITE_API_KEY: want") || !strings.Contains(err.Error(), "DOCGAUGE_JOB_PATH") || strings.Contains(err.Error(), "hunter22") {
		t.Errorf("unusable write key and path: %v", err)
	}
}

func TestObserveAgentCalls(t *testing.T) {
	var mu sync.Mutex
	var seen []Attempt
	status := map[string]int{"/v2/agent/p/job": 201, "/v2/agent/p/job/job_1/message": 200, "/v2/agent/p/job/job_1": 200}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status[r.URL.Path])
		io.WriteString(w, oneJob)
	}))
	defer server.Close()
	observed := func(cfg *Config) {
		cfg.Observe = func(a Attempt) { mu.Lock(); defer mu.Unlock(); seen = append(seen, a) }
	}
	c := agentClient(t, server.URL, observed)
	_, err1 := c.CreateJob(t.Context(), "p", "x")
	_, err2 := c.SendMessage(t.Context(), "p", "job_1", "x")
	_, err3 := c.Job(t.Context(), "p", "job_1")
	_, err4 := agentClient(t, refusing(t), observed).CreateJob(t.Context(), "p", "x")
	if err := errors.Join(err1, err2, err3); err != nil || fate(err4) != "not sent" {
		t.Fatal(err, err4)
	}
	for i := range seen {
		if seen[i].Duration <= 0 {
			t.Errorf("%+v took no time", seen[i])
		}
		seen[i].Duration = 0
	}
	want := []Attempt{{EndpointCreate, KeyWrite, 201, 0}, {EndpointMessage, KeyWrite, 200, 0}, {EndpointJob, KeyAdmin, 200, 0}, {EndpointCreate, KeyWrite, 0, 0}}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Error(diff)
	}
}

// TestTransports: each operation goes its own way, so that each meets the budget
// that is meant for it.
func TestTransports(t *testing.T) {
	via := map[string]int{}
	count := func(name string, answer func(*http.Request) (*http.Response, error)) http.RoundTripper {
		return tripper(func(r *http.Request) (*http.Response, error) {
			via[name]++
			if r.Method == http.MethodPost && r.GetBody != nil {
				t.Error("net/http could send the body again")
			}
			return answer(r)
		})
	}
	c := agentClient(t, "https://api.example.com", func(cfg *Config) {
		cfg.Transport = count("analytics", status(200, onePage))
		cfg.JobTransport = count("jobs", status(200, oneJob))
		cfg.WriteTransport = func(project string) http.RoundTripper { return count("write "+project, status(201, oneJob)) }
	})
	_, err1 := c.VisitorsPage(t.Context(), query())
	_, err2 := c.Job(t.Context(), "a", "job_1")
	_, err3 := c.CreateJob(t.Context(), "a", "x")
	_, err4 := c.SendMessage(t.Context(), "b", "job_1", "x")
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int{"analytics": 1, "jobs": 1, "write a": 1, "write b": 1}, via); diff != "" {
		t.Error(diff)
	}
}

type tripper func(*http.Request) (*http.Response, error)

func (f tripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestJobReads(t *testing.T) {
	other := strings.Replace(oneJob, "job_1", "job_2", 1)
	for name, tc := range map[string]struct {
		answers  []func(*http.Request) (*http.Response, error)
		attempts int
		outcome  Outcome
		missing  bool
		says     string
	}{
		"job":              {tell(status(200, oneJob)), 1, OK, false, ""},
		"after an outage":  {tell(status(502, ""), breaks(io.EOF), status(200, oneJob[:30]), status(200, oneJob)), 4, OK, false, ""},
		"an outage":        {tell(status(503, "")), 5, Transient, false, "HTTP 503"},
		"429":              {tell(status(429, "", "Retry-After", "9")), 1, Transient, false, "request limit"},
		"404 of the API":   {tell(status(404, ` {"error":"no job"}`)), 1, Permanent, true, "DOCGAUGE_JOB_PATH"},
		"404 of a proxy":   {tell(status(404, `<html>`)), 1, Permanent, false, "DOCGAUGE_JOB_PATH"},
		"404, text":        {tell(status(404, `{no`)), 1, Permanent, false, "DOCGAUGE_JOB_PATH"},
		"another's":        {tell(status(200, other)), 1, Permanent, false, "another job's, job_2"},
		"no id":            {tell(status(200, `{"status":"active"}`)), 1, Permanent, false, "not that of the service's specification"},
		"201":              {tell(status(201, oneJob)), 1, Permanent, false, "HTTP 201"},
		"a page of HTML":   {tell(status(200, "<html>", "Content-Type", "text/html")), 1, Permanent, false, "content type text/html"},
		"a refused budget": {tell(breaks(notBefore{time.Now()})), 1, Transient, false, "budget used up"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T) {
				s := &scripted{answers: tc.answers}
				c := agentClient(t, "https://api.example.com", func(cfg *Config) { cfg.JobTransport = s })
				job, err := c.Job(t.Context(), "prj_a", "job_1")
				if OutcomeOf(err) != tc.outcome || len(s.at) != tc.attempts || IsNotFound(err) != tc.missing {
					t.Errorf("%v after %d attempts, not found %t", err, len(s.at), IsNotFound(err))
				}
				if err == nil && !cmp.Equal(job, oneJobWant) || err != nil && (job != (Job{}) || !strings.Contains(err.Error(), tc.says)) {
					t.Errorf("%+v, %v; want %q", job, err, tc.says)
				}
			})
		})
	}
}

func tell(answers ...func(*http.Request) (*http.Response, error)) []func(*http.Request) (*http.Response, error) {
	return answers
}

// TestWriteIsSentOnce: no answer makes the client send a write again, whatever a
// read would do.
func TestWriteIsSentOnce(t *testing.T) {
	for _, answer := range tell(status(500, ""), status(503, "", "Retry-After", "1"), status(408, ""), status(425, ""), status(429, ""), status(200, ""), breaks(io.EOF), breaks(errors.New("refused"))) {
		inBubble(t, func(t *testing.T) {
			s := &scripted{answers: tell(answer, status(201, oneJob))}
			c := agentClient(t, "https://api.example.com", func(cfg *Config) {
				cfg.WriteTransport = func(string) http.RoundTripper { return s }
			})
			start := time.Now()
			if _, err := c.CreateJob(t.Context(), "prj_a", "x"); err == nil || len(s.at) != 1 || time.Since(start) != 0 {
				t.Errorf("%v after %d attempts and %v", err, len(s.at), time.Since(start))
			}
		})
	}
}

// TestPromptNeverLeaks lets services quote keys and prompt in all ways they can
// fail, and looks for them in logs, errors and printed values.
func TestPromptNeverLeaks(t *testing.T) {
	prompt := testPrompt + "\n" + strings.Repeat("Then look at quotas again. ", 3000)
	escaped, _ := json.Marshal(prompt)
	for name, answer := range map[string]func(*http.Request) (*http.Response, error){
		"success":      status(201, oneJob),
		"JSON error":   status(400, `{"error":`+string(escaped)+`}`),
		"raw":          status(422, prompt),
		"escaped":      status(500, string(escaped)),
		"from within":  status(400, "near "+prompt[10:60]+" and "+prompt[2000:2100]),
		"no id":        status(201, `{"prompt":`+string(escaped)+`,"key":"`+testWriteKey+`"}`),
		"both keys":    status(403, testKey+" "+testWriteKey),
		"transport":    breaks(fmt.Errorf("malformed HTTP response %q", testWriteKey+" "+prompt)),
		"with its key": breaks(fmt.Errorf("Bearer %s: %s", testWriteKey, testPrompt)),
	} {
		var log bytes.Buffer
		c := agentClient(t, "https://api.example.com", func(cfg *Config) {
			cfg.Logger = slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
			cfg.WriteTransport = func(string) http.RoundTripper { return &scripted{answers: tell(answer)} }
		})
		_, err := c.CreateJob(t.Context(), "prj_a", prompt)
		if (err == nil) != (name == "success") || log.Len() == 0 {
			t.Fatalf("%s: %v, log %q", name, err, log.String())
		}
		c.log.Info("value", "client", c, "error", err)
		checkNoSecret(t, log.String()+printed(c, *c, err))
		for e := err; e != nil; e = errors.Unwrap(e) {
			checkNoSecret(t, printed(e))
		}
	}
}

func TestAgentLogLine(t *testing.T) {
	var log bytes.Buffer
	c := agentClient(t, "https://api.example.com", func(cfg *Config) {
		cfg.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		cfg.WriteTransport = func(string) http.RoundTripper { return &scripted{answers: tell(status(409, `{"error":"archived"}`))} }
	})
	_, _ = c.SendMessage(t.Context(), "prj_a", "job_1", testPrompt)
	_, _ = c.CreateJob(t.Context(), "prj_a", testPrompt)
	for _, want := range []string{
		`level=DEBUG msg="api request" method=POST project=prj_a id=job_1 status=409 `,
		`level=DEBUG msg="api request" method=POST project=prj_a status=409 `,
	} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("%q is not in %q", want, log.String())
		}
	}
}

func TestWithoutPrompt(t *testing.T) {
	for _, tc := range []struct{ text, prompt, want string }{
		{"no: fix the page", "", "no: fix the page"},
		{"no: fix", "fix", "no: fix"},
		{"no: fix the page", "fix the page", "no: [prompt]"},
		{"fix the page fix the page.", "fix the page", "[prompt] [prompt]."},
		{"fix the pagefix the page", "fix the page", "[prompt]"},
		{"short", "a prompt that is longer than the text", "short"},
		{"at 'a prompt that is longer than' …", "this is a prompt that is longer than the text", "at '[prompt]' …"},
		{"a prompt that is one thing", "a prompt that is another thing", "a prompt that is one thing"},
		{"\u0169" + strings.Repeat("é", 20), strings.Repeat("é", 21), "[prompt]"}, // ends in the byte that é ends in
		{"\u00ea" + strings.Repeat("é", 20), "\u00e9" + strings.Repeat("é", 20), "ê[prompt]"},
	} {
		if got := withoutPrompt(tc.text, tc.prompt); got != tc.want {
			t.Errorf("%q without %q: %q, want %q", tc.text, tc.prompt, got, tc.want)
		}
	}
}
