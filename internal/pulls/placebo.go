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

// scatter is how far untouched pages stray: the standard deviation of a change is
// sqrt(noise + own + trending*trend).
type scatter struct{ own, trending float64 }

func (s scatter) deviation(g pageChange) float64 {
	return math.Sqrt(g.noise + s.own + s.trending*g.trend)
}

// scatters are the ones tried.
var scatters = func() (all []scatter) {
	for _, own := range []float64{0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5} {
		for _, trending := range []float64{0, 0.1, 0.2, 0.35, 0.5, 0.7, 1} {
			all = append(all, scatter{own * own, trending * trending})
		}
	}
	return all
}()

// likelihood is the logarithm of that of a change, but for a constant, under a Student
// distribution with four degrees of freedom, which expects a few large changes.
func (s scatter) likelihood(g pageChange) float64 {
	const freedom = 4
	z := g.log / s.deviation(g)
	return -math.Log(s.deviation(g)) - (freedom+1)/2.0*math.Log1p(z*z/freedom)
}

// placeboTest returns the p-value of the change of a touched page, and half the width of its
// 90 % interval, by the changes of untouched pages at the same date: p is the share of changes,
// the page's own included, that are at least as strong, and the interval has the changes whose p
// would be above 10 %.
func placeboTest(touched pageChange, placebos []pageChange) (p, width float64) {
	// No page has a say in its own strength, its change in standard deviations: those are of the
	// scatter under which the changes of the other placebos are most likely.
	total := make([]float64, len(scatters))
	single := make([][]float64, len(scatters))
	for i, s := range scatters {
		single[i] = make([]float64, len(placebos))
		for j, g := range placebos {
			single[i][j] = s.likelihood(g)
			total[i] += single[i][j]
		}
	}
	without := func(j int) (best scatter) {
		most := math.Inf(-1)
		for i, s := range scatters {
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
	deviation := without(-1).deviation(touched)
	own := math.Abs(touched.log) / deviation
	var others []float64
	stronger := 0
	for j, g := range placebos {
		strength := math.Abs(g.log) / without(j).deviation(g)
		others = append(others, strength)
		if strength >= own {
			stronger++
		}
	}
	slices.Sort(others)
	all := float64(len(placebos) + 1)
	return float64(stronger+1) / all, others[len(others)-int(outside*all)] * deviation
}
