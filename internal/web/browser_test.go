package web_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
)

func TestMain(m *testing.M) { os.Exit(engines.ShareChromium(m)) }

// TestBrowserLayout looks at the pages in every way they are looked at: at the first start, after
// years, on better and worse days. axe-core, which takes ten times as long as the rest, looks at each
// colour scheme and at each kind of page once. With -artifacts there are pictures.
func TestBrowserLayout(t *testing.T) {
	browser := engines.RunChromium(t)
	axed := []string{
		"status-light", "status-phone-dark", "status-starting-320", "status-empty-320", "status-failed-320",
		"report-light", "report-phone-dark", "report-several-320",
	}
	look := func(name string, open func(*testing.T) *engines.Tab) {
		t.Run(name, func(t *testing.T) { // it closes the tab
			tab := open(t)
			engines.Legible(t, tab, name)
			engines.EvalNone(t, tab, name+": a list wider than its place", `Array.from(document.querySelectorAll(".pages"))
				.filter(e => e.checkVisibility() && e.scrollWidth > e.clientWidth && !e.textContent.includes("1,000,000,000"))
				.map(e => e.textContent)`)
			engines.EvalNone(t, tab, name+": an axis beside its chart", `Array.from(document.querySelectorAll(".plot"))
				.filter(e => e.checkVisibility()).filter(e => {
					const [axis, frame] = [".dates", ".frame"].map(q => e.querySelector(q).getBoundingClientRect());
					return Math.abs(axis.left - frame.left) > 1 || Math.abs(axis.width - frame.width) > 1;
				}).map(e => e.textContent)`)
			if slices.Contains(axed, name) {
				engines.Axe(t, tab, name)
				engines.Accessible(t, tab)
			}
		})
	}
	status := func(s *view.Snapshot, size engines.View) func(*testing.T) *engines.Tab {
		return func(t *testing.T) *engines.Tab { return openStatus(t, browser, s, size) }
	}
	report := func(r web.Report, size engines.View) func(*testing.T) *engines.Tab {
		return func(t *testing.T) *engines.Tab { return openReport(t, browser, r, size) }
	}
	for name, size := range map[string]engines.View{
		"light":      {Width: 1440, Height: 900},
		"dark":       {Width: 1200, Height: 900, Scheme: "dark"},
		"tablet":     {Width: 820, Height: 1100},
		"wide-phone": {Width: 484, Height: 900},
		"phone-dark": {Width: 390, Height: 844, Scale: 2, Scheme: "dark"},
		"phone":      {Width: 360, Height: 740, Scale: 2},
		"narrow":     {Width: 320, Height: 640},
		"print":      {Width: 760, Height: 1000, Media: "print"},
	} {
		look("status-"+name, status(demoSnapshot(), size))
		look("report-"+name, report(demoReport(), size))
	}
	for _, width := range []int{320, 1440} {
		size := engines.View{Width: width, Height: 700}
		for name, s := range map[string]*view.Snapshot{
			"starting": nil, "empty": {At: now}, "long": huge(1, strings.Repeat("/long", 300)),
			"good": good(), "failed": failed(),
		} {
			look(fmt.Sprintf("status-%s-%d", name, width), status(s, size))
		}
		look(fmt.Sprintf("report-several-%d", width), report(several(), size))
	}
	here := openSite(t)
	for name, size := range map[string]engines.View{
		"light": {Width: 1280, Height: 900}, "dark": {Width: 1280, Height: 900, Scheme: "dark"},
		"small": {Width: 400, Height: 860}, "narrow-dark": {Width: 320, Height: 640, Scheme: "dark"},
		"print": {Width: 760, Height: 1000, Media: "print"},
	} {
		withAxe := name == "light" || name == "narrow-dark"
		for page, path := range map[string]string{
			"readers": "/", "older": "/?window=week&at=2026-09-27", "pages": "/page", "jobs": "/jobs",
			"none": "/?at=2001-01-01",
		} {
			sameParts := page == "older" || page == "none" // as readers
			if sameParts && !withAxe {
				continue
			}
			name := page + "-" + name
			t.Run(name, func(t *testing.T) {
				tab := here.open(t, path, size)
				engines.Legible(t, tab, name)
				engines.EvalEqual(t, tab, true, fits)
				if withAxe && !sameParts {
					engines.Axe(t, tab, name)
					engines.Accessible(t, tab)
				}
			})
		}
	}
}

// TestStatusBrowserPicture is what docs/images/status.png shows of the top, with fewer colours:
// go test -artifacts keeps it.
func TestStatusBrowserPicture(t *testing.T) {
	s := demoSnapshot()
	s.Due, s.Asides, s.Finish, s.Keys, s.Sinks, s.Queue.Paused = nil, nil, time.Time{}, s.Keys[1:], s.Sinks[:1], ""
	s.Runs, s.Projects[1].Name = s.Runs[1:3], "Developer hub"
	for i := range s.Projects {
		for _, g := range s.Projects[i].Grids[:2] {
			if newest := g.Newest; newest != nil {
				newest.Verified = true
			}
		}
	}
	for i := range s.Windows {
		s.Windows[i].MovedRows, s.Windows[i].RepeatedRows = 0, 0
		for j := range s.Windows[i].Pages {
			s.Windows[i].Pages[j].Path = plainPath(s.Windows[i].Pages[j].Path)
		}
	}
	engines.KeepPicture(t, openStatus(t, engines.RunChromium(t), s, engines.View{Width: 1280, Height: 900}), "status")
}

// TestStatusBrowserText: a path is text, whatever it says, and the whole of it is
// there for those who ask.
func TestStatusBrowserText(t *testing.T) {
	browser := engines.RunChromium(t)
	s := demoSnapshot()
	tab := openStatus(t, browser, s, engines.View{Width: 360, Height: 740})
	var want []string
	for _, r := range s.Windows[0].Pages {
		want = append(want, r.Path)
	}
	for _, property := range []string{"textContent", "title"} {
		const paths = `Array.from(document.querySelector(".pages").querySelectorAll("bdi"))`
		engines.EvalEqual(t, tab, want, paths+".map(e => e."+property+")")
	}
	engines.EvalEqual(t, tab, []int{1, 0}, `["script", "img, iframe, form, [style]"].map(
		q => document.querySelectorAll(q).length)`)
	engines.EvalEqual(t, tab, []bool{false, true}, `(d => {
		const shut = d.open;
		d.querySelector("summary").click();
		return [shut, d.open];
	})(document.querySelector(".pages details"))`)
	engines.Legible(t, tab, "unfolded")
}

// TestStatusBrowserFolds: the overview leads to a project and unfolds it, without a script, and
// no bracket stands where a date serves.
func TestStatusBrowserFolds(t *testing.T) {
	tab := openStatus(t, engines.RunChromium(t), demoSnapshot(), engines.View{Width: 400, Height: 800})
	const folds = `Array.from(document.querySelectorAll(".project > details")).map(d => d.open)`
	engines.EvalEqual(t, tab, []bool{true, false}, folds)
	must(t, tab.Eval(t.Context(), `document.querySelectorAll(".overview a")[1].click()`, nil))
	engines.EvalEqual(t, tab, []bool{true, true}, folds)
	engines.Legible(t, tab, "unfolded-projects")
	engines.EvalNone(t, tab, "half-open brackets", `Array.from(document.querySelectorAll("[title], title"))
		.map(e => (e.title || e.textContent)).filter(t => /\[\d{4}-/.test(t))`)
}

// TestStatusBrowserScrolls: a calendar that is wider than its place scrolls, and
// begins with the newest windows.
func TestStatusBrowserScrolls(t *testing.T) {
	tab := openStatus(t, engines.RunChromium(t), huge(1, "/"), engines.View{Width: 360, Height: 740})
	engines.EvalEqual(t, tab, []bool{true, true, true, true}, `(e => {
		const newest = () => e.querySelector("use:last-of-type").getBoundingClientRect();
		const place = e.getBoundingClientRect(), style = getComputedStyle(e);
		const seen = newest().left >= place.left && newest().right <= place.right;
		e.scrollBy(-10000, 0);
		return [e.scrollWidth > e.clientWidth, style.overflowX == "auto", seen, newest().left > place.right];
	})(document.querySelector(".scroll"))`)
}

// open shows a snapshot until the test ends.
func openStatus(t *testing.T, browser *engines.Chromium, s *view.Snapshot, size engines.View) *engines.Tab {
	t.Helper()
	server := httptest.NewServer(statusOf(s, "v0.1.0"))
	t.Cleanup(server.Close)
	return engines.OpenPage(t, browser, server.URL+"/status", size)
}
