package outcomes

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
	// strongest is how many of the strongest changes are judged by a tail instead of their rank, and
	// beyond how much smaller than by its rank a p-value may become that way.
	strongest, beyond = 5, 10
	// freedom is the number of degrees of freedom of the Student distribution of the changes of untouched pages in
	// their standard deviations: it expects a few large ones.
	freedom = 4
)

// scatter is how far untouched pages stray: the standard deviation of a change is
// sqrt(noise + own + trending*trend + restless*unrest).
type scatter struct{ own, trending, restless float64 }

func (s scatter) deviation(g pageChange) float64 {
	return math.Sqrt(g.noise + s.own + s.trending*g.trend + s.restless*g.unrest)
}

// scatters are the ones tried.
var scatters = func() (all []scatter) {
	for _, own := range []float64{0, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.2, 0.3, 0.5} {
		for _, trending := range []float64{0, 0.1, 0.2, 0.35, 0.5, 0.7, 1} {
			for _, restless := range []float64{0, 0.3, 0.6, 1, 1.5} {
				all = append(all, scatter{own * own, trending * trending, restless})
			}
		}
	}
	return all
}()

// scattered has the log likelihoods, but for a constant, of the changes of untouched pages under each scatter that
// is tried.
type scattered struct {
	total  []float64
	single [][]float64
}

func newScattered(placebos []pageChange) *scattered {
	all := &scattered{make([]float64, len(scatters)), make([][]float64, len(scatters))}
	for i, s := range scatters {
		all.single[i] = make([]float64, len(placebos))
		for j, g := range placebos {
			deviation := s.deviation(g)
			z := g.log / deviation
			all.single[i][j] = -math.Log(deviation) - (freedom+1)/2.0*math.Log1p(z*z/freedom)
			all.total[i] += all.single[i][j]
		}
	}
	return all
}

// without returns the scatter under which the changes of all pages but one are most likely; of all
// pages if j is -1.
func (all *scattered) without(j int) (best scatter) {
	most := math.Inf(-1)
	for i, s := range scatters {
		sum := all.total[i]
		if j >= 0 {
			sum -= all.single[i][j]
		}
		if sum > most {
			most, best = sum, s
		}
	}
	return best
}

// placeboTest returns the p-value of the change of a touched page, and half the width of its 90 % interval, by the
// changes of untouched pages at the same date. p is the share of changes, the page's own included, that are at least
// as strong, and the interval has the changes whose p would be above 10 %. The share cannot be small among few
// pages, so the p of a very strong change comes from a Student distribution that has the interval of the untouched
// pages.
func placeboTest(touched pageChange, placebos []pageChange, untouched *scattered) (p, width float64) {
	// No page has a say in its own strength, its change in standard deviations.
	deviation := untouched.without(-1).deviation(touched)
	own := math.Abs(touched.log) / deviation
	var others []float64
	stronger := 0
	for j, g := range placebos {
		strength := math.Abs(g.log) / untouched.without(j).deviation(g)
		others = append(others, strength)
		if strength >= own {
			stronger++
		}
	}
	slices.Sort(others)
	all := float64(len(placebos) + 1)
	usual := others[len(others)-int(outside*all)]
	p = float64(stronger+1) / all
	if stronger < strongest {
		p = min(p, max(student4(student4Outside*own/usual), p/beyond))
	}
	return p, usual * deviation
}

// student4 is the probability of a Student distribution with four degrees of freedom beyond -t and
// t, and student4Outside the t beyond which that is 10 %.
func student4(t float64) float64 {
	r := t * t / (4 + t*t)
	return 1 - math.Sqrt(r)*(3-r)/2
}

const student4Outside = 2.131847
