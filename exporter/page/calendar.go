package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// In CSS pixels.
const (
	cellPitch   = 15 // from one cell to the next
	leftRoom    = 34 // for the names of rows
	topRoom     = 16 // for the names of columns
	rightRoom   = 14 // the last of which may be wider than its column
	letterWidth = 7  // at most, of a name
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

// place says where a window is, in a column and a row counted from anywhere,
// and what the two are called, if anything.
type place struct {
	column, row         int
	columnName, rowName string
}

// placeOf puts days, and windows that roll, into weeks from Monday by their
// last day, and the other windows into years.
func placeOf(g analytics.Granularity, w analytics.Window) place {
	day := w.From.Time()
	switch g {
	case analytics.Month:
		return place{int(day.Month()), day.Year(), day.Format("Jan")[:1], strconv.Itoa(day.Year())}
	case analytics.Week:
		year, week := day.ISOWeek()
		return place{week, year, strconv.Itoa(week), strconv.Itoa(year)}
	default:
		return dayPlace(w.To - 1)
	}
}

// dayPlace names a column where a month begins. 1970-01-05 was a Monday.
func dayPlace(d analytics.Date) place {
	weekday := (int(d.Weekday()) + 6) % 7
	p := place{column: (int(d) - weekday + 3) / 7, row: weekday}
	if monday := (d - analytics.Date(weekday)).Time(); monday.Day() <= 7 {
		p.columnName = monday.Format("Jan")
	}
	return p
}

// calendarOf draws cells, of which there is at least one.
func calendarOf(g exporter.Grid, cells []exporter.Cell) (c calendar) {
	places := make([]place, len(cells))
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
		symbol, _ := stateOfCell(g, cell)
		c.Cells = append(c.Cells, square{x, y, symbol, cellTitle(g, cell)})
		c.Columns = append(c.Columns, label{x, topRoom - 5, p.columnName})
		c.Rows = append(c.Rows, label{0, y + 10, p.rowName})
	}
	c.Columns, c.Rows = spread(c.Columns), distinct(c.Rows)
	if weeks {
		c.Rows = weekdays()
	}
	return c
}

func bounds(places []place, weeks bool) (from, to place) {
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

func weekdays() (out []label) {
	for i, name := range []string{"Mon", "", "Wed", "", "Fri", "", "Sun"} {
		if name != "" {
			out = append(out, label{0, topRoom + i*cellPitch + 10, name})
		}
	}
	return out
}

func distinct(names []label) []label {
	return slices.CompactFunc(names, func(a, b label) bool { return a == b })
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
