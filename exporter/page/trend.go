package page

import (
	"fmt"
	"math"
	"strings"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// maxTrend is how many windows a chart shows.
const maxTrend = 30

// A chart is drawn in these units and stretched to its place; the words around
// it are not part of the drawing, so that they keep their size.
const (
	trendWidth  = 1000
	trendHeight = 100
)

// trend is a chart of the newest windows of a grid. Total, Human and AI are
// SVG paths, broken where a window is missing.
type trend struct {
	Label                  string
	Total, Human, AI, Area string
	Columns                []column
	Top, Middle            string // marks of the vertical axis, whose foot is 0
	First, Last            string // dates
	Low, High, Newest      point
}

// column is what the pointer finds.
type column struct {
	X, Width, Title string
	Missing         bool
}

// point is a window of the total.
type point struct {
	X, Y        string
	Value, When string
	total       int64
}

// trendOf returns nil where no window is known.
func trendOf(g exporter.Grid) *trend {
	cells := g.Cells[max(0, len(g.Cells)-maxTrend):]
	top := ceiling(largest(cells))
	t := &trend{
		Top: short(top), Middle: short(top / 2),
		Human: line(cells, top, func(v analytics.Totals) int64 { return v.Human }),
		AI:    line(cells, top, func(v analytics.Totals) int64 { return v.AI }),
		Total: line(cells, top, total),
		Area:  area(cells, top),
	}
	known := 0
	for i, c := range cells {
		t.Columns = append(t.Columns, columnOf(g.Granularity, c, i, len(cells)))
		if c.Revision == nil {
			continue
		}
		p := pointOf(g.Granularity, c, i, len(cells), top)
		if known++; known == 1 {
			t.Low, t.High = p, p
		}
		if p.total < t.Low.total {
			t.Low = p
		}
		if p.total > t.High.total {
			t.High = p
		}
		t.Newest = p
	}
	if known == 0 {
		return nil
	}
	t.First, t.Last = tick(g.Granularity, cells[0].Window), tick(g.Granularity, cells[len(cells)-1].Window)
	t.Label = fmt.Sprintf("Unique visitors, the last %s: lowest %s (%s), highest %s (%s), newest %s (%s).",
		plural(len(cells), "window"), t.Low.Value, t.Low.When, t.High.Value, t.High.When, t.Newest.Value, t.Newest.When)
	if known < len(cells) {
		t.Label += fmt.Sprintf(" %s missing.", commas(len(cells)-known))
	}
	return t
}

func total(t analytics.Totals) int64 { return t.Total }

func largest(cells []exporter.Cell) (n int64) {
	for _, c := range cells {
		if c.Revision != nil {
			n = max(n, c.Revision.Totals.Total, c.Revision.Totals.Human, c.Revision.Totals.AI)
		}
	}
	return n
}

// ceiling is a round number not below n, whose half is round as well.
func ceiling(n int64) float64 {
	size := math.Pow(10, math.Floor(math.Log10(math.Max(float64(n), 2))))
	for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 5, 6, 8} {
		if top := step * size; top >= float64(n) && math.Mod(top, 2) == 0 {
			return top
		}
	}
	return 10 * size
}

// x is the middle of column i of n.
func x(i, n int) float64 { return (float64(i) + 0.5) * trendWidth / float64(n) }

func y(v int64, top float64) float64 { return trendHeight * (1 - float64(v)/top) }

func at(v float64) string { return fmt.Sprintf("%.5g", math.Round(v*10)/10) }

// line draws a series; a window without neighbours is a short dash.
func line(cells []exporter.Cell, top float64, of func(analytics.Totals) int64) string {
	var path strings.Builder
	drawing := false
	for i, c := range cells {
		if c.Revision == nil {
			drawing = false
			continue
		}
		command := "L"
		if !drawing {
			command = "M"
		}
		px, py := at(x(i, len(cells))), at(y(of(c.Revision.Totals), top))
		fmt.Fprintf(&path, "%s%s %s", command, px, py)
		if alone := !drawing && (i+1 == len(cells) || cells[i+1].Revision == nil); alone {
			path.WriteString("h8")
		}
		drawing = true
	}
	return path.String()
}

// area fills below the total, stretch by stretch.
func area(cells []exporter.Cell, top float64) string {
	var path strings.Builder
	for i, c := range cells {
		if c.Revision == nil {
			continue
		}
		px := at(x(i, len(cells)))
		if i == 0 || cells[i-1].Revision == nil {
			fmt.Fprintf(&path, "M%s %d", px, trendHeight)
		}
		fmt.Fprintf(&path, "L%s %s", px, at(y(c.Revision.Totals.Total, top)))
		if i+1 == len(cells) || cells[i+1].Revision == nil {
			fmt.Fprintf(&path, "L%s %dZ", px, trendHeight)
		}
	}
	return path.String()
}

func columnOf(g analytics.Granularity, c exporter.Cell, i, n int) column {
	width := float64(trendWidth) / float64(n)
	col := column{X: at(float64(i) * width), Width: at(width), Missing: c.Revision == nil, Title: days(g, c.Window) + ": missing"}
	if r := c.Revision; r != nil {
		col.Title = fmt.Sprintf("%s: %s total, %s human, %s AI", days(g, c.Window), commas(r.Totals.Total), commas(r.Totals.Human), commas(r.Totals.AI))
	}
	return col
}

func pointOf(g analytics.Granularity, c exporter.Cell, i, n int, top float64) point {
	v := c.Revision.Totals.Total
	return point{X: at(x(i, n)), Y: at(y(v, top)), Value: commas(v), When: tick(g, c.Window), total: v}
}

// tick names a window in few letters: by its month, by its first day, or,
// where windows roll, by its last.
func tick(g analytics.Granularity, w analytics.Window) string {
	switch {
	case g == analytics.Month:
		return w.From.Time().Format("Jan ’06")
	case g.RollingDays() > 0:
		return (w.To - 1).Time().Format("2 Jan")
	default:
		return w.From.Time().Format("2 Jan")
	}
}
