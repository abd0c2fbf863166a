package web_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// site serves the pages of snapshots that a test replaces.
type site struct {
	*httptest.Server
	now    atomic.Pointer[view.Snapshot]
	memory *sinktest.Memory
	pages  *web.Site
	views  atomic.Int32 // of the status page
}

// openSite serves two projects with merges and pages.
func openSite(t *testing.T) *site {
	t.Helper()
	s, memory := liveSnapshot()
	s.Outcomes = testbed.Outcomes("docs-main")
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			if g.Newest != nil {
				s.Windows = append(s.Windows, view.Window{Revision: *g.Newest})
			}
		}
	}
	for _, c := range s.Projects[0].Grids[1].Cells[10:12] { // weeks that lie further back
		memory.Put(*c.Revision, rows(*c.Revision, "/old"), nil)
	}
	here := &site{memory: memory}
	here.now.Store(s)
	here.pages = &web.Site{Current: here.now.Load, Version: "v1",
		Archive: func(ask func(sinks.Sink) error) error { return ask(memory) }}
	must(t, here.pages.Refresh(t.Context(), s, []sinks.Sink{memory}))
	mux := http.NewServeMux()
	for path, h := range here.pages.Handlers() {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			h.ServeHTTP(w, r)
			if path == "/status" {
				here.views.Add(1)
			}
		})
	}
	here.Server = httptest.NewServer(mux)
	t.Cleanup(here.Close)
	return here
}

// later replaces the snapshot by a changed copy, an hour later.
func (s *site) later(change func(*view.Snapshot)) {
	next := *s.now.Load()
	next.At = next.At.Add(time.Hour)
	next.Projects = slices.Clone(next.Projects)
	next.Projects[0].Grids = slices.Clone(next.Projects[0].Grids)
	change(&next)
	s.now.Store(&next)
}

// week is the pages of the newest week of the first project, the most read first.
func week(s *view.Snapshot) []analytics.Row {
	return madeUpPages(*s.Projects[0].Grids[1].Newest, "/new")
}

// readAgain replaces those pages.
func (s *site) readAgain(t *testing.T, pages []analytics.Row) {
	t.Helper()
	s.later(func(next *view.Snapshot) {
		g := &next.Projects[0].Grids[1]
		newest := *g.Newest
		newest.Number++
		g.Cells = slices.Clone(g.Cells)
		g.Cells[len(g.Cells)-1].Revision = &newest
		g.Count()
		slices.SortFunc(pages, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
		s.memory.Put(newest, pages, nil)
		must(t, s.pages.Refresh(t.Context(), next, []sinks.Sink{s.memory}))
	})
}

// open opens a page, and expects that the browser has nothing to report.
func (s *site) open(t *testing.T, path string, size engines.View) *engines.Tab {
	t.Helper()
	tab, err := engines.RunChromium(t).Open(t.Context(), s.URL+path, size)
	must(t, err)
	t.Cleanup(func() {
		gone := func(line string) bool { // a server that ended, or a window that is not there
			return strings.Contains(line, "ERR_CONNECTION_REFUSED") || strings.Contains(line, "status of 404")
		}
		if console := slices.DeleteFunc(tab.Console(), gone); len(console) > 0 {
			t.Errorf("console: %q", console)
		}
	})
	return tab
}

const (
	list  = `document.querySelector("#p0g1l")` // the pages of a week on the status page
	paths = `Array.from(` + list + `.querySelectorAll("tbody tr")).filter(r => r.checkVisibility())
		.map(r => r.querySelector("bdi").title)`
	box     = `document.querySelector(".filter input")`
	head    = `Array.from(` + list + `.querySelectorAll("thead button")).find(b => b.textContent == "AI")`
	said    = `document.querySelector(".refresh [role=status]").textContent`
	refresh = `document.querySelector("[data-refresh=now]").click()`
	fits    = `document.documentElement.scrollWidth <= innerWidth`
)

// byAI are the paths that have a text, of the 50 most read pages, the most read by agents first, or last.
func byAI(pages []analytics.Row, text string, sign int) (out []string) {
	pages = slices.Clone(pages)
	slices.SortFunc(pages, func(a, b analytics.Row) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Path, b.Path))
	})
	pages = pages[:50]
	slices.SortStableFunc(pages, func(a, b analytics.Row) int { return sign * cmp.Compare(a.AI, b.AI) })
	for _, r := range pages {
		if strings.Contains(r.Path, text) {
			out = append(out, r.Path)
		}
	}
	return out
}

// TestBrowserReads goes the way of a reader: filter and order a list, with the pointer or the keyboard,
// open a page, and go back to the list as it was.
func TestBrowserReads(t *testing.T) {
	here := openSite(t)
	pages := week(here.now.Load())
	for name, size := range map[string]engines.View{
		"desktop": {Width: 1400, Height: 900}, "phone": {Width: 400, Height: 800, Scheme: "dark"},
	} {
		t.Run(name, func(t *testing.T) {
			tab := here.open(t, "/status", size)
			engines.EvalEqual(t, tab, 10, paths+`.length`)
			engines.EvalEqual(t, tab, true, fits)
			must(t, tab.Eval(t.Context(), box+`.focus()`, nil))
			must(t, tab.Type(t.Context(), "RESOURCE-"))
			engines.Click(t, tab, head)
			engines.EvalEqual(t, tab, byAI(pages, "resource-", -1), paths)
			engines.EvalEqual(t, tab, []string{"descending"},
				`Array.from(`+list+`.querySelectorAll("[aria-sort]")).map(h => h.getAttribute("aria-sort"))`)
			must(t, tab.Press(t.Context(), "Enter")) // the focus is on the button
			want := byAI(pages, "resource-", 1)
			engines.EvalEqual(t, tab, want, paths)
			engines.EvalEqual(t, tab, fmt.Sprintf("%d pages of these lists. Open the page RESOURCE-", len(want)),
				`document.querySelector(".filter [role=status]").textContent`)
			engines.Legible(t, tab, "filtered-"+name)
			if size.Scheme == "" {
				engines.Axe(t, tab, "filtered")
			}

			engines.Click(t, tab, list+`.querySelector("tbody tr:not([hidden]) a")`)
			engines.EvalBecomes(t, tab, []string{"/page", want[0]},
				`[location.pathname, document.querySelector("h1").textContent]`)
			engines.EvalEqual(t, tab, "docs-main", `new URLSearchParams(location.search).get("project")`)
			engines.Legible(t, tab, "page-"+name)
			if size.Scheme != "" {
				engines.Axe(t, tab, "page")
			}
			engines.EvalEqual(t, tab, true, fits)
			must(t, tab.Eval(t.Context(), `history.back()`, nil))
			engines.EvalBecomes(t, tab, []string{"/status", "RESOURCE-"}, `[location.pathname, `+box+`.value]`)
			engines.EvalEqual(t, tab, want, paths)
			must(t, tab.Eval(t.Context(), `window.old = true; history.go(0)`, nil)) // as without the browser's cache
			engines.EvalBecomes(t, tab, []any{true, "RESOURCE-"}, `[!window.old, `+box+`.value]`)
			engines.EvalEqual(t, tab, want, paths)
		})
	}
}

// TestBrowserOrders: every column orders a list, on the status page too, and says so.
func TestBrowserOrders(t *testing.T) {
	size := engines.View{Width: 1400, Height: 900}
	tab := openSite(t).open(t, "/status", size)
	const heads = `Array.from(` + list + `.querySelectorAll("thead button"))`
	engines.EvalEqual(t, tab, []string{"Human", "AI", "Total", "Change"}, heads+`.map(b => b.textContent)`)
	for i, name := range []string{"Human", "AI", "Total", "Change"} {
		engines.Click(t, tab, fmt.Sprintf(`%s[%d]`, heads, i))
		engines.EvalEqual(t, tab, []any{true, true, name}, fmt.Sprintf(`(numbers => [
			numbers.length == 50 && new Set(numbers).size > 10,
			numbers.every((n, i) => !i || n <= numbers[i - 1]),
			%s.querySelector("[aria-sort=descending]").textContent,
		])(Array.from(%[1]s.querySelectorAll("tbody tr"), r => parseInt(r.cells[%d].textContent.replace(",", "")
			.replace("−", "-").replace("new", r.cells[3].textContent.replace(",", "")))))`, list, i+1))
	}
	// A number with words beside it, and a day.
	archive, err := web.ReadReport(t.Context(), weeksOfAgents(t), web.ReportOptions{Now: monday.Time(), Pages: 9, Missed: true})
	must(t, err)
	missed := openReport(t, engines.RunChromium(t), archive, size)
	must(t, missed.Eval(t.Context(), `Array.from(document.querySelectorAll(".pages tbody tr")).at(-1).cells[2].textContent =
		"2026-10-05"`, nil))
	for _, tc := range []struct {
		tab          *engines.Tab
		column, want string
	}{
		{openStatus(t, engines.RunChromium(t), demoSnapshot(), size), "Requests",
			"3, 8,123 560 as Markdown, 230 MB, 9,871, 1,204,519 1,204,519 as Markdown, 16.3 GB"},
		{missed, "First day", "2026-10-05, 2026-10-19"},
	} {
		head := fmt.Sprintf(`Array.from(document.querySelectorAll(".pages thead th")).findLast(
			h => h.checkVisibility() && h.textContent === %q)`, tc.column)
		for range 2 { // the largest first, then the smallest
			engines.Click(t, tc.tab, head+".firstChild")
		}
		engines.EvalEqual(t, tc.tab, tc.want, `(head => Array.from(head.closest("table").querySelector("tbody").rows,
			r => r.cells[head.cellIndex].textContent).join(", "))(`+head+`)`)
		engines.EvalEqual(t, tc.tab, "uppercase", `getComputedStyle(`+head+`.firstChild, "::first-letter").textTransform`)
	}
}

// TestBrowserLinks: each path leads to its page, on the status page and in the report of a server; a
// file has no server.
func TestBrowserLinks(t *testing.T) {
	here := openSite(t)
	const unlinked = `Array.from(document.querySelectorAll(".pages bdi, .effects th > bdi, .effects a bdi, .effect bdi"))
		.filter(e => new URL(e.closest("a")?.href ?? "file:").searchParams.get("path") !== e.title).map(e => e.title)`
	for path, size := range map[string]engines.View{
		"/status": {Width: 1400, Height: 900}, "/": {Width: 400, Height: 900, Scheme: "dark"},
		"/page": {Width: 1400, Height: 900}, "/jobs": {Width: 400, Height: 900},
	} {
		tab := here.open(t, path, size)
		engines.EvalNone(t, tab, "paths of "+path+" that lead nowhere", unlinked)
		if path == "/status" { // TestBrowserLayout has the others
			engines.Axe(t, tab, path)
		}
	}
	tab := openReport(t, engines.RunChromium(t), demoReport(), engines.View{Width: 1400, Height: 900})
	engines.EvalEqual(t, tab, 0, `document.querySelectorAll("a[href^=page], .refresh").length`)
}

// TestBrowserKeyboard: the keyboard reaches every link, button and box, in the order of the page,
// and shows where it is.
func TestBrowserKeyboard(t *testing.T) {
	here := openSite(t)
	for _, path := range []string{"/", "/page", "/jobs", "/status"} {
		tab := here.open(t, path, engines.View{Width: 1400, Height: 900})
		var want int
		must(t, tab.Eval(t.Context(), `(all => {
			const radios = new Set(all.filter(e => e.type == "radio").map(e => e.name)).size;
			window.places = all.filter(e => e.type != "radio");
			return window.places.length + radios;
		})(Array.from(document.querySelectorAll("a[href], button, input, select, summary, [tabindex='0']"))
			.filter(e => e.checkVisibility({visibilityProperty: true})))`, &want))
		reached, unseen := 0, []string{}
		for range want {
			must(t, tab.Press(t.Context(), "Tab"))
			var at []string
			must(t, tab.Eval(t.Context(), `(e => {
				const seen = e.matches(".heard") ? e.labels[0] : e;
				return [e.outerHTML.slice(0, 80), getComputedStyle(seen).outlineStyle, String(window.places.indexOf(e))];
			})(document.activeElement)`, &at))
			reached++
			if at[1] == "none" {
				unseen = append(unseen, at[0])
			}
		}
		engines.EvalEqual(t, tab, true, `document.activeElement === window.places.at(-1)`)
		if len(unseen) > 0 || reached != want {
			t.Errorf("%s: %d of %d places, without an outline: %q", path, reached, want, unseen)
		}
	}
}

// TestBrowserRefresh: newer numbers replace those that changed; what the reader opened, wrote, chose
// and looked at stays.
func TestBrowserRefresh(t *testing.T) {
	for name, shape := range map[string]engines.View{
		"wide": {Width: 1400, Height: 900}, "phone in the dark": {Width: 400, Height: 900, Scheme: "dark"},
	} {
		t.Run(name, func(t *testing.T) { testRefresh(t, shape) })
	}
}

func testRefresh(t *testing.T, shape engines.View) {
	here := openSite(t)
	tab := here.open(t, "/status", shape)
	const (
		opened = `["#p0g1lm", "#p0g0lm", "#p0d", "#p1d"].map(q => document.querySelector(q).open)`
		grown  = "/docs/reference/resource-40"
		focus  = `document.activeElement.closest("tr")?.querySelector("bdi").title`
		top    = box + `.getBoundingClientRect().top`
	)
	engines.Click(t, tab, `document.querySelector("#p1d summary")`)
	engines.Click(t, tab, `document.querySelector("#p0g1lm summary")`)
	engines.Click(t, tab, head)
	must(t, tab.Eval(t.Context(), box+`.focus()`, nil))
	must(t, tab.Type(t.Context(), "docs"))
	pages := week(here.now.Load())
	before := byAI(pages, "docs", -1)
	must(t, tab.Eval(t.Context(), `window.kept = [`+box+`, document.querySelector("#p0g0")];
		document.head.append(document.createElement("script")); // as extensions of browsers do
		`+list+`.querySelector("a[href*=resource-40]").focus();
		scrollTo(0, 700); window.top0 = `+top, nil))
	engines.EvalEqual(t, tab, []any{grown, 700}, `[`+focus+`, scrollY]`)

	// A page is read far more, one is gone, one is new.
	for i := range pages {
		switch pages[i].Path {
		case grown:
			pages[i].AI, pages[i].Total = 1e6, 1e6
		case before[2]:
			pages[i].Path = "/docs/later"
		}
	}
	here.readAgain(t, pages)
	must(t, tab.Eval(t.Context(), refresh, nil))
	engines.EvalBecomes(t, tab, "11:31", `document.querySelector(".facts time span + span").textContent`)
	after := byAI(pages, "docs", -1)
	engines.EvalEqual(t, tab, after, paths)
	engines.EvalEqual(t, tab, "1,000,000", list+`.querySelector("tbody tr").cells[2].textContent`)
	engines.EvalEqual(t, tab, []bool{true, false, true, true}, opened)
	// What the reader looks at stays where it was, although there can be a line more above it.
	engines.EvalEqual(t, tab, []any{grown, true, "docs", true}, `[`+focus+`, Math.abs(`+top+` - window.top0) < 2,
		`+box+`.value, window.kept.every(e => e.isConnected)]`)
	engines.EvalEqual(t, tab, true, said+`.startsWith("Refreshed at")`)
	if shape.Scheme == "" {
		engines.Axe(t, tab, "refreshed")
	}

	// A paused page asks for nothing; one that goes on asks by itself.
	must(t, tab.Eval(t.Context(), `window.timers = []; window.setTimeout = (...a) => window.timers.push(a)`, nil))
	const pause = `document.querySelector("[data-refresh=pause]")`
	engines.Click(t, tab, pause)
	engines.EvalEqual(t, tab, []any{"true", 0}, `[`+pause+`.getAttribute("aria-pressed"), window.timers.length]`)
	engines.Click(t, tab, pause)
	engines.EvalEqual(t, tab, []any{"false", 1, 60000}, `[`+pause+`.getAttribute("aria-pressed"), window.timers.length,
		window.timers[0][1]]`)
	views := here.views.Load()
	must(t, tab.Eval(t.Context(), `window.timers[0][0]()`, nil))
	engines.EvalBecomes(t, tab, 2, `window.timers.length`)
	if here.views.Load() != views+1 {
		t.Error("the page did not ask")
	}

	// A server that is gone is said, and the numbers stay.
	here.CloseClientConnections()
	here.Close()
	must(t, tab.Eval(t.Context(), refresh, nil))
	engines.EvalBecomes(t, tab, true, said+`.startsWith("No answer at")`)
	engines.EvalEqual(t, tab, after, paths)
}

// TestBrowserStarts: the first page waits for the first numbers, and shows them.
func TestBrowserStarts(t *testing.T) {
	here := openSite(t)
	s := here.now.Swap(nil)
	for _, path := range []string{"/", "/jobs", "/status"} {
		here.now.Store(nil)
		tab, err := engines.RunChromium(t).Open(t.Context(), here.URL+path, engines.View{Width: 800, Height: 600})
		must(t, err)
		engines.EvalEqual(t, tab, []string{"5", "No numbers yet"}, `[document.querySelector(".refresh").dataset.every,
			document.querySelector("h1").textContent.slice(0, 14)]`)
		here.now.Store(s)
		must(t, tab.Eval(t.Context(), refresh, nil))
		engines.EvalBecomes(t, tab, "60", `document.querySelector(".refresh").dataset.every`)
		engines.EvalEqual(t, tab, true, `document.querySelectorAll("section, .chart").length > 0`)
	}
}

// TestBrowserRefreshChart: the chart of the readers keeps what is hidden in it until its numbers change.
func TestBrowserRefreshChart(t *testing.T) {
	here := openSite(t)
	tab := here.open(t, "/?window=month", engines.View{Width: 1400, Height: 900})
	const (
		button = `document.querySelector("button[data-series=human]")`
		hidden = button + `.getAttribute("aria-pressed")`
		made   = `document.querySelector(".made time span + span").textContent`
	)
	engines.Click(t, tab, button)
	engines.EvalEqual(t, tab, "false", hidden)
	here.later(func(*view.Snapshot) {})
	must(t, tab.Eval(t.Context(), refresh, nil))
	engines.EvalBecomes(t, tab, "11:31", made)
	engines.EvalEqual(t, tab, "false", hidden)
	here.later(func(s *view.Snapshot) {
		months := &s.Projects[0].Grids[2]
		months.Cells = months.Cells[1:]
	})
	must(t, tab.Eval(t.Context(), refresh, nil))
	engines.EvalBecomes(t, tab, "12:31", made)
	engines.EvalEqual(t, tab, []any{"true", 1}, `[`+hidden+`, document.querySelectorAll(".tip").length]`)
}

// TestBrowserWithoutScript: everything can be read, lists unfold, and any window can be chosen.
func TestBrowserWithoutScript(t *testing.T) {
	here := openSite(t)
	for _, path := range []string{"/", "/status"} {
		tab := here.open(t, path, engines.View{Width: 1000, Height: 900, NoScript: true})
		const rows = `document.querySelectorAll(".pages tr").values().filter(r => r.checkVisibility()).toArray().length`
		var before, after int
		must(t, tab.Eval(t.Context(), rows, &before))
		engines.Click(t, tab, `Array.from(document.querySelectorAll(".pages summary")).find(e => e.checkVisibility())`)
		must(t, tab.Eval(t.Context(), rows, &after))
		if before == 0 || after < before+20 {
			t.Errorf("%s: %d rows, then %d", path, before, after)
		}
		engines.EvalEqual(t, tab, 0, `Array.from(document.querySelectorAll(".refresh, .filter, thead button"))
			.filter(e => e.checkVisibility()).length`)
	}
	for _, path := range []string{"/", "/page"} {
		tab := here.open(t, path, engines.View{Width: 1000, Height: 900, NoScript: true})
		must(t, tab.Eval(t.Context(), `document.querySelector("#at").selectedIndex = 1`, nil))
		engines.Click(t, tab, `document.querySelector(".steps button")`)
		engines.EvalBecomes(t, tab, []string{path, "2026-09-27"},
			`[location.pathname, new URLSearchParams(location.search).get("at")]`)
		engines.EvalBecomes(t, tab, true, `document.body?.textContent.includes("21–27 Sep 2026")`)
	}
}
