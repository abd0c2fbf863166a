package page_test

import (
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/page"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

func TestMain(m *testing.M) { os.Exit(engines.ShareChromium(m)) }

// TestBrowser looks at the page in every way it is looked at. With
// -artifacts the screenshots stay.
func TestBrowser(t *testing.T) {
	browser := engines.RunChromium(t)
	url := serve(t, demo())
	for name, view := range map[string]engines.View{
		"light":      {Width: 1440, Height: 900},
		"dark":       {Width: 1440, Height: 900, Scheme: "dark"},
		"tablet":     {Width: 820, Height: 1100},
		"desktop":    {Width: 1200, Height: 900},
		"phone":      {Width: 360, Height: 740, Scale: 2},
		"phone-dark": {Width: 390, Height: 844, Scale: 2, Scheme: "dark"},
		"small-dark": {Width: 400, Height: 860, Scheme: "dark"},
		"narrow":     {Width: 320, Height: 640},
		"print":      {Width: 760, Height: 1000, Media: "print"},
	} {
		t.Run(name, func(t *testing.T) {
			tab := open(t, browser, url, view)
			nothing(t, tab, "wider than the viewport", wide)
			nothing(t, tab, "hard to read", pale)
			nothing(t, tab, "texts that overlap", overlaps)
			shot, err := tab.Screenshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), shot, 0o600); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestBrowserNumbers compares what the browser shows with the snapshot.
func TestBrowserNumbers(t *testing.T) {
	browser := engines.RunChromium(t)
	s := demo()
	tab := open(t, browser, serve(t, s), engines.View{Width: 1440, Height: 900})
	want := [][]string{}
	for _, w := range s.Windows {
		want = append(want, []string{w.Project, w.Window.String(), commas(w.Totals.Total), commas(w.Totals.Human), commas(w.Totals.AI)})
	}
	equal(t, tab, want, `Array.from(document.querySelectorAll(".card:has(.total)")).map(c => [
		c.closest(".project").querySelector("h2").lastChild.textContent.trim(),
		...[".exact", ".total strong", ".split > :nth-child(1) dd", ".split > :nth-child(2) dd"].map(q => c.querySelector(q).textContent)])`)
	equal(t, tab, []string{"metrics", "healthz", "readyz"}, `Array.from(document.querySelectorAll(".masthead a")).map(a => new URL(a.href).pathname.slice(1))`)
	missing := 0
	for _, p := range s.Projects {
		for _, g := range p.Grids {
			missing += g.Missing
		}
	}
	equal(t, tab, missing, `document.querySelectorAll(".scroll use[href='#missing']").length`)
	equal(t, tab, []string{}, `Array.from(document.querySelectorAll("a[href^='#']")).map(a => a.hash.slice(1)).filter(id => !document.getElementById(id))`)
}

// TestBrowserText: a path is text, whatever it says, and the whole of it is
// there for those who ask.
func TestBrowserText(t *testing.T) {
	browser := engines.RunChromium(t)
	s := demo()
	rows := s.Windows[0].Pages
	tab := open(t, browser, serve(t, s), engines.View{Width: 360, Height: 740})
	var want []string
	for _, r := range rows {
		want = append(want, r.Path)
	}
	for _, property := range []string{"textContent", "title"} {
		equal(t, tab, want, fmt.Sprintf(`Array.from(document.querySelector(".pages").querySelectorAll("bdi")).map(e => e.%s)`, property))
	}
	equal(t, tab, 0, `document.querySelectorAll("script, img, iframe, form, [style]").length`)
	equal(t, tab, []bool{false, true}, `(d => { const shut = d.open; d.querySelector("summary").click(); return [shut, d.open] })(document.querySelector("details"))`)
	nothing(t, tab, "wider than the viewport once all pages are shown", wide)
}

// TestBrowserScrolls: a calendar that is wider than its place scrolls, and
// begins with the newest windows.
func TestBrowserScrolls(t *testing.T) {
	browser := engines.RunChromium(t)
	tab := open(t, browser, serve(t, huge(1, "/")), engines.View{Width: 360, Height: 740})
	equal(t, tab, []bool{true, true, true, true}, `(e => {
		const newest = () => e.querySelector("use:last-of-type").getBoundingClientRect(), place = e.getBoundingClientRect(), style = getComputedStyle(e);
		const seen = newest().left >= place.left && newest().right <= place.right;
		e.scrollBy(-10000, 0);
		return [e.scrollWidth > e.clientWidth, style.overflowX == "auto", seen, newest().left > place.right];
	})(document.querySelector(".scroll"))`)
	nothing(t, tab, "wider than the viewport", wide)
}

// TestBrowserReadsOut checks what a screen reader depends on.
func TestBrowserReadsOut(t *testing.T) {
	browser := engines.RunChromium(t)
	tab := open(t, browser, serve(t, demo()), engines.View{Width: 1440, Height: 900})
	for what, expression := range map[string]string{
		"tables without a caption":     `tables.filter(e => !e.caption?.textContent)`,
		"heads without a scope":        `all("th").filter(e => !e.scope)`,
		"rows without a head":          `all("tbody tr:not(.message)").filter(e => !e.querySelector("th[scope=row]"))`,
		"drawings without words":       `all("svg").filter(e => !e.closest("[aria-hidden=true]") && !(e.getAttribute("role") == "img" && e.getAttribute("aria-label")))`,
		"ids that are not unique":      `all("[id]").filter(e => document.querySelectorAll("#" + CSS.escape(e.id)).length > 1)`,
		"names that are nowhere":       `all("[aria-labelledby]").filter(e => !document.getElementById(e.getAttribute("aria-labelledby")))`,
		"drawings that are nowhere":    `all("use").filter(e => !document.querySelector(e.getAttribute("href")))`,
		"headings that skip a level":   `all("h1, h2, h3, h4").filter((e, i, a) => e.tagName[1] - (i ? a[i - 1].tagName[1] : 0) > 1)`,
		"what scrolls without a focus": `all(".scroll").filter(e => e.tabIndex != 0 || !e.getAttribute("aria-label"))`,
		"times that no machine reads":  `all("time").filter(e => isNaN(Date.parse(e.dateTime)))`,
	} {
		nothing(t, tab, what, `(all => (tables => `+expression+`)(all("table")))(q => Array.from(document.querySelectorAll(q))).map(e => e.outerHTML.slice(0, 120))`)
	}
	equal(t, tab, []any{"en", 1}, `[document.documentElement.lang, document.querySelectorAll("h1").length]`)
}

// TestBrowserEdges looks at what there is at the first start, after years, and
// on better and worse days.
func TestBrowserEdges(t *testing.T) {
	browser := engines.RunChromium(t)
	for name, s := range map[string]*exporter.Snapshot{
		"starting": nil, "empty": {At: now}, "long": huge(1, strings.Repeat("/long", 300)), "good": good(), "failed": failed(),
	} {
		for _, width := range []int{320, 1440} {
			tab := open(t, browser, serve(t, s), engines.View{Width: width, Height: 700})
			nothing(t, tab, name+": wider than the viewport", wide)
			nothing(t, tab, name+": texts that overlap", overlaps)
			shot, err := tab.Screenshot(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(t.ArtifactDir(), fmt.Sprintf("%s-%d.png", name, width)), shot, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// What is looked for: see package engines.
var (
	wide     = engines.TooWide(".scroll svg, .pages table, .heard, .symbols", ".card, .panel, .coverage, .state, body")
	pale     = engines.HardToRead
	overlaps = engines.OnEachOther(".card, .grid, .state, tr")
)

// serve shows a snapshot until the test ends.
func serve(t *testing.T, s *exporter.Snapshot) (url string) {
	t.Helper()
	server := httptest.NewServer(page.New(func() *exporter.Snapshot { return s }, "v0.4.0"))
	t.Cleanup(server.Close)
	return server.URL + "/"
}

// open sees that the page asks for nothing but itself and its icon, and that
// the browser has nothing to complain of.
func open(t *testing.T, browser *engines.Chromium, url string, view engines.View) *engines.Tab {
	t.Helper()
	tab, err := browser.Open(t.Context(), url, view)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range tab.Console() {
		if !strings.Contains(line, "503") { // the page of the first seconds
			t.Errorf("console: %s", line)
		}
	}
	for _, request := range tab.Requests() {
		if request != url && !strings.HasPrefix(request, "data:") {
			t.Errorf("the page asks for %s", request)
		}
	}
	return tab
}

func nothing(t *testing.T, tab *engines.Tab, what, expression string) {
	t.Helper()
	var got []string
	if err := tab.Eval(t.Context(), expression, &got); err != nil || len(got) > 0 {
		t.Errorf("%s: %v, %d: %q", what, err, len(got), got[:min(len(got), 5)])
	}
}

func equal[T any](t *testing.T, tab *engines.Tab, want T, expression string) {
	t.Helper()
	var got T
	if err := tab.Eval(t.Context(), expression, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fmt.Sprint(want), fmt.Sprint(got)); diff != "" {
		t.Errorf("%s (-want +got)\n%s", expression, diff)
	}
}
