package page

import (
	"fmt"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
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
	f := htmlview.Frame{N: len(cells), Width: trendWidth, Height: trendHeight, Top: htmlview.Ceiling(largest(cells))}
	t := &trend{
		Top: htmlview.Short(f.Top), Middle: htmlview.Short(f.Top / 2),
		Human: f.Line(values(cells, func(v analytics.Totals) int64 { return v.Human })),
		AI:    f.Line(values(cells, func(v analytics.Totals) int64 { return v.AI })),
		Total: f.Line(values(cells, total)),
		Area:  f.Area(values(cells, total)),
	}
	known := 0
	for i, c := range cells {
		t.Columns = append(t.Columns, columnOf(g.Granularity, c, i, len(cells)))
		if c.Revision == nil {
			continue
		}
		p := pointOf(g.Granularity, c, i, f)
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
	t.First, t.Last = htmlview.Tick(g.Granularity, cells[0].Window), htmlview.Tick(g.Granularity, cells[len(cells)-1].Window)
	t.Label = fmt.Sprintf("Unique visitors, the last %s: lowest %s (%s), highest %s (%s), newest %s (%s).",
		htmlview.Plural(len(cells), "window"), t.Low.Value, t.Low.When, t.High.Value, t.High.When, t.Newest.Value, t.Newest.When)
	if known < len(cells) {
		t.Label += fmt.Sprintf(" %s missing.", htmlview.Commas(len(cells)-known))
	}
	return t
}

func total(t analytics.Totals) int64 { return t.Total }

func values(cells []exporter.Cell, of func(analytics.Totals) int64) htmlview.Values {
	return func(i int) (int64, bool) {
		if cells[i].Revision == nil {
			return 0, false
		}
		return of(cells[i].Revision.Totals), true
	}
}

func largest(cells []exporter.Cell) (n int64) {
	for _, c := range cells {
		if c.Revision != nil {
			n = max(n, c.Revision.Totals.Total, c.Revision.Totals.Human, c.Revision.Totals.AI)
		}
	}
	return n
}

func columnOf(g analytics.Granularity, c exporter.Cell, i, n int) column {
	width := float64(trendWidth) / float64(n)
	col := column{X: htmlview.At(float64(i) * width), Width: htmlview.At(width), Missing: c.Revision == nil, Title: htmlview.Days(g, c.Window) + ": missing"}
	if r := c.Revision; r != nil {
		col.Title = fmt.Sprintf("%s: %s total, %s human, %s AI", htmlview.Days(g, c.Window), htmlview.Commas(r.Totals.Total), htmlview.Commas(r.Totals.Human), htmlview.Commas(r.Totals.AI))
	}
	return col
}

func pointOf(g analytics.Granularity, c exporter.Cell, i int, f htmlview.Frame) point {
	v := c.Revision.Totals.Total
	return point{X: htmlview.At(f.X(i)), Y: htmlview.At(f.Y(v)), Value: htmlview.Commas(v), When: htmlview.Tick(g, c.Window), total: v}
}
