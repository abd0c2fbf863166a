package web_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/sinks"
)

// TestReportBrowserPhone: on a phone, every job is there with its pull request, without
// scrolling sideways; on paper, every granularity is, and no button.
func TestReportBrowserPhone(t *testing.T) {
	browser := engines.RunChromium(t)
	tab := openReport(t, browser, demoReport(), engines.View{Width: 400, Height: 800})
	const all = `q => Array.from(document.querySelectorAll(q))`
	engines.EvalEqual(t, tab, []int{7, 28, 4}, `(seen => [".jobs tbody th", ".jobs td", ".jobs a"].map(
		`+all+`.filter(seen).length))(e => {
		const r = e.getBoundingClientRect();
		return r.width > 0 && r.left >= 0 && r.right <= document.documentElement.clientWidth;
	})`)
	tab = openReport(t, browser, demoReport(), engines.View{Width: 760, Height: 1000, Media: "print"})
	engines.EvalEqual(t, tab, []int{4, 0}, `[".pane", ".zooms button, .filter, .pages summary"].map(
		`+all+`.filter(e => e.checkVisibility()).length)`)
	engines.EvalNone(t, tab, "headings that can end a sheet", `Array.from(document.querySelectorAll("h2, h3, caption"))
		.filter(e => e.checkVisibility() && getComputedStyle(e).breakAfter !== "avoid").map(e => e.textContent)`)
}

// TestReportBrowserLive: the file that serve makes is the same page without links to the server, and its policy allows
// its script.
func TestReportBrowserLive(t *testing.T) {
	s, memory := liveSnapshot()
	site := &web.Site{Current: func() *view.Snapshot { return s }, Version: "v1"}
	must(t, site.Refresh(t.Context(), s, []sinks.Sink{memory}))
	server := httptest.NewServer(site.Handlers()["/report"])
	t.Cleanup(server.Close)
	for _, width := range []int{400, 1400} {
		tab := engines.OpenPage(t, engines.RunChromium(t), server.URL+"/report", engines.View{Width: width, Height: 900})
		engines.Legible(t, tab, fmt.Sprintf("live-%d", width))
		engines.EvalEqual(t, tab, []any{true, 0}, `[document.documentElement.classList.contains("js"),
			document.querySelectorAll("a[href]:not([href^=http]), form").length]`)
	}
}

// TestReportBrowserPoints: pointing at a window shows its numbers, keys do the same.
func TestReportBrowserPoints(t *testing.T) {
	browser := engines.RunChromium(t)
	r := demoReport()
	tab := openReport(t, browser, r, engines.View{Width: 1280, Height: 900})
	weeks := r.Projects[0].Grids[1].Cells
	place := middle(t, tab, ".pane:nth-of-type(2) .over")
	engines.EvalEqual(t, tab, false, shown)
	must(t, tab.Point(t.Context(), place(len(weeks)-2, len(weeks))))
	engines.EvalEqual(t, tab, true, shown)
	rev := weeks[len(weeks)-2].Revision
	want := []string{"21–27 Sep 2026", "Total", commas(rev.Totals.Total), "Human",
		commas(rev.Totals.Human), "AI", commas(rev.Totals.AI),
		"Person and AI", commas(rev.Totals.Human + rev.Totals.AI - rev.Totals.Total), "AI share",
		fmt.Sprintf("%.1f%%", float64(rev.Totals.AI)/float64(rev.Totals.Total)*100), "settled",
		"failed: Examples for webhooks"}
	engines.EvalEqual(t, tab, want, tip)
	// The line, the dots and the drawing agree on where the window is.
	engines.EvalEqual(t, tab, []bool{true, true}, `(pane => {
		const middle = e => { const r = e.getBoundingClientRect(); return r.left + r.width / 2 };
		const dots = Array.from(pane.querySelectorAll("div.dot:not([hidden])"));
		const svg = pane.querySelector(".readers svg").getBoundingClientRect();
		const place = svg.left + svg.width * `+fmt.Sprintf("%v", (float64(len(weeks)-2)+.5)/float64(len(weeks)))+`;
		return [dots.length == 4, [...dots, pane.querySelector(".line")].every(e => Math.abs(middle(e) - place) < 1)];
	})(document.querySelector(".pane:nth-of-type(2)"))`)
	must(t, tab.Eval(t.Context(), `document.querySelector(".pane:nth-of-type(2) .over").focus()`, nil))
	must(t, tab.Press(t.Context(), "ArrowRight"))
	engines.EvalEqual(t, tab, "28 Sep – 4 Oct 2026", tip+`[0]`)
	for range 3 {
		must(t, tab.Press(t.Context(), "ArrowLeft"))
	}
	engines.EvalEqual(t, tab, "7–13 Sep 2026", tip+`[0]`)
	engines.KeepPicture(t, tab, "pointed")
}

// TestReportBrowserPicture is what docs/images/report.png shows, without its foot and with
// fewer colours: go test -artifacts keeps it.
func TestReportBrowserPicture(t *testing.T) {
	browser := engines.RunChromium(t)
	r := demoReport()
	m := &r.Pages[r.Projects[0].Grids[1].Newest.Key].Movers
	m.Top, m.Rising.First, m.Falling.First = m.Top[:9], m.Rising.First[:3], m.Falling.First[:3]
	for _, list := range [][]analytics.Change{m.Top, m.Rising.First, m.Falling.First} {
		for i := range list {
			list[i].Path = plainPath(list[i].Path)
		}
	}
	tab := openReport(t, browser, r, engines.View{Width: 1180, Height: 900})
	// A pointer of the browser's own would leave when the picture is taken.
	at := middle(t, tab, ".pane:nth-of-type(2) .over")(19, len(r.Projects[0].Grids[1].Cells))
	must(t, tab.Eval(t.Context(), fmt.Sprintf(`
		document.querySelector(".pane:nth-of-type(2) .over").dispatchEvent(
			new PointerEvent("pointermove", {clientX: %v, clientY: %v}))`, at[0], at[1]), nil))
	engines.EvalEqual(t, tab, true, shown)
	engines.KeepPicture(t, tab, "report")
}

// TestReportBrowserZooms: dragging, the buttons and the keys choose windows, and the axis
// follows the visible ones.
func TestReportBrowserZooms(t *testing.T) {
	browser := engines.RunChromium(t)
	r := demoReport()
	tab := openReport(t, browser, r, engines.View{Width: 1280, Height: 900})
	must(t, tab.Eval(t.Context(), `document.querySelector("#p0g0").click()`, nil)) // days
	days := len(r.Projects[0].Grids[0].Cells)
	const first = `document.querySelector(".pane")`
	const box = first + `.querySelector(".readers svg").getAttribute("viewBox").split(" ").map(Number)`
	engines.EvalEqual(t, tab, []float64{0, 0, float64(10 * days), 1000}, box)
	must(t, tab.Eval(t.Context(), first+`.querySelector("[data-zoom='30']").click()`, nil))
	engines.EvalEqual(t, tab, []float64{float64(10 * (days - 30)), 300}, box+`.filter((_, i) => i % 2 == 0)`)
	engines.EvalEqual(t, tab, []int{6, 4}, `[".dates text", "[aria-pressed=true]"].map(
		q => `+first+`.querySelectorAll(q).length)`)
	place := middle(t, tab, ".pane .over")
	must(t, tab.Drag(t.Context(), place(3, 30), place(9, 30)))
	engines.EvalEqual(t, tab, []float64{float64(10 * (days - 27)), 70}, box+`.filter((_, i) => i % 2 == 0)`)
	engines.KeepPicture(t, tab, "zoomed")
	// The axis ends above the largest of these seven days, not of all.
	var top int64
	for _, c := range r.Projects[0].Grids[0].Cells[days-27 : days-20] {
		top = max(top, c.Revision.Totals.Total)
	}
	engines.EvalEqual(t, tab, true, fmt.Sprintf(`(t => t >= %d && t <= %d)(
		parseFloat(%s.querySelector(".scale span").textContent) * 1000)`, top, top*5/3, first))
	must(t, tab.Press(t.Context(), "Escape"))
	must(t, tab.Eval(t.Context(), first+`.querySelector(".over").focus()`, nil))
	must(t, tab.Press(t.Context(), "Escape"))
	engines.EvalEqual(t, tab, []float64{0, 0, float64(10 * days), 1000}, box)
}

// TestBrowserAxis: each label below a chart stands at its window, at equal distances, and on no other label, whether
// the script has drawn it or not.
func TestBrowserAxis(t *testing.T) {
	browser := engines.RunChromium(t)
	for _, n := range []int{2, 3, 6, 7, 8, 12, 13, 26, 37, 61, 120, 200} {
		r := web.Report{Made: now, Projects: []view.Project{madeUpProject("docs-main", testbed.Today-400, 1800)}}
		days := &r.Projects[0].Grids[0]
		days.Cells = days.Cells[len(days.Cells)-n:]
		r.Projects[0].Grids = r.Projects[0].Grids[:1]
		for _, size := range []engines.View{
			{Width: 1280, Height: 900}, {Width: 1280, Height: 900, NoScript: true},
			{Width: 400, Height: 900}, {Width: 400, Height: 900, NoScript: true},
		} {
			tab := openReport(t, browser, r, size)
			engines.EvalEqual(t, tab, []string{}, `(figure => {
				const data = JSON.parse(figure.querySelector("script").textContent), box = e => e.getBoundingClientRect();
				const frame = box(figure.querySelector(".readers svg")), faults = [];
				const labels = Array.from(figure.querySelectorAll(".dates text")).filter(e => e.checkVisibility());
				const at = labels.map(e => data.ticks.indexOf(e.textContent));
				if (labels.length < Math.min(data.days.length, 3)) faults.push(labels.length + " labels");
				labels.forEach((e, k) => {
					const far = box(e).left + box(e).width / 2 - frame.left - frame.width * (at[k] + .5) / data.days.length;
					if (!(Math.abs(far) <= 2)) faults.push(e.textContent + " is " + far + " px off");
					if (k && box(e).left < box(labels[k - 1]).right + 2) faults.push(e.textContent + " is on another");
					if (k > 1 && at[k] - at[k - 1] != at[1] - at[0]) faults.push(e.textContent + " is at another distance");
				});
				return faults;
			})(document.querySelector(".chart"))`)
		}
	}
}

// TestReportBrowserToggles: a button hides its series, and the axis fits the others.
func TestReportBrowserToggles(t *testing.T) {
	browser := engines.RunChromium(t)
	tab := openReport(t, browser, demoReport(), engines.View{Width: 1280, Height: 900})
	const pane = `document.querySelector(".pane:nth-of-type(2)")`
	const lines = `Array.from(` + pane + `.querySelectorAll(".readers path[data-series]"))
		.filter(p => getComputedStyle(p).display != "none").map(p => p.dataset.series)`
	engines.EvalEqual(t, tab, []string{"total", "human", "ai", "total"}, lines)
	engines.EvalEqual(t, tab, []string{"10k", "5k", "0"},
		`Array.from(`+pane+`.querySelectorAll(".scale span")).slice(0, 3).map(e => e.textContent)`)
	for _, series := range []string{"total", "human", "both"} {
		must(t, tab.Eval(t.Context(), pane+`.querySelector("button[data-series=`+series+`]").click()`, nil))
	}
	engines.EvalEqual(t, tab, []string{"both", "ai"}, lines)
	engines.EvalEqual(t, tab, []string{"4k", "2k", "0"},
		`Array.from(`+pane+`.querySelectorAll(".scale span")).slice(0, 3).map(e => e.textContent)`)
	engines.KeepPicture(t, tab, "toggled")
}

const (
	shown = `getComputedStyle(document.querySelector(".pane:nth-of-type(2) .tip")).display != "none"`
	tip   = `Array.from(document.querySelector(".pane:nth-of-type(2) .tip").children).map(e => e.textContent)`
)

// open writes the file and opens it from the disk.
func openReport(t *testing.T, browser *engines.Chromium, r web.Report, view engines.View) *engines.Tab {
	t.Helper()
	file := filepath.Join(t.TempDir(), "web.html")
	must(t, os.WriteFile(file, []byte(write(t, r)), 0o600))
	return engines.OpenPage(t, browser, "file://"+file, view)
}

// middle returns where column i of n of an element is; the element is scrolled to.
func middle(t *testing.T, tab *engines.Tab, selector string) func(i, n int) [2]float64 {
	t.Helper()
	var r struct{ Left, Top, Width, Height float64 }
	must(t, tab.Eval(t.Context(), `(e => {
		e.scrollIntoView({block: "center"});
		const {left, top, width, height} = e.getBoundingClientRect();
		return {left, top, width, height};
	})(document.querySelector(`+fmt.Sprintf("%q", selector)+`))`, &r))
	return func(i, n int) [2]float64 {
		return [2]float64{r.Left + r.Width*(float64(i)+.5)/float64(n), r.Top + r.Height/3}
	}
}
