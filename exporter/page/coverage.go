package page

import (
	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/htmlview"
)

const (
	maxCells    = 400    // drawn of one grid
	maxAllCells = 20_000 // drawn on the page
	minCells    = 31     // drawn of one grid however many grids there are
)

// shownCells is how many cells of each grid are drawn.
func shownCells(s *exporter.Snapshot) int {
	grids := 0
	for _, p := range s.Projects {
		grids += len(p.Grids)
	}
	return min(maxCells, max(minCells, maxAllCells/max(grids, 1)))
}

// coverage is what the ledger has of one grid, as a calendar of its newest windows.
type coverage struct {
	Title, Label string
	Hint         string // how to read the calendar
	Known, All   string // 3, 4 windows
	Older        string // how many windows are not drawn; empty: none
	Legend       []entry
	calendar
}

// entry is a state that occurs, and how often. A window can be in two.
type entry struct{ Symbol, Text string }

func coverageOf(g exporter.Grid, shown int) coverage {
	c := coverage{
		Title: htmlview.Title(g.Granularity), Hint: hint(g.Granularity),
		Known: htmlview.Commas(g.Known), All: htmlview.Plural(g.Known+g.Missing, "window"), Legend: legend(g),
	}
	c.Label = c.Title + " windows:"
	for _, e := range c.Legend {
		c.Label += " " + e.Text + "."
	}
	cells := g.Cells
	if older := len(cells) - shown; older > 0 {
		c.Older, cells = htmlview.Commas(older), cells[older:]
	}
	if len(cells) > 0 {
		c.calendar = calendarOf(g, cells)
	}
	return c
}

func legend(g exporter.Grid) (out []entry) {
	for _, state := range []struct {
		symbol, name string
		count        int
	}{
		{"settled", "settled", g.Known - g.Provisional},
		{"provisional", "provisional", g.Provisional},
		{"totals", "totals only", g.Rowless},
		{"settled-unverified", "unverified", g.Unverified},
		{"missing", "missing", g.Missing},
	} {
		if state.count > 0 {
			out = append(out, entry{state.symbol, htmlview.Commas(state.count) + " " + state.name})
		}
	}
	return out
}

func hint(g analytics.Granularity) string {
	switch {
	case g.RollingDays() > 0:
		return "A column is a calendar week. A cell is the " + htmlview.Title(g) + " up to and including that day."
	case g == analytics.Day:
		return "A column is a calendar week."
	case g == analytics.Week:
		return "A row is a year; columns are ISO weeks."
	default:
		return "A row is a year."
	}
}

func cellTitle(g exporter.Grid, c exporter.Cell) string {
	_, state := stateOfCell(g, c)
	if c.Revision != nil {
		state = htmlview.Commas(c.Revision.Totals.Total) + ", " + state
	}
	return htmlview.Days(g.Granularity, c.Window) + ": " + state
}

// stateOfCell names the symbol of a window, and its state in words.
func stateOfCell(g exporter.Grid, c exporter.Cell) (symbol, text string) {
	symbol, text = htmlview.Reading(c.Revision)
	if c.Revision == nil || g.TotalsOnly || !c.Revision.TotalsOnly() {
		return symbol, text
	}
	text += ", totals only"
	if !c.RowsFrom.IsZero() {
		text += ", rows from " + c.RowsFrom.UTC().Format("2006-01-02 15:04")
	}
	return "totals", text
}
