package sandbox

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// noon is a Wednesday.
var noon = time.Date(2026, 10, 14, 12, 0, 30, 0, time.UTC)

const path = "/v1/analytics/prj_sandbox/visitors"

func newTest(t testing.TB, c Config) *Sandbox {
	t.Helper()
	if c.Now == nil {
		c.Now = func() time.Time { return noon }
	}
	s, err := New(c)
	check(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// get asks without a socket, with the default key unless headers are given.
func get(s *Sandbox, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if len(headers) == 0 {
		headers = []string{"Bearer " + DefaultAPIKey}
	}
	for _, h := range headers {
		r.Header.Add("Authorization", h)
	}
	return respond(s, r)
}

// respond answers a request without a socket.
func respond(s *Sandbox, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	s.service.Handler().ServeHTTP(w, r)
	return w
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// page is the body of an answer about visitors.
type page struct {
	Totals   analytics.Totals
	Visitors []analytics.Row
	HasMore  bool
	DataFrom *analytics.Date
}

func decode(t fataler, w *httptest.ResponseRecorder) (p page) {
	t.Helper()
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, body %.200s: %v", w.Code, w.Body, err)
	}
	return p
}

func message(t fataler, w *httptest.ResponseRecorder) string {
	t.Helper()
	var body map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || len(body) != 1 || body["error"] == "" {
		t.Fatalf("status %d: want {\"error\": …}, got %s", w.Code, w.Body)
	}
	return body["error"]
}

// all pages through a window.
func all(t fataler, s *Sandbox, from, to string, limit int) facts.Visitors {
	t.Helper()
	var a facts.Visitors
	for offset := 0; ; offset += limit {
		q := url.Values{"limit": {fmt.Sprint(limit)}, "offset": {fmt.Sprint(offset)}}
		if from != "" {
			q.Set("dateFrom", from)
		}
		if to != "" {
			q.Set("dateTo", to)
		}
		page := decode(t, get(s, path+"?"+q.Encode()))
		if offset > 0 && page.Totals != a.Totals {
			t.Fatalf("totals %v on the page at %d, %v before", page.Totals, offset, a.Totals)
		}
		a.Totals = page.Totals
		a.Rows = append(a.Rows, page.Visitors...)
		if !page.HasMore {
			return a
		}
		if len(page.Visitors) != limit {
			t.Fatalf("page at %d has %d rows and hasMore", offset, len(page.Visitors))
		}
	}
}

func date(s string) analytics.Date {
	d, err := analytics.ParseDate(s)
	if err != nil {
		panic(err)
	}
	return d
}

func window(from, to string) analytics.Window {
	return analytics.Window{From: date(from), To: date(to)}
}

func truth(t testing.TB, s *Sandbox, from, to string) facts.Visitors {
	t.Helper()
	totals, rows, err := s.Visitors(DefaultProject, window(from, to))
	check(t, err)
	return facts.Visitors{Totals: totals, Rows: rows}
}

// check ends the test with an error.
func check(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v", err)
	}
}
