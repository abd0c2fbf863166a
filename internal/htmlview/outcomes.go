package htmlview

import (
	"fmt"
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// Effect is what became of the readers of one page, in words; what is not known is a dash.
type Effect struct {
	Path, Title, Readers            string
	Before, After, Expected         string // mean daily visitors
	Change, Interval, Verdict, Tone string
	Reason                          string
}

// EffectOf describes an effect.
func EffectOf(e view.Effect) Effect {
	v := Effect{
		Path: format.Cut(e.Path, MaxName), Title: format.Cut(e.Path, MaxMessage), Readers: string(e.Audience),
		Before: "–", After: "–", Expected: "–", Change: "–", Interval: "–", Verdict: string(e.Verdict), Reason: e.Reason,
	}
	if e.Audience == analytics.AI {
		v.Readers = "AI"
	}
	if e.Before > 0 {
		v.Before = visitors(e.Before)
	}
	switch e.Verdict {
	case view.NotEnoughData:
		return v
	case view.MoreReaders:
		v.Tone = "up"
	case view.FewerReaders:
		v.Tone = "down"
	}
	v.After, v.Expected = visitors(e.Actual), visitors(e.Expected)
	v.Change, v.Interval = signedPercent(e.Change), signedPercent(e.Low)+" to "+signedPercent(e.High)
	return v
}

// visitors is a mean of daily visitors.
func visitors(n float64) string { return format.Commas(int64(math.Round(n))) }

// signedPercent writes a ratio: +27%, −6%, 0%.
func signedPercent(ratio float64) string {
	switch n := int64(math.Round(ratio * 100)); {
	case n > 0:
		return "+" + format.Commas(n) + "%"
	case n < 0:
		return "−" + format.Commas(-n) + "%"
	}
	return "0%"
}

// EffectTable is the effects of merges. The template "effects" shows it.
type EffectTable struct {
	Title  string // for people who do not see it
	Merged bool   // rows say which merge it was
	Rows   []EffectRow
	More   string // how many are not shown; empty: none
}

// EffectRow is an effect, and the merge that it is of.
type EffectRow struct {
	Effect
	Merged, Link, LinkText string
	Project                string // empty: there is only one
}

// EffectRowOf describes an effect of a merge.
func EffectRowOf(o view.Outcome, e view.Effect) EffectRow {
	r := EffectRow{Effect: EffectOf(e), Merged: Days(analytics.Day, analytics.Window{From: o.Date(), To: o.Date() + 1}), Link: analytics.SafeLink(o.Link)}
	if r.Link != "" {
		r.LinkText = linkText(r.Link)
	}
	return r
}

// EffectChart is the daily visitors of a page around a merge, and what was expected of them.
type EffectChart struct {
	Label                  string
	Width, Merge           int // Merge is where the day of the merge is
	Actual, Expected, Band string
	Top, Middle            string
	Ticks                  []string
}

// effectTicks is how many days are named below the axis.
const effectTicks = 5

// EffectChartOf draws the days of an effect; nil: there are none.
func EffectChartOf(merged analytics.Date, e view.Effect) *EffectChart {
	if len(e.Days) < 2 {
		return nil
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
	v := EffectOf(e)
	c := &EffectChart{
		Width: n * ColumnWidth, Merge: int(merged-first)*ColumnWidth + ColumnWidth/2,
		Actual: f.Line(actual), Expected: f.Line(expected), Band: f.Band(low, high), Top: Short(f.Top), Middle: Short(f.Top / 2),
		Label: fmt.Sprintf("Daily %s visitors of %s: %s before the merge, %s after it, %s expected.", v.Readers, v.Path, v.Before, v.After, v.Expected),
	}
	ticks := min(effectTicks, n)
	for k := range ticks {
		day := first + analytics.Date((2*k+1)*n/(2*ticks))
		c.Ticks = append(c.Ticks, Tick(analytics.Day, analytics.Window{From: day, To: day + 1}))
	}
	return c
}

func rounded(n float64) *int64 {
	r := int64(math.Round(math.Max(n, 0)))
	return &r
}
