package sandbox

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// post sends a create over a socket of its own and returns the status, 0 where
// the connection was closed instead of an answer.
func post(t *testing.T, server *httptest.Server, target string) exchange {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, server.URL+target, strings.NewReader(promptBody("x")))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+DefaultAPIKey)
	r.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := transport.RoundTrip(r)
	if errors.Is(err, io.EOF) {
		return exchange{}
	}
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return exchange{Status: resp.StatusCode, RetryAfter: resp.Header.Get("Retry-After")}
}

func TestAgentFaults(t *testing.T) {
	taken, dropped, bad := exchange{Status: 201}, exchange{}, exchange{Status: 502}
	for name, tc := range map[string]struct {
		faults     AgentFaults
		retryAfter time.Duration
		want       []exchange
		accepted   int
	}{
		"none":           {AgentFaults{}, 0, []exchange{taken, taken}, 2},
		"drop":           {AgentFaults{DropEvery: 2}, 0, []exchange{taken, dropped, taken, dropped}, 4},
		"502":            {AgentFaults{BadGatewayEvery: 3}, 0, []exchange{taken, taken, bad, taken}, 4},
		"drop and 502":   {AgentFaults{DropEvery: 4, BadGatewayEvery: 2}, 0, []exchange{taken, bad, taken, dropped}, 4},
		"429":            {AgentFaults{ThrottleEvery: 2}, 0, []exchange{taken, {Status: 429}, taken, {Status: 429}}, 2},
		"429, how long":  {AgentFaults{ThrottleEvery: 1}, time.Minute, []exchange{{429, "60", false}}, 0},
		"hour":           {AgentFaults{RateLimit: 1}, time.Hour, []exchange{taken, {429, "3600", false}}, 1},
		"429s and drops": {AgentFaults{ThrottleEvery: 2, DropEvery: 2}, 0, []exchange{taken, {Status: 429}, dropped, {Status: 429}, taken}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newTest(t, Config{Faults: Faults{RetryAfter: tc.retryAfter}, Agent: Agent{Faults: tc.faults}})
			server := start(t, s)
			var got []exchange
			for range tc.want {
				got = append(got, post(t, server, jobs))
			}
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
	s := newTest(t, Config{Pages: 10, Faults: Faults{ErrorEvery: 2}, Agent: Agent{Faults: AgentFaults{BadGatewayEvery: 2}}})
	var got []int
	for range 3 {
		got = append(got, get(s, path).Code, request(s, http.MethodPost, jobs, promptBody("x")).Code, get(s, jobs+"/none").Code)
	}
	if diff := cmp.Diff([]int{200, 201, 404, 500, 502, 404, 200, 201, 404}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAgentRateLimitIsPerProject(t *testing.T) {
	var minutes atomic.Int64 // jobs ask for the time too
	now := func() time.Time { return noon.Add(time.Duration(minutes.Load()) * time.Minute) }
	s := newTest(t, Config{Projects: []string{DefaultProject, "b"}, Agent: Agent{Faults: AgentFaults{RateLimit: 2}}, Now: now})
	b := strings.Replace(jobs, DefaultProject, "b", 1)
	var got []int
	for _, step := range []struct {
		minute int64
		target string
		body   string
	}{{0, jobs, "x"}, {0, jobs, ""}, {30, jobs, "x"}, {30, b, "x"}, {59, jobs, "x"}, {59, b, "x"}, {59, b, "x"}, {60, jobs, "x"}} {
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

func TestAgentConfigIsChecked(t *testing.T) {
	_, err := New(Config{Agent: Agent{
		Workers: -1, After: -1, ArchiveAfter: -1, PublicURL: "ftp://x",
		Faults: AgentFaults{Latency: -1, RateLimit: -1, ThrottleEvery: -1, DropEvery: -1, BadGatewayEvery: -1, Stall: -1, StallEvery: -1},
	}})
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"workers", "duration", "archive after", "public URL", "latency", "rate limit", "429 every", "drop every", "502 every", "stall", "stall every",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
