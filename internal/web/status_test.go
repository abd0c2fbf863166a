package web_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
)

// statusOf is the status page of a snapshot.
func statusOf(s *view.Snapshot, version string) http.Handler {
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: version}
	return site.Handlers()["/status"]
}

func getStatus(t testing.TB, s *view.Snapshot, version string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	statusOf(s, version).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	return w.Code, w.Body.String()
}

// TestStatusNumbers finds each number of the snapshot beside its name.
func TestStatusNumbers(t *testing.T) {
	s := demoSnapshot()
	code, body := getStatus(t, s, "v0.1.0")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	got := seen(body)
	for _, w := range s.Windows {
		pages := "–"
		if !w.TotalsOnly() {
			pages = commas(w.Rows)
		}
		of := slices.IndexFunc(s.Projects, func(p view.Project) bool { return p.ID == w.Project })
		grids := s.Projects[of].Grids
		g := grids[slices.IndexFunc(grids, func(g view.Grid) bool { return g.Granularity == w.Granularity })]
		wants(t, got, commas(w.Totals.Total)+" readers", figures(g, onCard)+" Pages "+pages)
		for _, r := range w.Pages {
			wants(t, got, fmt.Sprintf("%s %s %s %s ", r.Path, commas(r.Human), commas(r.AI), commas(r.Total)))
		}
	}
	for _, o := range s.Open {
		wants(t, got, fmt.Sprintf("So far Tue 6 Oct 2026: %s total, %s human, %s AI (read 13 min ago)",
			commas(o.Totals.Total), commas(o.Totals.Human), commas(o.Totals.AI)))
	}
	missing := 0
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			missing += g.Missing + min(g.Missing, 1) // one is in the legend
			wants(t, got, fmt.Sprintf("%d of %d window", g.Known, g.Known+g.Missing))
			for name, n := range map[string]int{"settled": g.Known - g.Provisional, "provisional": g.Provisional,
				"unverified": g.Unverified, "missing": g.Missing} {
				if n > 0 {
					wants(t, got, fmt.Sprintf(" %d %s", n, name))
				}
			}
		}
	}
	if n := strings.Count(body, `<use href="#missing"`); n != missing {
		t.Errorf("%d symbols of missing windows, want %d", n, missing)
	}
	for _, path := range []string{"metrics", "api/v1/windows", "healthz", "readyz"} {
		wants(t, body, `<a href="`+path+`">`)
	}
	wants(t, body, `<div class="coverage narrow">`)
	wants(t, got, "Only the totals of the site are read, not its pages. How to read the pages too")
	wants(t, got, "docgauge v0.1.0", "Values as of 2026-10-06 10:31 UTC", "Next run in 46 min",
		"Windows due 16 Skipped 2 Requests left 12 of 90 this hour",
		"Waiting for the request budget",
		"16 windows due. Within the budget, the last can be read by 2026-10-06 13:31 in 3 h",
		"Assistants Day Day Mon 5 Oct 2026, 4 of 27 agents", "Claude-User AI assistant 1,203 9,871",
		"people 12,345 43,210",
		"Product docs Day of agents missing not read yet 2", "Product docs Day missing not read yet 9",
		"developer-hub 28 days missing not read yet 4",
		"2026-10-06 07:17 3 h ago failed in 99 s 7 40 export prj_docs_main day [2026-10-05,2026-10-06): sinks/",
		"clickhouse clickhouse://clickhouse.internal:9000/docs 2026-10-06 09:17 74 min ago 14 dial tcp",
		"read 2026-10-11 5 days left expires on 2026-10-11, 5 days left", "write 2026-12-16 71 days left in use",
		"Unique visitors must not be summed")
}

// TestText puts markup into everything that is text, and sees only text.
func TestStatusText(t *testing.T) {
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)></style>{{.}}` + "\x00\xff\u202e"
	s := demoSnapshot()
	s.Projects[0].ID, s.Projects[0].Name, s.Projects[1].Name = evil, "", evil
	s.Sinks[0].Name, s.Sinks[0].Location, s.Sinks[0].Problem = evil, evil, evil
	s.Keys[0].Name, s.Keys[0].Rejected, s.Budgets[1].Project = evil, true, evil
	s.Runs[0].Message, s.Runs[0].Outcome, s.Runs[1].Outcome = evil, "failed", evil
	s.Due[0].Project, s.Due[0].Reason = evil, evil
	for i := range s.Asides {
		s.Asides[i].Project, s.Asides[i].Reason, s.Asides[i].Detail = evil, evil, evil
	}
	for i := range s.Windows {
		s.Windows[i].Project = s.Projects[i/4].ID
		for j := range s.Windows[i].Pages {
			s.Windows[i].Pages[j].Path = evil
		}
	}
	code, body := getStatus(t, s, evil)
	if code != http.StatusOK {
		t.Fatal(code, body)
	}
	if n := strings.Count(body, "<script"); n != 1 {
		t.Errorf("%d scripts", n)
	}
	for _, tag := range []string{"<script>alert", "<img", "onerror=alert(1)>", "\x00", "\xff"} {
		if strings.Contains(body, tag) {
			t.Errorf("the page contains %q", tag)
		}
	}
	if n := strings.Count(body, "&lt;script&gt;alert(1)&lt;/script&gt;"); n < 90 {
		t.Errorf("%d times the text", n)
	}
	if strings.Count(body, "</style>") != 1 {
		t.Error("a text ended the style sheet")
	}
}

func TestHeaders(t *testing.T) {
	h := (&web.Site{Current: demoSnapshot}).Handlers()["/status"]
	for _, tc := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, "/status", http.StatusOK},
		{http.MethodHead, "/status", http.StatusOK},
		{http.MethodGet, "/status?x=1", http.StatusOK},
		{http.MethodGet, "/index.html", http.StatusNotFound},
		{http.MethodPost, "/metrics", http.StatusNotFound},
		{http.MethodPost, "/status", http.StatusMethodNotAllowed},
		{http.MethodOptions, "/status", http.StatusMethodNotAllowed},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(tc.method, tc.path, nil))
		if w.Code != tc.code {
			t.Errorf("%s %s: %d, want %d", tc.method, tc.path, w.Code, tc.code)
		}
		if allow := w.Header().Get("Allow"); (allow != "") != (tc.code == http.StatusMethodNotAllowed) {
			t.Errorf("%s %s: Allow %q", tc.method, tc.path, allow)
		}
		if tc.method == http.MethodHead && (w.Body.Len() > 0 || w.Header().Get("Content-Length") == "0") {
			t.Errorf("HEAD: %d bytes, length %s", w.Body.Len(), w.Header().Get("Content-Length"))
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; style-src 'sha256-", "X-Content-Type-Options": "nosniff",
			"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY", "Cache-Control": "no-store",
		} {
			if got := w.Header().Get(name); !strings.HasPrefix(got, want) {
				t.Errorf("%s %s: %s is %q", tc.method, tc.path, name, got)
			}
		}
	}
}

// TestCompression: a client gets gzip if it accepts it, and the same page.
func TestCompression(t *testing.T) {
	s := demoSnapshot()
	_, want := getStatus(t, s, "")
	h := statusOf(s, "")
	for encoding, compressed := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "gzip;q=0": false,
		"gzip; q=0.000, identity": false, "notgzip": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/status", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if length := w.Header().Get("Content-Length"); length != fmt.Sprint(w.Body.Len()) {
			t.Errorf("%q: length %s of %d", encoding, length, w.Body.Len())
		}
		body := io.Reader(w.Body)
		if w.Header().Get("Content-Encoding") == "gzip" != compressed {
			t.Errorf("%q: compressed: %v", encoding, !compressed)
			continue
		}
		if compressed {
			var err error
			body, err = gzip.NewReader(w.Body)
			must(t, err)
		}
		if got, err := io.ReadAll(body); err != nil || string(got) != want {
			t.Errorf("%q: %d bytes of %d, %v", encoding, len(got), len(want), err)
		}
	}
}

// TestQueue: jobs of all projects, and why no prompt is submitted.
func TestQueue(t *testing.T) {
	_, body := getStatus(t, demoSnapshot(), "")
	wants(t, seen(body), "4 pending, 1 active, 1 completed, 1 unknown",
		"Translate the guides translate.md the cap on jobs a day is reached Product docs pending – – –",
		"paused since 2026-10-06 09:31 UTC",
		"Pages that lost readers", "stalled", "fix-<b>typos</b>.md", "#431")
	if strings.Contains(body, `href="javascript:`) {
		t.Error("an unsafe link can be followed")
	}
	if _, body := getStatus(t, good(), ""); strings.Contains(body, "Agent jobs") {
		t.Error("a queue that is not there is shown")
	}
}

// TestKeys: a key that ends soon is a concern, one that was rejected too.
func TestKeys(t *testing.T) {
	for want, k := range map[string]view.Key{
		"expired": {Expires: now.Add(-time.Second)}, "less than a day left": {Expires: now.Add(23 * time.Hour)},
		"1 day left": {Expires: now.Add(47 * time.Hour)}, "401": {Rejected: true}, "unknown": {},
	} {
		_, body := getStatus(t, &view.Snapshot{At: now, Keys: []view.Key{k}}, "")
		wants(t, seen(body), want)
		if concern := strings.Contains(seen(body), "API key "); concern != (want != "unknown") {
			t.Errorf("%s: a concern: %v", want, concern)
		}
	}
}

func TestNoSnapshot(t *testing.T) {
	code, body := getStatus(t, nil, "v1")
	if code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	wants(t, seen(body), "docgauge v1", "No numbers yet")
	wants(t, body, `class="refresh" data-every="5"`)
}

func TestNothingYet(t *testing.T) {
	s := &view.Snapshot{At: now, Projects: []view.Project{{ID: "p", Grids: []view.Grid{
		{Granularity: analytics.Day, Cells: []view.Cell{{Window: analytics.Window{From: 20730, To: 20731}}},
			Missing: 1},
		{Granularity: analytics.Month},
	}}}}
	_, body := getStatus(t, s, "")
	wants(t, seen(body), "No run yet No export has run", "Last success never",
		"Next run not scheduled", "Windows due 0 p Readers",
		"Day No complete window has been read yet.", "Day 0 of 1 window Mon Wed Fri Sun 1 missing",
		"Month 0 of 0 windows No window is complete yet.",
		"no windows due", "No budget is configured", "No key is configured", "No sink is configured")
	wants(t, body, `class="refresh" data-every="60"`)
}

func TestBacklogAndBudget(t *testing.T) {
	s := demoSnapshot()
	s.Budgets = []view.Budget{{Name: "analytics", Available: 5},
		{Name: "agent:prj_docs_main", Project: "prj_docs_main", Limit: 90, Available: 90, Next: now.Add(-time.Second)}}
	_, body := getStatus(t, s, "")
	got := seen(body)
	wants(t, got, "Reading unlimited", "Agent jobs, Product docs 90 of 90 requests left this hour")
	for _, bad := range []string{"agent:", "may be sent", "Requests left", "Next request"} {
		if strings.Contains(got, bad) {
			t.Errorf("the page says %q", bad)
		}
	}
	if n := strings.Count(body, "<td>Day</td>") + strings.Count(got, "Product docs Day settle"); n != 1 {
		t.Errorf("%d rows of days in the backlog, want one: those with nothing due are left out\n%s", n, got)
	}
	s.Due, s.Finish = nil, time.Time{}
	_, body = getStatus(t, s, "")
	wants(t, seen(body), "no windows due. Not counted: 2 windows skipped, 2 windows whose rows are read later.")
	s.Projects = nil
	_, body = getStatus(t, s, "")
	wants(t, seen(body), "Not counted: 2 windows skipped. Request budget")
	_, body = getStatus(t, good(), "")
	wants(t, seen(body), "Up to date: no windows due.")
}

// TestOverview: several projects have a row each, and can be folded; only the first is
// open. One project has neither.
func TestOverview(t *testing.T) {
	_, body := getStatus(t, demoSnapshot(), "")
	wants(t, seen(body),
		"Product docs 2,235 ▲ 11.2% Mon 5 Oct 2026 8,337 ▼ 6.3% 28 Sep – 4 Oct 2026 2 windows skipped 3 4 ",
		"developer-hub 120 ▲ 10.1% Mon 5 Oct 2026 481 ▲ 11.9% 28 Sep – 4 Oct 2026 4 windows due 0 2 ")
	wants(t, body, `<a href="./?project=prj_docs_main">`)
	open := strings.Count(body, " open>\n<summary><h2")
	if all := strings.Count(body, "<summary><h2"); open != 1 || all != 2 {
		t.Errorf("%d of %d projects are open", open, all)
	}
	_, body = getStatus(t, good(), "")
	if strings.Contains(body, "<summary><h2") || strings.Contains(seen(body), "Newest day") {
		t.Error("one project can be folded, or has an overview")
	}
}

// TestRemedies: whatever needs attention links to a section of the runbook that exists.
func TestRemedies(t *testing.T) {
	book, err := os.ReadFile("../../docs/runbook.md")
	must(t, err)
	sections := map[string]bool{}
	for line := range strings.Lines(string(book)) {
		if title, is := strings.CutPrefix(line, "### "); is {
			sections[strings.ToLower(strings.TrimSpace(title))] = true
		}
	}
	s := failed()
	w := httptest.NewRecorder()
	site := &web.Site{Current: func() *view.Snapshot { return s }, Alert: func() web.Alert {
		return web.Alert{Headline: "The state cannot be read", Text: "disk <b>full</b>", Rule: "DocgaugeSnapshotOld"}
	}}
	site.Handlers()["/status"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/status", nil))
	wants(t, seen(w.Body.String()), "The state cannot be read The last run started",
		"Not ready: disk <b>full</b> What to do API key read: rejected")
	found := map[string]bool{}
	links := regexp.MustCompile(`href="https://github.com/docgauge/docgauge/blob/main/docs/runbook.md#([^"]*)"`)
	for _, m := range links.FindAllStringSubmatch(w.Body.String(), -1) {
		if found[m[1]] = true; !sections[m[1]] {
			t.Errorf("the runbook has no section %s", m[1])
		}
	}
	if len(found) != 6 {
		t.Errorf("%d sections of the runbook are linked: %v", len(found), found)
	}
}

// TestWindowsThatWait: windows that are skipped and those that wait for their rows are listed with
// their project, in words, the newest first and not without end.
func TestWindowsThatWait(t *testing.T) {
	s := demoSnapshot()
	_, body := getStatus(t, s, "")
	got := seen(body)
	wants(t, got,
		"Thu 17 Sep 2026 Day Skipped: an answer contains invalid data in 3 runs, first 6 h ago 2026-10-06 13:32 ",
		"Wed 16 Sep 2026 Day Skipped: the service fails for it, but not for others in 1 run, first 6 h ago",
		"Mon 5 Oct 2026 Day Totals known, rows later", "2026-10-09 00:00 in 3 days Sun 4 Oct 2026 Day Totals known",
		"Totals only so far", "2 totals only")
	wants(t, body, ", provisional, totals only, rows after 2026-10-09 00:00 UTC</title>", `<a href="#p0w">2</a>`)
	if n := strings.Count(body, `<use href="#totals"`); n != 2+1 {
		t.Errorf("%d windows without rows are drawn, want two and the legend", n)
	}
	if n := strings.Count(got, "Totals only so far"); n != 1 {
		t.Errorf("%d cards without rows, want one", n)
	}
	if n := strings.Count(got, "Waiting windows"); n != 2 {
		t.Errorf("%d lists, want one of each project", n)
	}
	for i := range 30 {
		a := s.Asides[0]
		a.From, a.To = a.From-analytics.Date(i), a.To-analytics.Date(i)
		a.Reason, a.Detail = "of another time", strings.Repeat("x", 1<<20)
		s.Asides = append(s.Asides, a)
	}
	_, body = getStatus(t, s, "")
	wants(t, seen(body), "Skipped 32 Requests left", "Skipped: of another time",
		"22 more windows: docgauge plan lists them.")
	if n := strings.Count(body, "Skipped: "); n != 10 || len(body) > 1<<20 {
		t.Errorf("%d windows are listed in %d bytes", n, len(body))
	}
	_, body = getStatus(t, &view.Snapshot{At: now, Projects: []view.Project{{ID: "p"}}}, "")
	if got := seen(body); strings.Contains(got, "wait") || strings.Contains(got, "Skipped") {
		t.Errorf("nothing waits, and the page says\n%s", got)
	}
}

// TestSuspectRows: a newest window says how many of its rows are suspect, and why.
func TestSuspectRows(t *testing.T) {
	for want, w := range map[string]view.Window{
		"unverified": {},
		"Suspect: 1,250 of 2,000 rows read before the totals last changed": {MovedRows: 1250},
		"Suspect: 7 of 2,000 rows with a path that came twice":             {RepeatedRows: 7},
		"Suspect: up to 1,257 of 2,000 rows 1,250 read before the totals last changed, 7 with": {MovedRows: 1250,
			RepeatedRows: 7},
		"Suspect: up to 2,000 of 2,000 rows 1,999 read": {MovedRows: 1999, RepeatedRows: 7},
	} {
		w.Key = analytics.Key{Project: "p", Granularity: analytics.Day,
			Window: analytics.Window{From: 20730, To: 20731}}
		w.Rows = 2000
		grid := view.Grid{Granularity: analytics.Day, Cells: []view.Cell{{Window: w.Window, Revision: &w.Revision}}}
		grid.Count()
		_, body := getStatus(t, &view.Snapshot{At: now, Windows: []view.Window{w},
			Projects: []view.Project{{ID: "p", Grids: []view.Grid{grid}}}}, "")
		wants(t, seen(body), want, "A chart needs two windows in a row.")
		if strings.Contains(body, "Suspect") != (w.MovedRows+w.RepeatedRows > 0) {
			t.Errorf("%s: %s", want, seen(body))
		}
	}
}

func TestHeadlines(t *testing.T) {
	for _, tc := range []struct {
		run  analytics.Run
		due  int
		want string
	}{
		{analytics.Run{Outcome: "success"}, 0,
			"Up to date The last run started 5 min ago and took 30 s: 1 window, 2 requests."},
		{analytics.Run{Outcome: "success"}, 3, "Last run succeeded The last run"},
		{analytics.Run{Outcome: "deferred"}, 3, "Waiting for the request budget The last run"},
		{analytics.Run{Outcome: "failed", Message: "disk full"}, 3,
			"Last run failed The last run started 5 min ago and took 30 s: 1 window, 2 requests. disk full"},
		{analytics.Run{Outcome: "interrupted"}, 0, "Last run interrupted The last run"},
		{analytics.Run{}, 0, "A run is in progress It started 5 min ago and has not ended"},
		{analytics.Run{Outcome: "deferred", Windows: -1, Requests: -2}, 3,
			"took 30 s. It read no window, because the requests of this hour are used up. Values"},
		{analytics.Run{Outcome: "success", Windows: -1, Requests: -1}, 0,
			"It read no window, because none was due (1 request). Values"},
	} {
		tc.run.Started = now.Add(-5 * time.Minute)
		tc.run.Windows, tc.run.Requests = tc.run.Windows+1, tc.run.Requests+2
		if tc.run.Outcome != "" {
			tc.run.Finished = tc.run.Started.Add(30 * time.Second)
		}
		_, body := getStatus(t, &view.Snapshot{At: now, Runs: []analytics.Run{tc.run},
			Due: []view.Due{{Granularity: "day", Count: tc.due}}}, "")
		wants(t, seen(body), tc.want)
	}
	s := good()
	_, body := getStatus(t, s, "")
	wants(t, seen(body), "Up to date The last run")
	s.Asides = demoSnapshot().Asides[:1]
	_, body = getStatus(t, s, "")
	wants(t, seen(body), "Up to date except for 1 window skipped The last run")
}

// TestStatusSize bounds the page whatever visitors ask for and however long the
// ledger and the list of projects are.
func TestStatusSize(t *testing.T) {
	path := strings.Repeat("/<🚀>", 2_000)
	for _, tc := range []struct{ projects, limit int }{{2, 2 << 20}, {60, 12 << 20}} {
		s := huge(tc.projects, path)
		code, body := getStatus(t, s, "")
		if code != http.StatusOK || len(body) > tc.limit {
			t.Errorf("%d projects: %d, %d bytes", tc.projects, code, len(body))
		}
		wants(t, body, "the oldest ", `<div class="coverage">`)
	}
}

func huge(projects int, path string) *view.Snapshot {
	s := &view.Snapshot{At: now}
	for i := range projects {
		p := view.Project{ID: fmt.Sprintf("project-%d", i)}
		for _, g := range []analytics.Granularity{"day", "week", "month", "28d"} {
			grid := view.Grid{Granularity: g, Known: 1500}
			for n := range analytics.Date(1500) {
				k := analytics.Key{Project: p.ID, Granularity: g,
					Window: analytics.Window{From: 19000 + n, To: 19001 + n}}
				grid.Cells = append(grid.Cells, view.Cell{Window: k.Window,
					Revision: &analytics.Revision{Key: k, Totals: analytics.Totals{Human: 1e9, AI: 1e9, Total: 1e9}}})
			}
			p.Grids = append(p.Grids, grid)
			w := view.Window{Revision: *grid.Cells[len(grid.Cells)-1].Revision}
			for range 50 {
				w.Pages = append(w.Pages, analytics.Row{Path: path, Totals: analytics.Totals{Human: 1e9, AI: 1e9, Total: 1e9}})
			}
			s.Windows = append(s.Windows, w)
		}
		s.Projects = append(s.Projects, p)
	}
	return s
}
