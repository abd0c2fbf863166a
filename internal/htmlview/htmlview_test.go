package htmlview

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/view"
)

func TestWords(t *testing.T) {
	for _, tc := range [][2]string{
		{Short(0.5), "0.5"}, {Short(850), "850"}, {Short(1200), "1.2k"}, {Short(2.5e6), "2.5M"}, {Short(6e18), "6000000000G"},
		{Percent(1, 3), "33.3%"}, {Percent(0, 3), "0.0%"}, {Percent(3, 3), "100%"}, {Percent(1, 0), "–"},
		{difference(200, 199), "0.5%"}, {difference(1, 40), "3900%"}, {difference(10000, 10001), ""},
		{Growth(200, 199), "−0.5%"}, {Growth(1, 40), "+3900%"}, {Growth(0, 40), ""}, {Growth(40, 40), ""},
		{Signed(1300), "+1,300"}, {Signed(-1300), "−1,300"}, {Signed(0), "0"},
		{age(0), "just now"}, {age(time.Second), "in a moment"}, {age(-29 * time.Second), "just now"}, {age(-31 * time.Second), "1\u00a0min ago"}, {age(-89 * time.Minute), "89\u00a0min ago"},
		{age(91 * time.Minute), "in 2\u00a0h"}, {age(35 * time.Hour), "in 35\u00a0h"}, {age(-37 * time.Hour), "2\u00a0days ago"},
		{Took(-time.Second), "–"}, {Took(20 * time.Millisecond), "under 0.1\u00a0s"}, {Took(340 * time.Millisecond), "0.3\u00a0s"}, {Took(75 * time.Second), "75\u00a0s"},
		{Took(121 * time.Second), "2\u00a0min\u00a01\u00a0s"}, {Took(3*time.Hour + 59*time.Second), "3\u00a0h\u00a00\u00a0min"},
		{Title("28d"), "28 days"}, {Title("day"), "Day"}, {Previous("28d"), "the previous 28 days"}, {Previous("week"), "the previous week"},
		{linkText("https://code.example/acme/docs/pull/412"), "#412"}, {linkText("https://code.example"), "code.example"}, {linkText("https://code.example/a/b/"), "…/b"},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%q, want %q", tc[0], tc[1])
		}
	}
}

func TestDays(t *testing.T) {
	for _, tc := range []struct {
		g    analytics.Granularity
		from analytics.Date
		days analytics.Date
		want string
	}{
		{"day", analytics.NewDate(2026, 10, 5), 1, "Mon 5 Oct 2026"},
		{"week", analytics.NewDate(2026, 9, 28), 7, "28 Sep – 4 Oct 2026"},
		{"week", analytics.NewDate(2026, 10, 5), 7, "5–11 Oct 2026"},
		{"week", analytics.NewDate(2025, 12, 29), 7, "29 Dec 2025 – 4 Jan 2026"},
		{"month", analytics.NewDate(2026, 2, 1), 28, "February 2026"},
		{"28d", analytics.NewDate(2026, 9, 8), 28, "8 Sep – 5 Oct 2026"},
	} {
		w := analytics.Window{From: tc.from, To: tc.from + tc.days}
		if got := SpanOf(tc.g, w); got.Text != tc.want || strings.ContainsAny(got.Note, "[)") || !strings.Contains(got.Note, "last day "+(w.To-1).String()) {
			t.Errorf("%+v, want %s", got, tc.want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for n, want := range map[int64]float64{0: 2, 1: 2, 3: 4, 5: 6, 9: 10, 10: 10, 11: 12, 17: 20, 101: 120, 999: 1000, 8001: 10000} {
		if got := Ceiling(n); got != want {
			t.Errorf("ceiling of %d is %v, want %v", n, got, want)
		}
	}
}

// TestMarks: a reading is provisional or settled, and perhaps unverified too; each
// state has an explanation.
func TestMarks(t *testing.T) {
	for want, r := range map[string]analytics.Revision{
		"provisional": {Verified: true}, "settled": {Settled: true, Verified: true}, "provisional unverified": {}, "settled unverified": {Settled: true},
	} {
		var words []string
		for _, m := range marksOf(r) {
			if words = append(words, m.Word); m.Note == "" || m.Class != m.Word {
				t.Errorf("%+v", m)
			}
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if class, text := State(&r); class != strings.ReplaceAll(want, " ", "-") || text != strings.ReplaceAll(want, " ", ", ") {
			t.Errorf("%s: %s, %s", want, class, text)
		}
	}
}

// cells are windows of so many days that end where the next begins, the last at end;
// a total below 0 is a missing one.
func cells(end, days analytics.Date, totals ...int64) (out []view.Cell) {
	from := end - days*analytics.Date(len(totals))
	for i, total := range totals {
		c := view.Cell{Window: analytics.Window{From: from + analytics.Date(i)*days, To: from + analytics.Date(i+1)*days}}
		if total >= 0 {
			c.Revision = &analytics.Revision{Key: analytics.Key{Window: c.Window}, Totals: analytics.Totals{Human: total / 2, AI: total / 4, Total: total}}
		}
		out = append(out, c)
	}
	return out
}

// TestCard: the newest window that was read, compared with those that are fair to
// compare it with.
func TestCard(t *testing.T) {
	end := analytics.NewDate(2026, 10, 6) // the newest day is a Monday
	year := append(cells(end-365, 7, 50), cells(end-1, 7, 80, 100)...)
	for _, tc := range []struct {
		name    string
		g       analytics.Granularity
		cells   []view.Cell
		want    string
		against Comparison
	}{
		{"more", analytics.Day, cells(end-4, 1, 80, 100), "100; ▲ 25.0% up the previous day", Comparison{}},
		{"from a Sunday", analytics.Day, cells(end, 1, 80, 100), "100; ▲ 25.0%  the previous day", Comparison{}},
		{"a week before", analytics.Day, cells(end, 1, 200, -1, -1, -1, -1, -1, -1, 100), "100; ▼ 50.0% down the previous Monday", Comparison{}},
		{"both, on a Thursday", analytics.Day, cells(end-4, 1, 200, 1, 1, 1, 1, 1, 50, 100), "100; ▼ 50.0% down the previous Thursday; ▲ 100% up the previous day", Comparison{}},
		{"a Saturday", analytics.Day, cells(end-2, 1, 99, 1, 1, 1, 1, 1, 220, 100), "100; ▲ 1.0% up the previous Saturday", Comparison{}},
		{"a Sunday", analytics.Day, cells(end-1, 1, 200, 1, 1, 1, 1, 1, 50, 100), "100; ▼ 50.0% down the previous Sunday; ▲ 100% up the previous day", Comparison{}},
		{"a Monday", analytics.Day, cells(end, 1, 200, 1, 1, 1, 1, 1, 50, 100), "100; ▼ 50.0% down the previous Monday", Comparison{}},
		{"rolling", "28d", append(cells(end-28, 28, 50), append(cells(end-1, 28, 99), cells(end, 28, 100)...)...), "100; ▲ 100% up the previous 28 days", Comparison{}},
		{"same", analytics.Week, cells(end-1, 7, 100, 100), "100; unchanged  the previous week", Comparison{}},
		{"none before", analytics.Day, cells(end, 1, -1, 100), "100; No earlier window to compare with", Comparison{}},
		{"from nothing", analytics.Day, cells(end, 1, 0, 100), "100; No earlier window to compare with", Comparison{}},
		{"newer ones are missing", analytics.Day, cells(end, 1, 100, -1, -1), "100; No earlier window to compare with; 2 newer windows missing", Comparison{}},
		{"a year ago", analytics.Week, year, "100; ▲ 100% up 29 Sep – 5 Oct 2025", Comparison{Year: true}},
		{"no year ago", analytics.Week, year[1:], "100; No reading of 29 Sep – 5 Oct 2025 to compare with", Comparison{Year: true}},
		{"two ago", analytics.Day, cells(end, 1, 50, 70, 100), "100; ▲ 100% up Sat 3 Oct 2026", Comparison{Windows: 2}},
		{"the day before, asked for", analytics.Day, cells(end, 1, 50, 70, 100), "100; ▲ 42.9% up Sun 4 Oct 2026", Comparison{Windows: 1}},
	} {
		g := view.Grid{Granularity: tc.g, Cells: tc.cells}
		g.Count()
		c := CardOf(g, tc.against)
		got := c.Total
		for _, change := range c.Changes {
			got += "; " + change.Text + " " + change.Tone + " " + change.Before
		}
		if len(c.Changes) == 0 {
			got += "; " + c.Alone
		}
		for _, n := range c.Notes {
			got += "; " + n.Text
		}
		if got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
	if c := CardOf(view.Grid{Granularity: analytics.Day, Cells: cells(end, 1, -1)}, Comparison{}); c != nil {
		t.Errorf("a card of nothing: %+v", c)
	}
}

// TestCoverage names the stretches of missing windows, the newest first.
func TestCoverage(t *testing.T) {
	end := analytics.NewDate(2026, 10, 6)
	g := view.Grid{Granularity: analytics.Day, Cells: cells(end, 1, -1, 5, -1, -1, 6)}
	g.Cells[1].Revision.Rows = analytics.TotalsOnlyRows
	g.Count()
	c := CoverageOf(g)
	got := fmt.Sprint(c.Known, " of ", c.All, "; ", c.Gaps)
	for _, e := range c.Legend {
		if got += "; " + e.Text; e.Note == "" {
			t.Errorf("%s has no note", e.Text)
		}
	}
	if want := "2 of 5 windows; Sat 3 Oct 2026 to Sun 4 Oct 2026; Thu 1 Oct 2026; 2 provisional; 1 totals only; 2 unverified; 3 missing"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestChart: each series has a point for each known window, inside the drawing, and
// begins anew after each gap.
func TestChart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		largest := rapid.SampledFrom([]int64{0, 1, 3, 999, 1e6, math.MaxInt64}).Draw(t, "largest")
		totals := rapid.SliceOfN(rapid.Int64Range(-1, largest), 1, 120).Draw(t, "totals")
		known, stretches := 0, 0
		for i, n := range totals {
			if n >= 0 {
				known++
				if i == 0 || totals[i-1] < 0 {
					stretches++
				}
			}
		}
		g := view.Grid{Granularity: analytics.Day, Cells: cells(20730, 1, totals...)}
		c := ChartOf(g, g.Cells, 6)
		if (c == nil) != (stretches == known) {
			t.Fatalf("%v with %d known windows", c, known)
		}
		if c == nil {
			return
		}
		for _, path := range []string{c.Total, c.Human, c.AI} {
			if strings.Count(path, "M") != stretches || strings.Count(path, "L") != known-stretches {
				t.Errorf("%d known windows in %d stretches: %s", known, stretches, path)
			}
			for _, point := range strings.FieldsFunc(path, func(r rune) bool { return r == 'M' || r == 'L' }) {
				var x int
				var y float64
				if _, err := fmt.Sscanf(point, "%d %g", &x, &y); err != nil || x < 0 || x > c.Width || y < 0 || y > ChartHeight {
					t.Errorf("the point %s is outside: %v", point, err)
				}
			}
		}
	})
}

// TestChartWords checks what is written around a chart.
func TestChartWords(t *testing.T) {
	g := view.Grid{Granularity: analytics.Day, Cells: cells(analytics.NewDate(2026, 10, 4), 1, 700, -1, 300, 1100, 1100, 800)}
	c := ChartOf(g, g.Cells, 3)
	got := fmt.Sprint(c.TopMark, c.MiddleMark, c.Ticks, c.Low, c.High, c.Newest)
	if want := "1.2k600[29 Sep 1 Oct 3 Oct] {300 30 Sep} {1,100 1 Oct} {800 3 Oct}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, want := range []string{"lowest 300 (Wed 30 Sep 2026)", "highest 1,100 (Thu 1 Oct 2026)", "newest 800 (Sat 3 Oct 2026)", "1 window missing"} {
		if !strings.Contains(c.Label, want) {
			t.Errorf("%s lacks %s", c.Label, want)
		}
	}
	if got := c.Columns[1].Title + "; " + c.Columns[2].Title; got != "Tue 29 Sep 2026: missing; Wed 30 Sep 2026: 300 readers, 150 human, 75 AI" {
		t.Error(got)
	}
}

// TestJobTable: the newest jobs, with links that may be followed and others as text.
func TestJobTable(t *testing.T) {
	now := time.Date(2026, 10, 6, 10, 31, 0, 0, time.UTC)
	jobs := []view.Job{
		{Prompt: "a", Title: "A", State: "completed", Result: "pr", PRLink: "https://code.example/pull/7", Created: now.Add(-time.Hour), Ended: now,
			Pull: &view.PullRequest{State: "merged", Opened: now.Add(-3 * time.Hour), Ended: now.Add(-time.Hour)}, Cost: 1.5},
		{Prompt: "b", State: "completed", Result: "no_pr", PRLink: "javascript:alert(1)"},
		{Prompt: "c", State: "active", Stalled: true}, {Prompt: "d"},
	}
	got := JobTableOf(jobs, nil, now, 3)
	want := []JobRow{
		{Name: "A", Prompt: "a", State: "completed", Tone: "ok", Took: "60\u00a0min\u00a00\u00a0s", Begun: MomentOf(now.Add(-time.Hour), now), Link: "https://code.example/pull/7", LinkText: "#7", Review: "merged, 2 h", Cost: "1.5"},
		{Name: "b", State: "completed without a pull request", Tone: "wait", LinkText: "javascript:alert(1)"},
		{Name: "c", State: "active", Tone: "wait", Took: "stalled"},
	}
	if fmt.Sprint(got.Rows) != fmt.Sprint(want) || !strings.HasPrefix(got.More, "1 older job") {
		t.Errorf("%+v\nwant %+v", got, want)
	}
	got = JobTableOf(jobs, strings.ToUpper, now, 3)
	if jobs[0].Project = "a"; !got.Several || JobTableOf(jobs, strings.ToUpper, now, 1).Rows[0].Project != "A" {
		t.Errorf("the project has no name: %+v", got)
	}
}

// TestJobStates: a job is called the same, and has the same colour, wherever it is shown.
func TestJobStates(t *testing.T) {
	for _, state := range journal.States() {
		if word, _ := JobState(string(state), ""); word != string(state) {
			t.Errorf("%s is called %s", state, word)
		}
	}
	for _, result := range view.Results {
		if word, tone := JobState(result, result); word == "" || tone == "" || strings.Contains(word, "_") {
			t.Errorf("%s: %q, %q", result, word, tone)
		}
	}
	if word, tone := JobState("completed", "no_pr"); word != "completed without a pull request" || tone != "wait" {
		t.Error(word, tone)
	}
}
