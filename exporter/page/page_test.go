package page_test

import (
	"compress/gzip"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/page"
	"github.com/docgauge/docgauge/internal/analytics"
)

func get(t testing.TB, s *exporter.Snapshot, version string) (code int, body string) {
	t.Helper()
	w := httptest.NewRecorder()
	page.New(func() *exporter.Snapshot { return s }, version).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	return w.Code, w.Body.String()
}

var (
	unseen = regexp.MustCompile(`(?s)<head>.*?</head>|<title>.*?</title>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
)

// text is what a reader sees, in the order of the document, with single spaces.
func text(body string) string {
	body = tags.ReplaceAllString(unseen.ReplaceAllString(body, ""), " ")
	return strings.Join(strings.Fields(html.UnescapeString(body)), " ")
}

func wants(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in\n%s", w, got)
		}
	}
}

// TestNumbers finds each number of the snapshot beside its name.
func TestNumbers(t *testing.T) {
	s := demo()
	code, body := get(t, s, "v0.4.0")
	if code != http.StatusOK {
		t.Fatal(code)
	}
	got := text(body)
	for _, w := range s.Windows {
		pages := "–"
		if !w.TotalsOnly() {
			pages = commas(w.Rows)
		}
		wants(t, got, w.Window.String()+" "+commas(w.Totals.Total)+" unique visitors")
		wants(t, got, fmt.Sprintf("Human %s AI %s AI share %.1f %% Pages %s ", commas(w.Totals.Human), commas(w.Totals.AI),
			float64(w.Totals.AI)/float64(w.Totals.Total)*100, pages))
		for _, r := range w.Pages {
			wants(t, got, fmt.Sprintf("%s %s %s %s ", r.Path, commas(r.Human), commas(r.AI), commas(r.Total)))
		}
	}
	for _, o := range s.Open {
		wants(t, got, fmt.Sprintf("So far in Tue 6 Oct 2026: %s total, %s human, %s AI (read 13 min ago)", commas(o.Totals.Total), commas(o.Totals.Human), commas(o.Totals.AI)))
	}
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			wants(t, got, fmt.Sprintf("%d of %d window", g.Known, g.Known+g.Missing))
			for name, n := range map[string]int{"settled": g.Known - g.Provisional, "provisional": g.Provisional, "unverified": g.Unverified, "missing": g.Missing} {
				if n > 0 {
					wants(t, got, fmt.Sprintf(" %d %s", n, name))
				}
			}
		}
	}
	wants(t, got, "docgauge v0.4.0", "Values as of 2026-10-06 10:31 UTC", "Next run in 46 min", "Windows due 14 Set aside 2 Budget", "12 of 90 left",
		"Waiting for the budget", "14 windows due. The budget lets the last be read by 2026-10-06 13:31 in 3 h",
		"prj_docs_main Day missing not read yet 9", "developer-hub 28 days missing not read yet 4",
		"2026-10-06 07:17 3 h ago failed in 99 s 7 40 export prj_docs_main day [2026-10-05,2026-10-06): sinks/clickhouse: insert 812 rows",
		"clickhouse clickhouse://clickhouse.internal:9000/docs 2026-10-06 09:17 74 min ago 14 dial tcp",
		"read 2026-10-11 5 days left expires on 2026-10-11, 5 days left", "write 2026-12-16 71 days left in use",
		"Unique visitors must not be summed")
}

// commas groups digits, without the package's own code.
func commas(n int64) string {
	return regexp.MustCompile(`(\d)(?:(\d{3})(?:(\d{3}))?)$`).ReplaceAllStringFunc(fmt.Sprint(n), func(s string) string {
		return strings.TrimSuffix(s[:1]+","+s[1:min(4, len(s))]+","+s[min(4, len(s)):], ",")
	})
}

func TestChanges(t *testing.T) {
	day := analytics.NewDate(2026, 10, 5)
	cell := func(to analytics.Date, days analytics.Date, total int64) exporter.Cell {
		w := analytics.Window{From: to - days, To: to}
		return exporter.Cell{Window: w, Revision: &analytics.Revision{Key: analytics.Key{Project: "p", Window: w}, Totals: analytics.Totals{Total: total}}}
	}
	for _, tc := range []struct {
		name  string
		g     analytics.Granularity
		cells []exporter.Cell
		want  string
	}{
		{"more", analytics.Day, []exporter.Cell{cell(day, 1, 80), cell(day+1, 1, 100)}, "unique visitors ▲ 25.0 % against the day before Human"},
		{"a week before", analytics.Day, []exporter.Cell{cell(day-6, 1, 200), cell(day+1, 1, 100)}, "unique visitors ▼ 50.0 % against the Monday before Human"},
		{"rolling", "28d", []exporter.Cell{cell(day-27, 28, 50), cell(day, 28, 99), cell(day+1, 28, 100)}, "▲ 100 % against the 28 days before"},
		{"same", analytics.Week, []exporter.Cell{cell(day-7, 7, 100), cell(day, 7, 100)}, "unchanged against the week before"},
		{"none before", analytics.Day, []exporter.Cell{{Window: analytics.Window{From: day - 1, To: day}}, cell(day+1, 1, 100)}, "Nothing before it to compare with"},
		{"from nothing", analytics.Day, []exporter.Cell{cell(day, 1, 0), cell(day+1, 1, 100)}, "Nothing before it to compare with"},
	} {
		last := *tc.cells[len(tc.cells)-1].Revision
		last.Granularity = tc.g
		s := &exporter.Snapshot{At: now, Windows: []exporter.Window{{Revision: last}},
			Projects: []exporter.Project{{ID: "p", Grids: []exporter.Grid{{Granularity: tc.g, Cells: tc.cells, Known: 2}}}}}
		t.Run(tc.name, func(t *testing.T) {
			_, body := get(t, s, "")
			wants(t, text(body), tc.want)
		})
	}
}

// TestText puts markup into everything that is text, and sees only text.
func TestText(t *testing.T) {
	const evil = `"'><script>alert(1)</script><img src=x onerror=alert(1)></style>{{.}}` + "\x00\xff\u202e"
	s := demo()
	s.Projects[0].ID, s.Sinks[0].Name, s.Sinks[0].Location, s.Sinks[0].Problem = evil, evil, evil, evil
	s.Keys[0].Name, s.Keys[0].Rejected, s.Budgets[0].Name = evil, true, evil
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
	code, body := get(t, s, evil)
	if code != http.StatusOK {
		t.Fatal(code, body)
	}
	for _, tag := range []string{"<script", "<img", "onerror=alert(1)>", "\x00", "\xff"} {
		if strings.Contains(body, tag) {
			t.Errorf("the page contains %q", tag)
		}
	}
	if n := strings.Count(body, "&lt;script&gt;alert(1)&lt;/script&gt;"); n < 100 {
		t.Errorf("%d times the text", n)
	}
	if strings.Count(body, "</style>") != 1 {
		t.Error("a text ended the style sheet")
	}
}

func TestHeaders(t *testing.T) {
	h := page.New(demo, "")
	for _, tc := range []struct {
		method, path string
		code         int
	}{
		{http.MethodGet, "/", http.StatusOK},
		{http.MethodHead, "/", http.StatusOK},
		{http.MethodGet, "/?x=1", http.StatusOK},
		{http.MethodGet, "/index.html", http.StatusNotFound},
		{http.MethodPost, "/metrics", http.StatusNotFound},
		{http.MethodPost, "/", http.StatusMethodNotAllowed},
		{http.MethodOptions, "/", http.StatusMethodNotAllowed},
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

func TestCompressed(t *testing.T) {
	s := demo()
	_, want := get(t, s, "")
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Accept-Encoding", "br, gzip")
	w := httptest.NewRecorder()
	page.New(func() *exporter.Snapshot { return s }, "").ServeHTTP(w, r)
	size := w.Body.Len()
	in, err := gzip.NewReader(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(in)
	if err != nil || string(got) != want || w.Header().Get("Content-Encoding") != "gzip" || w.Header().Get("Content-Length") != fmt.Sprint(size) {
		t.Errorf("%d bytes of %d, %v, %v", len(got), len(want), err, w.Header())
	}
	t.Logf("%d bytes, %d compressed", len(want), size)
}

// TestCompressionIsNegotiated: as for /metrics, who refuses gzip gets none.
func TestCompressionIsNegotiated(t *testing.T) {
	h := page.New(demo, "")
	for encoding, compressed := range map[string]bool{
		"": false, "gzip": true, "GZIP": true, "br, gzip;q=0.5": true, "gzip;q=0": false, "gzip; q=0.000, identity": false, "notgzip": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Encoding", encoding)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != compressed || strings.HasPrefix(w.Body.String(), "\x1f\x8b") != compressed {
			t.Errorf("%q: compressed %v, want %v", encoding, got, compressed)
		}
	}
}

func TestNoSnapshot(t *testing.T) {
	code, body := get(t, nil, "v1")
	if code != http.StatusServiceUnavailable {
		t.Error(code)
	}
	wants(t, text(body), "docgauge v1", "No numbers yet")
	wants(t, body, `http-equiv="refresh" content="5"`)
}

func TestNothingYet(t *testing.T) {
	s := &exporter.Snapshot{At: now, Projects: []exporter.Project{{ID: "p", Grids: []exporter.Grid{
		{Granularity: analytics.Day, Cells: []exporter.Cell{{Window: analytics.Window{From: 20730, To: 20731}}}, Missing: 1},
		{Granularity: analytics.Month},
	}}}}
	_, body := get(t, s, "")
	wants(t, text(body), "No run yet No export has run", "Last success never", "Next run not scheduled", "Windows due 0 Project",
		"Day No complete window has been read yet.", "Day 0 of 1 window Mon Wed Fri Sun 1 missing", "Month 0 of 0 windows No window is complete yet.",
		"Nothing is due", "No budget is configured", "No key is configured", "No sink is configured")
	wants(t, body, `http-equiv="refresh" content="60"`)
}

func TestBacklogAndBudget(t *testing.T) {
	s := demo()
	s.Budgets = []exporter.Budget{{Name: "spare", Limit: 90, Remaining: 90, Next: now.Add(-time.Second)}, {Name: "free", Remaining: 5}}
	_, body := get(t, s, "")
	got := text(body)
	wants(t, got, "spare 90 of 90 requests left in this hour A request may be sent now.", "free unlimited A request may be sent now.")
	if n := strings.Count(body, "<td>Day</td>") + strings.Count(got, "prj_docs_main Day settle"); n != 1 {
		t.Errorf("%d rows of days in the backlog, want one: those with nothing due are left out\n%s", n, got)
	}
	s.Due, s.Finish = nil, time.Time{}
	_, body = get(t, s, "")
	wants(t, text(body), "Nothing is due. Not counted: 2 windows set aside, 2 windows of which the rows are read later.")
	s.Projects = nil
	_, body = get(t, s, "")
	wants(t, text(body), "Not counted: 2 windows set aside. Request budget")
	_, body = get(t, good(), "")
	wants(t, text(body), "Nothing is due: the ledger has every window it should have.")
}

// TestWindowsThatWait: what is set aside and what waits for its rows is listed
// with its project, in words, the newest first and not without end.
func TestWindowsThatWait(t *testing.T) {
	s := demo()
	_, body := get(t, s, "")
	got := text(body)
	wants(t, got,
		"Thu 17 Sep 2026 Day Set aside: an answer holds what cannot be kept in 3 runs, the first 6 h ago 2026-10-06 13:32 in 3 h GET /v1",
		`human is "<b>many</b>", not a count; nothing was kept of it Wed 16 Sep 2026 Day Set aside: the service fails for it, and not for others in 1 run, the first 6 h ago`,
		"Mon 5 Oct 2026 Day Totals known, rows later its rows change while they are read; that ends when it has settled 2026-10-09 00:00 in 3 days Sun 4 Oct 2026 Day Totals known",
		"Totals only so far rows when it has settled, from 2026-10-09 00:00",
		"2 totals only")
	wants(t, body, ", provisional, totals only, rows from 2026-10-09 00:00</title>", `<a href="#p0w">2</a>`)
	if n := strings.Count(body, `<use href="#totals"`); n != 2+1 {
		t.Errorf("%d windows without rows are drawn, want two and the legend", n)
	}
	if n := strings.Count(got, "Totals only so far"); n != 1 {
		t.Errorf("%d cards without rows, want one", n)
	}
	if n := strings.Count(got, "Windows that wait"); n != 2 {
		t.Errorf("%d lists, want one of each project", n)
	}
	for i := range 30 {
		a := s.Asides[0]
		a.From, a.To, a.Reason, a.Detail = a.From-analytics.Date(i), a.To-analytics.Date(i), "of another time", strings.Repeat("x", 1<<20)
		s.Asides = append(s.Asides, a)
	}
	_, body = get(t, s, "")
	wants(t, text(body), "Set aside 32 Budget", "Set aside: of another time", "22 more windows: docgauge plan lists them.")
	if n := strings.Count(body, "Set aside: "); n != 10 || len(body) > 1<<20 {
		t.Errorf("%d windows are listed in %d bytes", n, len(body))
	}
	_, body = get(t, &exporter.Snapshot{At: now, Projects: []exporter.Project{{ID: "p"}}}, "")
	if got := text(body); strings.Contains(got, "wait") || strings.Contains(got, "Set aside") {
		t.Errorf("nothing waits, and the page says\n%s", got)
	}
}

// TestSuspectRows: a newest window says how many of its rows are suspect, and why.
func TestSuspectRows(t *testing.T) {
	for want, w := range map[string]exporter.Window{
		"unverified": {},
		"Suspect: 1,250 of 2,000 rows read before the totals last moved":                                            {MovedRows: 1250},
		"Suspect: 7 of 2,000 rows whose path came twice":                                                            {RepeatedRows: 7},
		"Suspect: up to 1,257 of 2,000 rows 1,250 read before the totals last moved, 7 whose path came twice":       {MovedRows: 1250, RepeatedRows: 7},
		"Suspect: up to 2,000 of 2,000 rows 1,999 read before the totals last moved, 7 whose path came twice Human": {MovedRows: 1999, RepeatedRows: 7},
	} {
		w.Key = analytics.Key{Project: "p", Granularity: analytics.Day, Window: analytics.Window{From: 20730, To: 20731}}
		w.Rows = 2000
		_, body := get(t, &exporter.Snapshot{At: now, Windows: []exporter.Window{w},
			Projects: []exporter.Project{{ID: "p", Grids: []exporter.Grid{{Granularity: analytics.Day, Known: 1}}}}}, "")
		wants(t, text(body), want)
		if strings.Contains(body, "Suspect") != (w.MovedRows+w.RepeatedRows > 0) {
			t.Errorf("%s: %s", want, text(body))
		}
	}
}

func TestHeadlines(t *testing.T) {
	for _, tc := range []struct {
		run  exporter.Run
		due  int
		want string
	}{
		{exporter.Run{Outcome: "success"}, 0, "Up to date The last run began 5 min ago and took 30 s: 1 window, 2 requests."},
		{exporter.Run{Outcome: "success"}, 3, "Last run succeeded The last run"},
		{exporter.Run{Outcome: "deferred"}, 3, "Waiting for the budget The last run"},
		{exporter.Run{Outcome: "failed", Message: "disk full"}, 3, "Last run failed The last run began 5 min ago and took 30 s: 1 window, 2 requests. disk full"},
		{exporter.Run{Outcome: "interrupted"}, 0, "Last run interrupted The last run"},
		{exporter.Run{}, 0, "A run is under way It began 5 min ago and has not ended"},
	} {
		tc.run.Started, tc.run.Windows, tc.run.Requests = now.Add(-5*time.Minute), 1, 2
		if tc.run.Outcome != "" {
			tc.run.Finished = tc.run.Started.Add(30 * time.Second)
		}
		_, body := get(t, &exporter.Snapshot{At: now, Runs: []exporter.Run{tc.run}, Due: []exporter.Due{{Granularity: "day", Count: tc.due}}}, "")
		wants(t, text(body), tc.want)
	}
	s := good()
	_, body := get(t, s, "")
	wants(t, text(body), "Up to date The last run")
	s.Asides = demo().Asides[:1]
	_, body = get(t, s, "")
	wants(t, text(body), "Up to date but for 1 window set aside The last run")
}

// TestSize bounds the page whatever visitors ask for and however long the
// ledger and the list of projects are.
func TestSize(t *testing.T) {
	path := strings.Repeat("/<🚀>", 20_000)
	for _, tc := range []struct{ projects, limit int }{{2, 2 << 20}, {10, 8 << 20}, {60, 12 << 20}} {
		s := huge(tc.projects, path)
		begin := time.Now()
		code, body := get(t, s, "")
		if code != http.StatusOK || len(body) > tc.limit {
			t.Errorf("%d projects: %d, %d bytes", tc.projects, code, len(body))
		}
		t.Logf("%d projects: %d bytes in %v", tc.projects, len(body), time.Since(begin))
		wants(t, body, "the oldest ")
	}
}

func huge(projects int, path string) *exporter.Snapshot {
	s := &exporter.Snapshot{At: now}
	for i := range projects {
		p := exporter.Project{ID: fmt.Sprintf("project-%d", i)}
		for _, g := range []analytics.Granularity{"day", "week", "month", "28d"} {
			grid := exporter.Grid{Granularity: g, Known: 1500}
			for n := range analytics.Date(1500) {
				k := analytics.Key{Project: p.ID, Granularity: g, Window: analytics.Window{From: 19000 + n, To: 19001 + n}}
				grid.Cells = append(grid.Cells, exporter.Cell{Window: k.Window, Revision: &analytics.Revision{Key: k, Totals: analytics.Totals{Human: 1e9, AI: 1e9, Total: 1e9}}})
			}
			p.Grids = append(p.Grids, grid)
			w := exporter.Window{Revision: *grid.Cells[len(grid.Cells)-1].Revision}
			for range 50 {
				w.Pages = append(w.Pages, analytics.Row{Path: path, Human: 1e9, AI: 1e9, Total: 1e9})
			}
			s.Windows = append(s.Windows, w)
		}
		s.Projects = append(s.Projects, p)
	}
	return s
}
