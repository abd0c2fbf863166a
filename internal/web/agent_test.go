package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	windowfile "github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// agentSite has some weeks of prj_a, up to monday: its pages, agents and sources. One week is missing; of the newest,
// Claude-User has not read in the one before the last.
func agentSite(t *testing.T, weeks int) (*sinktest.Memory, *view.Snapshot) {
	t.Helper()
	sink := sinktest.NewMemory()
	project := view.Project{ID: "prj_a", Others: make([]view.Grid, 2)}
	grid := view.Grid{Project: "prj_a", Granularity: analytics.Week}
	project.Grids = []view.Grid{grid}
	for i, report := range []analytics.Report{analytics.AgentsReport, analytics.SourcesReport} {
		project.Others[i] = grid
		project.Others[i].Report = report
	}
	for i := range weeks {
		n, end := int64(i+1), monday-analytics.Date(7*(weeks-1-i))
		cell := view.Cell{Window: analytics.Window{From: end - 7, To: end}}
		rev := agentsRead(end)
		rev.Humans, rev.Verified = analytics.Confirmed, true
		if missing := weeks > 3 && i == weeks-4; !missing {
			rows := map[analytics.Report][]analytics.Record{}
			rows[analytics.VisitorsReport] = records(visitorsOf(n))
			rows[analytics.AgentsReport] = records(agentsOf(n, i == weeks-2))
			rows[analytics.SourcesReport] = records([]analytics.SourceRow{
				{Source: "claude", Class: "assistant", Agent: "browser", Visitors: 4 * n, Requests: 9 * n},
				{Source: "claude", Class: "assistant", Agent: "unconfirmed", Visitors: n, Requests: n},
				{Source: "google", Class: "search", Agent: "browser", Visitors: 70 * n, Requests: 90 * n},
				{Path: "/docs/guides/start", Source: "claude", Class: "assistant", Agent: "browser", Visitors: 2 * n,
					Requests: 3 * n},
			})
			for report, all := range rows {
				rev.Report = report
				file, err := windowfile.Encode(rev, func(yield func(analytics.Record, error) bool) {
					for _, row := range all {
						if !yield(row, nil) {
							return
						}
					}
				})
				must(t, err)
				must(t, sink.Replace(t.Context(), file))
			}
			read := rev
			read.Report = analytics.VisitorsReport
			cell.Revision = &read
		}
		for _, g := range []*view.Grid{&project.Grids[0], &project.Others[0], &project.Others[1]} {
			g.Cells = append(g.Cells, cell)
			g.Count()
		}
	}
	rule := journal.Redirect{Project: "prj_a", Path: "/docs/guide/start", Target: "/docs/guides/start",
		Since: (monday - 14).Time()}
	return sink, &view.Snapshot{At: monday.Time(), Projects: []view.Project{project},
		Outcomes: view.Outcomes{Redirects: []view.Redirect{{Redirect: rule}}}}
}

func visitorsOf(n int64) (rows []analytics.Row) {
	for i, path := range []string{"/", "/blog/first", "/docs/guides/deploy", "/docs/guides/deploy/k8s",
		"/docs/guides/deploy/vm", "/docs/guides/start", "/docs/reference/cli", "/docs/start"} {
		human := 100*n + int64(10*i)
		rows = append(rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: human, AI: 40 * n, Total: human + 40*n}})
	}
	return rows
}

// agentsOf are the agents of a week. away: Claude-User does not read.
func agentsOf(n int64, away bool) []analytics.AgentRow {
	rows := []analytics.AgentRow{
		{Agent: "browser", Class: "human", Audience: "human", Found: true, Visitors: 800 * n, Requests: 3000 * n, Bytes: 9e6},
		{Agent: "unconfirmed", Class: "human", Audience: "neither", Found: true, Visitors: 90 * n, Requests: 95 * n},
		{Agent: "AhrefsBot", Class: "other", Audience: "neither", Found: true, Visitors: 900 * n, Requests: 999 * n, Bytes: -1},
		{Agent: "GPTBot", Class: "training", Audience: "neither", Found: true, Visitors: 9 * n, Requests: 400 * n, Bytes: -1},
		{Path: "/docs/guide/start", Agent: "GPTBot", Class: "training", Audience: "neither", Visitors: 2, Requests: 7 * n},
		{Agent: "curl", Class: "tool", Audience: "ai", Found: true, Visitors: n, Requests: 2 * n, Markdown: 2 * n},
		{Agent: "curl", Class: "tool", Audience: "neither", Found: true, Visitors: 5 * n, Requests: 8 * n},
	}
	if away {
		return rows
	}
	return append(rows,
		analytics.AgentRow{Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true, Visitors: 40 * n,
			Requests: 200 * n, Markdown: 50 * n, Bytes: 3e6 * n},
		analytics.AgentRow{Path: "/docs/guides/start", Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true,
			Visitors: 30 * n, Requests: 60 * n, Markdown: 20 * n, Bytes: -1},
		analytics.AgentRow{Path: "/", Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true,
			Visitors: 20 * n, Requests: 33 * n, Bytes: 1e6},
		analytics.AgentRow{Path: "/docs/guide/start", Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 3,
			Requests: 12 * n},
		analytics.AgentRow{Path: hostilePath, Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 2, Requests: 5})
}

func records[R analytics.RowType](rows []R) (all []analytics.Record) {
	for _, row := range rows {
		all = append(all, analytics.RecordOf(row))
	}
	slices.SortFunc(all, analytics.ReportOf[R]().Shape().Compare)
	return all
}

// TestAgentPage: the page of an agent, of all agents, of a section and of all pages, of the newest window or another.
func TestAgentPage(t *testing.T) {
	sink, s := agentSite(t, 6)
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1",
		Archive: func(ask func(sinks.Sink) error) error { return ask(sink) }}
	pages := site.Handlers()
	for _, tc := range []struct {
		target string
		code   int
		want   []string
	}{
		{"/agent?project=prj_a&agent=Claude-User", 200, []string{
			"Claude-User ‹ Earlier: 19–25 Oct 2026 Window", "What this agent read on prj_a All agents",
			"26 Oct – 1 Nov 2026 AI assistant Readers 240 Requests 1,200 Markdown answers 300 25.0% of its requests",
			"Other answers, as HTML 900 Sent to it 18 MB People it sent 24 from claude; one for 50.0 of its requests",
			"19–25 Oct 2026 did not read – – – –", "5–11 Oct 2026 missing – – – –",
			"28 Sep – 4 Oct 2026 provisional 80 400 100 6 MB",
			"Pages 26 Oct – 1 Nov 2026, 2 pages Page Requests Change Readers /docs/guides/start 360 120 as Markdown new 180 " +
				"/ 198 1 MB new 120",
			"/docs/guide/start nearest page: /docs/guides/start redirected to /docs/guides/start since Mon 19 Oct 2026 72 new", "<script>alert(1)</script>\"'&", " no page is near 5 new",
			"People from claude 26 Oct – 1 Nov 2026", "claude assistant, people (confirmed) 24 54 1,200 2",
			"Pages that they came to", "/docs/guides/start claude, assistant, people (confirmed) 12 18",
		}},
		{"/agent?agent=GPTBot&at=2026-10-14", 200, []string{"nearest page: /docs/guides/start 28 "}}, // before the rule
		{"/agent?agent=Claude-User&at=2026-10-14", 200, []string{
			"Later: 19–25 Oct 2026 Newest", "All agents 12–18 Oct 2026 AI assistant Readers 160 Requests 800"}},
		{"/agent?agent=Claude-User&at=2026-10-20", 200, []string{"19–25 Oct 2026 AI assistant It did not read the site"}},
		{"/agent?agent=GPTBot", 200, []string{"training crawler", "Sent to it – People it sent 0 from chatgpt",
			"No reader came from chatgpt in this window", "Which pages it read in this window is not known"}},
		{"/agent?agent=curl", 200, []string{
			"26 Oct – 1 Nov 2026 program Readers 30 +5 (+20.0%) on the previous week Requests 48 +8 (+20.0%)",
			"26 Oct – 1 Nov 2026 program, counts as AI Readers 6 +1 (+20.0%) on the previous week Requests 12 +2 (+20.0%)"}},
		{"/agent", 200, []string{"people 4,800 (confirmed) to 5,340 (claimed)",
			"Claude-User AI assistant 240 new 1,200 300 as Markdown, 18 MB GPTBot training crawler 54 +9 +20.0% 2,400 " +
				"curl program 30 +5 +20.0% 48 curl program, counts as AI 6 +1 +20.0% 12 12 as Markdown " +
				"AhrefsBot crawler 5,400 +900 +20.0% 5,994 people (confirmed) 4,800 +800 +20.0% 18,000 9 MB " +
				"people (unconfirmed) 540",
			"redirected to /docs/guides/start since Mon 19 Oct 2026 asked by Claude-User 72, GPTBot 42", "google search, people (confirmed) 420"}},
		{"/agent?agent=claude-user", 404, []string{`agent "claude-user" has no row in the week windows asked for. Did you mean Claude-User? Claude-User`}},
		{"/agent?agent=Nobody", 404, []string{`agent "Nobody" has no row in the week windows asked for; there are`}},
		{"/agent?at=2026-10-07", 404, []string{"No week with 2026-10-07 has been read. The nearest is 28 Sep – 4 Oct 2026."}},
		{"/agent?window=day", 404, []string{"the nearest is week"}},
		{"/agent?path=/", 400, []string{`parameter "path": want project, window, at, agent`}},
		{"/page?prefix=/docs/guides/", 200, []string{"/docs/guides/* All pages /docs/ Most readers",
			"Sections /docs/guides/deploy/ 2 pages", "Pages 26 Oct – 1 Nov 2026, 4 pages, compared with",
			"/docs/guides/start 650 240 890 +140 +18.7%", "the readers of a section are not known"}},
		{"/page?path=/docs/guides/&at=2026-10-13", 302, nil},
		{"/page?path=/docs/guides/*&at=2026-10-13", 302, nil},
		{"/page?project=prj_a", 200, []string{"Sections /docs/ 6 pages", "Pages 26 Oct – 1 Nov 2026, 8 pages"}},
		{"/page?path=", 404, []string{"prj_a (empty path) has no reader in the last 26 week windows"}},
		{"/page?path=/nothing/", 404, []string{"/nothing/ has no reader in the last 26 week windows"}},
		{"/page?path=/docs/guides/start", 200, []string{"Readers of this page of prj_a All pages /docs/ guides/",
			"Claude-User AI assistant 180"}},
		{"/page?path=/docs/start&at=2026-09-30", 200, []string{"28 Sep – 4 Oct 2026 Human 270 +100 (+58.8%)",
			"Earlier: 21–27 Sep 2026"}},
		{"/page?path=/docs/start&at=2020-01-01", 404, []string{"The nearest is 21–27 Sep 2026."}},
	} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, tc.target, nil)
		pages[r.URL.Path].ServeHTTP(w, r)
		if w.Code != tc.code {
			t.Errorf("%s: %d, want %d", tc.target, w.Code, tc.code)
		}
		wants(t, seen(w.Body.String()), tc.want...)
		if strings.Contains(w.Body.String(), "<script>alert") {
			t.Errorf("%s: a path is not only text", tc.target)
		}
		if want := "page?at=2026-10-18&project=prj_a&window=week&prefix=%2Fdocs%2Fguides%2F"; w.Code == http.StatusFound &&
			w.Header().Get("Location") != want {
			t.Errorf("%s leads to %s", tc.target, w.Header().Get("Location"))
		}
	}
	// A page of an old window links to the JSON of that window, not of the newest.
	sink, s = agentSite(t, 40)
	for target, ends := range map[string]string{
		"/agent?agent=Claude-User&at=2026-03-31": "2026-04-06", "/page?path=/docs/start&at=2026-03-31": "2026-04-06",
		"/agent?agent=Claude-User&at=2026-09-30": "2026-11-02", "/page?path=/docs/start&at=2026-09-30": "2026-11-02",
	} {
		_, page := visit(t, pages[strings.Split(target, "?")[0]], target)
		_, link, _ := strings.Cut(page, `For machines: <a href="`)
		link, _, _ = strings.Cut(strings.ReplaceAll(link, "&amp;", "&"), `"`)
		w := httptest.NewRecorder()
		pages["/"+strings.Split(link, "?")[0]].ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+link, nil))
		lines := strings.Split(strings.TrimSpace(w.Body.String()), "\n")
		if last := strings.Split(lines[len(lines)-1], ","); len(last) < 4 || last[3] != ends {
			t.Errorf("%s: %s ends with %q, want the week that ends before %s", target, link, last, ends)
		}
	}
}

// TestBrowserAgent looks at these pages in each way, and goes from one to the other, as a reader without a script
// does.
func TestBrowserAgent(t *testing.T) {
	browser := engines.RunChromium(t)
	sink, s := agentSite(t, 30)
	mux := http.NewServeMux()
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1",
		Archive: func(ask func(sinks.Sink) error) error { return ask(sink) }}
	for path, h := range site.Handlers() {
		mux.Handle(path, h)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for name, size := range map[string]engines.View{
		"light": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Scheme: "dark"},
		"phone": {Width: 400, Height: 860}, "phone-dark": {Width: 400, Height: 860, Scheme: "dark"},
		"narrow": {Width: 320, Height: 640}, "print": {Width: 760, Height: 1000, Media: "print"},
	} {
		for kind, target := range map[string]string{"agent": "/agent?agent=Claude-User", "agents": "/agent",
			"section": "/page?prefix=/docs/", "path": "/page?path=/docs/guides/start"} {
			t.Run(kind+"-"+name, func(t *testing.T) {
				tab := engines.OpenPage(t, browser, server.URL+target, size)
				engines.Legible(t, tab, kind+"-"+name)
				engines.EvalEqual(t, tab, true, fits)
				if name == "light" || name == "phone-dark" {
					engines.Axe(t, tab, kind+"-"+name)
					engines.Accessible(t, tab)
				}
			})
		}
	}
	tab, err := browser.Open(t.Context(), server.URL+"/agent", engines.View{Width: 1000, Height: 900, NoScript: true})
	must(t, err)
	const week = " 2026-10-18"
	for _, step := range [][2]string{
		{`.pages th a`, "/agent Claude-User "}, {`.windows tr:nth-child(3) a`, "/agent Claude-User" + week},
		{`#pages ~ .pages th a`, "/page /docs/guides/start" + week}, {`.trail a:nth-child(2)`, "/page prj_a/docs/*" + week},
		{`.groups a`, "/page prj_a/docs/guides/*" + week},
	} {
		must(t, tab.Eval(t.Context(), fmt.Sprintf(`document.querySelector(%q).click()`, step[0]), nil))
		engines.EvalBecomes(t, tab, step[1], `[location.pathname,
			Array.from(document.querySelectorAll("h1, .section"), e => e.textContent).join(""),
			new URLSearchParams(location.search).get("at")].join(" ")`)
	}
	for range 40 {
		must(t, tab.Press(t.Context(), "Tab"))
		engines.EvalEqual(t, tab, true, `document.activeElement === document.body ||
			getComputedStyle(document.activeElement).outlineStyle != "none"`)
	}
}
