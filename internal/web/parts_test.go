package web

import (
	"fmt"
	"html"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
)

func TestPageWords(t *testing.T) {
	for _, tc := range [][2]string{
		{axisMark(0.5), "0.5"}, {axisMark(850), "850"}, {axisMark(1200), "1.2k"}, {axisMark(2.5e6), "2.5M"},
		{axisMark(6e18), "6000000000G"},
		{age(0), "just now"}, {age(time.Second), "in a moment"}, {age(-29 * time.Second), "just now"},
		{age(30 * time.Second), "in 1\u00a0min"}, {age(90 * time.Minute), "in 2\u00a0h"},
		{age(-31 * time.Second), "1\u00a0min ago"}, {age(-89 * time.Minute), "89\u00a0min ago"},
		{age(91 * time.Minute), "in 2\u00a0h"}, {age(35 * time.Hour), "in 35\u00a0h"},
		{age(-37 * time.Hour), "2\u00a0days ago"},
		{took(-time.Second), "–"}, {took(20 * time.Millisecond), "under 0.1\u00a0s"},
		{took(340 * time.Millisecond), "0.3\u00a0s"}, {took(75 * time.Second), "75\u00a0s"},
		{took(121 * time.Second), "2\u00a0min\u00a01\u00a0s"},
		{took(3*time.Hour + 59*time.Second), "3\u00a0h\u00a00\u00a0min"},
		{title("28d"), "28 days"}, {title("day"), "Day"}, {previous("28d"), "the previous 28 days"},
		{previous("week"), "the previous week"},
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
		if got := spanOf(tc.g, w); got.Text != tc.want || strings.ContainsAny(got.Note, "[)") ||
			!strings.Contains(got.Note, "last day "+(w.To-1).String()) {
			t.Errorf("%+v, want %s", got, tc.want)
		}
	}
}

// TestGain: the change of a page, and its tone.
func TestGain(t *testing.T) {
	for want, c := range map[string]analytics.Change{
		"+3 up": {After: analytics.Totals{Total: 3}}, "−3 down −100%": {Before: analytics.Totals{Total: 3}},
		"0": {}, "new": {Appeared: true}, "new up": {Appeared: true, After: analytics.Totals{Total: 3}},
		"new slight": {Appeared: true, After: analytics.Totals{Total: 2}},
		// Of 306 and 300 readers, and of 306 and 267, chance takes 40.
		"−6 slight −2.0%":   {Before: analytics.Totals{Total: 306}, After: analytics.Totals{Total: 300}},
		"−39 slight −12.7%": {Before: analytics.Totals{Total: 306}, After: analytics.Totals{Total: 267}},
		"−40 down −13.1%":   {Before: analytics.Totals{Total: 306}, After: analytics.Totals{Total: 266}},
	} {
		g := pageGain(c)
		if got := strings.Join(strings.Fields(g.Text+" "+g.Tone+" "+g.Growth), " "); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestCeiling(t *testing.T) {
	for n, want := range map[int64]float64{0: 2, 1: 2, 3: 4, 5: 6, 9: 10, 10: 10, 11: 12, 17: 20, 101: 120, 999: 1000,
		8001: 10000} {
		if got := ceiling(n); got != want {
			t.Errorf("ceiling of %d is %v, want %v", n, got, want)
		}
	}
}

// show executes a template.
func show(t *testing.T, name string, data any) string {
	t.Helper()
	page, err := statusKind().render(name, data)
	if err != nil {
		t.Fatal(err)
	}
	return html.UnescapeString(string(page))
}

var tag = regexp.MustCompile(`(\s*<[^>]*>\s*)+`)

// TestMarks: a reading is provisional or settled, and perhaps unverified too; each state has an
// explanation.
func TestMarks(t *testing.T) {
	for want, r := range map[string]analytics.Revision{
		"provisional": {Verified: true}, "settled": {Settled: true, Verified: true},
		"provisional unverified": {}, "settled unverified": {Settled: true},
	} {
		page := show(t, "marks", &r)
		if got := strings.TrimSpace(tag.ReplaceAllString(page, " ")); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for word := range strings.FieldsSeq(want) {
			if mark := `<span class="` + word + `" title="` + marks[word] + `">` + word; marks[word] == "" ||
				!strings.Contains(page, mark) {
				t.Errorf("%s lacks %s", page, mark)
			}
		}
		if class, text := windowState(&r); class != strings.ReplaceAll(want, " ", "-") ||
			text != strings.ReplaceAll(want, " ", ", ") {
			t.Errorf("%s: %s, %s", want, class, text)
		}
	}
}

// cells are windows of so many days that end where the next begins, the last at end;
// a total below 0 is a missing one.
func cells(end, days analytics.Date, totals ...int64) (out []view.Cell) {
	from := end - days*analytics.Date(len(totals))
	for i, total := range totals {
		c := view.Cell{Window: analytics.Window{From: from + analytics.Date(i)*days,
			To: from + analytics.Date(i+1)*days}}
		if total >= 0 {
			c.Revision = &analytics.Revision{Key: analytics.Key{Window: c.Window},
				Totals: analytics.Totals{Human: total / 2, AI: total / 4, Total: total}}
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
		{"only the day before", analytics.Day, cells(end-4, 1, 80, 100), "100; No earlier window to compare with",
			Comparison{}},
		{"a week before", analytics.Day, cells(end, 1, 200, -1, -1, -1, -1, -1, -1, 100),
			"100; ▼ 50.0% down the previous Monday", Comparison{}},
		{"a Thursday", analytics.Day, cells(end-4, 1, 200, 1, 1, 1, 1, 1, 50, 100),
			"100; ▼ 50.0% down the previous Thursday", Comparison{}},
		{"a Saturday", analytics.Day, cells(end-2, 1, 99, 1, 1, 1, 1, 1, 220, 100),
			"100; ▲ 1.0% slight the previous Saturday", Comparison{}},
		{"a Sunday", analytics.Day, cells(end-1, 1, 200, 1, 1, 1, 1, 1, 50, 100),
			"100; ▼ 50.0% down the previous Sunday", Comparison{}},
		{"a Monday", analytics.Day, cells(end, 1, 200, 1, 1, 1, 1, 1, 50, 100),
			"100; ▼ 50.0% down the previous Monday", Comparison{}},
		{"rolling", "28d", append(cells(end-28, 28, 50), append(cells(end-1, 28, 99), cells(end, 28, 100)...)...),
			"100; ▲ 100% up the previous 28 days", Comparison{}},
		{"same", analytics.Week, cells(end-1, 7, 100, 100), "100; unchanged  the previous week", Comparison{}},
		{"none before", analytics.Day, cells(end, 1, -1, 100), "100; No earlier window to compare with", Comparison{}},
		{"after the end of a log", analytics.Day, cells(end, 1, 40, 90, 0, 0), "0; No readers since Sat 3 Oct 2026",
			Comparison{}},
		{"after the end of a log, against a year ago", analytics.Day, append(cells(end-364, 1, 50), cells(end, 1, 90, 0)...),
			"0; No readers since Sun 4 Oct 2026", Comparison{Year: true}},
		{"never a reader", analytics.Week, cells(end-1, 7, 0, 0), "0; No readers to compare with: the previous week had none",
			Comparison{}},
		{"from nothing", analytics.Week, cells(end-1, 7, 0, 100), "100; No readers to compare with: the previous week had none",
			Comparison{}},
		{"newer ones are missing", analytics.Day, cells(end, 1, 100, -1, -1),
			"100; No earlier window to compare with; 2 newer windows missing", Comparison{}},
		{"a year ago", analytics.Week, year, "100; ▲ 100% up 29 Sep – 5 Oct 2025", Comparison{Year: true}},
		{"no year ago", analytics.Week, year[1:], "100; No reading of 29 Sep – 5 Oct 2025 to compare with",
			Comparison{Year: true}},
		{"two ago", analytics.Day, cells(end, 1, 50, 70, 100), "100; ▲ 100% up Sat 3 Oct 2026",
			Comparison{Windows: 2}},
		{"the day before, asked for", analytics.Day, cells(end, 1, 50, 70, 100), "100; ▲ 42.9% up Sun 4 Oct 2026",
			Comparison{Windows: 1}},
	} {
		g := view.Grid{Granularity: tc.g, Cells: tc.cells}
		g.Count()
		c := cardOf(g, tc.against)
		got := format.Commas(c.Grid.Newest.Totals.Total)
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
	if c := cardOf(view.Grid{Granularity: analytics.Day, Cells: cells(end, 1, -1)}, Comparison{}); c != nil {
		t.Errorf("a card of nothing: %+v", c)
	}
}

// TestFigures: the row of totals has people with their interval, and the requests of AI agents, where those are known.
func TestFigures(t *testing.T) {
	g := view.Grid{Granularity: analytics.Week, Cells: cells(analytics.NewDate(2026, 10, 5), 7, 100, 200)}
	g.Count()
	agents := &query.AgentsReport{People: &view.People{Confirmed: 80, Claimed: 100}, AIRequests: new(int64(1500)),
		AIRequestsBefore: new(int64(1000))}
	for _, tc := range []struct {
		agents *query.AgentsReport
		want   string
	}{
		{nil, "Readers 200 ▲ 100%; People 100 ▲ 100%; AI readers 50 ▲ 100% 25.0% of all; Person and AI –"},
		{&query.AgentsReport{}, "Readers 200 ▲ 100%; People 100 ▲ 100%; AI readers 50 ▲ 100% 25.0% of all; Person and AI –"},
		{agents, "Readers 200 ▲ 100%; People 100 ▲ 100% 80 confirmed to 100 claimed; " +
			"AI readers 50 ▲ 100% 25.0% of all; AI requests 1,500 ▲ 50.0%; Person and AI –"},
	} {
		var got []string
		for _, f := range figuresOf(cardOf(g, Comparison{}), tc.agents) {
			text := f.Name + " " + f.Value
			if f.Change != nil {
				text += " " + f.Change.Text
			}
			if f.Note != "" && f.Value != "–" {
				text += " " + f.Note
			}
			got = append(got, text)
		}
		if got := strings.Join(got, "; "); got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
	}
}

// TestCoverage names the stretches of missing windows, the newest first.
func TestCoverage(t *testing.T) {
	end := analytics.NewDate(2026, 10, 6)
	g := view.Grid{Granularity: analytics.Day, Cells: cells(end, 1, -1, 5, -1, -1, 6)}
	g.Cells[1].Revision.Rows = analytics.TotalsOnlyRows
	g.Count()
	got := gaps(g)
	for _, e := range legendOf(g) {
		if got += "; " + e.Text; e.Note == "" {
			t.Errorf("%s has no note", e.Text)
		}
	}
	const want = "Sat 3 Oct 2026 to Sun 4 Oct 2026; Thu 1 Oct 2026; " +
		"2 provisional; 1 totals only; 2 unverified; 3 missing"
	if got != want {
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
		c := chartOf(g, g.Cells, 6)
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
				if _, err := fmt.Sscanf(point, "%d %g", &x, &y); err != nil || x < 0 || x > c.Width || y < 0 ||
					y > chartHeight {
					t.Errorf("the point %s is outside: %v", point, err)
				}
			}
		}
	})
}

// TestChartWords checks the words around a chart.
func TestChartWords(t *testing.T) {
	g := view.Grid{Granularity: analytics.Day, Cells: cells(analytics.NewDate(2026, 10, 4), 1, 700, -1, 300, 1100,
		1100, 800)}
	c := chartOf(g, g.Cells, 3)
	got := fmt.Sprint(c.TopMark, c.MiddleMark, c.Ticks, c.Low, c.High, c.Newest)
	if want := "1.2k600[{8.333 28 Sep} {41.667 30 Sep} {75 2 Oct}] {300 30 Sep} {1,100 1 Oct} {800 3 Oct}"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	for _, want := range []string{"lowest 300 (Wed 30 Sep 2026)", "highest 1,100 (Thu 1 Oct 2026)",
		"newest 800 (Sat 3 Oct 2026)", "1 window missing"} {
		if !strings.Contains(c.Label, want) {
			t.Errorf("%s lacks %s", c.Label, want)
		}
	}
	got = c.Columns[1].Title + "; " + c.Columns[2].Title
	if got != "Tue 29 Sep 2026: missing; Wed 30 Sep 2026: 300 readers, 150 human, 75 AI" {
		t.Error(got)
	}
}

// TestJobTable: the newest jobs, with links that may be followed and others as text.
func TestJobTable(t *testing.T) {
	now := time.Date(2026, 10, 6, 10, 31, 0, 0, time.UTC)
	jobs := []view.Job{
		{Prompt: "a", Title: "A", State: "completed", Result: "pr", PRLink: "https://code.example/pull/7",
			Created: now.Add(-time.Hour), Ended: now,
			Pull: &view.PullRequest{State: "merged", Opened: now.Add(-3 * time.Hour),
				Ended: now.Add(-time.Hour)}, EstimatedCost: 1.5, Tokens: new(int64(1200))},
		{Prompt: "b", State: "completed", Result: "no_pr", PRLink: "javascript:alert(1)"},
		{Prompt: "c", State: "active", Stalled: true}, {Prompt: "d"},
	}
	jobs[0].Project = "a"
	const merged = "#7 merged, 2 h cost 1.5 (estimated) 1,200 tokens | 2026-10-06 09:31 | 60\u00a0min\u00a00\u00a0s"
	for _, tc := range []struct {
		project func(string) string
		n       int
		want    string
	}{
		{nil, 3, "A a | completed | " + merged +
			" / b | completed without a pull request | javascript:alert(1) | – | –" +
			" / c | active | – | – | stalled / 1 older job not shown; docgauge jobs list shows all."},
		{strings.ToUpper, 1,
			"A a | A | completed | " + merged +
				" / 3 older jobs not shown; docgauge jobs list shows all."},
	} {
		page := show(t, "jobtable", jobTableOf(view.Queue{Waiting: jobs[:1], Jobs: jobs[1:]}, "", tc.project, now,
			tc.n))
		_, rows, _ := strings.Cut(page, "<tbody>")
		rows = strings.NewReplacer("</td><td", "</td> | <td", "</th><td", "</th> | <td", "</tr>",
			"</tr> / ").Replace(rows)
		if got := strings.TrimSpace(tag.ReplaceAllString(rows, " ")); got != tc.want {
			t.Errorf("%s\nwant %s", got, tc.want)
		}
		if links := strings.Count(page, "<a href="); links != 1 ||
			!strings.Contains(page, `<a href="https://code.example/pull/7"`) {
			t.Errorf("%d links in %s", links, page)
		}
		for _, tone := range []string{"ok", "wait"}[:min(tc.n, 2)] {
			if !strings.Contains(page, `class="tone `+tone+`"`) {
				t.Errorf("%s lacks the tone %s", page, tone)
			}
		}
	}
}

// TestEffects: unknown numbers are dashes, and the audience AI has its usual name.
func TestEffects(t *testing.T) {
	merge := view.Merge{Link: "https://code.example/pull/7", At: time.Date(2026, 10, 5, 23, 0, 0, 0, time.UTC)}
	page := show(t, "effects", effectTable{Merged: "Merged", Rows: []effectRow{
		{Effect: view.Effect{
			Path: "/a", Audience: analytics.AI, Verdict: view.FewerReaders,
			Before: 1200.4, Expected: 10, Change: -1, Low: -1, High: 0.06,
		}, Merge: merge},
		{Effect: view.Effect{Path: "/b", Audience: analytics.Human, Verdict: view.NotEnoughData, Reason: "too new"},
			Merge: merge, Project: "docs"},
	}})
	_, rows, _ := strings.Cut(page, "<tbody>")
	rows = strings.NewReplacer("</td><td", "</td> | <td", "</th><td", "</th> | <td", "</tr>", "</tr> / ",
		"<wbr>", "").Replace(rows)
	want := "/a | Mon 5 Oct 2026 #7 | AI | 1,200 | 0 | 10 | −100% | −100% to +6% | fewer readers" +
		" / /b docs | Mon 5 Oct 2026 #7 | human | – | – | – | – | – | not enough data too new /"
	if got := strings.TrimSpace(tag.ReplaceAllString(rows, " ")); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}
