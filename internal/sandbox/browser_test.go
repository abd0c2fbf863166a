package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/webtest"
	"github.com/docgauge/docgauge/internal/sandbox/codehost"
)

// TestBrowserDecides presses buttons in a browser, whose policy and headers decide what
// arrives, until the pull request is merged.
func TestBrowserDecides(t *testing.T) {
	browser := engines.RunChromium(t)
	s := newTest(t, Config{Pages: 40})
	link := start(t, s).URL + codehost.Path + "1"
	settled(t, s, createJob(t, s, "Fix the typos.").ID)
	tab, err := browser.Open(t.Context(), link, engines.View{Width: 1400, Height: 900})
	webtest.Must(t, err)
	for _, step := range []struct{ button, want string }{
		{"Convert to draft", "draft"}, {"Ready for review", "open"}, {"Approve", "open, approved"},
		{"Merge", "merged, approved"},
	} {
		var at [2]float64
		webtest.Must(t, tab.Eval(t.Context(), `(() => {
			const buttons = Array.from(document.querySelectorAll("button"))
			const box = buttons.find(b => b.textContent == "`+step.button+`").getBoundingClientRect()
			return [box.x + box.width / 2, box.y + box.height / 2]
		})()`, &at))
		webtest.Must(t, tab.Drag(t.Context(), at, at))
		text, deadline := "", time.Now().Add(time.Minute)
		for ; !strings.HasPrefix(text, step.want+", checks"); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("after %s: %s, want %s", step.button, text, step.want)
			}
			// An error is a page on its way to the next.
			_ = tab.Eval(t.Context(), `document.querySelector(".meta")?.textContent ?? ""`, &text)
		}
	}
	if console := tab.Console(); len(console) > 0 {
		t.Errorf("console: %q", console)
	}
	webtest.Keep(t, tab, "merged")
}
