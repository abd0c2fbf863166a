package site

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/site/count"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// pagePrefix begins the paths of pages.
const pagePrefix = "/guides/of-a-product/with-a-long-name/in-several-folders/page-"

// reportNow is when the logs of the tests are read.
var reportNow = time.Date(2026, 1, 20, 9, 17, 0, 0, time.UTC)

// run runs a command of docgauge site, and returns what it printed.
func run(t *testing.T, args ...string) (out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	c := console.New(config.Build{Version: "v1"}, &stdout, &stderr, func() time.Time { return reportNow })
	cmd := Command(&c)
	cmd.SetArgs(args)
	cmd.SilenceUsage = true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return stdout.String(), stderr.String()
}

// siteLog writes a log from a day on: lines of people, with assets, and of agents, in the order of time.
func siteLog(t *testing.T, first time.Time, days, pages, perDay int) string {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	agents := []string{"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "curl/8.0",
		"Mozilla/5.0 (compatible; ChatGPT-User/1.0; +https://openai.com/bot)", "claude-code/2.1.86 (external, cli)",
		"Mozilla/5.0 (compatible; GPTBot/1.2; +https://openai.com/gptbot)"}
	referrers := []string{"-", "https://chatgpt.com/", "https://www.google.com/", "https://other.example/"}
	var text strings.Builder
	for day := range days {
		for i := range perDay {
			at := first.AddDate(0, 0, day).Add(time.Duration(i) * 24 * time.Hour / time.Duration(perDay))
			target, status := fmt.Sprint(pagePrefix, rng.IntN(pages)), 200
			agent := agents[max(0, rng.IntN(9)-4)]
			switch rng.IntN(8) {
			case 0:
				target = "/style.css"
			case 1:
				target, status = fmt.Sprintf("/missing-%d", rng.IntN(3)), 404
			case 2:
				target += ".md"
			case 3:
				status = 304
			}
			fmt.Fprintf(&text, "192.0.%d.%d - - [%s] \"GET %s HTTP/1.1\" %d %d %q %q\n", rng.IntN(3), rng.IntN(60),
				at.Format("02/Jan/2006:15:04:05 -0700"), target, status, rng.IntN(5000), referrers[rng.IntN(4)], agent)
		}
	}
	path := filepath.Join(t.TempDir(), "access.log")
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// windowsOf counts the windows of a log.
func windowsOf(t *testing.T, path string, mode analytics.Humans) (*count.Rules, *windows) {
	t.Helper()
	ok := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	rules, err := count.ParseRules(count.Settings{LogFormat: "auto", Humans: mode}, func() time.Time { return reportNow })
	ok(err)
	store, err := facts.OpenTemporary(t.TempDir())
	ok(err)
	t.Cleanup(func() { ok(store.Close()) })
	kept, err := rules.Keep(t.Context(), []string{path}, count.Options{Now: analytics.DateOf(reportNow)}, store)
	ok(err)
	w, err := countWindows(t.Context(), kept, store, mode, reportNow)
	ok(err)
	return rules, w
}

// TestReportCounts holds that each window of a report, and each list of it, has what site count counts in its days.
func TestReportCounts(t *testing.T) {
	path := siteLog(t, time.Date(2025, 10, 30, 0, 0, 0, 0, time.UTC), 70, 9, 40)
	for _, mode := range []analytics.Humans{analytics.Claimed, analytics.Confirmed} {
		rules, w := windowsOf(t, path, mode)
		now := analytics.DateOf(reportNow)
		seen := map[analytics.Granularity]int{}
		for _, rev := range w.all {
			want, err := rules.Count(t.Context(), []string{path}, count.Options{Now: now, From: &rev.From, To: &rev.To,
				ByAgent: true, BySource: true})
			if err != nil {
				t.Fatal(err)
			}
			sealed, _, err := w.Window(t.Context(), rev, "")
			if err != nil {
				t.Fatal(err)
			}
			got, site := map[string]string{}, map[string]string{}
			for row := range sealed.Rows() {
				switch rev.Report {
				case analytics.VisitorsReport:
					p := analytics.RowsOf[analytics.Row]([]analytics.Record{row})[0]
					got[p.Path] = fmt.Sprint(p.Totals)
				case analytics.AgentsReport:
					if a := analytics.RowsOf[analytics.AgentRow]([]analytics.Record{row})[0]; a.Path == "" {
						got[a.Agent+" "+string(a.Audience)] = fmt.Sprint(a.Class, a.Visitors, a.Requests, a.Markdown, a.Bytes)
					}
				default:
					if s := analytics.RowsOf[analytics.SourceRow]([]analytics.Record{row})[0]; s.Path == "" {
						got[s.Source+" "+s.Agent] = fmt.Sprint(s.Class, s.Visitors, s.Requests)
					}
				}
			}
			switch rev.Report {
			case analytics.VisitorsReport:
				seen[rev.Granularity]++
				if rev.Totals != want.Totals {
					t.Errorf("%s, %s: %v, want %v", mode, rev.Key, rev.Totals, want.Totals)
				}
				for _, p := range want.Pages {
					site[p.Path] = fmt.Sprint(p.Totals)
				}
			case analytics.AgentsReport:
				for _, a := range want.Agents {
					// In facts an agent has a row for each audience of its views.
					if a.Class != "tool" {
						site[a.Agent+" "+string(a.Audience)] = fmt.Sprint(a.Class, a.Visitors, a.Requests, a.Markdown, a.Bytes)
					}
				}
				for name := range got {
					if strings.HasPrefix(name, "curl ") {
						delete(got, name)
					}
				}
			default:
				for _, s := range want.Sources {
					site[s.Source+" "+s.Agent] = fmt.Sprint(s.Class, s.Visitors, s.Requests)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(site) {
				t.Errorf("%s, %s, %s:\n%v, want\n%v", mode, rev.Report, rev.Key, got, site)
			}
		}
		if want := (map[analytics.Granularity]int{"day": 70, "week": 9, "month": 2}); fmt.Sprint(seen) != fmt.Sprint(want) {
			t.Errorf("%v windows, want %v", seen, want)
		}
	}
}

// series are the numbers of the charts of a page: by chart and window.
func series(t *testing.T, page string) (all [][]int64) {
	t.Helper()
	for _, found := range regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`).
		FindAllStringSubmatch(page, -1) {
		var chart struct{ Total []int64 }
		if err := json.Unmarshal([]byte(found[1]), &chart); err != nil {
			t.Fatal(err)
		}
		all = append(all, chart.Total)
	}
	return all
}

// TestReportPage: the charts have the numbers of each window, and the page is of bounded size and has no link out.
func TestReportPage(t *testing.T) {
	const days = 25 * 31
	path := siteLog(t, reportNow.AddDate(0, 0, -days).Truncate(24*time.Hour), days, 5000, 40)
	t.Setenv("TMPDIR", t.TempDir())
	page, said := run(t, "report", "-o", "-", path)
	if most := 400_000; len(page) > most {
		t.Errorf("%d bytes, want at most %d", len(page), most)
	}
	if outside := regexp.MustCompile(`(?i)(src|href)="(https?:)?//`).FindString(page); outside != "" {
		t.Errorf("the page has %s", outside)
	}
	var byDay struct{ Days []analytics.Totals }
	counted, _ := run(t, "count", "--json", "--by", "day", path)
	if err := json.Unmarshal([]byte(counted), &byDay); err != nil {
		t.Fatal(err)
	}
	var want []int64
	for _, day := range byDay.Days {
		want = append(want, day.Total)
	}
	charts := series(t, page)
	if len(charts) != 3 || !slices.Equal(charts[0], want) {
		t.Errorf("%d charts, want 3; the first does not have the days:\n%v, want\n%v", len(charts), charts, want)
	}
	if entries, err := filepath.Glob(filepath.Join(os.TempDir(), "docgauge-report-*")); err != nil || len(entries) > 0 {
		t.Errorf("%v are left, %v", entries, err)
	}
	if said != "" {
		t.Errorf("said %q", said)
	}
}

// TestReportWindows: which windows the page has of logs of some days.
func TestReportWindows(t *testing.T) {
	for _, c := range []struct {
		name  string
		first time.Time
		days  int
		want  string
	}{
		{"today alone", time.Date(2026, 1, 20, 0, 0, 0, 0, time.UTC), 1, "map[day:1]"},
		{"yesterday and today", time.Date(2026, 1, 19, 0, 0, 0, 0, time.UTC), 2, "map[day:1]"},
		{"ten days without a whole week", time.Date(2025, 12, 2, 0, 0, 0, 0, time.UTC), 10, "map[10d:1 day:10]"},
		{"a week", time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), 7, "map[day:7 week:1]"},
		{"cut in its last night", time.Date(2025, 12, 1, 4, 0, 0, 0, time.UTC), 8, "map[8d:1 day:8 week:1]"},
		{"a month", time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), 31, "map[day:31 month:1 week:4]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := map[analytics.Granularity]int{}
			_, w := windowsOf(t, siteLog(t, c.first, c.days, 9, 24), analytics.Claimed)
			for _, rev := range w.all {
				if rev.Report == analytics.VisitorsReport {
					got[rev.Granularity]++
				}
			}
			if fmt.Sprint(got) != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}

// TestReportServe: the pages of a server have the numbers of the logs, of each page and agent too.
func TestReportServe(t *testing.T) {
	path := siteLog(t, time.Date(2025, 12, 1, 0, 0, 0, 0, time.UTC), 21, 9, 60)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	said, from := io.Pipe()
	c := console.New(config.Build{Version: "v1"}, io.Discard, from, func() time.Time { return reportNow })
	cmd := Command(&c)
	cmd.SetArgs([]string{"report", "--serve", path})
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = from.Close()
		ended <- err
	}()
	url := ""
	for lines := bufio.NewScanner(said); url == "" && lines.Scan(); {
		url = regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(lines.Text())
	}
	go func() { _, _ = io.Copy(io.Discard, said) }()
	for address, want := range map[string]string{
		"/status": "page-1", "/": "Most read pages", "/report": "Most read pages", "/page?path=" + pagePrefix + "1": "page-1",
		"/api/v1/pages?window=week&limit=3&format=csv": "prj_site,week,2025-12-15,2025-12-22,1,",
		"/api/v1/agents?window=week&format=csv":        ",ChatGPT-User,answers,ai,",
	} {
		r, err := http.Get(url + address)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil || r.StatusCode != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s, %v, without %q:\n%s", address, r.Status, err, want, body)
		}
		if address != "/status" {
			continue
		}
		for _, link := range regexp.MustCompile(`href="([a-z][^":]*)"`).FindAllStringSubmatch(string(body), -1) {
			r, err := http.Get(url + "/" + html.UnescapeString(link[1]))
			if err != nil {
				t.Fatal(err)
			}
			if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
				t.Errorf("%s links to %s: %s", address, link[1], r.Status)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestShownText: a terminal obeys nothing that an agent wrote, and shows it in the order in which it is.
func TestShownText(t *testing.T) {
	for text, want := range map[string]string{
		"a\tb\nc\u200d é": "a\tb\nc\u200d é", "\x1b[2J\a\u009b": "\ufffd[2J\ufffd\ufffd",
		"if admin \u202e} \u2066// ": "if admin \ufffd} \ufffd// ",
	} {
		if got := shownText(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
