package sandbox

import (
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
)

// press presses a button of a page of s, as a page of the same origin does.
func press(s *Sandbox, target, action string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, target, strings.NewReader(url.Values{"action": {action}}.Encode()))
	r.Host = here
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return respond(s, r)
}

// readers are the rows of a page in the windows of so many days from a date on, added up.
func readers(t *testing.T, s *Sandbox, project, page, from string, windows, days int) (sum analytics.Row) {
	t.Helper()
	for i := range windows {
		first := date(from) + analytics.Date(i*days)
		_, rows, err := s.Visitors(project, analytics.Window{From: first, To: first + analytics.Date(days)})
		check(t, err)
		for _, row := range rows {
			if row.Path == page {
				sum.Human, sum.AI, sum.Total = sum.Human+row.Human, sum.AI+row.AI, sum.Total+row.Total
			}
		}
	}
	return sum
}

// TestMergeEffect: from the day of a merge on, the pages that it changed have so many
// more or fewer readers, people and agents apart, in days and in weeks. Nothing else
// changes: not the days before, not other pages, not other projects.
func TestMergeEffect(t *testing.T) {
	const page, other, merged = "/quickstart", "/introduction", "2026-09-14" // a Monday, 30 days ago
	plain := newTest(t, Config{Projects: []string{DefaultProject, "b"}})
	for name, effect := range map[string]Effect{
		"more people": {0.3, 0}, "fewer agents": {0, -0.4}, "twice the people, no agents": {1, -1},
	} {
		s := newTest(t, Config{
			Projects: []string{DefaultProject, "b"},
			Agent:    Agent{Pulls: Pulls{Effect: effect, MergeShare: 1, DaysAgo: 30}},
			Now:      func() time.Time { return noon.Truncate(time.Minute) },
			// merged within the minute that is counted
		})
		settled(t, s, createJob(t, s, "x [sandbox:page="+page+"]").ID)
		for kind, windows := range map[string][2]int{"days": {28, 1}, "weeks": {4, 7}} {
			was := readers(t, plain, DefaultProject, page, merged, windows[0], windows[1])
			is := readers(t, s, DefaultProject, page, merged, windows[0], windows[1])
			for what, n := range map[string][3]float64{
				"people": {float64(was.Human), float64(is.Human), effect.Human},
				"agents": {float64(was.AI), float64(is.AI), effect.AI},
			} {
				// Four standard deviations of a reader's luck, and half as much again for readers of several days.
				slack := 4 * 1.5 * math.Sqrt(math.Abs(n[2])*(1-math.Abs(n[2]))/n[0])
				if got := n[1]/n[0] - 1; n[0] < 300 || math.Abs(got-n[2]) > slack {
					t.Errorf("%s, %s of %s: %+.3f of %.0f, want %+.3f ± %.3f",
						name, what, kind, got, n[0], n[2], slack)
				}
			}
		}
		for what, same := range map[string][2]string{
			"before": {DefaultProject, page}, "another page": {DefaultProject, other}, "another project": {"b", page},
		} {
			from, windows := merged, 28
			if what == "before" {
				from = "2026-08-17"
			}
			if diff := cmp.Diff(readers(t, plain, same[0], same[1], from, windows, 1),
				readers(t, s, same[0], same[1], from, windows, 1)); diff != "" {
				t.Errorf("%s, %s: %s", name, what, diff)
			}
		}
	}
}

// TestMergesAreSeenAtOnce: a window that is read in the minute of a merge has its effect, as
// any later reading has: a settled window is not read again. Each page reacts to its first
// merge only; open and closed pull requests, and event logs, change nothing.
func TestMergesAreSeenAtOnce(t *testing.T) {
	now, dir := noon, t.TempDir()
	c := Config{
		Pages: 40, DataDir: dir, Now: func() time.Time { return now },
		Agent: Agent{Pulls: Pulls{Effect: Effect{1, 1}, DaysAgo: 7}},
	}
	s, err := New(c)
	check(t, err)
	for range 3 {
		settled(t, s, createJob(t, s, "x [sandbox:page=/quickstart]").ID)
	}
	week := func() int64 { return readers(t, s, DefaultProject, "/quickstart", "2026-10-07", 1, 7).Total }
	fortnight := func() int64 { return readers(t, s, DefaultProject, "/quickstart", "2026-09-30", 1, 14).Total }
	usual, before := week(), fortnight()
	act := func(number, action string) {
		t.Helper()
		if w := press(s, pullPath+number, action); w.Code != http.StatusSeeOther {
			t.Fatalf("%s: %d %s", action, w.Code, w.Body)
		}
	}
	act("1", "close")
	now = now.Add(time.Hour)
	if got := week(); got != usual {
		t.Errorf("closed: %d, %d before", got, usual)
	}
	act("2", "merge")
	if got := week(); got != 2*usual {
		t.Errorf("within the minute: %d, want twice %d", got, usual)
	}
	now = now.Add(time.Minute)
	if got := week(); got != 2*usual {
		t.Errorf("merged: %d, want twice %d", got, usual)
	}
	if got := fortnight(); got != before+usual {
		t.Errorf("a fortnight with the merge in its middle: %d, want %d and the twins of %d", got, before, usual)
	}
	now = now.Add(24 * time.Hour) // a later date, too
	act("3", "merge")
	now = now.Add(time.Minute)
	if got := week(); got != 2*usual {
		t.Errorf("merged again: %d, want twice %d", got, usual)
	}
	check(t, s.Close())
	s = newTest(t, c)
	if got := week(); got != 2*usual {
		t.Errorf("started again: %d, want twice %d", got, usual)
	}
}

func TestParseEffect(t *testing.T) {
	for text, want := range map[string]Effect{
		"+30%": {0.3, 0.3}, "-20%": {-0.2, -0.2}, "5%": {0.05, 0.05}, "human=+30%": {0.3, 0}, "ai=-100%": {0, -1},
		"human=+30%, ai=-10%": {0.3, -0.1}, "+50%,ai=0%": {0.5, 0},
	} {
		if got, err := ParseEffect(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{
		"", "30", "+30 percent", "robots=+30%", "=+30%", "human=", "NaN%",
		"+101%", "-101%", "+30%,",
	} {
		if got, err := ParseEffect(text); err == nil {
			t.Errorf("%s: %+v", text, got)
		}
	}
}

// TestSiteFiles: each page has a file, and the file is the page's.
func TestSiteFiles(t *testing.T) {
	known := pageNumbers(traffic.NewWebsite(traffic.Options{Pages: 900}).Pages)
	for page, number := range known {
		if !plainPage.MatchString(page) && page != "/" {
			continue
		}
		if got, ok := pageOfFile(fileOf(page), known); !ok || got != number {
			t.Errorf("%s: %s is of %d, %t", page, fileOf(page), got, ok)
		}
	}
	for file, want := range map[string]string{
		"guides/errors.md": "/guides/errors", "docs/guides/errors.mdx": "/guides/errors",
		"changelog/index.md":       "/changelog",
		"docs/changelog/README.md": "/changelog", "index.html": "/", "docs/index.md": "/",
		"guides/none.md": "", "src/guides/errors.mdx": "", "docs.json": "", "": "",
	} {
		got, ok := pageOfFile(file, known)
		if number, is := known[want]; ok != is || ok && got != number {
			t.Errorf("%s: %d %t, want %s", file, got, ok, want)
		}
	}
	change := changedFile(1, traffic.NewWebsite(traffic.Options{Pages: 640}).Pages)
	for prompt, want := range map[string]string{
		"Fix [sandbox:page=/guides/errors] now": "guides/errors.mdx", "[sandbox:page=/]": "index.mdx",
		"[sandbox:page=/../../etc/passwd]": "etc/passwd.mdx", "[sandbox:page=/a//b/]": "a/b.mdx",
	} {
		if got := change(prompt); got != want {
			t.Errorf("%s: %s, want %s", prompt, got, want)
		}
	}
	files := map[string]bool{}
	for i := range 200 {
		prompt := strings.Repeat("more ", i)
		file := change(prompt)
		if _, ok := pageOfFile(file, known); !ok || file != change(prompt) {
			t.Errorf("%d: %s", i, file)
		}
		files[file] = true
	}
	if len(files) < 12 || change("[sandbox:page=nowhere]") == "" {
		t.Errorf("%d files are changed", len(files))
	}
	if file := changedFile(1, []string{"/"})("x"); file != "index.mdx" {
		t.Errorf("a site of one page: %s", file)
	}
}
