package count

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
		var people errgroup.Group
		var versions sync.Map // of the first visit, by browser and page
		for browser := range realBrowsers {
			for _, page := range []string{"immutable", "asked"} {
				people.Go(func() error {
					version, err := browse(t, browser, visits, "http://"+w.Addr+"/"+page+".html")
					versions.Store(browser+page, version)
					return err
				})
			}
		}
		engines.Need(t, people.Wait())
		engines.Must(t, w.Stop())
		for _, l := range logs {
			text, err := os.ReadFile(w.Log(l.name))
			engines.Must(t, err)
			for browser, userAgent := range realBrowsers {
				for _, page := range []string{"immutable", "asked"} {
					version, _ := versions.Load(browser + page)
					for visit := range visits {
						lines, visitor := "", fmt.Sprintf(userAgent, version.(int)+visit)
						for line := range strings.Lines(string(text)) {
							if strings.Contains(line, visitor) && strings.Contains(line, "/"+page) {
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

// realBrowsers are those that browse knows, with their user agents, which have a version %d.
var realBrowsers = map[string]string{
	"Chromium": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%d.0.0.0 Safari/537.36",
	"Firefox":  "Mozilla/5.0 (X11; Linux x86_64; rv:%d.0) Gecko/20100101 Firefox/%[1]d.0",
}

// browse has a browser load a page some times, all with one new profile, so that visits share a cache. Each visit has a
// version of its own, by which logs tell it apart; the first visit's is returned. Now and then a browser does not end:
// then all visits are made again, with another profile and other versions.
func browse(t *testing.T, browser string, visits int, url string) (version int, err error) {
	const attempts = 3
	for version = 150; version < 150+attempts*visits; version += visits {
		profile := t.TempDir()
		err = nil
		for n := 0; n < visits && err == nil; n++ {
			err = load(t.Context(), browser, version+n, profile, url)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			return version, err
		}
		t.Log(err)
	}
	return version, err
}

// load has a browser load a page with all that it needs, and end. The profile is a directory. The browser reaches
// 127.0.0.1 only.
func load(ctx context.Context, browser string, version int, profile, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute) // a visit takes seconds
	defer cancel()
	userAgent := fmt.Sprintf(realBrowsers[browser], version)
	name, args := "chromium", []string{
		"--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
		"--disable-background-networking", "--disable-component-update", "--password-store=basic",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--user-data-dir=" + profile,
		"--user-agent=" + userAgent, "--dump-dom", url,
	}
	if os.Getuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...)
	}
	if browser == "Firefox" {
		name, args = "firefox-esr", []string{
			"--headless", "--no-remote", "--profile", profile, "--screenshot", filepath.Join(profile, "page.png"), url,
		}
		// All else that it would reach is behind a proxy that is not there.
		var prefs strings.Builder
		for pref, value := range map[string]any{
			"network.proxy.type": 1, "network.proxy.http": "127.0.0.1", "network.proxy.http_port": 9,
			"network.proxy.ssl": "127.0.0.1", "network.proxy.ssl_port": 9, "network.proxy.no_proxies_on": "127.0.0.1",
			"general.useragent.override": userAgent,
		} {
			fmt.Fprintf(&prefs, "user_pref(%q, %#v);\n", pref, value)
		}
		err = os.WriteFile(filepath.Join(profile, "user.js"), []byte(prefs.String()), 0o600)
	}
	command, missing := engines.Tool(ctx, name, args...)
	if err = cmp.Or(missing, err); err != nil {
		return err
	}
	program, err := engines.StartCommand(profile, name, append([]string{command.Path}, args...), []string{
		"HOME=" + profile, "XDG_CONFIG_HOME=" + profile, "XDG_CACHE_HOME=" + profile, "MOZ_CRASHREPORTER_DISABLE=1"}, nil)
	if err != nil {
		return err
	}
	select {
	case <-program.Ended():
		return nil
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("%s at %s: %w\n%s", userAgent, url, ctx.Err(), program.Tail()), program.Kill())
	}
}
