package engines

import (
	"flag"
	"fmt"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	unseen = regexp.MustCompile(`(?s)<head>.*?</head>|<script.*?</script>|<title>.*?</title>`)
	tags   = regexp.MustCompile(`<[^>]*>`)
)

// VisibleText returns the visible text of a page, in document order, with single spaces.
func VisibleText(page string) string {
	page = strings.ReplaceAll(unseen.ReplaceAllString(page, ""), "<wbr>", "")
	page = tags.ReplaceAllString(page, " ")
	return strings.Join(strings.Fields(html.UnescapeString(page)), " ")
}

// Wants checks that got contains each text.
func Wants(t testing.TB, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no %q in\n%s", w, got)
		}
	}
}

// OpenPage opens a page in a browser and closes it with the test. The page must request
// nothing but itself and its icon, and the browser must report nothing.
func OpenPage(t *testing.T, browser *Chromium, url string, size View) *Tab {
	t.Helper()
	tab, err := browser.Open(t.Context(), url, size)
	Must(t, err)
	t.Cleanup(func() {
		for _, line := range tab.Console() {
			if !strings.Contains(line, "503") { // a page of the first seconds
				t.Errorf("console: %s", line)
			}
		}
		for _, request := range tab.Requests() {
			if request != url && !strings.HasPrefix(request, "data:") {
				t.Errorf("the page requests %s", request)
			}
		}
	})
	return tab
}

// Legible checks that nothing is cut off, overlaps or is pale, and keeps a picture
// where -artifacts is set.
func Legible(t *testing.T, tab *Tab, name string) {
	t.Helper()
	EvalNone(t, tab, name+": wider than its place", TooWide(".heard, .symbols, svg, .scroll table, .pages table",
		".card, .panel, .pages, .coverage, .state, body"))
	EvalNone(t, tab, name+": hard to read", HardToRead)
	EvalNone(t, tab, name+": texts below 12 px", fmt.Sprintf("(%s)()", tooSmall))
	EvalNone(t, tab, name+": texts that overlap", OnEachOther(".card, .chart, .cover, .grid, .state, .results, tr"))
	KeepPicture(t, tab, name)
}

// Axe checks a page with axe-core.
func Axe(t *testing.T, tab *Tab, name string) {
	t.Helper()
	found, err := tab.Axe(t.Context())
	Need(t, err)
	if len(found) > 0 {
		t.Errorf("%s: axe-core finds %d violations:\n%s", name, len(found), strings.Join(found[:min(len(found), 5)], "\n"))
	}
}

// KeepPicture stores a picture of the page among the artifacts of the test, if those are kept: it takes
// longer than all checks of [Legible].
func KeepPicture(t *testing.T, tab *Tab, name string) {
	t.Helper()
	if flag.Lookup("test.artifacts").Value.String() == "false" {
		return
	}
	shot, err := tab.Screenshot(t.Context())
	Must(t, err)
	Must(t, os.WriteFile(filepath.Join(t.ArtifactDir(), name+".png"), shot, 0o600))
}

// Accessible checks what a screen reader depends on.
func Accessible(t *testing.T, tab *Tab) {
	t.Helper()
	const functions = `(all => %s)(q => Array.from(document.querySelectorAll(q)))` +
		`.map(e => e.outerHTML.slice(0, 120))`
	for what, expression := range map[string]string{
		"tables without a caption": `all("table").filter(e => !e.caption?.textContent)`,
		"heads without a scope":    `all("th").filter(e => !e.scope)`,
		"rows without a head": `all("tbody tr:not(.message)")
			.filter(e => !e.querySelector("th[scope=row], .empty"))`,
		"drawings without words": `all("svg").filter(e => !e.closest("[aria-hidden=true]") &&
			!(e.getAttribute("role") == "img" && e.getAttribute("aria-label")))`,
		"ids that are not unique": `all("[id]")
			.filter(e => document.querySelectorAll("#" + CSS.escape(e.id)).length > 1)`,
		"anchors without a target": `all("a[href^='#']").filter(e => !document.getElementById(e.hash.slice(1)))`,
		"names without an element": `all("[aria-labelledby]")
			.filter(e => !document.getElementById(e.getAttribute("aria-labelledby")))`,
		"drawings without a symbol": `all("use").filter(e => !document.querySelector(e.getAttribute("href")))`,
		"choices without a label":   `all("input:not([type=hidden]), select").filter(e => !e.labels.length)`,
		"headings that skip a level": `all("h1, h2, h3, h4")
			.filter((e, i, a) => e.tagName[1] - (i ? a[i - 1].tagName[1] : 0) > 1)`,
		"scrolling without a focus": `all(".scroll").filter(e => e.tabIndex != 0 || !e.getAttribute("aria-label"))`,
		"times without a date":      `all("time").filter(e => isNaN(Date.parse(e.dateTime)))`,
	} {
		EvalNone(t, tab, what, fmt.Sprintf(functions, expression))
	}
	EvalEqual(t, tab, []any{"en", 1}, `[document.documentElement.lang, document.querySelectorAll("h1").length]`)
}

// EvalNone checks that a JavaScript expression is an empty list.
func EvalNone(t *testing.T, tab *Tab, what, expression string) {
	t.Helper()
	var got []string
	if err := tab.Eval(t.Context(), expression, &got); err != nil || len(got) > 0 {
		t.Errorf("%s: %v, %d: %q", what, err, len(got), got[:min(len(got), 5)])
	}
}

// EvalEqual checks the value of a JavaScript expression.
func EvalEqual[T any](t *testing.T, tab *Tab, want T, expression string) {
	t.Helper()
	var got T
	Must(t, tab.Eval(t.Context(), expression, &got))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s is\n%v, want\n%v", expression, got, want)
	}
}

// EvalBecomes waits until a JavaScript expression has a value and the page is loaded: what stands first in a page is
// there before the rest. It ignores errors, which a page on its way to the next causes.
func EvalBecomes[T any](t *testing.T, tab *Tab, want T, expression string) {
	t.Helper()
	var got T
	var err error
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = tab.Eval(t.Context(), expression, &got); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			continue
		}
		var isLoaded bool
		if err = tab.Eval(t.Context(), `document.readyState == "complete"`, &isLoaded); isLoaded {
			return
		}
	}
	t.Fatalf("%s is\n%v, %v, want\n%v", expression, got, err, want)
}

// Click presses the pointer's button in the middle of an element, which is scrolled to.
func Click(t *testing.T, tab *Tab, element string) {
	t.Helper()
	var at [2]float64
	Must(t, tab.Eval(t.Context(), `(e => {
		e.scrollIntoView({block: "center"});
		const r = e.getBoundingClientRect();
		return [r.left + r.width / 2, r.top + r.height / 2];
	})(`+element+`)`, &at))
	Must(t, tab.Drag(t.Context(), at, at))
}

// Must ends the test at an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
