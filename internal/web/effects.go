package web

import (
	"fmt"
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// effectTable is the effects of merges. The template "effects" shows it.
type effectTable struct {
	Title        string // for people who do not see it
	Merged       string // the column that names the merge of a row; empty: none does
	Linked       bool   // pages lead to their numbers
	Rows         []effectRow
	More         string // how many are not shown; empty: none
	Incomparable int    // merges without enough data
	// Summaries and Caution speak about all merges together.
	Summaries []string
	Caution   string
}

// effectRow is an effect and its merge.
type effectRow struct {
	view.Effect
	Merge   view.Merge
	Project string // empty: there is only one
}

// effectChart is the daily visitors of a page around a merge, and how many were expected.
type effectChart struct {
	view.Effect
	Label                   string
	Linked                  string // the project whose pages lead to their numbers; empty: none do
	Width, Merged           int    // Merged is where the day of the merge is
	Line, Expectation, Band string
	Top, Middle             string
	Ticks                   []axisTick
}

// effectTicks is the number of days that are named below the axis.
const effectTicks = 5

// effectChartOf draws the days of an effect; it returns nil for fewer than two days.
func effectChartOf(merged analytics.Date, e view.Effect) *effectChart {
	if len(e.Days) < 2 {
		return nil
	}
	rounded := func(n float64) *int64 {
		r := int64(math.Round(math.Max(n, 0)))
		return &r
	}
	first := e.Days[0].Date
	n := int(e.Days[len(e.Days)-1].Date-first) + 1
	actual, expected, low, high := make(series, n), make(series, n), make(series, n), make(series, n)
	for _, d := range e.Days {
		i := int(d.Date - first)
		actual[i], expected[i] = rounded(d.Actual), rounded(d.Expected)
		if d.Date > merged {
			low[i], high[i] = rounded(d.Low), rounded(d.High)
		}
	}
	f := frame{n, ceiling(largest(actual, expected, high))}
	c := &effectChart{
		Effect: e, Width: n * columnWidth, Merged: int(merged-first)*columnWidth + columnWidth/2,
		Line: f.line(actual), Expectation: f.line(expected), Band: f.band(low, high),
		Top: axisMark(f.top), Middle: axisMark(f.top / 2),
		Label: fmt.Sprintf("Daily %s visitors of %s: %s before the merge, %s after it, %s expected.", e.Readers(),
			format.Cut(e.Path, view.MaxName), e.BeforeText(), e.Visitors(e.Actual), e.Visitors(e.Expected)),
	}
	c.Ticks = ticksOf(n, effectTicks, func(i int) string {
		day := first + analytics.Date(i)
		return tick(analytics.Day, analytics.Window{From: day, To: day + 1})
	})
	return c
}
