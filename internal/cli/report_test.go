package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
)

// reported returns the output of report.
func reported(t *testing.T, now time.Time, args ...string) (page, stderr string, err error) {
	t.Helper()
	return ranHere(t, now, (*Program).reportCommand, append([]string{"-o", "-"}, args...)...)
}

// trendData is the data of a chart for the page's script.
type trendData struct{ Total, Human, AI []*int64 }

func drawings(t *testing.T, page string) (out []trendData) {
	t.Helper()
	data := regexp.MustCompile(`(?s)<script type="application/json">(.*?)</script>`)
	for _, m := range data.FindAllStringSubmatch(page, -1) {
		var d trendData
		check(t, json.Unmarshal([]byte(m[1]), &d))
		out = append(out, d)
	}
	return out
}

// TestReport: each number of the page is the number of the service.
func TestReport(t *testing.T) {
	s, archive := archived(t)
	now := time.Now()
	today := analytics.DateOf(now)
	page, stderr, err := reported(t, now, "--archive", archive)
	if err != nil || stderr != "" {
		t.Fatal(err, stderr)
	}
	got := drawings(t, page)
	if len(got) != 3 || len(got[0].Total) != historyDays {
		t.Fatalf("%d charts, the first of %d days", len(got), len(got[0].Total))
	}
	for i := range historyDays {
		day := today - historyDays + analytics.Date(i)
		totals, _, err := s.Visitors(sandbox.DefaultProject, analytics.Window{From: day, To: day + 1})
		check(t, err)
		if diff := gocmp.Diff(totals, analytics.Totals{Human: *got[0].Human[i], AI: *got[0].AI[i],
			Total: *got[0].Total[i]}); diff != "" {
			t.Errorf("%s (-service +page):\n%s", day, diff)
		}
	}
	text := engines.VisibleText(page)
	for _, w := range []analytics.Window{{From: today - 1, To: today}, weekBefore(today)} {
		checkPages(t, s, text, w)
		agents, _, err := s.Agents(sandbox.DefaultProject, w)
		check(t, err)
		before, _, err := s.Agents(sandbox.DefaultProject, analytics.Window{From: w.From - 7, To: w.To - 7})
		check(t, err)
		of := func(a analytics.AgentRow) bool { return a.Agent == "Claude-User" }
		now, then := agents[slices.IndexFunc(agents, of)], before[slices.IndexFunc(before, of)]
		row := regexp.MustCompile(fmt.Sprintf(` Claude-User AI assistant %s %s ([+−][\d.]+%% )?%s `,
			format.Commas(now.Visitors), regexp.QuoteMeta(view.Signed(now.Visitors-then.Visitors)),
			format.Commas(now.Requests)))
		if !row.MatchString(text) {
			t.Errorf("%s: no %s", w, row)
		}
	}
}

// weekBefore is the newest week that is over.
func weekBefore(today analytics.Date) analytics.Window {
	monday := today - analytics.Date((today.Weekday()+6)%7)
	return analytics.Window{From: monday - 7, To: monday}
}

// checkPages looks for the most read page, and the one that rose most, of a window.
func checkPages(t *testing.T, s *sandbox.Sandbox, text string, w analytics.Window) {
	t.Helper()
	totals, rows, err := s.Visitors(sandbox.DefaultProject, w)
	check(t, err)
	before, old, err := s.Visitors(sandbox.DefaultProject, analytics.Window{From: w.From - 7, To: w.To - 7})
	check(t, err)
	was := map[string]analytics.Row{}
	for _, r := range old {
		was[r.Path] = r
	}
	now := slices.Clone(rows)
	rise := func(r analytics.Row) int64 { return r.Total - was[r.Path].Total }
	now = slices.DeleteFunc(now, func(r analytics.Row) bool { return r.Total == 0 })
	slices.SortFunc(now, analytics.ByVisitors)
	top := now[0]
	now = slices.DeleteFunc(now, func(r analytics.Row) bool { _, known := was[r.Path]; return !known })
	up := slices.MinFunc(now, func(a, b analytics.Row) int {
		return cmp.Or(cmp.Compare(rise(b), rise(a)), cmp.Compare(a.Path, b.Path))
	})
	text = shownChange.ReplaceAllString(text, " ")
	for _, want := range []string{
		format.Commas(totals.Total) + " readers",
		" People " + format.Commas(totals.Human) + " ", " AI readers " + format.Commas(totals.AI) + " ",
		" " + top.Path + " " + format.Commas(top.Human) + " " + format.Commas(top.AI) + " " +
			format.Commas(top.Total) + " ",
		" " + up.Path + " " + format.Commas(was[up.Path].Total) + " " + format.Commas(up.Total) + " +" +
			format.Commas(rise(up)) + " ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s (before it %d): no %q", w, before.Total, want)
		}
	}
}

// shownChange is how much a number changed, as the totals show it.
var shownChange = regexp.MustCompile(` [▲▼] [0-9.]+% `)

// TestReportAsOf: --to shows the archive of that day, and windows that are due
// but not in the archive are reported as missing.
func TestReportAsOf(t *testing.T) {
	s, archive := archived(t)
	now := time.Now()
	today := analytics.DateOf(now)
	page, _, err := reported(t, now, "--archive", archive, "--from", (today - 11).String(),
		"--to", (today - 3).String())
	check(t, err)
	got := drawings(t, page)
	if n := len(got[0].Total); n != 8 {
		t.Errorf("%d days", n)
	}
	checkPages(t, s, engines.VisibleText(page), analytics.Window{From: today - 4, To: today - 3})
	// Two days later.
	page, _, err = reported(t, now.Add(48*time.Hour), "--archive", archive)
	check(t, err)
	if text := engines.VisibleText(page); !strings.Contains(text, "2 newer windows missing") ||
		!strings.Contains(text, "40 of 42 windows") {
		t.Errorf("nothing is missing two days later: %.3000s", text)
	}
	// A reader sees the former file or the new one.
	file := filepath.Join(t.TempDir(), "report.html")
	if _, stderr, err := reported(t, now, "--archive", archive, "-o", file); err != nil ||
		stderr != "docgauge: wrote "+file+", from "+archive+"\n" {
		t.Error(err, stderr)
	}
	if found, err := os.ReadDir(filepath.Dir(file)); err != nil || len(found) != 1 {
		t.Error(err, found)
	}
}
