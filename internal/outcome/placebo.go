package outcome

import (
	"math"
	"slices"
)

const (
	// leastPlacebos is the least number that lets one change in twenty be told from the others.
	leastPlacebos = 19
	// level is the share of verdicts without any effect that may be wrong, and 1 - outside
	// is the share of intervals that have the true change.
	level, outside = 0.05, 0.10
)

// spreadOf is how far untouched pages stray: the standard deviation of a gap is
// sqrt(noise + own + trending*trend).
type spreadOf struct{ own, trending float64 }

func (s spreadOf) of(g gap) float64 { return math.Sqrt(g.noise + s.own + s.trending*g.trend) }

// fitSpread chooses from a grid what makes the gaps most likely, under a Student distribution
// with four degrees of freedom, which one large gap hardly moves. The gap of the touched
// page is among them, so that it is treated as the others are.
func fitSpread(gaps []gap) (best spreadOf) {
	const freedom = 4
	most := math.Inf(-1)
	for _, own := range []float64{0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5} {
		for _, trending := range []float64{0, 0.1, 0.2, 0.35, 0.5, 0.7, 1} {
			s := spreadOf{own * own, trending * trending}
			likelihood := 0.0
			for _, g := range gaps {
				z := g.change / s.of(g)
				likelihood -= math.Log(s.of(g)) + (freedom+1)/2.0*math.Log1p(z*z/freedom)
			}
			if likelihood > most {
				most, best = likelihood, s
			}
		}
	}
	return best
}

// infer returns the p-value of the change of a touched page, and half the width of its 90 %
// interval, by the changes of untouched pages at the same date. Every change is measured in
// its own standard deviation; p is the share of changes, the page's own included, that are
// at least as strong, and the interval has the changes whose p would be above 10 %.
func infer(touched gap, placebos []gap) (p, width float64) {
	s := fitSpread(append(slices.Clone(placebos), touched))
	own := math.Abs(touched.change) / s.of(touched)
	strengths := make([]float64, len(placebos))
	stronger := 0
	for i, g := range placebos {
		strengths[i] = math.Abs(g.change) / s.of(g)
		if strengths[i] >= own {
			stronger++
		}
	}
	slices.Sort(strengths)
	all := float64(len(placebos) + 1)
	at := len(strengths) - int(outside*all)
	return float64(stronger+1) / all, strengths[at] * s.of(touched)
}
