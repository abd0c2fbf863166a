package page_test

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/page"
	"github.com/docgauge/docgauge/internal/engines"
)

func TestBrowser(t *testing.T) {
	browser := engines.RunChromium(t)
	s := demo()
	server := httptest.NewServer(page.New(func() *exporter.Snapshot { return s }, "v0.4.0"))
	t.Cleanup(server.Close)
	for name, view := range map[string]engines.View{
		"light":      {Width: 1440, Height: 900},
		"dark":       {Width: 1440, Height: 900, Scheme: "dark"},
		"phone":      {Width: 360, Height: 740, Scale: 2},
		"narrow":     {Width: 320, Height: 640},
		"phone-dark": {Width: 390, Height: 844, Scale: 2, Scheme: "dark"},
		"tablet":     {Width: 820, Height: 1100},
		"print":      {Width: 760, Height: 1000, Media: "print"},
	} {
		t.Run(name, func(t *testing.T) {
			tab, err := browser.Open(t.Context(), server.URL+"/", view)
			if err != nil {
				t.Fatal(err)
			}
			if console := tab.Console(); len(console) > 0 {
				t.Errorf("console: %q", console)
			}
			var over []string
			if err := tab.Eval(t.Context(), wide, &over); err != nil || len(over) > 0 {
				t.Errorf("wider than the viewport: %q, %v", over, err)
			}
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

// wide lists what is wider than the viewport and cannot be scrolled into it.
const wide = `Array.from(document.querySelectorAll("body *")).filter(e =>
	!e.closest(".scroll svg, .heard, .symbols") && e.getBoundingClientRect().right > document.documentElement.clientWidth + 0.5
).map(e => e.tagName + "." + e.getAttribute("class") + " " + e.textContent.slice(0, 40))`
