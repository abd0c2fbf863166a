package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// newTest is a service with one project and two rows.
func newTest() *Service {
	keys := Keyring{}
	keys.Add("t_k", Credential{Scope: "admin"})
	keys.Add("t_other", Credential{Scope: "read", Project: "prj_other"})
	rows := []analytics.Row{{Path: "/a", Totals: analytics.Totals{Human: 1, Total: 1}},
		{Path: "/b", Totals: analytics.Totals{Human: 1, Total: 1}}}
	agent := analytics.AgentRow{Agent: "x", Class: "coding", Audience: analytics.AI, Found: true, Visitors: 1, Requests: 2}
	agents := []analytics.AgentRow{agent, agent}
	agents[0].Path, agents[1].Path, agents[1].Found, agents[1].Requests = "/a", "/b", false, 1
	day := analytics.NewDate(2026, 11, 16)
	return NewService(Options{
		FindKey: keys.Find, HasProject: func(name string) bool { return name == "prj" }, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
		Reports: map[analytics.Report]Reporter{
			analytics.VisitorsReport: func(_ *Call, q Query) (any, error) {
				return NewPage(analytics.Totals{Human: 1, Total: 1}, rows, q.Limit, q.Offset, &day, analytics.Confirmed), nil
			},
			analytics.ViewsReport: func(_ *Call, q Query) (any, error) {
				return NewPage(analytics.Totals{}, []analytics.ViewRow{}, q.Limit, q.Offset, nil, analytics.Claimed), nil
			},
			analytics.AgentsReport: func(_ *Call, q Query) (any, error) {
				return NewPage([]analytics.AgentRow{agent}, agents, q.Limit, q.Offset, nil, analytics.Claimed), nil
			},
		},
	})
}

func get(s *Service, path string) *httptest.ResponseRecorder {
	return ask(s, http.MethodGet, path, "t_k")
}

func ask(s *Service, method, path, key string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(`{"prompt": "x"}`))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestService: the parameters choose the rows; what is wrong is a status and one sentence.
func TestService(t *testing.T) {
	const (
		path  = "/v1/analytics/prj/visitors"
		views = `{"error":"dateFrom and dateTo: want one day of views, such as dateFrom=2026-11-16\u0026dateTo=2026-11-17: ` +
			`requests of longer spans are the sum of their days"}`
	)
	for url, want := range map[string]string{
		path: `{"totals":{"human":1,"ai":0,"total":1},"visitors":[{"path":"/a","human":1,"ai":0,"total":1},` +
			`{"path":"/b","human":1,"ai":0,"total":1}],"hasMore":false,"dataFrom":"2026-11-16","humans":"confirmed"}`,
		path + "?limit=1": `{"totals":{"human":1,"ai":0,"total":1},"visitors":[{"path":"/a","human":1,"ai":0,"total":1}],` +
			`"hasMore":true,"dataFrom":"2026-11-16","humans":"confirmed"}`,
		"/v1/analytics/prj/agents?limit=1&offset=1": `{"totals":[{"agent":"x","class":"coding","audience":"ai",` +
			`"visitors":1,"requests":2,"markdown":0,"bytes":0}],"agents":[{"path":"/b","agent":"x","class":"coding",` +
			`"audience":"ai","found":false,"visitors":1,"requests":1,"markdown":0,"bytes":0}],` +
			`"hasMore":false,"dataFrom":null,"humans":"claimed"}`,
		"/v1/analytics/prj/agents?limit=0": `{"error":"limit: want a whole number from 1 to 250, got \"0\""}`,
		"/v1/analytics/prj/views?dateFrom=2026-11-16&dateTo=2026-11-17": `{"totals":{"human":0,"ai":0,"total":0},` +
			`"views":[],"hasMore":false,"dataFrom":null,"humans":"claimed"}`,
		"/v1/analytics/prj/views?dateFrom=2026-11-16&dateTo=2026-11-18": views,
		"/v1/analytics/prj/views?dateFrom=2026-11-16":                   views,
		"/v1/analytics/prj/other":                                       `{"error":"path \"/v1/analytics/prj/other\": not found"}`,
		path + "?offset=2": `{"totals":{"human":1,"ai":0,"total":1},"visitors":[],"hasMore":false,` +
			`"dataFrom":"2026-11-16","humans":"confirmed"}`,
		path + "?limit=0":              `{"error":"limit: want a whole number from 1 to 250, got \"0\""}`,
		"/v1/analytics/prj_x/visitors": `{"error":"project \"prj_x\": not found with this API key"}`,
		"/v1//analytics":               `{"error":"path \"/v1//analytics\": not found"}`,
	} {
		if w := get(newTest(), url); w.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", url, w.Code, w.Body, want)
		}
	}
}

// TestRefused: a key is of one project, its scope counts first, and a service without jobs says so with
// a status after which clients know that nothing was taken.
func TestRefused(t *testing.T) {
	for _, tc := range []struct {
		method, path, key string
		want              int
	}{
		{http.MethodGet, "/v1/analytics/prj/visitors", "t_k", http.StatusOK},
		{http.MethodGet, "/v1/analytics/prj/visitors", "t_other", http.StatusNotFound},
		{http.MethodGet, "/v1/analytics/prj_other/visitors", "t_other", http.StatusNotFound}, // is not served
		{http.MethodPost, "/v2/agent/prj/job", "t_other", http.StatusForbidden},
		{http.MethodGet, "/v1/analytics/prj/visitors", "t_unknown", http.StatusUnauthorized},
		{http.MethodPost, "/v2/agent/prj/job", "t_k", http.StatusNotFound},
		{http.MethodPost, "/v2/agent/prj/job/j/message", "t_k", http.StatusNotFound},
		{http.MethodGet, "/v2/agent/prj/job/j", "t_k", http.StatusNotFound},
	} {
		if w := ask(newTest(), tc.method, tc.path, tc.key); w.Code != tc.want {
			t.Errorf("%s %s with %s: %d %s, want %d", tc.method, tc.path, tc.key, w.Code, w.Body, tc.want)
		}
	}
}

// failing fails in every call.
type failing struct{ err error }

func (f failing) Create(*Call, string, string) (any, error)  { return nil, f.err }
func (f failing) Message(*Call, string, string) (any, error) { return nil, f.err }
func (f failing) Get(*Call, string) (any, error)             { return nil, f.err }

// TestInternalErrors: what fails on the machine is in the log, and the answer has nothing of it.
func TestInternalErrors(t *testing.T) {
	failure := &fs.PathError{Op: "open", Path: filepath.Join(t.TempDir(), "of the machine"), Err: fs.ErrPermission}
	const visitors, job = "/v1/analytics/prj/visitors", "/v2/agent/prj/job"
	for name, tc := range map[string]struct {
		method, path string
		fail         func(*Service)
	}{
		"key": {http.MethodGet, visitors, func(s *Service) {
			s.FindKey = func(context.Context, [sha256.Size]byte) (Credential, bool, error) {
				return Credential{}, false, failure
			}
		}},
		"report": {http.MethodGet, visitors, func(s *Service) {
			s.Reports[analytics.VisitorsReport] = func(*Call, Query) (any, error) { return nil, failure }
		}},
		"answer": {http.MethodGet, visitors, func(s *Service) {
			s.Reports[analytics.VisitorsReport] = func(*Call, Query) (any, error) { return unwritable{failure}, nil }
		}},
		"create":  {http.MethodPost, job, nil},
		"message": {http.MethodPost, job + "/j/message", nil},
		"get":     {http.MethodGet, job + "/j", nil},
	} {
		var log bytes.Buffer
		s := newTest()
		s.Logger, s.Jobs = slog.New(slog.NewTextHandler(&log, nil)), failing{failure}
		if tc.fail != nil {
			tc.fail(s)
		}
		w := ask(s, tc.method, tc.path, "t_k")
		if w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "/") ||
			!strings.Contains(w.Body.String(), "the log of docgauge") {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
		if !strings.Contains(log.String(), failure.Path) || !strings.Contains(log.String(), tc.path) {
			t.Errorf("%s: log %s", name, &log)
		}
	}
}

// unwritable cannot be written as JSON.
type unwritable struct{ err error }

func (u unwritable) MarshalJSON() ([]byte, error) { return nil, u.err }

// TestTooManyAtOnce: one request more than are answered at once is refused, and none after it.
func TestTooManyAtOnce(t *testing.T) {
	s := newTest()
	for range maxInFlight {
		s.inFlight <- struct{}{}
	}
	if w := get(s, "/v1/analytics/prj/visitors"); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d", w.Code)
	}
	<-s.inFlight
	for range 2 {
		if w := get(s, "/v1/analytics/prj/visitors"); w.Code != http.StatusOK {
			t.Errorf("status %d with a free slot", w.Code)
		}
	}
}

// TestRequestLogKeepsTheNewest: its memory is bounded.
func TestRequestLogKeepsTheNewest(t *testing.T) {
	l := requestLog{remember: true}
	call := &Call{Request: httptest.NewRequest(http.MethodGet, "/", nil)}
	for i := range 2*maxRequests + 3 {
		l.add(call, i, 0)
	}
	kept := l.Newest()
	if len(kept) != maxRequests || kept[0].Status != maxRequests+3 || kept[maxRequests-1].Status != 2*maxRequests+2 {
		t.Errorf("%d kept, from %d to %d", len(kept), kept[0].Status, kept[len(kept)-1].Status)
	}
}
