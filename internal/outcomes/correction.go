package outcomes

import (
	"math"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// past is how a page moved before the merge: the logarithm of the mean of the month before it relative to the mean
// of the month before that one.
type past struct {
	moved float64
	known bool
}

// correction is the usual change of pages after the merge, a logarithm, by their past: a page chosen
// because of a bad month recovers without any merge. Pages also change against their control where
// some of those that it is made of rise or fall more than most.
type correction struct {
	// known says that the past of enough placebos is known. Then center, least and most are its mean and its bounds,
	// beyond which nothing is known, and spread is its variance without the variance of noise.
	known                       bool
	center, least, most, spread float64
	// usual are the coefficients of the features.
	usual vector
}

// The features of a page: the first is 1, the other two are how far it moved below and above the center,
// as far as that is more than noise. A page that fell need not come back as one that rose does.
const (
	always = iota
	fellAt
	roseAt
)

// features returns them, and what will come back of the noise of the month before the merge.
func (c *correction) features(g pageChange) (v vector, back float64) {
	v[always] = 1
	if !g.past.known || !c.known {
		return v, 0
	}
	moved := min(max(g.past.moved, c.least), c.most) - c.center
	side := fellAt
	if moved > 0 {
		side = roseAt
	}
	all := c.spread + 2*g.noiseBefore // the month before that one has as much noise
	v[side] = moved * c.spread / all
	return v, -moved * g.noiseBefore / all
}

// usualOf returns the usual change of a page.
func (c *correction) usualOf(g pageChange) float64 {
	v, back := c.features(g)
	return v.dot(c.usual) + back
}

// past returns the past of a page. It is not known if the archive lacks too many of those days, or another merge
// touched the page in them.
func (s *study) past(path string, a analytics.Audience) past {
	date := s.merge.Date()
	late, lateDays := s.level(path, a, date-span, date)
	early, earlyDays := s.level(path, a, date-2*span, date-span)
	return past{math.Log(late / early), !s.earlier[path] && min(lateDays, earlyDays) >= leastBefore}
}

// correct takes the usual change out of the changes of the placebos, of each by what the others did, and returns the
// correction for a touched page: a least squares fit with Student weights, which keep strong changes from bending
// it. If the past of too few is known, the usual change is the usual change of all placebos.
func correct(placebos []pageChange) correction {
	var c correction
	var moved, squares, noises []float64
	for _, g := range placebos {
		if g.past.known {
			moved, noises = append(moved, g.past.moved), append(noises, 2*g.noiseBefore)
		}
	}
	if c.known = len(moved) >= leastPlacebos; c.known {
		c.center, c.least, c.most = mean(moved), slices.Min(moved), slices.Max(moved)
		for _, m := range moved {
			squares = append(squares, (m-c.center)*(m-c.center))
		}
		c.spread = max(1e-9, median(squares)/medianOfSquare-median(noises))
	}
	best := newScattered(placebos).without(-1)
	var square matrix
	var product vector
	add := func(g pageChange, sign float64) {
		v, back := c.features(g)
		deviation := best.deviation(g)
		z := (g.log - c.usualOf(g)) / deviation
		w := sign * (freedom + 1) / (freedom + z*z) / (deviation * deviation)
		for i := range v {
			product[i] += w * v[i] * (g.log - back)
			for j := range v {
				square[i][j] += w * v[i] * v[j]
			}
		}
	}
	for range 30 {
		square, product = matrix{}, vector{}
		for _, g := range placebos {
			add(g, 1)
		}
		c.usual = solve(square, product, len(placebos))
	}
	rest := c
	for i, g := range placebos {
		add(g, -1)
		rest.usual = solve(square, product, len(placebos)-1)
		placebos[i].log -= rest.usualOf(g)
		add(g, 1)
	}
	return c
}

// medianOfSquare is the median of the square of a standard normal number.
const medianOfSquare = 0.4549

// median sorts all, and returns the middle one.
func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

// solve returns the coefficients. The coefficients of pages that fell and that rose are drawn to each other with the
// weight of shared pages, and to zero with the weight of one page; neither is beyond -1 to 1, because no page that
// comes back goes further than where it was.
func solve(square matrix, product vector, pages int) vector {
	const shared = 5
	n := float64(pages)
	prior := shared * (square[fellAt][fellAt] + square[roseAt][roseAt]) / n
	square[fellAt][fellAt] += prior
	square[roseAt][roseAt] += prior
	square[fellAt][roseAt] -= prior
	square[roseAt][fellAt] -= prior
	for i := range square {
		square[i][i] += 1e-6 + max(0, square[i][i]/n)
	}
	inverse, err := square.invert()
	if err != nil {
		return vector{}
	}
	usual := inverse.times(product)
	for _, i := range []int{fellAt, roseAt} {
		usual[i] = min(max(usual[i], -1), 1)
	}
	return usual
}
