package count

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestRealBrowsers: people with Chromium and Firefox, with a cold and with a warm cache, are confirmed by what nginx and
// Caddy log of them: on each visit if the log has Sec-Fetch-Mode; else on the first, and on the next ones if the browser
// asks for something again. TestReturning shows what that means for a site.
func TestRealBrowsers(t *testing.T) {
	const withHeader = `$remote_addr [$time_iso8601] "$request" $status "$http_user_agent" "$http_sec_fetch_mode"`
	root := t.TempDir()
	for _, dir := range []string{"immutable", "asked"} {
		page := "<!doctype html><title>Page</title><link rel=icon href=data:,>" +
			"<link rel=stylesheet href=/" + dir + "/a.css><script src=/" + dir + "/a.js></script>"
		engines.Must(t, os.MkdirAll(filepath.Join(root, dir), 0o700))
		for name, text := range map[string]string{dir + ".html": page, dir + "/a.css": "p {}", dir + "/a.js": "0;"} {
			path := filepath.Join(root, name)
			engines.Must(t, os.WriteFile(path, []byte(text), 0o600))
			// Browsers take an old file for one that does not change, and do not ask again for a while.
			engines.Must(t, os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour)))
		}
	}
	type logged struct {
		name, format string
		header       bool
	}
	check := func(t *testing.T, w *engines.WebServer, logs ...logged) {
		const visits = 2
		people, ctx := errgroup.WithContext(t.Context())
		for browser := range engines.Browsers {
			for _, page := range []string{"immutable", "asked"} {
				profile := t.TempDir()
				people.Go(func() (err error) {
					for visit := 0; visit < visits && err == nil; visit++ { // a version each: the log tells them apart
						err = engines.Visit(ctx, browser, 150+visit, profile, "http://"+w.Addr+"/"+page+".html")
					}
					return err
				})
			}
		}
		engines.Need(t, people.Wait())
		engines.Must(t, w.Stop())
		for _, l := range logs {
			text, err := os.ReadFile(w.Log(l.name))
			engines.Must(t, err)
			for browser, userAgent := range engines.Browsers {
				for _, page := range []string{"immutable", "asked"} {
					for visit := range visits {
						lines := ""
						for line := range strings.Lines(string(text)) {
							if strings.Contains(line, fmt.Sprintf(userAgent, 150+visit)) && strings.Contains(line, "/"+page) {
								lines += line
							}
						}
						r, err := rulesOf(t, Settings{LogFormat: l.format}).Count(t.Context(), []string{"-"},
							Options{Now: analytics.DateOf(time.Now()), Stdin: strings.NewReader(lines)})
						engines.Must(t, err)
						want, got := 0, r.People.Confirmed
						if l.header || visit == 0 || asksAgain.MatchString(lines) {
							want = 1
						}
						if got != want || r.People.Claimed != 1 {
							t.Errorf("%s, %s, visit %d, %s: %d confirmed, want %d:\n%s", browser, page, visit, l.name, got, want,
								lines)
						}
						t.Logf("%s, assets %s, visit %d, log %s: %d of 1 confirmed by %d requests", browser, page, visit, l.name,
							got, strings.Count(lines, "\n"))
					}
				}
			}
		}
	}
	t.Run("nginx", func(t *testing.T) {
		check(t, engines.RunNginx(t, root, map[string]string{"combined": "", "header": withHeader}),
			logged{"combined", "auto", false}, logged{"header", "nginx:" + withHeader, true})
	})
	t.Run("Caddy", func(t *testing.T) {
		check(t, engines.RunCaddy(t, root, false), logged{"access", "auto", true})
	})
}

// asksAgain matches a line of combined about what the browser asks for though it has it.
var asksAgain = regexp.MustCompile(` 304 |\.(css|js) `)
