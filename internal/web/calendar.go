package web

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// coverage describes the ledger's windows of one grid, with a calendar of the newest.
type coverage struct {
	Grid     view.Grid
	Label    string
	Hint     string // how to read the calendar
	Older    string // how many windows are not drawn; empty if all are
	Calendar calendar
}

func coverageOf(g view.Grid, shown int) coverage {
	c := coverage{Grid: g, Hint: "A row is a year."}
	switch {
	case g.Granularity.RollingDays() > 0:
		c.Hint = "A column is a calendar week. A cell is the " + title(g.Granularity) + " up to and including that day."
	case g.Granularity == analytics.Day:
		c.Hint = "A column is a calendar week."
	case g.Granularity == analytics.Week:
		c.Hint = "A row is a year; a column is an ISO week."
	}
	c.Label = title(g.Granularity) + " windows:"
	for _, e := range legendOf(g) {
		c.Label += " " + e.Text + "."
	}
	cells := g.Cells
	if older := len(cells) - shown; older > 0 {
		c.Older, cells = format.Commas(older), cells[older:]
	}
	if len(cells) > 0 {
		c.Calendar = calendarOf(g, cells)
	}
	return c
}

// stateOfCell names the symbol of a window, and its state in words.
func stateOfCell(g view.Grid, c view.Cell) (symbol, text string) {
	symbol, text = windowState(c.Revision)
	if c.Revision == nil || g.TotalsOnly || !c.Revision.TotalsOnly() {
		return symbol, text
	}
	text += ", totals only"
	if !c.RowsFrom.IsZero() {
		text += ", rows after " + format.Time(c.RowsFrom)
	}
	return "totals", text
}

// In CSS pixels.
const (
	cellPitch   = 15  // from one cell to the next
	leftRoom    = 34  // for the names of rows
	topRoom     = 16  // for the names of columns
	rightRoom   = 14  // the last of which may be wider than its column
	letterWidth = 7   // at most, of a name
	maxNarrow   = 590 // of a calendar that has another beside it
)

// calendar is a drawing of windows in columns and rows.
type calendar struct {
	Width, Height int
	Cells         []square
	Rows, Columns []label
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

// gridPlace is the column and the row of a window, counted from anywhere, and their
// names, if any.
type gridPlace struct {
	column, row         int
	columnName, rowName string
}

// placeOf puts days and rolling windows into weeks from Monday, by their last day,
// and other windows into years.
func placeOf(g analytics.Granularity, w analytics.Window) gridPlace {
	day := w.From.Time()
	switch g {
	case analytics.Month:
		return gridPlace{int(day.Month()), day.Year(), day.Format("Jan"), strconv.Itoa(day.Year())}
	case analytics.Week:
		year, week := day.ISOWeek()
		return gridPlace{week, year, monthBegun(w.From), strconv.Itoa(year)}
	}
	last := w.To - 1
	weekday := (int(last.Weekday()) + 6) % 7
	// Weeks are counted from a Monday: 1970-01-05 was one.
	return gridPlace{
		column: (int(last) - weekday + 3) / 7, row: weekday, columnName: monthBegun(last - analytics.Date(weekday)),
	}
}

// monthBegun names the month that has its first Monday on a day, if one has.
func monthBegun(monday analytics.Date) string {
	if t := monday.Time(); t.Day() <= 7 {
		return t.Format("Jan")
	}
	return ""
}

// calendarOf draws at least one cell.
func calendarOf(g view.Grid, cells []view.Cell) (c calendar) {
	places := make([]gridPlace, len(cells))
	for i, cell := range cells {
		places[i] = placeOf(g.Granularity, cell.Window)
	}
	weeks := g.Granularity == analytics.Day || g.Granularity.RollingDays() > 0
	from, to := bounds(places, weeks)
	c.Width = leftRoom + (to.column-from.column+1)*cellPitch + rightRoom
	c.Height = topRoom + (to.row-from.row+1)*cellPitch
	for i, cell := range cells {
		p := places[i]
		x, y := leftRoom+(p.column-from.column)*cellPitch, topRoom+(p.row-from.row)*cellPitch
		symbol, state := stateOfCell(g, cell)
		if cell.Revision != nil {
			state = format.Commas(cell.Revision.Totals.Total) + " readers, " + state
		}
		c.Cells = append(c.Cells, square{x, y, symbol, view.Days(g.Granularity, cell.Window) + ": " + state})
		c.Columns = append(c.Columns, label{x, topRoom - 5, p.columnName})
		c.Rows = append(c.Rows, label{0, y + 10, p.rowName})
	}
	c.Columns, c.Rows = spread(c.Columns), slices.CompactFunc(c.Rows, func(a, b label) bool { return a == b })
	if weeks {
		c.Rows = nil
		for i, name := range []string{"Mon", "", "Wed", "", "Fri", "", "Sun"} {
			if name != "" {
				c.Rows = append(c.Rows, label{0, topRoom + i*cellPitch + 10, name})
			}
		}
	}
	return c
}

func bounds(places []gridPlace, weeks bool) (from, to gridPlace) {
	from, to = places[0], places[0]
	for _, p := range places {
		from.column, to.column = min(from.column, p.column), max(to.column, p.column)
		from.row, to.row = min(from.row, p.row), max(to.row, p.row)
	}
	if weeks {
		from.row, to.row = 0, 6
	}
	return from, to
}

// spread drops names that are empty or would run into the next one.
func spread(names []label) (out []label) {
	slices.SortFunc(names, func(a, b label) int { return cmp.Compare(b.X, a.X) })
	end := math.MaxInt
	for _, l := range names {
		if l.Text != "" && l.X+letterWidth*len(l.Text) < end {
			out, end = append(out, l), l.X-letterWidth/2
		}
	}
	return out
}
