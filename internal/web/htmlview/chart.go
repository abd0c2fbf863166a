package htmlview

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// A drawing is ChartHeight units high and ColumnWidth units wide for each window. It
// is stretched to its place; the words around it are not part of it, so that they
// keep their size.
const (
	ChartHeight = 1000
	ColumnWidth = 10

	maxColumns = 60 // windows of a chart that show their numbers without a script
)

// Chart is the readers of some windows, oldest first. The template "readers" shows it.
type Chart struct {
	Label string // for people who do not see it
	Width int
	Gaps  string // an SVG path over the missing windows
	Lines Lines
	// Area, Total, Human, AI and Both are SVG paths, broken where a window is missing.
	Area, Total, Human, AI, Both string
	Top                          float64
	TopMark, MiddleMark          string // of the vertical axis, which begins at 0
	Columns                      []Column
	Ticks                        []string
	Low, High, Newest            Point
}

// Column is what a pointer finds without a script.
type Column struct {
	X, Width int
	Title    string
}

// Point is the total of one window.
type Point struct{ Value, When string }

// Series is a number for each window; nil where there is none.
type Series []*int64

// Lines are the numbers of some windows.
type Lines struct{ Total, Human, AI, Both Series }

func linesOf(cells []view.Cell) (l Lines) {
	for _, c := range cells {
		var total, human, ai, common *int64
		if c.Revision != nil {
			t := c.Revision.Totals
			total, human, ai = &t.Total, &t.Human, &t.AI
			if n, ok := both(t); ok {
				common = &n
			}
		}
		l.Total, l.Human = append(l.Total, total), append(l.Human, human)
		l.AI, l.Both = append(l.AI, ai), append(l.Both, common)
	}
	return l
}

// Max returns the largest number of some series, 0 if there is none.
func Max(all ...Series) (largest int64) {
	for _, series := range all {
		for _, n := range series {
			if n != nil {
				largest = max(largest, *n)
			}
		}
	}
	return largest
}

// ChartOf draws the cells of a grid, with so many names below the axis. It returns nil
// where no two of them in a row were read: dots are no trend.
func ChartOf(g view.Grid, cells []view.Cell, ticks int) *Chart {
	l := linesOf(cells)
	f := Frame{len(cells), Ceiling(Max(l.Total, l.Human, l.AI))}
	c := &Chart{
		Width: ColumnWidth * len(cells), Lines: l, Area: f.Area(l.Total),
		Gaps:  Stretches(cells, func(c view.Cell) bool { return c.Revision == nil }),
		Total: f.Line(l.Total), Human: f.Line(l.Human), AI: f.Line(l.AI), Both: f.Line(l.Both),
		Top: f.Top, TopMark: Short(f.Top), MiddleMark: Short(f.Top / 2),
	}
	var low, high, newest *view.Cell
	known, trend := 0, false
	for i := range cells {
		cell := &cells[i]
		if len(cells) <= maxColumns {
			c.Columns = append(c.Columns, Column{i * ColumnWidth, ColumnWidth, cellTitle(g, *cell)})
		}
		if cell.Revision == nil {
			continue
		}
		known++
		trend = trend || i > 0 && cells[i-1].Revision != nil
		newest = cell
		if low == nil || cell.Revision.Totals.Total < low.Revision.Totals.Total {
			low = cell
		}
		if high == nil || cell.Revision.Totals.Total > high.Revision.Totals.Total {
			high = cell
		}
	}
	if !trend {
		return nil
	}
	point := func(c *view.Cell) Point {
		return Point{format.Commas(c.Revision.Totals.Total), Tick(g.Granularity, c.Window)}
	}
	c.Low, c.High, c.Newest = point(low), point(high), point(newest)
	spoken := func(c *view.Cell) string {
		return fmt.Sprintf("%s (%s)", format.Commas(c.Revision.Totals.Total), view.Days(g.Granularity, c.Window))
	}
	c.Label = fmt.Sprintf("Readers in %s: lowest %s, highest %s, newest %s.",
		format.Plural(known, "window"), spoken(low), spoken(high), spoken(newest))
	if missing := len(cells) - known; missing > 0 {
		c.Label += " " + format.Plural(missing, "window") + " missing."
	}
	c.Ticks = ticksOf(len(cells), ticks, func(i int) string { return Tick(g.Granularity, cells[i].Window) })
	return c
}

// ticksOf names the middle of so many equal parts of n columns.
func ticksOf(n, parts int, name func(i int) string) (out []string) {
	parts = min(parts, n)
	for k := range parts {
		out = append(out, name((2*k+1)*n/(2*parts)))
	}
	return out
}

func cellTitle(g view.Grid, c view.Cell) string {
	title := view.Days(g.Granularity, c.Window) + ": missing"
	if c.Revision != nil {
		t := c.Revision.Totals
		title = fmt.Sprintf("%s: %s readers, %s human, %s AI", view.Days(g.Granularity, c.Window),
			format.Commas(t.Total), format.Commas(t.Human), format.Commas(t.AI))
	}
	return title
}

// Stretches returns an SVG path over the columns of the cells that are picked.
func Stretches(cells []view.Cell, picked func(view.Cell) bool) string {
	var path strings.Builder
	for from := 0; from < len(cells); from++ {
		to := from
		for to < len(cells) && picked(cells[to]) {
			to++
		}
		if to > from {
			fmt.Fprintf(&path, "M%d 0H%dV%dH%dZ", from*ColumnWidth, to*ColumnWidth, ChartHeight, from*ColumnWidth)
			from = to
		}
	}
	return path.String()
}

// Ceiling is a round number not below n whose half is round as well.
func Ceiling(n int64) float64 {
	size := math.Pow(10, math.Floor(math.Log10(math.Max(float64(n), 2))))
	for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 5, 6, 8} {
		if top := step * size; top >= float64(n) && math.Mod(top, 2) == 0 {
			return top
		}
	}
	return 10 * size
}

// Frame is a drawing of so many columns, with the value Top at its upper edge and 0
// at its lower edge.
type Frame struct {
	Columns int
	Top     float64
}

func (f Frame) point(i int, v int64) string {
	y := ChartHeight * (1 - float64(v)/f.Top)
	return fmt.Sprintf("%d %s", i*ColumnWidth+ColumnWidth/2, strconv.FormatFloat(math.Round(y*10)/10, 'f', -1, 64))
}

// Line draws a series, broken where it has no number; a number without neighbours is a
// short dash.
func (f Frame) Line(s Series) string {
	var path strings.Builder
	for i, v := range s {
		switch {
		case v == nil:
		case has(s, i-1):
			path.WriteString("L" + f.point(i, *v))
		default:
			path.WriteString("M" + f.point(i, *v))
			if !has(s, i+1) {
				fmt.Fprintf(&path, "h%v", min(float64(f.Columns*ColumnWidth)/125, ColumnWidth/2))
			}
		}
	}
	return path.String()
}

// Area fills the space below a series.
func (f Frame) Area(s Series) string {
	var path strings.Builder
	for i, v := range s {
		if v == nil {
			continue
		}
		x := i*ColumnWidth + ColumnWidth/2
		if !has(s, i-1) {
			fmt.Fprintf(&path, "M%d %d", x, ChartHeight)
		}
		path.WriteString("L" + f.point(i, *v))
		if !has(s, i+1) {
			fmt.Fprintf(&path, "L%d %dZ", x, ChartHeight)
		}
	}
	return path.String()
}

// Band fills the space between two series, where both have numbers.
func (f Frame) Band(low, high Series) string {
	var path strings.Builder
	for from := 0; from < len(low); from++ {
		to := from
		for has(low, to) && has(high, to) {
			to++
		}
		for i := from; i < to; i++ {
			path.WriteString(map[bool]string{true: "M", false: "L"}[i == from] + f.point(i, *high[i]))
		}
		for i := to - 1; i >= from; i-- {
			path.WriteString("L" + f.point(i, *low[i]))
		}
		if to > from {
			path.WriteString("Z")
			from = to
		}
	}
	return path.String()
}

func has(s Series, i int) bool { return i >= 0 && i < len(s) && s[i] != nil }
