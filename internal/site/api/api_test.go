package api

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// newTest is a service with one project and two rows.
func newTest() *Service {
	keys := Keyring{}
	keys.Add("t_k", Credential{Scopes: Read | Write})
	rows := []analytics.Row{{Path: "/a", Human: 1, Total: 1}, {Path: "/b", Human: 1, Total: 1}}
	return New(Options{
		Keys: keys, HasProject: func(name string) bool { return name == "prj" }, Now: time.Now,
		Logger: slog.New(slog.DiscardHandler),
		Visitors: func(_ *Call, q Query) (any, error) {
			return NewPage(analytics.Totals{Human: 1, Total: 1}, rows, q.Limit, q.Offset), nil
		},
	})
}

func get(s *Service, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.Header.Set("Authorization", "Bearer t_k")
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w
}

// TestPages: the parameters choose the rows; what is wrong is a status and one sentence.
func TestPages(t *testing.T) {
	const path = "/v1/analytics/prj/visitors"
	for url, want := range map[string]string{
		path: `{"totals":{"human":1,"ai":0,"total":1},"visitors":[{"path":"/a","human":1,"ai":0,"total":1},` +
			`{"path":"/b","human":1,"ai":0,"total":1}],"hasMore":false}`,
		path + "?limit=1": `{"totals":{"human":1,"ai":0,"total":1},"visitors":[{"path":"/a","human":1,"ai":0,"total":1}],` +
			`"hasMore":true}`,
		path + "?offset=2":             `{"totals":{"human":1,"ai":0,"total":1},"visitors":[],"hasMore":false}`,
		path + "?limit=0":              `{"error":"limit: want a whole number from 1 to 250, got \"0\""}`,
		"/v1/analytics/prj_x/visitors": `{"error":"project \"prj_x\": not found"}`,
		"/v1//analytics":               `{"error":"path \"/v1//analytics\": not found"}`,
	} {
		if w := get(newTest(), url); w.Body.String() != want {
			t.Errorf("%s: %d %s, want %s", url, w.Code, w.Body, want)
		}
	}
}

// TestTooManyAtOnce: one request more than are answered at once is refused, and none after it.
func TestTooManyAtOnce(t *testing.T) {
	s := newTest()
	for range MaxInFlight {
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
	var l RequestLog
	for i := range 2*MaxRequests + 3 {
		l.add(Request{Offset: i}, 0, 0)
	}
	kept := l.Newest()
	if len(kept) != MaxRequests || kept[0].Offset != MaxRequests+3 || kept[MaxRequests-1].Offset != 2*MaxRequests+2 {
		t.Errorf("%d kept, from %d to %d", len(kept), kept[0].Offset, kept[len(kept)-1].Offset)
	}
}
