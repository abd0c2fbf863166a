package web

import (
	"fmt"
	"iter"
	"math"
	"strconv"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// A drawing is chartHeight units high and columnWidth units wide for each window. It
// is stretched to its place; the words around it are not part of it, so that they
// keep their size.
const (
	chartHeight = 1000
	columnWidth = 10

	maxColumns = 60 // windows of a chart that show their numbers without a script
)

// chart is the readers of some windows, oldest first. The template "readers" shows it.
type chart struct {
	Label string // for people who do not see it
	Noun  string // of the count, of a chart of one; else empty
	Width int
	Gaps  string // an SVG path over the missing windows
	Lines chartLines
	// Area, Total, Human, AI and Both are SVG paths, broken where a window is missing.
	Area, Total, Human, AI, Both string
	Merged                       string // an SVG path through the windows of merges
	Chosen                       string // an SVG path over the window that the page is about; empty: the newest
	Modes                        string // an SVG path before windows that count people by another mode
	ModeNotes                    []string
	Top                          float64
	TopMark, MiddleMark          string // of the vertical axis, which begins at 0
	Columns                      []chartColumn
	Ticks                        []axisTick
	Low, High, Newest            chartPoint
}

// chartColumn is an area whose tooltip works without a script.
type chartColumn struct {
	X, Width int
	Title    string
}

// axisTick names a point of the horizontal axis. At is its place in per cent of the width.
type axisTick struct {
	At   float64
	Text string
}

// chartPoint is the total of one window.
type chartPoint struct{ Value, When string }

// series has a number for each window; nil if the window has no number.
type series []*int64

// chartLines are the numbers of some windows.
type chartLines struct {
	Total series `json:"total"`
	Human series `json:"human"`
	AI    series `json:"ai"`
	Both  series `json:"both"`
}

func linesOf(cells []view.Cell) (l chartLines) {
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

// largest returns the largest number in the given series, or 0 if they have no numbers.
func largest(all ...series) (most int64) {
	for _, s := range all {
		for _, n := range s {
			if n != nil {
				most = max(most, *n)
			}
		}
	}
	return most
}

// chartOf draws the cells of a grid, with the given number of labels below the axis. It returns
// nil unless two consecutive windows were read: isolated dots do not show a trend.
func chartOf(g view.Grid, cells []view.Cell, ticks int) *chart {
	l := linesOf(cells)
	f := frame{len(cells), ceiling(largest(l.Total, l.Human, l.AI))}
	c := &chart{
		Width: columnWidth * len(cells), Lines: l, Area: f.area(l.Total),
		Gaps:  stretches(cells, func(c view.Cell) bool { return c.Revision == nil }),
		Total: f.line(l.Total), Human: f.line(l.Human), AI: f.line(l.AI), Both: f.line(l.Both),
		Top: f.top, TopMark: axisMark(f.top), MiddleMark: axisMark(f.top / 2),
	}
	var modes strings.Builder
	for i, note := range modeChanges(g.Granularity, cells) {
		fmt.Fprintf(&modes, "M%d 0V%d", i*columnWidth, chartHeight)
		c.ModeNotes = append(c.ModeNotes, note)
	}
	c.Modes = modes.String()
	var low, high, newest *view.Cell
	known, trend := 0, false
	for i := range cells {
		cell := &cells[i]
		if len(cells) <= maxColumns {
			c.Columns = append(c.Columns, chartColumn{i * columnWidth, columnWidth, cellTitle(g, *cell)})
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
	point := func(c *view.Cell) chartPoint {
		return chartPoint{format.Commas(c.Revision.Totals.Total), tick(g.Granularity, c.Window)}
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
	c.Label = strings.Join(append([]string{c.Label}, c.ModeNotes...), " ")
	c.Ticks = ticksOf(len(cells), ticks, func(i int) string { return tick(g.Granularity, cells[i].Window) })
	return c
}

// modeChanges yields the index of each window that counts people by another mode than the former one, and says so.
func modeChanges(g analytics.Granularity, cells []view.Cell) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		var former *analytics.Revision
		for i, c := range cells {
			if c.Revision == nil {
				continue
			}
			if former != nil && former.Humans != c.Revision.Humans {
				if !yield(i, view.ModeChange(former.Humans, c.Revision.Humans, view.Days(g, c.Window))) {
					return
				}
			}
			former = c.Revision
		}
	}
}

// ticksOf names at most most of n columns, at equal distances and as far from the first as from the last.
func ticksOf(n, most int, name func(i int) string) (out []axisTick) {
	step := (n + most - 1) / most
	count := n / step
	for i := (n - 1 - (count-1)*step) / 2; len(out) < count; i += step {
		out = append(out, axisTick{math.Round((float64(i)+.5)/float64(n)*1e5) / 1e3, name(i)})
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

// stretches returns an SVG path over the columns of the cells that are picked.
func stretches(cells []view.Cell, picked func(view.Cell) bool) string {
	var path strings.Builder
	for from := 0; from < len(cells); from++ {
		to := from
		for to < len(cells) && picked(cells[to]) {
			to++
		}
		if to > from {
			path.WriteString(stretch(from, to))
			from = to
		}
	}
	return path.String()
}

// stretch is an SVG path over some columns.
func stretch(from, to int) string {
	return fmt.Sprintf("M%d 0H%dV%dH%dZ", from*columnWidth, to*columnWidth, chartHeight, from*columnWidth)
}

// ceiling is a round number not below n whose half is round as well.
func ceiling(n int64) float64 {
	size := math.Pow(10, math.Floor(math.Log10(math.Max(float64(n), 2))))
	for _, step := range []float64{1, 1.2, 1.6, 2, 3, 4, 5, 6, 8} {
		if top := step * size; top >= float64(n) && math.Mod(top, 2) == 0 {
			return top
		}
	}
	return 10 * size
}

// frame is a drawing with a number of columns, with the value Top at its upper edge and 0
// at its lower edge.
type frame struct {
	columns int
	top     float64
}

func (f frame) point(i int, v int64) string {
	y := chartHeight * (1 - float64(v)/f.top)
	return fmt.Sprintf("%d %s", i*columnWidth+columnWidth/2, strconv.FormatFloat(math.Round(y*10)/10, 'f', -1, 64))
}

// line draws a series, broken where it has no number; a number without neighbours is a
// short dash.
func (f frame) line(s series) string {
	var path strings.Builder
	for i, v := range s {
		switch {
		case v == nil:
		case has(s, i-1):
			path.WriteString("L" + f.point(i, *v))
		default:
			path.WriteString("M" + f.point(i, *v))
			if !has(s, i+1) {
				fmt.Fprintf(&path, "h%v", min(float64(f.columns*columnWidth)/125, columnWidth/2))
			}
		}
	}
	return path.String()
}

// area fills the space below a series.
func (f frame) area(s series) string {
	var path strings.Builder
	for i, v := range s {
		if v == nil {
			continue
		}
		x := i*columnWidth + columnWidth/2
		if !has(s, i-1) {
			fmt.Fprintf(&path, "M%d %d", x, chartHeight)
		}
		path.WriteString("L" + f.point(i, *v))
		if !has(s, i+1) {
			fmt.Fprintf(&path, "L%d %dZ", x, chartHeight)
		}
	}
	return path.String()
}

// band fills the space between two series, where both have numbers.
func (f frame) band(low, high series) string {
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

func has(s series, i int) bool { return i >= 0 && i < len(s) && s[i] != nil }
