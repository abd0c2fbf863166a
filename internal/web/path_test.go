package web_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// hostilePath is a path that a page of the archive has.
const hostilePath = "/<script>alert(1)</script>\"'&\x01\u202e"

// pathArchive has three weeks of prj_a, the second of which is missing, and totals of 28 days.
func pathArchive(ask func(sinks.Sink) error) error {
	sink := sinktest.NewMemory()
	put := func(g analytics.Granularity, from, to analytics.Date, rows ...analytics.Row) {
		rev := analytics.Revision{Number: 1, Rows: int64(len(rows)), Verified: true, ExportedAt: monday.Time(),
			Key: analytics.Key{Project: "prj_a", Granularity: g, Window: analytics.Window{From: from, To: to}}}
		if rows == nil {
			rev.Rows = analytics.TotalsOnlyRows
		}
		sink.Put(rev, rows, nil)
	}
	put(analytics.Week, monday-28, monday-21, analytics.Row{Path: "/a", Totals: analytics.Totals{Human: 1, AI: 1,
		Total: 2}})
	put(analytics.Week, monday-14, monday-7, analytics.Row{Path: "/a", Totals: analytics.Totals{Human: 1500, AI: 900,
		Total: 2300}},
		analytics.Row{Path: "/basics", Totals: analytics.Totals{Human: 9000, Total: 9000}})
	put(analytics.Week, monday-7, monday, analytics.Row{Totals: analytics.Totals{Human: 7, Total: 7}},
		analytics.Row{Path: hostilePath, Totals: analytics.Totals{Human: 4, AI: 1,
			Total: 5}},
		analytics.Row{Path: "/a", Totals: analytics.Totals{Human: 1400, AI: 1080, Total: 2400}},
		analytics.Row{Path: "/basics", Totals: analytics.Totals{Human: 9000, Total: 9000}})
	put("28d", monday-28, monday)
	return ask(sink)
}

func pathSnapshot() *view.Snapshot {
	s := snapshot()
	for i := range s.Projects {
		s.Projects[i].Grids = append(s.Projects[i].Grids, view.Grid{Granularity: analytics.Week})
	}
	merge := func(link string, day analytics.Date, pages ...string) view.Outcome {
		return view.Outcome{Merge: view.Merge{Project: "prj_a", Link: link, Title: "Fix " + pages[0],
			At: day.Time().Add(time.Hour), Pages: pages}}
	}
	judged := merge("https://code.example/pull/7", monday-10, "/a", "/basics")
	judged.Final = true
	judged.Effects = []view.Effect{
		{Path: "/a", Audience: analytics.Human, Verdict: view.MoreReaders,
			Before: 200, Actual: 300, Expected: 200, Change: .5, Days: []view.EffectDay{
				{Date: monday - 11, Actual: 200, Expected: 200}, {Date: monday - 9, Actual: 300, Expected: 200}}},
		{Path: "/basics", Audience: analytics.Human, Verdict: view.FewerReaders},
	}
	late := merge("https://code.example/pull/8", monday-2, "/a")
	late.Problem = "too new"
	other := merge("https://code.example/pull/9", monday-2, "/basics")
	other.Project = "prj_b"
	s.Outcomes.Merges = []view.Outcome{late, judged, other}
	redirect := func(project, path, target string, day analytics.Date) view.Redirect {
		return view.Redirect{Redirect: journal.Redirect{Project: project, Path: path, Target: target,
			Since: day.Time().Add(time.Hour)}, MissedBefore: new(4.25)}
	}
	s.Outcomes.Redirects = []view.Redirect{redirect("prj_a", hostilePath, "/a", monday-9),
		redirect("prj_a", "/old/a", "/a", monday-9), redirect("prj_a", "/old/basics", "/basics", monday-9),
		redirect("prj_b", "/b", "/a", monday-9)}
	for i := range 2 {
		s.Outcomes.Redirects[i].Effects = []view.Effect{{Path: "/a", Audience: analytics.AI, Verdict: view.TooEarly,
			Before: 12, Actual: 18, Expected: 12, Change: .5}}
	}
	for range 24 {
		s.Outcomes.Redirects = append(s.Outcomes.Redirects, redirect("prj_a", "/other/basics", "/basics", monday-9))
	}
	return s
}

// TestPathPage: the numbers of one path, or why there are none.
func TestPathPage(t *testing.T) {
	long := strings.Repeat("/x", 1<<19)
	for _, tc := range []struct {
		query string
		code  int
		want  []string
	}{
		{"project=prj_a&path=/a", 200, []string{
			"Jobs Status /a Day", "Readers of this page of prj_a", "26 Oct – 1 Nov 2026 Human 1,400 −100 (−6.7%) on the previous week",
			"AI 1,080 +180 (+20.0%) on the previous week", "AI share 45.0%", "Total 2,400 +100 (+4.3%)",
			"Rank 2 of 4 pages, 26 Oct – 1 Nov 2026",
			"12–18 Oct 2026 missing – – – – –", "19–25 Oct 2026 provisional merged #7 1,500 900 39.1% 2,300 –",
			"/a Fri 23 Oct 2026 #7 human 200 300 200 +50%", "more readers",
			"/a daily human visitors: +50% (0% to 0%)", "Fix /a #8 , merged Sat 31 Oct 2026: too new.",
			"It does not prove that the merge is the cause",
			", redirected since Sat 24 Oct 2026; verdicts when the days to 21 Nov are settled missed 4.2 times a day before, " +
				"an unknown number since /old/a , redirected since Sat 24 Oct 2026; verdicts",
			"number since Readers of this page after redirects, the newest first Page Redirected Readers Before After Expected Effect 90% interval Verdict " +
				"/a Sat 24 Oct 2026 AI 12 18 12 +50% 0% to 0% too early Pull requests",
		}},
		{"project=prj_a&path=" + url.QueryEscape(hostilePath), 200, []string{
			"/<script>alert(1)</script>\"'&", "Rank 4 of 4 pages", "No merged pull request of an agent job touched"}},
		{"project=prj_a&path=/basics&window=week", 200, []string{"Rank 1 of 4 pages",
			"Redirects to this page /old/basics , redirected since Sat 24 Oct 2026 missed 4.2 times a day before",
			"number since and 5 more, which docgauge outcomes lists Pull requests",
			"Human 9,000 unchanged on the previous week",
			"5–11 Oct 2026 no reader – – – – –"}},
		{"project=prj_a&path=/Basic/", 404, []string{"no reader in the last 26 week windows", "Did you mean /basics?"}},
		{"project=prj_a&path=/nowhere", 404, []string{"Paths are exact"}},
		{"project=prj_a&path=/a&window=28d", 404, []string{
			"only its totals were read", "put 28d in place of 28d:totals into DOCGAUGE_WINDOWS: it costs 1 request or more"}},
		{"project=prj_a&path=/a&window=month", 404, []string{"window month: not one of the windows that are read"}},
		{"project=prj_b&path=/a", 404, []string{"project \"prj_b\" has no window in the archive"}},
		{"project=prj_x&path=/a", 404, []string{"project \"prj_x\": not one of DOCGAUGE_PROJECTS; did you mean prj_b?"}},
		{"project=%3Cscript%3E&path=/a", 404, []string{"project \"<script>\": not one of"}},
		{"path=/a", 404, []string{"project \"prj_b\" has no window in the archive"}},
		{"project=prj_a&path=", 200, []string{"Status (empty path) ", "Readers of this page of prj_a", "Human 7", "Rank 3 of 4 pages"}},
		{"project=prj_a&path=/a&path=/basics", 400, []string{"parameter path: given more than once"}},
		{"project=prj_a&path=/a&limit=3", 400, []string{`parameter "limit": want project, window, at, path`}},
		{"project=prj_a&path=/a&window=year", 400, []string{`window "year": want day`}},
		{"project=prj_a&path=%ff", 400, []string{"path: not UTF-8"}},
		{"project=prj_a&path=" + long, 400, []string{"path: longer than 8192 bytes"}},
		{"project=prj_a&path=%00", 404, []string{"no reader"}},
		{"%zz", 400, []string{"cannot be read"}},
	} {
		code, body := pathPage(t, pathSnapshot(), pathArchive, tc.query)
		if name := tc.query[:min(len(tc.query), 60)]; code != tc.code {
			t.Errorf("%s: %d, want %d\n%s", name, code, tc.code, seen(body))
		}
		wants(t, seen(body), tc.want...)
		wants(t, body, `<nav class="site" aria-label="Pages"><a href="./`)
		if strings.Contains(body, "<script") || len(body) > 100_000 {
			t.Errorf("%.60s: a script, or %d bytes", tc.query, len(body))
		}
		if tc.code != 200 && strings.Contains(body, "api/v1/") {
			t.Errorf("%s: a link to numbers that are not there", tc.query)
		}
	}
	if code, body := pathPage(t, nil, pathArchive, "path=/a"); code != 503 || !strings.Contains(body, "is starting") {
		t.Errorf("without a snapshot: %d %s", code, seen(body))
	}
	broken := func(func(sinks.Sink) error) error { return fmt.Errorf("/srv/secret: permission denied") }
	if code, body := pathPage(t, pathSnapshot(), broken, "project=prj_a&path=/a"); code != 500 ||
		!strings.Contains(body, "docgauge verify says why") || strings.Contains(body, "/srv") {
		t.Errorf("without an archive: %d %s", code, seen(body))
	}
}

// pathPage gets /page.
func pathPage(t *testing.T, s *view.Snapshot, archive func(func(sinks.Sink) error) error, query string) (int, string) {
	t.Helper()
	site := &web.Site{Current: func() *view.Snapshot { return s }, Archive: archive, Version: "v1"}
	h := site.Handlers()["/page"]
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page?"+query, nil))
	wants(t, w.Header().Get("Content-Security-Policy"), "default-src 'none'; style-src 'sha256-", "frame-ancestors 'none'")
	w2 := httptest.NewRecorder()
	h.ServeHTTP(w2, httptest.NewRequest(http.MethodPost, "/page?"+query, nil))
	if w2.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w2.Code)
	}
	return w.Code, w.Body.String()
}

// TestPathLinks: the links of the page lead to the same numbers, and to the other windows.
func TestPathLinks(t *testing.T) {
	s := pathSnapshot()
	_, body := pathPage(t, s, pathArchive, "project=prj_a&path=/a")
	for _, name := range []string{"JSON", "CSV"} {
		before, _, found := strings.Cut(body, `">`+map[string]string{"JSON": "as JSON", "CSV": "these numbers as CSV"}[name])
		link := before[strings.LastIndex(before, `href="`)+6:]
		if !found || !strings.HasPrefix(link, "api/v1/history?") {
			t.Fatalf("%s: %s", name, link)
		}
		mux := http.NewServeMux()
		for path, h := range web.NewAPI(func() *view.Snapshot { return s }, pathArchive) {
			mux.Handle(path, h)
		}
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+strings.ReplaceAll(link, "&amp;", "&"), nil))
		for _, want := range []string{"1400", "1080", "2300", "missing"} {
			if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
				t.Errorf("%s: %d %s, want %s", link, w.Code, w.Body, want)
			}
		}
	}
	wants(t, body, `<a href="page?path=%2Fa&amp;project=prj_a&amp;window=day">Day</a>`, `aria-current="true">Week</a>`)
}

// slowSink never has a window.
type slowSink struct{ sinks.Sink }

func (slowSink) Window(ctx context.Context, _ analytics.Revision, _ string) (sinks.Sealed, func() error, error) {
	<-ctx.Done()
	return nil, nil, ctx.Err()
}

// TestArchiveTakesTooLong: a question ends, and says what to do.
func TestArchiveTakesTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(ask func(sinks.Sink) error) error {
			return pathArchive(func(s sinks.Sink) error { return ask(slowSink{s}) })
		}
		const want = "the archive did not answer within 20 seconds: ask for fewer windows (limit, from, to)"
		code, body := pathPage(t, pathSnapshot(), slow, "project=prj_a&path=/a")
		if code != http.StatusGatewayTimeout || !strings.Contains(body, want) {
			t.Errorf("%d %s", code, seen(body))
		}
		api := web.NewAPI(func() *view.Snapshot { return pathSnapshot() }, slow)
		for _, target := range []string{
			"/api/v1/history?path=/a&window=week&project=prj_a", "/api/v1/pages?by=ai&project=prj_a",
		} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(http.MethodGet, target, nil)
			api[r.URL.Path].ServeHTTP(w, r)
			if w.Code != http.StatusGatewayTimeout || w.Body.String() != `{"error":"`+want+`"}` {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
		}
	})
}

// TestArchiveIsAskedByFew: however many ask, four questions are answered at a time.
func TestArchiveIsAskedByFew(t *testing.T) {
	const clients = 12
	arrived, release := make(chan struct{}, clients), make(chan struct{})
	var now, most atomic.Int32
	busy := func(func(sinks.Sink) error) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		arrived <- struct{}{}
		<-release
		now.Add(-1)
		return nil
	}
	h := (&web.Site{Current: pathSnapshot, Archive: busy}).Handlers()["/page"]
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/page?project=prj_a&path=/a", nil))
		})
	}
	for range 4 {
		<-arrived
	}
	close(release)
	all.Wait()
	if most.Load() != 4 {
		t.Errorf("%d at a time", most.Load())
	}
}

// TestPathPageAgents: the page of a path has its readers by agent, if windows of agents are exported.
func TestPathPageAgents(t *testing.T) {
	sink := weeksOfAgents(t)
	archive := func(ask func(sinks.Sink) error) error { return ask(sink) }
	newest := agentsRead(monday)
	s := &view.Snapshot{At: monday.Time(), Projects: []view.Project{{ID: "prj_a"}}}
	for _, tc := range []struct {
		others      []view.Grid
		query, want string
	}{
		{nil, "path=/guides/a", ""},
		{[]view.Grid{{Granularity: analytics.Day, Newest: &newest}}, "path=/guides/a", ""},
		{[]view.Grid{{Granularity: analytics.Week, Newest: &newest}}, "path=/guides/a", "Readers by agent Assistants " +
			"26 Oct – 1 Nov 2026 Agent Readers Change Requests Claude-User AI assistant 18 +9 +100% 24 "},
	} {
		s.Projects[0].Others = tc.others
		code, body := pathPage(t, s, archive, tc.query)
		text := seen(body)
		if code != http.StatusOK || tc.want == "" && strings.Contains(text, "by agent") {
			t.Errorf("%d, %d grids of agents: %s", code, len(tc.others), text)
		}
		wants(t, text, tc.want)
	}
}

// markedArchive counts what it is asked for.
type markedArchive struct {
	sinks.Sink
	mark           string
	listed, opened int
	err            error // at the end of a list
}

func (m *markedArchive) Mark(context.Context) string { return m.mark }

func (m *markedArchive) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	if scope.Keys == nil {
		m.listed++
	}
	return func(yield func(sinks.Shown, error) bool) {
		for shown, err := range m.Sink.Inspect(ctx, scope) {
			if !yield(shown, err) {
				return
			}
		}
		if m.err != nil {
			yield(sinks.Shown{}, m.err)
		}
	}
}

func (m *markedArchive) Window(ctx context.Context, rev analytics.Revision, dir string) (sinks.Sealed, func() error,
	error) {
	m.opened++
	return m.Sink.Window(ctx, rev, dir)
}

// TestKeptAnswers: an archive that has not changed is neither listed nor read twice for the same page, and listed once
// for all pages.
func TestKeptAnswers(t *testing.T) {
	s, archive := pathSnapshot(), &markedArchive{mark: "1"}
	site := web.Site{Current: func() *view.Snapshot { return s }, Archive: func(ask func(sinks.Sink) error) error {
		return pathArchive(func(from sinks.Sink) error {
			archive.Sink = from
			return ask(archive)
		})
	}}
	handlers := site.Handlers()
	asks := func(what, path string, lists, opens bool) (body string) {
		t.Helper()
		archive.listed, archive.opened = 0, 0
		answer := httptest.NewRecorder()
		address, _, _ := strings.Cut(path, "?")
		handlers[address].ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		if archive.listed > 0 != lists || archive.opened > 0 != opens {
			t.Errorf("%s: %s: listed %d times, opened %d windows; want %t, %t", what, path, archive.listed, archive.opened,
				lists, opens)
		}
		return answer.Body.String()
	}
	const a, b, none = "/page?project=prj_a&path=/a", "/page?project=prj_a&path=/basics", "/page?project=prj_a&path=/none"
	const history = "/api/v1/history?project=prj_a&window=week&path=/a"
	archive.err = sinks.Fault{Key: sinktest.Key("prj_z", 0), Kind: sinks.Unreadable, Err: errors.New("torn")}
	asks("a part of the list", a, true, true)
	archive.err = nil
	first := asks("at first", a, true, true)
	if asks("again", a, false, false) != first {
		t.Error("the kept page is another one")
	}
	asks("another page", b, false, true)
	asks("no page", none, false, true)
	asks("no page again", none, false, false)
	asks("the API", history, false, true)
	asks("the API again", history, false, false)
	later := *s
	later.At, s = later.At.Add(time.Minute), &later
	if asks("a later snapshot", a, false, false) == first {
		t.Error("a kept page has the time of the former snapshot")
	}
	changed := *s
	changed.Outcomes.Merges, s = changed.Outcomes.Merges[1:], &changed
	asks("a merge less", a, false, true)
	archive.mark = "2"
	asks("after a change", a, true, true)
	asks("after a change", history, false, true)
	archive.mark = ""
	asks("unknown", a, true, true)
	asks("unknown", a, true, true)
}
