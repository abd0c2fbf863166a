package serve

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// testSite is a site whose facts are committed by a test, on 2026-10-20. Its readers are people.
type testSite struct {
	t       *testing.T
	report  analytics.Report // that is asked for
	humans  analytics.Humans
	store   *facts.Store
	answers *Answers
	handler http.Handler
	key     string
	now     atomic.Int64 // Unix seconds
	pages   []string
	lacks   error // the answers lack lines
}

// eachReport tests a site by each of its reports.
func eachReport(t *testing.T, test func(t *testing.T, s *testSite)) {
	for name := range reports {
		if name.Shape().Additive {
			continue // its windows are days
		}
		t.Run(name.String(), func(t *testing.T) {
			s := newTestSite(t)
			s.report = name
			test(t, s)
		})
	}
}

func newTestSite(t *testing.T) *testSite {
	s := &testSite{t: t, report: analytics.VisitorsReport, humans: analytics.Claimed}
	s.now.Store(time.Date(2026, 10, 20, 12, 0, 0, 0, time.UTC).Unix())
	var err error
	if s.store, err = facts.Open(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	s.serve()
	s.key = s.addKey("prj_a")
	return s
}

func (s *testSite) clock() time.Time { return time.Unix(s.now.Load(), 0) }

// serve is what a new process does.
func (s *testSite) serve() {
	s.answers = NewAnswers(s.store, CollectOptions{Now: s.clock, Logger: slog.New(slog.DiscardHandler), Retention: 3,
		Humans: s.humans})
	s.handler = s.answers.NewService([]string{"prj_a", "prj_b"}, func(string, analytics.Date) error { return s.lacks },
		api.Options{Now: s.clock, Logger: slog.New(slog.DiscardHandler)}).Handler()
}

func (s *testSite) addKey(project string) string {
	_, secret, err := s.store.AddAPIKey(s.t.Context(), project, "read", "", s.clock())
	if err != nil {
		s.t.Fatal(err)
	}
	return secret
}

// add commits views of a day: the pages of a reader, with evidence of a browser unless it is a program.
func (s *testSite) add(day string, reader string, pages ...string) {
	s.t.Helper()
	d, err := analytics.ParseDate(day)
	if err != nil {
		s.t.Fatal(err)
	}
	readers := s.readers(d, reader)
	b := facts.Batch{Projects: []string{"prj_a"}}
	if reader != "program" {
		b.Shown = []facts.Shown{{Readers: readers, Day: d}}
	}
	if len(s.pages) == 0 {
		b.Referrals = []facts.Referral{{Name: "none", Class: "none"}}
	}
	for _, page := range pages {
		at := slices.Index(s.pages, page)
		if at < 0 {
			at, s.pages = len(s.pages), append(s.pages, page)
			b.Pages = append(b.Pages, facts.Page{Number: int32(at), Project: "prj_a", Path: page})
		}
		b.Views = append(b.Views, facts.View{Day: d, Page: int32(at), Agent: facts.Browser, Readers: readers})
	}
	if err := s.store.Commit(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
}

// show commits evidence of a day that a reader is a browser.
func (s *testSite) show(day, reader string) {
	s.t.Helper()
	d, err := analytics.ParseDate(day)
	if err != nil {
		s.t.Fatal(err)
	}
	b := facts.Batch{Projects: []string{"prj_a"}, Shown: []facts.Shown{{Readers: s.readers(d, reader), Day: d}}}
	if err := s.store.Commit(s.t.Context(), b); err != nil {
		s.t.Fatal(err)
	}
}

// readers are the ids of a reader in the epochs of a day.
func (s *testSite) readers(day analytics.Date, reader string) [2]uint64 {
	s.t.Helper()
	keys, open, err := s.store.Keys(s.t.Context(), "prj_a", facts.EpochOf(day), s.clock())
	if err != nil || !open {
		s.t.Fatal(open, err)
	}
	return [2]uint64{facts.NewHash(keys[0]).ID([]byte(reader)), facts.NewHash(keys[1]).ID([]byte(reader))}
}

func (s *testSite) get(query, key string) (int, string) {
	r := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/v1/analytics/prj_a/%s?%s", s.report, query), nil)
	r.Header.Set("Authorization", "Bearer "+key)
	w := httptest.NewRecorder()
	s.handler.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// numbers are the numbers of a page: the readers of the site, and of each path.
type numbers struct {
	Total   int64
	Rows    []pathNumber
	HasMore bool
}

type pathNumber struct {
	Path  string
	Total int64
}

func (s *testSite) page(query, key string) (n numbers) {
	s.t.Helper()
	code, body := s.get(query, key)
	n, err := s.parse(body)
	if err != nil || code != http.StatusOK {
		s.t.Errorf("%s: %d %s, %v", query, code, body, err)
	}
	return n
}

// parse reads a page of the report, and checks that it counts the browsers of [testSite.add].
func (s *testSite) parse(body string) (n numbers, err error) {
	var p struct {
		Totals  json.RawMessage
		HasMore bool
		Humans  analytics.Humans
	}
	var rows map[string]json.RawMessage
	err = errors.Join(json.Unmarshal([]byte(body), &p), json.Unmarshal([]byte(body), &rows))
	var all, site []struct {
		Path, Agent            string
		Human, Total, Visitors int64
	}
	if len(p.Totals) > 0 && p.Totals[0] == '{' {
		p.Totals = slices.Concat([]byte("["), p.Totals, []byte("]"))
	}
	err = errors.Join(err, json.Unmarshal(rows[s.report.String()], &all), json.Unmarshal(p.Totals, &site))
	for _, row := range all {
		n.Rows = append(n.Rows, pathNumber{row.Path, row.Total + row.Visitors})
	}
	for _, row := range site {
		n.Total += row.Total + row.Visitors
	}
	for _, row := range append(all, site...) {
		if row.Human != row.Total || s.report.Shape().Site && row.Agent != "browser" {
			err = errors.Join(err, fmt.Errorf("%+v", row))
		}
	}
	if n.HasMore = p.HasMore; p.Humans != s.humans {
		err = errors.Join(err, fmt.Errorf("people are %q", p.Humans))
	}
	return n, err
}

// TestWindows: which windows are answered, and with which readers.
func TestWindows(t *testing.T) { eachReport(t, testWindows) }

func testWindows(t *testing.T, s *testSite) {
	for day, reader := range map[string]string{"2026-08-31": "ann", "2026-09-01": "bob", "2026-09-30": "cy",
		"2026-10-01": "bob", "2026-10-20": "dee", "2026-10-21": "eve", "2026-10-22": "far"} {
		s.add(day, reader, "/a", "/"+reader)
	}
	const refused = -1
	for query, want := range map[string]int64{
		"":                                      3, // September and October up to tomorrow: bob, cy, dee
		"dateTo=2026-10-01":                     3, // August and September
		"dateTo=2026-10-02":                     2, // September, and a day
		"dateTo=2099-01-01":                     3,
		"dateFrom=2026-10-01":                   2,
		"dateFrom=2026-09-22":                   3,       // 29 days
		"dateFrom=2026-09-21":                   refused, // 30 days, with today
		"dateFrom=2026-10-25":                   0,
		"dateFrom=2099-01-01":                   0,
		"dateFrom=2026-10-01&dateTo=2026-11-01": 4, // 31 days
		"dateFrom=2026-10-01&dateTo=2026-11-02": refused,
		"dateFrom=2026-09-01&dateTo=2026-10-01": 2,
		"dateFrom=2026-09-02&dateTo=2026-10-02": refused,
		"dateFrom=2026-09-03&dateTo=2026-10-02": 2, // 29 days
		"dateFrom=2026-10-01&dateTo=2026-10-01": 0,
		"dateFrom=2026-10-20T00:00:00Z&dateTo=2026-10-20T23:59:59.5Z":     0, // the same date
		"dateFrom=2026-10-20T23:59:59.5Z&dateTo=2026-10-21T00:30:00%2B00": 1,
		"dateFrom=2026-10-20&dateTo=2026-10-22T01:30:00%2B02:00":          1,
		"dateFrom=0001-01-01&dateTo=9999-12-31":                           refused,
		"dateFrom=2099-01-01&dateTo=2099-01-02":                           0,
		"dateFrom=2026-10-02&dateTo=2026-10-01":                           refused,
	} {
		code, body := s.get(query, s.key)
		p, err := s.parse(body)
		switch {
		case want == refused && (code != http.StatusBadRequest || !strings.Contains(body, "dateFrom")):
			t.Errorf("%s: %d %s, want 400", query, code, body)
		case want != refused && (code != http.StatusOK || err != nil || p.Total != want):
			t.Errorf("%s: %d %s, %v, want %d readers", query, code, body, err, want)
		}
	}
}

// TestDataFrom: each answer says from which day on the project has facts, whatever its window.
func TestDataFrom(t *testing.T) { eachReport(t, testDataFrom) }

func testDataFrom(t *testing.T, s *testSite) {
	for _, step := range []struct {
		day       string // that gets facts
		retention int
		want      string
	}{
		{"", 3, `null`},
		{"2026-10-19", 3, `"2026-10-19"`},
		{"2026-09-02", 3, `"2026-09-02"`},
		{"2026-06-30", 3, `"2026-09-02"`}, // older than the retention
		{"", 600, `"2026-06-30"`},
		{"2019-05-05", 600, `"2026-06-30"`}, // a wrong clock
		{"2019-06-05", 600, `"2019-05-05"`}, // others within a month
		{"", 0, `"2019-05-05"`},
		{"", 3, `"2026-09-02"`},
	} {
		if step.day != "" {
			s.add(step.day, "ann", "/a", "/b")
		}
		s.answers.retention = step.retention
		for _, query := range []string{"", "dateFrom=2026-10-19&dateTo=2026-10-20", "dateFrom=2026-10-19&limit=1&offset=1",
			"dateFrom=2026-10-18&dateTo=2026-10-18"} {
			if code, body := s.get(query, s.key); code != http.StatusOK || !strings.Contains(body, `"dataFrom":`+step.want) {
				t.Errorf("%+v, %q: %d %s", step, query, code, body)
			}
		}
	}
}

// TestReadings: the pages of a reading are of one answer while facts are added; other keys and new
// readings have the newest one, and a reading that nobody goes on with is dropped.
func TestReadings(t *testing.T) { eachReport(t, testReadings) }

func testReadings(t *testing.T, s *testSite) {
	const query = "dateFrom=2026-10-01&dateTo=2026-11-01&limit=1&offset="
	totals := func(offset, key string) int64 { return s.page(query+offset, key).Total }
	s.add("2026-10-02", "ann", "/a", "/b", "/c")
	other, added := s.addKey("prj_a"), 0
	if n := totals("0", s.key); n != 1 {
		t.Fatal(n)
	}
	s.add("2026-10-02", "bob", "/a", "/b", "/c")
	for _, step := range []struct {
		offset, key string
		later       time.Duration
		want        int64
	}{
		{"1", s.key, 0, 1}, {"1", other, 0, 2}, {"2", s.key, 9 * time.Minute, 1}, {"3", s.key, 9 * time.Minute, 1},
		{"2", s.key, 10 * time.Minute, 2}, {"0", s.key, 0, 2}, {"0", other, 0, 2},
		// A third reader comes while two readings of one key are under way.
		{"+", "", 0, 0}, {"0", s.key, 0, 2}, {"1", s.key, 0, 2}, {"2", s.key, 0, 2}, {"1", s.key, 0, 2},
		{"0", s.key, 0, 2}, {"2", s.key, 0, 2}, {"2", s.key, 0, 2}, {"0", s.key, 0, 3},
		{"+", "", 0, 0}, {"0", s.key, 30 * time.Second, 3}, {"0", s.key, 30 * time.Second, 4},
	} {
		if step.offset == "+" {
			added++
			s.add("2026-10-02", fmt.Sprint("reader ", added), "/a", "/b", "/c")
			continue
		}
		s.now.Add(int64(step.later / time.Second))
		if n := totals(step.offset, step.key); n != step.want {
			t.Errorf("offset %s after %s: %d readers, want %d", step.offset, step.later, n, step.want)
		}
	}
}

// TestReadWhileCommitted: every reader reads every page, so each row has the totals: on every page of
// every reading, whatever is committed meanwhile.
func TestReadWhileCommitted(t *testing.T) { eachReport(t, testReadWhileCommitted) }

func testReadWhileCommitted(t *testing.T, s *testSite) {
	var pages []string
	for i := range 20 {
		pages = append(pages, fmt.Sprintf("/%d", i))
	}
	s.add("2026-10-20", "first", pages...)
	var readers sync.WaitGroup
	var reading atomic.Int32
	for i := range 4 {
		key := s.addKey("prj_a")
		query := []string{"dateFrom=2026-10-20&dateTo=2026-10-21", "dateFrom=2026-10-01"}[i%2]
		reading.Add(1)
		readers.Go(func() {
			defer reading.Add(-1)
			for range 20 {
				first := s.page(query+"&limit=3", key)
				for p, offset := first, 0; ; {
					for _, row := range p.Rows {
						if row.Total != first.Total || p.Total != first.Total {
							t.Errorf("offset %d: row %+v, totals %d, first %d", offset, row, p.Total, first.Total)
						}
					}
					if offset += 3; !p.HasMore {
						break
					}
					p = s.page(fmt.Sprintf("%s&limit=3&offset=%d", query, offset), key)
				}
			}
		})
	}
	commits := 0
	for ; reading.Load() > 0; commits++ {
		s.add("2026-10-20", fmt.Sprint("reader", commits), pages...)
	}
	readers.Wait()
	if got := s.page("dateFrom=2026-10-20", s.key).Total; got != int64(commits)+1 {
		t.Errorf("%d readers, want %d", got, commits+1)
	}
}

// TestKeptAnswers: days that are over are counted once, also over restarts, until facts are added.
func TestKeptAnswers(t *testing.T) { eachReport(t, testKeptAnswers) }

func testKeptAnswers(t *testing.T, s *testSite) {
	const over, open = "dateFrom=2026-09-01&dateTo=2026-10-01", "dateFrom=2026-10-01&dateTo=2026-11-01"
	s.add("2026-09-02", "ann", "/a", "/ü\"\\")
	s.add("2026-10-02", "ann", "/a")
	ask := func(query string, readers, counted, kept int64) {
		t.Helper()
		p := s.page(query, s.key)
		if p.Total != readers || s.answers.Counted.Load() != counted || s.answers.FromDisk.Load() != kept {
			t.Errorf("%s: %+v, counted %d, kept %d, want %d, %d, %d", query, p, s.answers.Counted.Load(),
				s.answers.FromDisk.Load(), readers, counted, kept)
		}
	}
	ask(over, 1, 1, 0)
	ask(over, 1, 1, 0)
	ask(open, 1, 2, 0)
	ask(open, 1, 2, 0)
	want := s.page(over, s.key)
	s.serve()
	ask(over, 1, 0, 1)
	ask(open, 1, 1, 1)
	if got := s.page(over, s.key); !slices.Equal(got.Rows, want.Rows) {
		t.Errorf("kept %v, counted %v", got, want)
	}
	s.add("2026-10-02", "bob", "/a")
	ask(over, 1, 1, 1)
	ask(open, 2, 2, 1)
	s.add("2026-09-30", "bob", "/a")
	ask(over, 2, 3, 1)
	s.serve()
	ask(over, 2, 0, 1)
	s.now.Store(time.Date(2026, 11, 2, 0, 0, 0, 0, time.UTC).Unix())
	ask(open, 2, 1, 1) // was not kept while it was open
	s.serve()
	ask(open, 2, 0, 1)
}

// TestModesApart: the answers of a mode of counting people never take the place of the other's, in memory and on disk.
func TestModesApart(t *testing.T) {
	s := newTestSite(t)
	s.add("2026-09-02", "ann", "/a")
	s.add("2026-09-02", "program", "/a", "/b")
	for range 2 {
		for humans, want := range map[analytics.Humans]numbers{
			analytics.Claimed:   {Total: 2, Rows: []pathNumber{{"/a", 2}, {"/b", 1}}},
			analytics.Confirmed: {Total: 1, Rows: []pathNumber{{"/a", 1}}},
		} {
			s.humans = humans
			s.serve()
			if got := s.page("dateFrom=2026-09-02&dateTo=2026-09-03", s.key); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: %+v, want %+v", humans, got, want)
			}
		}
	}
}

// TestLaterEvidence: evidence of days from the end of a window on leaves its answer as it is, byte by byte and without
// counting it again; late evidence of days before changes it.
func TestLaterEvidence(t *testing.T) {
	s := newTestSite(t)
	s.humans = analytics.Confirmed
	s.serve()
	s.add("2026-09-02", "ann", "/a")
	s.add("2026-09-02", "program", "/a")
	ask := func() (body string) {
		_, body = s.get("dateFrom=2026-09-02&dateTo=2026-09-03", s.key)
		return body
	}
	before := ask()
	counted := s.answers.Counted.Load()
	for _, day := range []string{"2026-09-03", "2026-09-30", "2026-10-05"} {
		s.show(day, "program")
		if after := ask(); after != before || s.answers.Counted.Load() != counted {
			t.Errorf("evidence of %s: %s, before %s; counted %d times", day, after, before,
				s.answers.Counted.Load()-counted)
		}
	}
	s.show("2026-09-01", "program")
	if after := ask(); !strings.Contains(after, `"totals":{"human":2,`) {
		t.Errorf("late evidence: %s", after)
	}
}

// TestReportsApart: the answers of a report never take the place of another's, in memory and on disk.
func TestReportsApart(t *testing.T) {
	s := newTestSite(t)
	s.add("2026-09-02", "ann", "/a", "/b")
	for range 2 {
		for range 2 {
			for name := range reports {
				s.report = name
				want := int64(1)
				if name.Shape().Additive {
					want = 2 // pages
				}
				for offset := range 2 {
					query := fmt.Sprintf("dateFrom=2026-09-02&dateTo=2026-09-03&limit=1&offset=%d", offset)
					if p := s.page(query, s.key); p.Total != want || len(p.Rows) != 1 || p.HasMore != (offset == 0) {
						t.Errorf("%s from %d: %+v", name, offset, p)
					}
				}
			}
		}
		s.serve()
	}
}

// TestCountedOnce: equal questions at once are counted once.
func TestCountedOnce(t *testing.T) {
	s := newTestSite(t)
	s.add("2026-10-02", "ann", "/a")
	s.answers.one <- struct{}{}
	var asking sync.WaitGroup
	for range 8 {
		key := s.addKey("prj_a")
		asking.Go(func() { s.page("dateFrom=2026-10-01", key) })
	}
	<-s.answers.one
	asking.Wait()
	if n := s.answers.Counted.Load(); n != 1 {
		t.Errorf("counted %d times", n)
	}
}

// TestCacheIsBounded: the answers in memory are limited by their rows.
func TestCacheIsBounded(t *testing.T) {
	s := newTestSite(t)
	a := s.answers
	large := &answer{content: &contentOf[analytics.Totals, analytics.Row]{
		answer: facts.Visitors{Rows: make([]analytics.Row, maxCacheBytes/2/100)}}}
	for i := range 5 {
		a.cache(readingKey{key: fmt.Sprint(i)}, large, api.Query{})
		a.cache(readingKey{key: fmt.Sprint(i)}, large, api.Query{}) // again
	}
	if len(a.cached) != 1 || a.recent.Len() != 1 || a.size > maxCacheBytes || a.find(readingKey{key: "4"}) != large {
		t.Errorf("%d cached, %d, %d bytes", len(a.cached), a.recent.Len(), a.size)
	}
	s.now.Add(int64(cacheTime / time.Second))
	if a.find(readingKey{key: "4"}) != nil || a.size != 0 {
		t.Errorf("cached for too long, %d bytes", a.size)
	}
}

// TestDamageIsNoAnswer: what cannot be read is an error, which says nothing of this machine.
func TestDamageIsNoAnswer(t *testing.T) {
	s := newTestSite(t)
	s.add("2026-10-02", "ann", "/a")
	files, _ := filepath.Glob(filepath.Join(s.store.Dir(), "facts", "*"))
	for _, file := range files {
		if err := os.Truncate(file, 10); err != nil {
			t.Fatal(err)
		}
	}
	if code, body := s.get("", s.key); code != http.StatusInternalServerError || strings.Contains(body, s.store.Dir()) {
		t.Errorf("%d %s", code, body)
	}
}

// TestNotCaughtUp: numbers that lack lines are not given.
func TestNotCaughtUp(t *testing.T) {
	s := newTestSite(t)
	s.lacks = api.Fail(http.StatusServiceUnavailable, "still being read")
	code, body := s.get("", s.key)
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "still being read") {
		t.Errorf("%d %s", code, body)
	}
	s.lacks = nil
	s.page("", s.key)
}

// TestKeysOfARunningService: keys that are added and revoked beside it.
func TestKeysOfARunningService(t *testing.T) {
	s := newTestSite(t)
	beside, err := facts.Attach(s.store.Dir())
	if err != nil {
		t.Fatal(err)
	}
	defer beside.Close()
	key, secret, err := beside.AddAPIKey(t.Context(), "prj_a", "admin", "", s.clock())
	if err != nil {
		t.Fatal(err)
	}
	expect := func(key string, want int) {
		t.Helper()
		if code, body := s.get("", key); code != want {
			t.Errorf("%d %s, want %d", code, body, want)
		}
	}
	expect(secret, http.StatusOK)
	expect(s.addKey("prj_b"), http.StatusNotFound)
	if _, err := beside.RevokeAPIKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	expect(secret, http.StatusUnauthorized)
	expect(s.key, http.StatusOK)
}
