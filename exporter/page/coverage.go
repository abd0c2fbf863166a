package page

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	maxCells    = 400    // drawn of one grid
	maxAllCells = 20_000 // drawn on the page
	minCells    = 31     // drawn of one grid however many grids there are

	cellPitch = 15 // from one cell to the next, in CSS pixels
	leftRoom  = 34 // for the names of rows
	topRoom   = 16 // for the names of columns

	letterWidth = 7 // at most, of a name
)

// shownCells is how many cells of each grid are drawn.
func shownCells(s *exporter.Snapshot) int {
	grids := 0
	for _, p := range s.Projects {
		grids += len(p.Grids)
	}
	return min(maxCells, max(minCells, maxAllCells/max(grids, 1)))
}

// coverage is what the ledger has of one grid: a calendar whose cells are the
// newest windows.
type coverage struct {
	ID, Title, Label string
	Hint             string // what a cell is
	Width, Height    int
	Cells            []square
	Rows, Columns    []label
	Older            string // how many windows are not drawn; empty: none

	Known, Missing, Provisional, Unverified string
	Settled                                 string
}

// square is one window; Symbol is the id of its drawing.
type square struct {
	X, Y          int
	Symbol, Title string
}

type label struct {
	X, Y int
	Text string
}

func coverageOf(id string, g exporter.Grid, shown int) coverage {
	c := coverage{
		ID: id, Title: title(g.Granularity), Hint: hint(g.Granularity),
		Known: commas(g.Known), Missing: commas(g.Missing), Provisional: commas(g.Provisional),
		Unverified: commas(g.Unverified), Settled: commas(g.Known - g.Provisional),
	}
	c.Label = fmt.Sprintf("%s windows: %s settled, %s provisional, %s unverified, %s missing.",
		c.Title, c.Settled, c.Provisional, c.Unverified, c.Missing)
	cells := g.Cells
	if older := len(cells) - shown; older > 0 {
		c.Older, cells = plural(older, "older window"), cells[older:]
	}
	c.draw(g.Granularity, cells)
	return c
}

func hint(g analytics.Granularity) string {
	switch {
	case g.RollingDays() > 0:
		return "a cell is the " + title(g) + " up to and including that day"
	case g == analytics.Day:
		return "a column is a week"
	default:
		return "a row is a year"
	}
}

// place says where a window is in the calendar: a column and a row, counted
// from anywhere, and what the two are called, if anything. The first column of
// a calendar always has a name.
type place struct {
	column, row         int
	columnName, rowName string
}

func placeOf(g analytics.Granularity, w analytics.Window, first bool) place {
	day := w.From.Time()
	switch g {
	case analytics.Month:
		return place{int(day.Month()), day.Year(), day.Format("Jan")[:1], fmt.Sprint(day.Year())}
	case analytics.Week:
		year, week := day.ISOWeek()
		return place{week, year, fmt.Sprint(week), fmt.Sprint(year)}
	default:
		return dayPlace(w.To-1, first)
	}
}

// dayPlace has a column for each week from Monday, named where a month begins;
// 1970-01-01 was a Thursday.
func dayPlace(d analytics.Date, first bool) place {
	week, weekday := int(d+3)/7, (int(d.Weekday())+6)%7
	p := place{column: week, row: weekday, rowName: d.Weekday().String()[:3]}
	if weekday%2 == 1 {
		p.rowName = ""
	}
	if monday := (d - analytics.Date(weekday)).Time(); monday.Day() <= 7 || first {
		p.columnName = monday.Format("Jan")
	}
	return p
}

func (c *coverage) draw(g analytics.Granularity, cells []exporter.Cell) {
	if len(cells) == 0 {
		return
	}
	places := make([]place, len(cells))
	for i, cell := range cells {
		places[i] = placeOf(g, cell.Window, i == 0)
	}
	left, right, top, bottom := bounds(places)
	if g == analytics.Day || g.RollingDays() > 0 {
		top, bottom = 0, 6
	}
	c.Width, c.Height = leftRoom+(right-left+1)*cellPitch, topRoom+(bottom-top+1)*cellPitch
	columns, rows := map[int]bool{}, map[int]bool{}
	for i, cell := range cells {
		p := places[i]
		px, py := leftRoom+(p.column-left)*cellPitch, topRoom+(p.row-top)*cellPitch
		c.Cells = append(c.Cells, square{px, py, symbol(cell.Revision), cellTitle(g, cell)})
		if !rows[p.row] && p.rowName != "" {
			rows[p.row] = true
			c.Rows = append(c.Rows, label{0, py + 10, p.rowName})
		}
		if !columns[p.column] {
			columns[p.column] = true
			c.Columns = append(c.Columns, label{px, topRoom - 5, p.columnName})
		}
	}
	c.Columns = spread(c.Columns)
}

// spread sorts names and drops empty ones, and those that would run into the next.
func spread(names []label) (out []label) {
	slices.SortFunc(names, func(a, b label) int { return cmp.Compare(b.X, a.X) })
	end := math.MaxInt
	for _, l := range names {
		if l.Text != "" && l.X+letterWidth*len(l.Text) < end {
			out, end = append(out, l), l.X-letterWidth
		}
	}
	return out
}

func bounds(places []place) (left, right, top, bottom int) {
	left, right, top, bottom = places[0].column, places[0].column, places[0].row, places[0].row
	for _, p := range places {
		left, right = min(left, p.column), max(right, p.column)
		top, bottom = min(top, p.row), max(bottom, p.row)
	}
	return left, right, top, bottom
}

// symbol names the drawing of a state.
func symbol(r *analytics.Revision) string {
	switch {
	case r == nil:
		return "missing"
	case r.Settled && r.Verified:
		return "settled"
	case r.Settled:
		return "settled-unverified"
	case r.Verified:
		return "provisional"
	default:
		return "provisional-unverified"
	}
}

func cellTitle(g analytics.Granularity, c exporter.Cell) string {
	name := c.From.String()
	if c.Days() > 1 && g != analytics.Month {
		name += " – " + (c.To - 1).String()
	} else if g == analytics.Month {
		name = c.From.Time().Format("January 2006")
	}
	if c.Revision == nil {
		return name + " missing"
	}
	text := "provisional"
	if c.Revision.Settled {
		text = "settled"
	}
	if !c.Revision.Verified {
		text += ", unverified"
	}
	return fmt.Sprintf("%s %s: %s", name, text, commas(c.Revision.Totals.Total))
}
