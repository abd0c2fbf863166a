package pulls

import (
	"math"
	"slices"
)

const (
	// leastPlacebos is the least number that distinguishes one change in twenty from the others.
	leastPlacebos = 19
	// level is the share of verdicts without any effect that may be wrong, and 1 - outside
	// is the share of intervals that have the true change.
	level, outside = 0.05, 0.10
)

// spreadOf is how far untouched pages stray: the standard deviation of a gap is
// sqrt(noise + own + trending*trend).
type spreadOf struct{ own, trending float64 }

func (s spreadOf) of(g gap) float64 { return math.Sqrt(g.noise + s.own + s.trending*g.trend) }

// spreads are those that are tried.
var spreads = func() (all []spreadOf) {
	for _, own := range []float64{0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5} {
		for _, trending := range []float64{0, 0.1, 0.2, 0.35, 0.5, 0.7, 1} {
			all = append(all, spreadOf{own * own, trending * trending})
		}
	}
	return all
}()

// likelihood is the logarithm of that of a gap, but for a constant, under a Student
// distribution with four degrees of freedom, which expects a few large gaps.
func (s spreadOf) likelihood(g gap) float64 {
	const freedom = 4
	z := g.change / s.of(g)
	return -math.Log(s.of(g)) - (freedom+1)/2.0*math.Log1p(z*z/freedom)
}

// strengths returns the changes of placebos in their standard deviations, and the standard
// deviation of the touched page's change. No page has a say in its own: each is that of the
// spread under which the changes of the other placebos are most likely.
func strengths(touched gap, placebos []gap) (of []float64, deviation float64) {
	tried := spreads
	total := make([]float64, len(tried))
	single := make([][]float64, len(tried))
	for i, s := range tried {
		single[i] = make([]float64, len(placebos))
		for j, g := range placebos {
			single[i][j] = s.likelihood(g)
			total[i] += single[i][j]
		}
	}
	without := func(j int) (best spreadOf) {
		most := math.Inf(-1)
		for i, s := range tried {
			sum := total[i]
			if j >= 0 {
				sum -= single[i][j]
			}
			if sum > most {
				most, best = sum, s
			}
		}
		return best
	}
	for j, g := range placebos {
		of = append(of, math.Abs(g.change)/without(j).of(g))
	}
	return of, without(-1).of(touched)
}

// placeboTest returns the p-value of the change of a touched page, and half the width of its
// 90 % interval, by the changes of untouched pages at the same date: p is the share of changes,
// the page's own included, that are at least as strong, and the interval has the changes whose p
// would be above 10 %.
func placeboTest(touched gap, placebos []gap) (p, width float64) {
	all := float64(len(placebos) + 1)
	others, deviation := strengths(touched, placebos)
	own := math.Abs(touched.change) / deviation
	stronger := 0
	for _, strength := range others {
		if strength >= own {
			stronger++
		}
	}
	slices.Sort(others)
	return float64(stronger+1) / all, others[len(others)-int(outside*all)] * deviation
}
