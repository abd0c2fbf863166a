package sandbox

import (
	"fmt"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestBrowserDecides presses buttons in a browser, whose policy and headers decide what
// arrives, until the pull request is merged.
func TestBrowserDecides(t *testing.T) {
	browser := engines.RunChromium(t)
	s := newTest(t, Config{Pages: 40})
	link := start(t, s).URL + pullPath + "1"
	settled(t, s, createJob(t, s, "Fix the typos.").ID)
	tab, err := browser.Open(t.Context(), link, engines.View{Width: 1400, Height: 900})
	engines.Must(t, err)
	for _, step := range []struct{ button, want string }{
		{"Convert to draft", "draft"}, {"Ready for review", "open"}, {"Approve", "open, approved"},
		{"Merge", "merged, approved"},
	} {
		engines.Click(t, tab, `Array.from(document.querySelectorAll("button")).find(b => b.textContent == "`+
			step.button+`")`)
		engines.EvalBecomes(t, tab, true, `document.querySelector(".meta").textContent.startsWith("`+step.want+`, checks")`)
	}
	if console := tab.Console(); len(console) > 0 {
		t.Errorf("console: %q", console)
	}
	engines.KeepPicture(t, tab, "merged")
	for _, page := range []string{"/", pullPath, pullPath + "1"} {
		for _, size := range []engines.View{{Width: 1400, Height: 900}, {Width: 400, Height: 800, Scheme: "dark"}} {
			url := strings.TrimSuffix(link, pullPath+"1") + page
			tab := engines.OpenPage(t, browser, url, size)
			engines.Legible(t, tab, fmt.Sprint(len(page), size.Scheme))
			engines.Axe(t, tab, page)
			engines.EvalEqual(t, tab, true, `document.documentElement.scrollWidth <= innerWidth`)
		}
	}
}
