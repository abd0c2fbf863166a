package web

import (
	"fmt"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// grids draws grids of any granularity with any gaps.
func grids(t *rapid.T) view.Grid {
	g := view.Grid{Granularity: rapid.SampledFrom([]analytics.Granularity{"day", "week", "month", "28d"}).Draw(t,
		"granularity")}
	first := analytics.Date(rapid.IntRange(-2000, 30000).Draw(t, "first"))
	largest := rapid.SampledFrom([]int64{0, 1, 3, 999, 1e6, math.MaxInt64}).Draw(t, "largest")
	for i := range analytics.Date(rapid.IntRange(1, 120).Draw(t, "n")) {
		c := view.Cell{Window: windowAt(g.Granularity, first, i)}
		if rapid.Bool().Draw(t, "known") {
			count := rapid.Int64Range(0, largest)
			c.Revision = &analytics.Revision{Totals: analytics.Totals{Human: count.Draw(t, "h"),
				AI: count.Draw(t, "a"), Total: count.Draw(t, "t")}}
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
		return analytics.Window{From: analytics.NewDate(day.Year(), day.Month()+time.Month(i), 1),
			To: analytics.NewDate(day.Year(), day.Month()+time.Month(i)+1, 1)}
	case analytics.Day:
		return analytics.Window{From: first + i, To: first + i + 1}
	default:
		return analytics.Window{From: first + i, To: first + i + analytics.Date(g.RollingDays())}
	}
}

// TestStretches: neighbours that are picked are one rectangle, others their own.
func TestStretches(t *testing.T) {
	cells := make([]view.Cell, 7)
	for _, i := range []int{0, 3, 4} {
		cells[i].Revision = new(analytics.Revision)
	}
	const w, h = columnWidth, chartHeight
	rectangle := func(from, to int) string { return fmt.Sprintf("M%d 0H%dV%dH%dZ", from*w, to*w, h, from*w) }
	got := stretches(cells, func(c view.Cell) bool { return c.Revision == nil })
	if want := rectangle(1, 3) + rectangle(5, 7); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestSeries: a line and the area below it break where there is no number.
func TestSeries(t *testing.T) {
	f, s := frame{columns: 4, top: 8}, series{new(int64(8)), nil, new(int64(2)), new(int64(0))}
	x := func(column int) int { return column*columnWidth + columnWidth/2 }
	const h = chartHeight
	first, last := fmt.Sprintf("%d 0", x(0)), fmt.Sprintf("%d %dL%d %d", x(2), h*3/4, x(3), h)
	dash := fmt.Sprintf("h%v", float64(4*columnWidth)/125)
	if got, want := f.line(s), "M"+first+dash+"M"+last; got != want {
		t.Errorf("line %s, want %s", got, want)
	}
	below := func(from, to int, line string) string {
		return fmt.Sprintf("M%d %dL%sL%d %dZ", x(from), h, line, x(to), h)
	}
	if got, want := f.area(s), below(0, 0, first)+below(2, 3, last); got != want {
		t.Errorf("area %s, want %s", got, want)
	}
}

// TestCalendar: the windows are inside the drawing and do not overlap, and neither do
// the names.
func TestCalendar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := grids(t)
		c := calendarOf(g, g.Cells)
		if len(c.Cells) != len(g.Cells) {
			t.Fatalf("%d cells for %d windows", len(c.Cells), len(g.Cells))
		}
		taken := map[[2]int]bool{}
		for _, s := range c.Cells {
			if s.X < leftRoom || s.Y < topRoom || s.X+cellPitch > c.Width || s.Y+cellPitch > c.Height ||
				taken[[2]int{s.X, s.Y}] {
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
	date := func(year, month, day int) analytics.Date { return analytics.NewDate(year, time.Month(month), day) }
	thursday := placeOf("day", analytics.Window{From: date(2026, 9, 24), To: date(2026, 9, 25)}).column
	for _, tc := range []struct {
		g           analytics.Granularity
		from, to    analytics.Date
		column, row int
	}{
		{"day", date(2026, 10, 4), date(2026, 10, 5), thursday + 1, 6}, // a Sunday
		{"day", date(2026, 10, 5), date(2026, 10, 6), thursday + 2, 0},
		{"week", date(2027, 1, 4), date(2027, 1, 11), 1, 2027},
		{"month", date(2026, 3, 1), date(2026, 4, 1), 3, 2026},
		{"28d", date(2026, 9, 7), date(2026, 10, 5), thursday + 1, 6}, // by its last day
	} {
		w := analytics.Window{From: tc.from, To: tc.to}
		if p := placeOf(tc.g, w); p.column != tc.column || p.row != tc.row {
			t.Errorf("%s %v: column %d, row %d", tc.g, w, p.column, p.row)
		}
	}
}
