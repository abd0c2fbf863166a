package engines_test

import (
	"bytes"
	"errors"
	"image/png"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const schemePage = `<!doctype html><link rel=icon href="data:,"><title>t</title>
<style>p { color: rgb(1, 2, 3) } @media (prefers-color-scheme: dark) { p { color: rgb(4, 5, 6) } }
@media print { p { color: rgb(7, 8, 9) } }</style><p>text</p><div style="height: 900px"></div>`

func TestChromiumShowsSchemesAndSizes(t *testing.T) {
	browser := engines.RunChromium(t)
	site := serve(t, schemePage, "")
	for _, tc := range []struct {
		view  engines.View
		color string
	}{
		{engines.View{Width: 360, Height: 600}, "rgb(1, 2, 3)"},
		{engines.View{Width: 1280, Height: 600, Scale: 2, Scheme: "dark"}, "rgb(4, 5, 6)"},
		{engines.View{Width: 800, Height: 600, Media: "print"}, "rgb(7, 8, 9)"},
	} {
		tab := open(t, browser, site, tc.view)
		var color string
		if err := tab.Eval(t.Context(), "getComputedStyle(document.querySelector('p')).color",
			&color); err != nil || color != tc.color {
			t.Errorf("%+v: %s, %v; want %s", tc.view, color, err, tc.color)
		}
		shot, err := tab.Screenshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		config, err := png.DecodeConfig(bytes.NewReader(shot))
		if scale := max(1, tc.view.Scale); err != nil || config.Width != tc.view.Width*scale ||
			config.Height < 900*scale {
			t.Errorf("%+v: %d × %d, %v", tc.view, config.Width, config.Height, err)
		}
		if console := tab.Console(); len(console) > 0 {
			t.Errorf("console of a faultless page: %q", console)
		}
	}
}

func TestChromiumTellsWhatPagesDo(t *testing.T) {
	browser := engines.RunChromium(t)
	blocked := open(t, browser, serve(t, schemePage, "default-src 'none'"), engines.View{Width: 400, Height: 400})
	contains(t, blocked.Console(), "Content Security Policy")
	faulty := open(t, browser, serve(t, `<img src="http://other.example/x.png"><script>console.log("said", 1); `+
		`throw new Error("thrown")</script><p>after`, ""),
		engines.View{Width: 400, Height: 400})
	contains(t, faulty.Console(), "console.log: said 1", "thrown", "net::ERR_NAME_NOT_RESOLVED")
	contains(t, faulty.Requests(), "http://other.example/x.png")
	var after string
	if err := faulty.Eval(t.Context(), `document.querySelector("p").textContent`, &after); err != nil ||
		after != "after" {
		t.Errorf("%q, %v", after, err)
	}
	if err := faulty.Eval(t.Context(), "nothing.at.all", nil); err == nil {
		t.Error("an expression that throws: no error")
	}
}

func TestChromiumAxe(t *testing.T) {
	browser := engines.RunChromium(t)
	tab := open(t, browser, serve(t, `<!doctype html><html lang=en><title>t</title><main><h1>t</h1>
		<img src="data:,"></main>`, "default-src 'none'; img-src data:"), engines.View{Width: 400, Height: 400})
	found, err := tab.Axe(t.Context())
	engines.Need(t, err)
	if len(found) != 1 || !strings.Contains(found[0], "image-alt: img") {
		t.Errorf("%q, want the picture without a text", found)
	}
	t.Chdir(t.TempDir())
	_, err = tab.Axe(t.Context())
	if missing, ok := errors.AsType[engines.Missing](err); !ok || missing.Install != "make engines" {
		t.Errorf("%v, want the command that installs axe-core", err)
	}
}

func serve(t *testing.T, html, policy string) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if policy != "" {
			w.Header().Set("Content-Security-Policy", policy)
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(html))
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func open(t *testing.T, browser *engines.Chromium, url string, view engines.View) *engines.Tab {
	t.Helper()
	tab, err := browser.Open(t.Context(), url, view)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func contains(t *testing.T, lines []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(strings.Join(lines, "\n"), w) {
			t.Errorf("%q lacks %q", lines, w)
		}
	}
}

// TestChromiumFindsFaults: each check finds its fault, and no other.
func TestChromiumFindsFaults(t *testing.T) {
	browser := engines.RunChromium(t)
	const page = `<!doctype html><link rel=icon href="data:,"><style>body { margin: 0 } p { position: absolute; ` +
		`margin: 0 }</style>`
	for html, want := range map[string][3]bool{
		`<main><p>fine</p></main>`:                                {false, false, false},
		`<main><p style="width: 500px">wide</p></main>`:           {true, false, false},
		`<main><p style="color: #aaa">pale</p></main>`:            {false, true, false},
		`<main><p>one</p><p style="left: 4px">other</p></main>`:   {false, false, true},
		`<main><p class=exempt style="width: 500px">w</p></main>`: {false, false, false},
	} {
		tab := open(t, browser, serve(t, page+html, ""), engines.View{Width: 400, Height: 400})
		for i, check := range []string{engines.TooWide(".exempt", "main, body"), engines.HardToRead,
			engines.OnEachOther("main")} {
			var got []string
			if err := tab.Eval(t.Context(), check, &got); err != nil || len(got) > 0 != want[i] {
				t.Errorf("%s: check %d finds %q, %v", html, i, got, err)
			}
		}
	}
}
