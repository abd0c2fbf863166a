package htmlview

import (
	"fmt"
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// EffectTable is the effects of merges. The template "effects" shows it.
type EffectTable struct {
	Title  string // for people who do not see it
	Merged bool   // rows name their merge
	Rows   []EffectRow
	More   string // how many are not shown; empty: none
}

// EffectRow is an effect and its merge.
type EffectRow struct {
	view.Effect
	Merge   view.Merge
	Project string // empty: there is only one
}

// EffectChart is the daily visitors of a page around a merge, and how many were expected.
type EffectChart struct {
	view.Effect
	Label                   string
	Width, Merged           int // Merged is where the day of the merge is
	Line, Expectation, Band string
	Top, Middle             string
	Ticks                   []string
}

// effectTicks is how many days are named below the axis.
const effectTicks = 5

// EffectChartOf draws the days of an effect; nil: there are none.
func EffectChartOf(merged analytics.Date, e view.Effect) *EffectChart {
	if len(e.Days) < 2 {
		return nil
	}
	rounded := func(n float64) *int64 {
		r := int64(math.Round(math.Max(n, 0)))
		return &r
	}
	first := e.Days[0].Date
	n := int(e.Days[len(e.Days)-1].Date-first) + 1
	actual, expected, low, high := make(Series, n), make(Series, n), make(Series, n), make(Series, n)
	for _, d := range e.Days {
		i := int(d.Date - first)
		actual[i], expected[i] = rounded(d.Actual), rounded(d.Expected)
		if d.Date > merged {
			low[i], high[i] = rounded(d.Low), rounded(d.High)
		}
	}
	f := Frame{n, Ceiling(Max(actual, expected, high))}
	c := &EffectChart{
		Effect: e, Width: n * ColumnWidth, Merged: int(merged-first)*ColumnWidth + ColumnWidth/2,
		Line: f.Line(actual), Expectation: f.Line(expected), Band: f.Band(low, high),
		Top: Short(f.Top), Middle: Short(f.Top / 2),
		Label: fmt.Sprintf("Daily %s visitors of %s: %s before the merge, %s after it, %s expected.", e.Readers(),
			format.Cut(e.Path, view.MaxName), e.BeforeText(), e.Visitors(e.Actual), e.Visitors(e.Expected)),
	}
	c.Ticks = ticksOf(n, effectTicks, func(i int) string {
		day := first + analytics.Date(i)
		return Tick(analytics.Day, analytics.Window{From: day, To: day + 1})
	})
	return c
}
