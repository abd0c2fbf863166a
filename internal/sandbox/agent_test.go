package sandbox

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/runner"
)

const jobs = "/v2/agent/prj_sandbox/job"

// request asks without a socket, as JSON with the default key.
func request(s *Sandbox, method, target, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json; charset=utf-8")
	return respond(s, r)
}

func promptBody(prompt string) string {
	body, err := json.Marshal(map[string]string{"prompt": prompt})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// wireJob is an answer as a client sees it, strictly: no field more, none less. The extension is whole or absent.
func wireJob(t fataler, w *httptest.ResponseRecorder, status int) (j runner.Job) {
	t.Helper()
	var fields map[string]any
	want := 7
	err := json.Unmarshal(w.Body.Bytes(), &fields)
	if fields["cost"] != nil {
		want += 3 // the extension: cost, cost_unit and tokens
	}
	if err != nil || w.Code != status || len(fields) != want {
		t.Fatalf("status %d, want %d with %d fields: %s", w.Code, status, want, w.Body)
	}
	for _, name := range []string{"id", "status", "source", "model", "prLink", "createdAt", "archivedAt"} {
		if _, ok := fields[name]; !ok {
			t.Fatalf("no %s: %s", name, w.Body)
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &j); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	return j
}

func createJob(t fataler, s *Sandbox, prompt string) runner.Job {
	t.Helper()
	return wireJob(t, request(s, http.MethodPost, jobs, promptBody(prompt)), http.StatusCreated)
}

func messageJob(t fataler, s *Sandbox, id, prompt string) runner.Job {
	t.Helper()
	return wireJob(t, request(s, http.MethodPost, jobs+"/"+id+"/message", promptBody(prompt)), http.StatusOK)
}

func readJob(t fataler, s *Sandbox, id string) runner.Job {
	t.Helper()
	return wireJob(t, request(s, http.MethodGet, jobs+"/"+id, ""), http.StatusOK)
}

// inBubble runs a test where synctest.Wait waits until every job is at rest.
func inBubble(t *testing.T, c Config, test func(t *testing.T, s *Sandbox)) {
	synctest.Test(t, func(t *testing.T) { test(t, newTest(t, c)) })
}

func TestArchivedByAge(t *testing.T) {
	now := noon
	c := Config{Now: func() time.Time { return now }, Agent: Agent{ArchiveAfter: time.Hour}}
	inBubble(t, c, func(t *testing.T, s *Sandbox) {
		j := createJob(t, s, "x")
		synctest.Wait()
		now = noon.Add(time.Hour - time.Millisecond)
		if got := readJob(t, s, j.ID); got.Status != runner.Completed {
			t.Errorf("before its time: %+v", got)
		}
		now = noon.Add(3 * time.Hour)
		if w := request(s, http.MethodPost, jobs+"/"+j.ID+"/message", promptBody("y")); w.Code != http.StatusConflict {
			t.Errorf("message: %d %s", w.Code, w.Body)
		}
		got := readJob(t, s, j.ID)
		if got.Status != runner.Archived || got.ArchivedAt == nil ||
			!got.ArchivedAt.Equal(noon.Add(time.Hour)) || got.PRLink == nil {
			t.Errorf("after: %+v", got)
		}
	})
}

func TestWorkersAreBounded(t *testing.T) {
	inBubble(t, Config{Agent: Agent{After: time.Minute, Workers: 2}}, func(t *testing.T, s *Sandbox) {
		for range 5 {
			createJob(t, s, "x")
		}
		for _, want := range []int{0, 2, 4, 5} {
			synctest.Wait()
			done := 0
			for _, r := range s.Jobs() {
				if r.Status == runner.Completed {
					done++
				}
			}
			if done != want {
				t.Errorf("%d done, want %d", done, want)
			}
			time.Sleep(time.Minute)
		}
	})
}

func TestAgentRefusals(t *testing.T) {
	s := newTest(t, Config{Projects: []string{DefaultProject, "b"}, ReadOnlyKey: "sbx_read",
		WriteOnlyKey: "sbx_write", ExpiredKey: "sbx_old"})
	id := createJob(t, s, "x").ID
	ok, full := promptBody("x"), strings.Repeat("ü", api.MaxPrompt/2)
	for name, tc := range map[string]struct {
		method, target, body, key, media string
		status                           int
		message                          string
	}{
		"no key":             {"POST", jobs, ok, "-", "", 401, "Authorization"},
		"expired":            {"POST", jobs, ok, "sbx_old", "", 401, "expired"},
		"create, no scope":   {"POST", jobs, ok, "sbx_read", "", 403, "write scope"},
		"message, no scope":  {"POST", jobs + "/" + id + "/message", ok, "sbx_read", "", 403, "write scope"},
		"read, no scope":     {"GET", jobs + "/" + id, "", "sbx_write", "", 403, "read scope"},
		"read":               {"GET", jobs + "/" + id, "", "sbx_read", "", 200, ""},
		"write":              {"POST", jobs, ok, "sbx_write", "", 201, ""},
		"project":            {"POST", "/v2/agent/nowhere/job", ok, "", "", 404, "project"},
		"project of a job":   {"GET", "/v2/agent/b/job/" + id, "", "", "", 404, "job"},
		"message to another": {"POST", "/v2/agent/b/job/" + id + "/message", ok, "", "", 404, "job"},
		"job":                {"GET", jobs + "/job_x", "", "", "", 404, "job"},
		"escaped job":        {"GET", jobs + "/a%2Fb%00", "", "", "", 404, "job"},
		"path":               {"POST", jobs + "/", ok, "", "", 404, "path"},
		"list":               {"GET", jobs, "", "", "", 405, "POST"},
		"delete":             {"DELETE", jobs + "/" + id, "", "", "", 405, "GET"},
		"read messages":      {"GET", jobs + "/" + id + "/message", "", "", "", 405, "POST"},
		"no media type":      {"POST", jobs, ok, "", "-", 415, "application/json"},
		"media type":         {"POST", jobs, ok, "", "text/json", 415, "application/json"},
		"empty body":         {"POST", jobs, "", "", "", 400, "JSON object"},
		"half a body":        {"POST", jobs, ok[:5], "", "", 400, "JSON object"},
		"more than a body":   {"POST", jobs, ok + ok, "", "", 400, "JSON object"},
		"null":               {"POST", jobs, "null", "", "", 400, "JSON object"},
		"array":              {"POST", jobs, "[1]", "", "", 400, "JSON object"},
		"no prompt":          {"POST", jobs, `{"Prompt":"x"}`, "", "", 400, "required"},
		"null prompt":        {"POST", jobs, `{"prompt":null}`, "", "", 400, "string"},
		"prompt of numbers":  {"POST", jobs, `{"prompt":1}`, "", "", 400, "string"},
		"empty prompt":       {"POST", jobs, promptBody(""), "", "", 400, "empty"},
		"blank prompt":       {"POST", jobs, promptBody(" \n\t"), "", "", 400, "empty"},
		"not UTF-8":          {"POST", jobs, "{\"prompt\":\"\xff\"}", "", "", 400, "UTF-8"},
		"full":               {"POST", jobs, promptBody(full), "", "", 201, ""},
		"full, escaped": {"POST", jobs, `{"prompt":"` +
			strings.Repeat(`\u0041`, api.MaxPrompt) + `"}`, "", "", 201, ""},
		"too long":         {"POST", jobs, promptBody(full + "x"), "", "", 413, "65536"},
		"far too long":     {"POST", jobs, promptBody(strings.Repeat("x", api.MaxBody)), "", "", 413, "body"},
		"message too long": {"POST", jobs + "/" + id + "/message", promptBody(full + "x"), "", "", 413, "65536"},
		"more fields":      {"POST", jobs, `{"prompt":"x","model":"y"}`, "", "", 201, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(tc.method, tc.target, strings.NewReader(tc.body))
			if tc.key == "" {
				tc.key = DefaultAPIKey
			}
			if tc.key != "-" {
				r.Header.Set("Authorization", "Bearer "+tc.key)
			}
			if tc.media == "" {
				tc.media = "application/json"
			}
			if tc.media != "-" {
				r.Header.Set("Content-Type", tc.media)
			}
			before := len(s.Jobs())
			w := respond(s, r)
			if w.Code != tc.status {
				t.Fatalf("status %d, want %d: %.200s", w.Code, tc.status, w.Body)
			}
			if accepted := len(s.Jobs()) > before; accepted != (tc.status == 201) {
				t.Errorf("status %d, accepted %t", w.Code, accepted)
			}
			if tc.status > 299 && !strings.Contains(message(t, w), tc.message) {
				t.Errorf("%s does not say %q", w.Body, tc.message)
			}
		})
	}
}

func TestAgentRequestsAreLogged(t *testing.T) {
	var out bytes.Buffer
	s := newTest(t, Config{RequestLog: slog.NewJSONHandler(&out, nil)})
	id := createJob(t, s, "a secret plan").ID
	messageJob(t, s, id, "a secret plan")
	readJob(t, s, id)
	request(s, http.MethodPost, jobs, promptBody(""))
	var got []string
	for _, r := range s.Requests() {
		got = append(got, fmt.Sprint(r.Method, " ", strings.ReplaceAll(r.Path, id, "ID"), " ", r.Project, " ",
			r.Status, " ", r.Accepted))
	}
	want := []string{
		"POST " + jobs + " prj_sandbox 201 true", "POST " + jobs + "/ID/message prj_sandbox 200 true",
		"GET " + jobs + "/ID prj_sandbox 200 false", "POST " + jobs + " prj_sandbox 400 false",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(out.String(), "plan") || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("request log: %s", out.String())
	}
}

func TestAgentFaults(t *testing.T) {
	taken, dropped, bad := exchange{Status: 201}, exchange{}, exchange{Status: 502}
	for name, tc := range map[string]struct {
		faults     AgentFaults
		retryAfter time.Duration
		want       []exchange
		accepted   int
	}{
		"none":          {AgentFaults{}, 0, []exchange{taken, taken}, 2},
		"drop":          {AgentFaults{DropEvery: 2}, 0, []exchange{taken, dropped, taken, dropped}, 4},
		"502":           {AgentFaults{BadGatewayEvery: 3}, 0, []exchange{taken, taken, bad, taken}, 4},
		"drop and 502":  {AgentFaults{DropEvery: 4, BadGatewayEvery: 2}, 0, []exchange{taken, bad, taken, dropped}, 4},
		"429":           {AgentFaults{ThrottleEvery: 2}, 0, []exchange{taken, {Status: 429}, taken, {Status: 429}}, 2},
		"429, how long": {AgentFaults{ThrottleEvery: 1}, time.Minute, []exchange{{429, "60", false}}, 0},
		"hour":          {AgentFaults{RateLimit: 1}, time.Hour, []exchange{taken, {429, "3600", false}}, 1},
		"429s and drops": {AgentFaults{ThrottleEvery: 2, DropEvery: 2}, 0,
			[]exchange{taken, {Status: 429}, dropped, {Status: 429}, taken}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, Config{Faults: Faults{RetryAfter: tc.retryAfter}, Agent: Agent{Faults: tc.faults}})
			server := start(t, s)
			got := ask(t, server, http.MethodPost, len(tc.want), jobs)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			accepted := 0
			for i, r := range s.Requests() {
				if r.Status != got[i].Status {
					t.Errorf("request %d: %d in the log, %d seen", i, r.Status, got[i].Status)
				}
				if r.Accepted {
					accepted++
				}
			}
			if len(s.Jobs()) != tc.accepted || accepted != tc.accepted {
				t.Errorf("%d jobs, %d accepted in the log, want %d", len(s.Jobs()), accepted, tc.accepted)
			}
		})
	}
}

// Faults of analytics and of agent requests are numbered apart.
func TestFaultsAreNumberedApart(t *testing.T) {
	s := newTest(t, Config{Pages: 10, Faults: Faults{ErrorEvery: 2},
		Agent: Agent{Faults: AgentFaults{BadGatewayEvery: 2}}})
	var got []int
	for range 3 {
		got = append(got, get(s, path).Code, request(s, http.MethodPost, jobs, promptBody("x")).Code,
			get(s, jobs+"/none").Code)
	}
	if diff := cmp.Diff([]int{200, 201, 404, 500, 502, 404, 200, 201, 404}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgentRateLimitIsPerProject(t *testing.T) {
	var minutes atomic.Int64 // jobs ask for the time too
	now := func() time.Time { return noon.Add(time.Duration(minutes.Load()) * time.Minute) }
	s := newTest(t, Config{Projects: []string{DefaultProject, "b"},
		Agent: Agent{Faults: AgentFaults{RateLimit: 2}}, Now: now})
	b := strings.Replace(jobs, DefaultProject, "b", 1)
	var got []int
	for _, step := range []struct {
		minute int64
		target string
		body   string
	}{{0, jobs, "x"}, {0, jobs, ""}, {30, jobs, "x"}, {30, b, "x"}, {59, jobs, "x"}, {59, b, "x"},
		{59, b, "x"}, {60, jobs, "x"}} {
		minutes.Store(step.minute)
		got = append(got, request(s, http.MethodPost, step.target, promptBody(step.body)).Code)
	}
	if diff := cmp.Diff([]int{201, 400, 429, 201, 429, 201, 429, 201}, got); diff != "" {
		t.Error(diff)
	}
}

// Latency comes before accepting, a stall after it.
func TestLatencyAndStall(t *testing.T) {
	faults := AgentFaults{Latency: time.Minute, Stall: time.Hour, StallEvery: 2}
	inBubble(t, Config{Agent: Agent{Faults: faults}}, func(t *testing.T, s *Sandbox) {
		for _, want := range []time.Duration{time.Minute, time.Hour + time.Minute, time.Minute} {
			begin, before, done := time.Now(), len(s.Jobs()), make(chan struct{})
			go func() {
				createJob(t, s, "x")
				close(done)
			}()
			time.Sleep(time.Minute - 1)
			synctest.Wait()
			if len(s.Jobs()) != before {
				t.Error("accepted before the latency had passed")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if len(s.Jobs()) != before+1 {
				t.Error("not accepted when the latency had passed")
			}
			<-done
			if took := time.Since(begin); took != want {
				t.Errorf("answered after %s, want %s", took, want)
			}
		}
	})
}
