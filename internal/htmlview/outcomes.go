package htmlview

import (
	"fmt"
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/outcome"
)

// Effect is what became of the readers of one page, in words; what is not known is a dash.
type Effect struct {
	Path, Title, Readers            string
	Before, After, Expected         string // mean daily visitors
	Change, Interval, Verdict, Tone string
	Reason                          string
}

// EffectOf describes an effect.
func EffectOf(e outcome.Effect) Effect {
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
	case outcome.Lacking:
		return v
	case outcome.More:
		v.Tone = "up"
	case outcome.Fewer:
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
	return fmt.Sprint("0%")
}
