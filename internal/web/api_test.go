package web_test

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	windowfile "github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var monday = analytics.NewDate(2026, 11, 2)

func snapshot() *view.Snapshot {
	s := &view.Snapshot{At: monday.Time().Add(30 * time.Hour), Outcomes: testbed.Outcomes("prj_b")}
	for _, id := range []string{"prj_b", "prj_a"} {
		g := view.Grid{Granularity: analytics.Day}
		for i := range analytics.Date(40) {
			w := analytics.Window{From: monday - 40 + i, To: monday - 39 + i}
			rev := &analytics.Revision{
				Key:    analytics.Key{Project: id, Granularity: analytics.Day, Window: w},
				Number: 2, Settled: i < 37, Verified: i != 38, Rows: 3,
				Totals:     analytics.Totals{Human: int64(i), AI: 2, Total: int64(i) + 1},
				ExportedAt: w.To.Time().Add(time.Hour + 123_456*time.Microsecond),
			}
			if i == 36 {
				rev = nil
			}
			g.Cells = append(g.Cells, view.Cell{Window: w, Revision: rev})
		}
		newest := g.Cells[39].Revision
		month := &analytics.Revision{Key: analytics.Key{Project: id, Granularity: "28d",
			Window: analytics.Window{From: monday - 28, To: monday}}, Rows: analytics.TotalsOnlyRows}
		s.Projects = append(s.Projects, view.Project{ID: id, Grids: []view.Grid{g, {
			Granularity: "28d", TotalsOnly: true, Cells: []view.Cell{{Window: month.Window, Revision: month}},
		}}})
		s.Windows = append(s.Windows, view.Window{Revision: *newest, Pages: []analytics.Row{
			{Path: "=cmd|' /C calc'!A0", Totals: analytics.Totals{Human: 9, AI: 1, Total: 9}},
			{Path: "/a\n\"b\",<c>", Totals: analytics.Totals{Human: 5, Total: 5}},
			{Path: "/文档", Totals: analytics.Totals{AI: 1, Total: 1}},
		}}, view.Window{Revision: *month})
	}
	s.Queue = &view.Queue{Waiting: []view.Job{{Project: "prj_a", Prompt: "next.md", State: "pending", Reason: "cap"}},
		Jobs: []view.Job{
			{Project: "prj_a", Prompt: "a.md", State: "completed", Result: "pr", PRLink: "https://code.example/pr/1",
				Begun: monday.Time(), Ended: monday.Time().Add(time.Minute),
				Pull: &view.PullRequest{State: "merged", Opened: monday.Time().Add(time.Hour)}, Cost: new(.25),
				CostUnit: "USD", Tokens: new(int64(1200))},
			{Project: "prj_b", Prompt: "b.md", State: "completed", Result: "pr", PRLink: "javascript:alert(1)",
				Begun: monday.Time()},
			{Project: "prj_b", Prompt: "c.md", State: "active", Title: "Fix, all"},
		}}
	return s
}

// archive has two weeks of prj_a, 26 October being a Monday.
func archive(ask func(sinks.Sink) error) error {
	sink := sinktest.NewMemory()
	for i, rows := range [][]analytics.Row{
		{{Path: "/a", Totals: analytics.Totals{Human: 5, AI: 9, Total: 14}}, {Path: "/b", Totals: analytics.Totals{Human: 5,
			AI: 2, Total: 7}}, {Path: "/c", Totals: analytics.Totals{Total: 1}}},
		{{Path: "/a", Totals: analytics.Totals{Human: 9, AI: 4, Total: 13}}, {Path: "/b", Totals: analytics.Totals{Human: 6,
			AI: 1, Total: 7}}, {Path: "/d", Totals: analytics.Totals{Total: 1}}},
	} {
		from := monday - 14 + analytics.Date(7*i)
		sink.Put(analytics.Revision{Number: 1, Rows: 3, ExportedAt: monday.Time(), Key: analytics.Key{Project: "prj_a",
			Granularity: analytics.Week, Window: analytics.Window{From: from, To: from + 7}}}, rows, nil)
	}
	err := putAgents(sink, monday, []analytics.AgentRow{
		{Agent: "GPTBot", Class: "training", Audience: "neither", Found: true, Visitors: 2, Requests: 90},
		{Agent: "browser", Class: "human", Audience: "human", Found: true, Visitors: 20, Requests: 30},
		{Path: "/guides/a", Agent: "browser", Class: "human", Audience: "human", Found: true, Visitors: 7, Requests: 8},
		{Path: "/guide/a", Agent: "GPTBot", Class: "training", Audience: "neither", Visitors: 2, Requests: 5, Bytes: -1},
		{Path: "=x", Agent: "GPTBot", Class: "training", Audience: "neither", Visitors: 2, Requests: 5},
	})
	return errors.Join(err, ask(sink))
}

// agentsRead is a reading of the agents of prj_a in the week that ends at a date.
func agentsRead(end analytics.Date) analytics.Revision {
	return analytics.Revision{Number: 1, ExportedAt: end.Time(), Key: analytics.Key{Project: "prj_a",
		Granularity: analytics.Week, Report: analytics.AgentsReport, Window: analytics.Window{From: end - 7, To: end}}}
}

// putAgents stores that reading.
func putAgents(sink *sinktest.Memory, end analytics.Date, rows []analytics.AgentRow) error {
	slices.SortFunc(rows, analytics.AgentRow.Compare)
	rev := agentsRead(end)
	for _, row := range rows {
		if row.Path != "" {
			rev.Rows++
		}
	}
	file, err := windowfile.Encode(rev, analytics.Records[analytics.AgentRow](func(yield func(analytics.AgentRow,
		error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}))
	if err == nil {
		err = sink.Replace(context.Background(), file)
	}
	return err
}

// weeksOfAgents puts two weeks of visitors and of agents into a sink, with a hostile path that is not there.
func weeksOfAgents(t *testing.T) *sinktest.Memory {
	t.Helper()
	sink := sinktest.NewMemory()
	for end := monday - 7; end <= monday; end += 7 {
		rev := agentsRead(end)
		rev.Report, rev.Rows = analytics.VisitorsReport, 1
		sink.Put(rev, []analytics.Row{{Path: "/guides/a", Totals: analytics.Totals{Human: 3, AI: 2, Total: 5}}}, nil)
		n := int64(end-monday)/7 + 2 // 1, then 2
		rows := []analytics.AgentRow{
			{Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true, Visitors: 100 * n, Requests: 777 * n},
			{Path: "/guides/a", Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true, Visitors: 9 * n,
				Requests: 12 * n},
			{Path: hostilePath, Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 2, Requests: 40 * n},
			{Path: "/guide/a", Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 2, Requests: 30},
		}
		if n == 1 {
			rows = append(rows, analytics.AgentRow{Agent: "Aider", Class: "coding", Audience: "ai", Found: true,
				Visitors: 4, Requests: 5})
		}
		must(t, putAgents(sink, end, rows))
	}
	return sink
}

// TestArchiveAgents: the questions about agents that docgauge top and history answer are answered alike.
func TestArchiveAgents(t *testing.T) {
	s := snapshot()
	for _, path := range []string{"/a", "/guide/a"} {
		s.Outcomes.Redirects = append(s.Outcomes.Redirects, view.Redirect{Redirect: journal.Redirect{Project: "prj_a",
			Path: path, Target: "/guides/a", Since: (monday - 2).Time()}})
	}
	handlers := web.NewAPI(func() *view.Snapshot { return s }, archive)
	for query, want := range map[string]string{
		"agents?limit=1&format=csv": "prj_a,week,2026-10-26,2026-11-02,1,,browser,human,human,20,30,0,0,,,,,,,,,,\n",
		"agents?by=requests&offset=1&format=csv": "prj_a,week,2026-10-26,2026-11-02,2,,browser,human,human,20,30,0,0" +
			",,,,,,,,,,\n",
		"agents?agent=browser": `"rank":1,"path":"/guides/a","agent":"browser","class":"human","audience":"human",` +
			`"visitors":7,"requests":8,"markdown":0,"bytes":0,"previous_visitors":null,"previous_requests":null,` +
			`"previous_markdown":null,"previous_bytes":null,"change":null,` +
			`"change_percent":null,"agents":null,"nearest":null,"redirect_target":"","redirect_since":null}]}`,
		"agents?list=misses&prefix=/": `"rank":1,"path":"/guide/a","agent":null,"class":null,"audience":null,` +
			`"visitors":2,"requests":5,"markdown":0,"bytes":-1,"previous_visitors":null,"previous_requests":null,` +
			`"previous_markdown":null,"previous_bytes":null,"change":null,` +
			`"change_percent":null,"agents":"GPTBot 5","nearest":"/guides/a","redirect_target":"/guides/a",` +
			`"redirect_since":"2026-10-31T00:00:00Z"}]}`,
		"agents?list=misses&limit=1&format=csv": ",1,/guide/a,,,,2,5,0,-1,,,,,,,GPTBot 5,/guides/a,/guides/a,2026-10-31T00:00:00Z\n",
		"agents?at=2026-10-01":                  "404 no week window of prj_a in the archive contains 2026-10-01",
		"agents?project=prj_b":                  "404 project \"prj_b\" has no window of the report agents",
		"agents?window=day":                     "404 the archive of this server has no day window of prj_a of the report agents; ask for a kind that it has: week",
		"agents?agent=gptbat":                   "404 agent \"gptbat\" has no row in the week windows asked for",
		"agents?by=total":                       `400 by "total": want readers, requests, markdown, bytes`,
		"agents?list=pages":                     "400 agent: missing",
		"agents?list=agents&agent=a":            "400 agent: want it without list agents",
		"agents?list=misses&agent=GPTbot":       "404 agent \"GPTbot\" has no row in the week windows asked for; did you mean",
		"agents?list=misses&agent=browser":      `{"agents":[]}`,
		"agent_history?window=week":             "400 agent: missing; /api/v1/agents lists them",
		"sources_history?window=week&path=/":    "400 source: missing; /api/v1/sources lists them",
		"agent_history?window=week&agent=GPTBot&from=2026-10-01": `"agent":"GPTBot","class":"training","audience":` +
			`"neither","path":"","state":"provisional","verified":false,"revision":1,"absent":false,"visitors":2,` +
			`"requests":90,`,
	} {
		path, parameters, _ := strings.Cut(query, "?")
		w := httptest.NewRecorder()
		handlers["/api/v1/"+path].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/"+query, nil))
		if !strings.Contains(w.Body.String(), want) && !refused(w, want) {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
		if more := strings.Contains(parameters, "limit=1"); more != (w.Header().Get("Link") != "") {
			t.Errorf("%s: Link %q", query, w.Header().Get("Link"))
		}
	}
	// A kept answer has the redirects of the newest snapshot.
	former := *s
	former.Outcomes.Redirects = nil
	now, sink := &former, &markedArchive{Sink: weeksOfAgents(t), mark: "1"}
	site := &web.Site{Current: func() *view.Snapshot { return now }, Archive: func(ask func(sinks.Sink) error) error { return ask(sink) }}
	handlers = site.Handlers()
	for _, target := range []string{"", "/guides/a"} {
		w := httptest.NewRecorder()
		handlers["/api/v1/agents"].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/api/v1/agents?project=prj_a&list=misses&prefix=/g", nil))
		wants(t, w.Body.String(), `"path":"/guide/a"`, `"redirect_target":"`+target+`"`)
		now = s
	}
}

// TestArchivePages: the questions that docgauge top answers are answered alike.
func TestArchivePages(t *testing.T) {
	for query, want := range map[string]string{
		"list=falling&by=ai&window=week": "1 /a 4 -5 -55.6, 2 /b 1 -1 -50",
		"list=rising&by=human&limit=1":   "1 /a 4 4 80",
		"by=ai":                          "1 /a 4 -5 -55.6, 2 /b 1 -1 -50, 3 /d 0  ",
		"at=2026-10-20&project=prj_a":    "1 /a 9  , 2 /b 2  , 3 /c 0  ",
		"prefix=/b&by=change":            "",
		"prefix=/d":                      "1 /d 0  ",
		"at=2026-10-01":                  "404 no week window of prj_a in the archive contains 2026-10-01",
		"at=2026-11-03":                  "404 the week [2026-11-02,2026-11-09) of prj_a is not over",
		"at=2026-10-20&list=rising":      "404 which pages are rising is not known",
		"by=ai&project=prj_b":            "404 project \"prj_b\" has no window in the archive of this server",
		"by=all":                         `400 by "all": want total, human, ai or change`,
		"list=risen":                     `400 list "risen": want top, rising or falling`,
		"at=today":                       `400 at "today": want a day`,
		"path=/b":                        "2 /b 1 0 0",
		"path=/b&by=ai":                  "2 /b 1 -1 -50",
		"path=/b&list=falling&by=ai":     "2 /b 1 -1 -50",
		"path=/b&list=rising":            "",
		"path=/d&by=change":              "",
		"path=/a&by=change":              "1 /a 4 -1 -7.1",
		"limit=1&offset=1":               "2 /b 1 0 0",
		"offset=3":                       "",
		"from=2026-10-19&to=2026-10-26":  "1 /a 9  , 2 /b 2  , 3 /c 0  ",
		"to=2026-10-28&path=/c":          "3 /c 0  ",
		"from=2026-11-01":                "404 no week window of prj_a in the archive begins on or after 2026-11-01",
		"to=2026-10-01":                  "404 ends by 2026-10-01; they reach from 2026-10-19",
		"from=2026-11-01&to=2026-11-01":  "400 from 2026-11-01, to 2026-11-01: want from before to",
		"from=yesterday":                 `400 from "yesterday": want a day`,
		"path=/a&prefix=/":               "400 path, prefix: want one of the two",
		"path=":                          "",
		"prefix=":                        "400 prefix: empty",
		"offset=-1":                      `400 offset "-1": want 0 to 100000`,
		"list=rising&by=change":          "400 by change: want total, human or ai",
	} {
		w := ask(snapshot(), "/api/v1/pages?format=csv&"+query)
		if w.Code != 200 {
			if !refused(w, want) {
				t.Errorf("%s: %d %s", query, w.Code, w.Body)
			}
			continue
		}
		table, err := csv.NewReader(w.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range table[1:] {
			got = append(got, strings.Join([]string{r[4], r[5], r[7], r[12], r[13]}, " "))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// api is the API, routed as the server does it.
func api(s *view.Snapshot) http.Handler {
	mux := http.NewServeMux()
	for path, h := range web.NewAPI(func() *view.Snapshot { return s }, archive) {
		if !strings.HasSuffix(path, "/") {
			path = "GET " + path
		}
		mux.Handle(path, h)
	}
	return mux
}

func ask(s *view.Snapshot, target string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	if slices.Contains(header, "HEAD") {
		r.Method = http.MethodHead
	}
	w := httptest.NewRecorder()
	api(s).ServeHTTP(w, r)
	return w
}

// refused reports whether an answer has the code and, somewhere, the text of an error.
func refused(w *httptest.ResponseRecorder, want string) bool {
	var answer struct{ Error string }
	code, text, _ := strings.Cut(want, " ")
	return json.Unmarshal(w.Body.Bytes(), &answer) == nil && fmt.Sprint(w.Code) == code &&
		strings.Contains(answer.Error, text)
}

// rowsOf returns the rows of an answer in JSON.
func rowsOf(t *testing.T, target string) []map[string]any {
	t.Helper()
	w := ask(snapshot(), target)
	var answer map[string][]map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 || len(answer) != 1 {
		t.Fatalf("%s: %d, %v\n%s", target, w.Code, err, w.Body)
	}
	for _, rows := range answer {
		return rows
	}
	return nil
}

func columnOf(rows []map[string]any, name string) (out []string) {
	for _, r := range rows {
		out = append(out, fmt.Sprint(r[name]))
	}
	return out
}

// TestPageOfPages: the snapshot answers what it has all of, the archive the rest, and the answer names
// what comes next.
func TestPageOfPages(t *testing.T) {
	s := snapshot()
	s.Windows = s.Windows[:1]
	s.Windows[0].Granularity, s.Windows[0].Rows, s.Windows[0].Pages = analytics.Week, 4, s.Windows[0].Pages[:2]
	for query, want := range map[string]string{
		"limit=2&window=week":                 "=cmd|' /C calc'!A0",
		"limit=10000&window=week":             "/a",
		"limit=1&offset=1&window=week":        "/b next ?limit=1&offset=2&window=week",
		"limit=1&list=falling&by=ai":          "/a next ?by=ai&limit=1&list=falling&offset=1",
		"limit=1&offset=1&list=falling&by=ai": "/b",
		"limit=2&offset=1&by=change":          "",
	} {
		w := ask(s, "/api/v1/pages?"+query)
		var answer struct{ Pages []struct{ Path string } }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
			t.Fatalf("%s: %d %s, %v", query, w.Code, w.Body, err)
		}
		got := ""
		if len(answer.Pages) > 0 {
			got = answer.Pages[0].Path
		}
		if link := w.Header().Get("Link"); link != "" {
			got += " next " + strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
		if got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestHistory: the windows of a page or of the site, and why there are none.
func TestHistory(t *testing.T) {
	for query, want := range map[string]string{
		"window=week&path=/a":                           "2026-10-19 14   false, 2026-10-26 13 14 -7.1 false",
		"window=week&path=/c":                           "2026-10-19 1   false, 2026-10-26  1  true",
		"window=week&path=/a&limit=1":                   "2026-10-26 13 14 -7.1 false",
		"window=week&path=/a&to=2026-10-26":             "2026-10-19 14   false",
		"window=week&path=/a&from=2026-10-20":           "2026-10-26 13 14 -7.1 false",
		"window=week&project=prj_a":                     "2026-10-19 0   false, 2026-10-26 0 0  false",
		"path=/a":                                       "404 the archive of this server has no day window of prj_a",
		"window=week&path=/A":                           "404 page \"/A\" has no row in the week windows asked for",
		"window=week&project=prj_b":                     "404 project \"prj_b\" has no window",
		"window=week&from=2026-12-01":                   "404 begins on or after 2026-12-01",
		"window=week&path=/a&offset=1":                  `400 parameter "offset": want project, window, path`,
		"window=week&path=%ff":                          "400 path: not UTF-8",
		"window=week&path=" + strings.Repeat("x", 9000): "400 path: longer than 8192 bytes",
	} {
		w := ask(snapshot(), "/api/v1/history?format=csv&"+query)
		if w.Code != 200 {
			if !refused(w, want) {
				t.Errorf("%.60s: %d %s", query, w.Code, w.Body)
			}
			continue
		}
		table, err := csv.NewReader(w.Body).ReadAll()
		must(t, err)
		var got []string
		for _, r := range table[1:] {
			row := map[string]string{}
			for i, name := range table[0] {
				row[name] = r[i]
			}
			got = append(got, strings.Join([]string{row["from"], row["total"], row["previous_total"], row["change_percent"],
				row["absent"]}, " "))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}

// TestAPIRoot: the root lists what there is, with each parameter that is taken, and refuses the rest as
// all errors are: in JSON.
func TestAPIRoot(t *testing.T) {
	w := ask(snapshot(), "/api/v1/")
	var list struct {
		Endpoints []struct {
			Path, Rows string
			Parameters []struct{ Name, Text string }
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil || w.Code != 200 || w.Header().Get("ETag") == "" {
		t.Fatalf("%d %s, %v", w.Code, w.Body, err)
	}
	var paths []string
	for _, e := range list.Endpoints {
		paths = append(paths, strings.TrimPrefix(e.Path, "/api/v1/"))
		var names []string
		for _, p := range e.Parameters {
			if names = append(names, p.Name); p.Text == "" || e.Rows == "" {
				t.Errorf("%s: %+v", e.Path, p)
			}
		}
		if refused := ask(snapshot(), e.Path+"?nothing=1").Body.String(); !strings.Contains(refused,
			"want "+strings.Join(names, ", ")) {
			t.Errorf("%s lists %v, and takes %s", e.Path, names, refused)
		}
	}
	if got := strings.Join(paths, " "); got != "windows pages history agents agent_history jobs outcomes sources sources_history views views_history" {
		t.Error(got)
	}
	for target, want := range map[string]string{
		"GET /api/v1/page":         `404 "/api/v1/page": no such list; did you mean /api/v1/pages?`,
		"GET /api/v1/windows/2026": "404 there are /api/v1/windows, /api/v1/pages",
		"POST /api/v1/":            "405 method not allowed", "POST /api/v1/windows": "405 method not allowed",
		"DELETE /api/v1/<script>": "404 no such list",
	} {
		method, path, _ := strings.Cut(target, " ")
		w := httptest.NewRecorder()
		api(snapshot()).ServeHTTP(w, &http.Request{Method: method, URL: &url.URL{Path: path}})
		if !refused(w, want) || w.Code == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
}

// TestFilters: what was asked for is answered, and nothing else.
func TestFilters(t *testing.T) {
	for _, tc := range []struct{ target, column, want string }{
		{"/api/v1/windows?limit=2&window=day", "from", "2026-10-31 2026-11-01 2026-10-31 2026-11-01"},
		{"/api/v1/windows?limit=2&project=prj_a", "project", "prj_a prj_a prj_a"},
		{"/api/v1/windows?window=day&project=prj_a&limit=4", "state", "missing provisional provisional provisional"},
		{"/api/v1/windows?window=day&project=prj_a&limit=4", "verified", "<nil> true false true"},
		{"/api/v1/windows?window=day&project=prj_a&limit=4", "human", "<nil> 37 38 39"},
		{"/api/v1/windows?window=28d", "row_count", "<nil> <nil>"},
		{"/api/v1/windows?window=day&limit=1&project=prj_a", "exported_at", "2026-11-02T01:00:00.123456Z"},
		{"/api/v1/windows?window=month", "from", ""},
		{"/api/v1/pages", "rank", "1 2 3 1 2 3"},
		{"/api/v1/pages?limit=1&window=day&project=prj_b", "path", "=cmd|' /C calc'!A0"},
		{"/api/v1/pages?window=28d", "path", ""},
		{"/api/v1/jobs", "prompt", "next.md a.md b.md c.md"},
		{"/api/v1/jobs?limit=1&project=prj_b", "prompt", "b.md"},
		{"/api/v1/jobs?state=completed", "pr_link", "https://code.example/pr/1 "},
		{"/api/v1/jobs?state=active", "begun_at", "<nil>"},
		{"/api/v1/jobs?state=completed", "pr_state", "merged "},
		{"/api/v1/jobs?state=completed", "pr_opened_at", "2026-11-02T01:00:00Z <nil>"},
		{"/api/v1/jobs?state=completed", "cost", "0.25 <nil>"},
		{"/api/v1/jobs?state=completed", "cost_unit", "USD "},
		{"/api/v1/jobs?state=completed", "tokens", "1200 <nil>"},
		{"/api/v1/jobs?limit=2", "prompt", "next.md a.md"},
		{"/api/v1/outcomes?limit=2&project=prj_b", "path", "/sdks/go /guides/install"},
		{"/api/v1/outcomes?limit=3", "change", "0.18 0.27 <nil>"},
		{"/api/v1/outcomes?limit=3", "verdict", "too early more readers not enough data"},
		{"/api/v1/outcomes?project=prj_a", "path", ""},
	} {
		if got := strings.Join(columnOf(rowsOf(t, tc.target), tc.column), " "); got != tc.want {
			t.Errorf("%s: %s is %q, want %q", tc.target, tc.column, got, tc.want)
		}
	}
	if got := len(rowsOf(t, "/api/v1/windows")); got != 2*(30+1) {
		t.Errorf("%d windows", got)
	}
	s := snapshot()
	if s.Queue = nil; ask(s, "/api/v1/jobs").Body.String() != "{\"jobs\":[]}\n" {
		t.Error(ask(s, "/api/v1/jobs").Body)
	}
}

// TestFormats: CSV has the same columns and values as JSON.
func TestFormats(t *testing.T) {
	for _, path := range []string{"/api/v1/windows", "/api/v1/pages", "/api/v1/jobs"} {
		w := ask(snapshot(), path+"?format=csv&limit=50")
		records, err := csv.NewReader(w.Body).ReadAll()
		if err != nil || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/csv") {
			t.Fatal(path, err, w.Header())
		}
		rows := rowsOf(t, path+"?limit=50")
		if len(records) != len(rows)+1 || len(records[0]) != len(rows[0]) {
			t.Fatalf("%s: %d records, %d rows", path, len(records), len(rows))
		}
		for i, row := range rows {
			for j, name := range records[0] {
				want := fmt.Sprint(row[name])
				if row[name] == nil {
					want = ""
				}
				if got := records[i+1][j]; got != want {
					t.Errorf("%s, row %d, %s: %q, JSON has %q", path, i, name, got, want)
				}
			}
		}
	}
	for accept, want := range map[string]string{
		"": "application/json", "*/*": "application/json", "text/csv": "text/csv", "text/csv, */*;q=0.5": "text/csv",
		"TEXT/CSV;q=0.9,application/json;q=0.1": "text/csv",
		"application/json, text/csv;q=0.5":      "application/json", "text/html,*/*": "application/json",
		"text/csv;q=0": "application/json", ";;,": "application/json",
	} {
		if got := ask(snapshot(), "/api/v1/pages", "Accept",
			accept).Header().Get("Content-Type"); !strings.HasPrefix(got, want) {
			t.Errorf("Accept %q: %s, want %s", accept, got, want)
		}
	}
	if got := ask(snapshot(), "/api/v1/pages?format=json", "Accept",
		"text/csv").Header().Get("Content-Type"); got != "application/json" {
		t.Error(got)
	}
}

// TestRefused: a question that is not understood is not answered.
func TestRefused(t *testing.T) {
	for target, want := range map[string]string{
		"/api/v1/windows?projct=prj_a":   "want project, window, limit, format",
		"/api/v1/jobs?window=day":        "want project, state, limit, format",
		"/api/v1/pages?project=prj_c":    `project "prj_c": not one of`,
		"/api/v1/pages?window=fortnight": `window "fortnight": want day`,
		"/api/v1/pages?limit=0":          "want 1 to", "/api/v1/pages?limit=1e3": "want 1 to",
		"/api/v1/pages?limit=99999": "want 1 to",
		"/api/v1/pages?format=xml":  "want json or csv", "/api/v1/pages?limit=1&limit=2": "more than once",
		"/api/v1/pages?%zz": "cannot be read",
	} {
		if w := ask(snapshot(), target); !refused(w, "400 "+want) {
			t.Errorf("%s: %d %s", target, w.Code, w.Body)
		}
	}
	if w := ask(nil, "/api/v1/pages"); !refused(w, "503 first values") || w.Header().Get("Retry-After") == "" {
		t.Errorf("without values: %d %s", w.Code, w.Body)
	}
}

// TestUnchanged: an answer is sent again only if it is another one.
func TestUnchanged(t *testing.T) {
	first := ask(snapshot(), "/api/v1/pages")
	tag := first.Header().Get("ETag")
	again := ask(snapshot(), "/api/v1/pages", "If-None-Match", tag)
	if tag == "" || again.Code != http.StatusNotModified || again.Body.Len() > 0 {
		t.Errorf("ETag %s: %d", tag, again.Code)
	}
	if other := ask(snapshot(), "/api/v1/pages?limit=1", "If-None-Match", tag); other.Code != 200 {
		t.Errorf("another answer: %d", other.Code)
	}
	head := ask(snapshot(), "/api/v1/pages", "X-Method", "HEAD")
	if head.Code != 200 || head.Body.Len() > 0 || cmp.Diff(first.Header(), head.Header()) != "" {
		t.Errorf("HEAD: %d, %d bytes, %v", head.Code, head.Body.Len(), head.Header())
	}
	if got := first.Header(); got.Get("Vary") != "Accept" || !strings.Contains(got.Get("Cache-Control"), "no-cache") {
		t.Error(got)
	}
}

// FuzzQuestion: whatever is asked, the answer is JSON or CSV, and a refusal says why.
func FuzzQuestion(f *testing.F) {
	for _, seed := range []string{"limit=1", "project=prj_a&window=day", "format=csv", "=&&", "limit=-1",
		"window=99999d", "by=ai&at=2026-10-20", "path=/a&window=week", "path=%00%ff", "offset=9&from=2026-10-20"} {
		f.Add(seed, "text/csv;q=1")
	}
	s := snapshot()
	handlers := web.NewAPI(func() *view.Snapshot { return s }, archive)
	f.Fuzz(func(t *testing.T, query, accept string) {
		for _, h := range handlers {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{RawQuery: query},
				Header: http.Header{"Accept": {accept}}})
			isJSON := w.Header().Get("Content-Type") == "application/json"
			known := slices.Contains([]int{200, 400, 404}, w.Code)
			if !known || w.Code != 200 && !isJSON || isJSON && !json.Valid(w.Body.Bytes()) {
				t.Errorf("%q, %q: %d %s", query, accept, w.Code, w.Body)
			}
		}
	})
}
