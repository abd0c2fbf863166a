package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

// grids draws grids of any granularity with any gaps.
func grids(t *rapid.T) exporter.Grid {
	g := exporter.Grid{Granularity: rapid.SampledFrom([]analytics.Granularity{"day", "week", "month", "28d"}).Draw(t, "granularity")}
	first := analytics.Date(rapid.IntRange(-2000, 30000).Draw(t, "first"))
	largest := rapid.SampledFrom([]int64{0, 1, 3, 999, 1e6, math.MaxInt64}).Draw(t, "largest")
	for i := range analytics.Date(rapid.IntRange(1, 120).Draw(t, "n")) {
		c := exporter.Cell{Window: windowAt(g.Granularity, first, i)}
		if rapid.Bool().Draw(t, "known") {
			count := rapid.Int64Range(0, largest)
			c.Revision = &analytics.Revision{Totals: analytics.Totals{Human: count.Draw(t, "h"), AI: count.Draw(t, "a"), Total: count.Draw(t, "t")}}
		}
		g.Cells = append(g.Cells, c)
	}
	return g
}

func windowAt(g analytics.Granularity, first, i analytics.Date) analytics.Window {
	switch g {
	case analytics.Week:
		monday := first - analytics.Date((int(first.Weekday())+6)%7)
		return analytics.Window{From: monday + 7*i, To: monday + 7*i + 7}
	case analytics.Month:
		day := first.Time()
		return analytics.Window{From: analytics.NewDate(day.Year(), day.Month()+time.Month(i), 1), To: analytics.NewDate(day.Year(), day.Month()+time.Month(i)+1, 1)}
	case analytics.Day:
		return analytics.Window{From: first + i, To: first + i + 1}
	default:
		return analytics.Window{From: first + i, To: first + i + analytics.Date(g.RollingDays())}
	}
}

// TestTrend: each series has a point for each known window, inside the drawing,
// and begins anew after each gap.
func TestTrend(t *testing.T) {
	points := regexp.MustCompile(`([ML])(\S+?) (-?[\d.e+]+)`)
	rapid.Check(t, func(t *rapid.T) {
		g := grids(t)
		cells := g.Cells[max(0, len(g.Cells)-maxTrend):]
		known, stretches := 0, 0
		for i, c := range cells {
			if c.Revision != nil {
				known++
				if i == 0 || cells[i-1].Revision == nil {
					stretches++
				}
			}
		}
		v := trendOf(g)
		if (v == nil) != (known == 0) {
			t.Fatalf("%v with %d known windows", v, known)
		}
		if v == nil {
			return
		}
		if len(v.Columns) != len(cells) {
			t.Errorf("%d columns for %d windows", len(v.Columns), len(cells))
		}
		for _, series := range []string{v.Total, v.Human, v.AI} {
			all := points.FindAllStringSubmatch(series, -1)
			if len(all) != known || strings.Count(series, "M") != stretches {
				t.Errorf("%d points in %d stretches, want %d in %d: %s", len(all), strings.Count(series, "M"), known, stretches, series)
			}
			for _, p := range all {
				x, xerr := strconv.ParseFloat(p[2], 64)
				y, yerr := strconv.ParseFloat(p[3], 64)
				if xerr != nil || yerr != nil || x < 0 || x > trendWidth || y < 0 || y > trendHeight {
					t.Errorf("the point %s is outside", p[0])
				}
			}
		}
	})
}

// TestTrendLabels checks what is written around a chart.
func TestTrendLabels(t *testing.T) {
	g := exporter.Grid{Granularity: analytics.Day}
	for i, total := range []int64{700, -1, 300, 1100, 1100, 800} {
		c := exporter.Cell{Window: windowAt(g.Granularity, analytics.NewDate(2026, 9, 28), analytics.Date(i))}
		if total >= 0 {
			c.Revision = &analytics.Revision{Totals: analytics.Totals{Human: total / 2, AI: total / 4, Total: total}}
		}
		g.Cells = append(g.Cells, c)
	}
	v := trendOf(g)
	got := fmt.Sprintln(v.Top, v.Middle, v.First, v.Last, v.Low.Value, v.Low.When, v.High.Value, v.High.When, v.Newest.Value, v.Newest.When)
	if want := "1.2k 600 28 Sep 3 Oct 300 30 Sep 1,100 1 Oct 800 3 Oct\n"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if want := "Unique visitors, the last 6 windows: lowest 300 (30 Sep), highest 1,100 (1 Oct), newest 800 (3 Oct). 1 missing."; v.Label != want {
		t.Errorf("%s, want %s", v.Label, want)
	}
	if got, want := v.Columns[1].Title+"; "+v.Columns[2].Title, "Tue 29 Sep 2026: missing; Wed 30 Sep 2026: 300 total, 150 human, 75 AI"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestCalendar: each window has a place of its own inside the drawing, and
// names do not run into each other.
func TestCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids(t)
		c := calendarOf(g, g.Cells)
		if len(c.Cells) != len(g.Cells) {
			t.Fatalf("%d cells for %d windows", len(c.Cells), len(g.Cells))
		}
		taken := map[[2]int]bool{}
		for _, s := range c.Cells {
			if s.X < leftRoom || s.Y < topRoom || s.X+cellPitch > c.Width || s.Y+cellPitch > c.Height || taken[[2]int{s.X, s.Y}] {
				t.Errorf("%s at %d, %d of %d × %d", s.Title, s.X, s.Y, c.Width, c.Height)
			}
			taken[[2]int{s.X, s.Y}] = true
		}
		for i, l := range c.Columns {
			if i > 0 && l.X+letterWidth*len(l.Text) >= c.Columns[i-1].X {
				t.Errorf("%v runs into %v", l, c.Columns[i-1])
			}
		}
		if len(c.Rows) > 1+len(g.Cells) && len(c.Rows) != 4 {
			t.Errorf("names of rows: %v", c.Rows)
		}
	})
}

func TestCalendarPlaces(t *testing.T) {
	for _, tc := range []struct {
		g           analytics.Granularity
		from, to    string
		column, row int // from the first window
	}{
		{"day", "2026-10-04", "2026-10-05", 1, 6}, // a Sunday, from the Thursday ten days before
		{"day", "2026-10-05", "2026-10-06", 2, 0},
		{"week", "2027-01-04", "2027-01-11", 1, 2027},
		{"month", "2026-03-01", "2026-04-01", 3, 2026},
		{"28d", "2026-09-07", "2026-10-05", 1, 6}, // by its last day
	} {
		w := analytics.Window{From: date(t, tc.from), To: date(t, tc.to)}
		p := placeOf(tc.g, w)
		if tc.g == "day" || tc.g == "28d" {
			p.column -= placeOf("day", analytics.Window{From: date(t, "2026-09-24"), To: date(t, "2026-09-25")}).column
		}
		if p.column != tc.column || p.row != tc.row {
			t.Errorf("%s %v: column %d, row %d", tc.g, w, p.column, p.row)
		}
	}
}

func date(t *testing.T, s string) analytics.Date {
	t.Helper()
	d, err := analytics.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestSymbols(t *testing.T) {
	for want, r := range map[string]*analytics.Revision{
		"missing": nil, "settled": {Settled: true, Verified: true}, "settled-unverified": {Settled: true},
		"provisional": {Verified: true}, "provisional-unverified": {},
	} {
		if got, _ := htmlview.Reading(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if templates.Lookup("symbols") == nil || !strings.Contains(templates.Lookup("symbols").Tree.Root.String(), `id="`+want+`"`) {
			t.Errorf("%s is not drawn", want)
		}
	}
}
