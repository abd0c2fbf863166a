package outcomes

import (
	"math"
	"slices"
)

// days are the days of a comparison, oldest first: the first of them are before the merge.
type days struct {
	date   []float64
	before int
}

// distance is the number of days between the middle of the days before the merge and the middle of the days after.
func (d days) distance() float64 { return mean(d.date[d.before:]) - mean(d.date[:d.before]) }

// control compares pages with a weighted mean of untouched ones. All levels are relative: a
// series divided by its mean before the merge.
type control struct {
	days
	// donors are the relative series of the pages that the mean is made of, noise their
	// relative variance of one day.
	donors [][]float64
	noise  []float64
	// usual is the plain mean of the donors.
	usual []float64
}

func newControl(d days, donors [][]float64) *control {
	c := &control{days: d, usual: make([]float64, len(d.date))}
	for _, series := range donors {
		level := mean(series[:d.before])
		relative := make([]float64, len(series))
		for i := range series {
			relative[i] = series[i] / level
			c.usual[i] += relative[i] / float64(len(donors))
		}
		c.donors = append(c.donors, relative)
		c.noise = append(c.noise, 1/level)
	}
	return c
}

// pageChange is how far a page strayed from its expected readers.
type pageChange struct {
	// log is the logarithm of the actual mean after the merge, relative to the expected one.
	log float64
	// noise is the variance that it has from day to day noise alone, noiseBefore the part of the days
	// before the merge.
	noise, noiseBefore float64
	// trend is the square of the change to come if the page went on to rise or fall against
	// the plain mean of the donors as it did before the merge, without what noise does to it.
	trend float64
	past  past
	// unrest is the variance that it has from how the page strayed from week to week before the merge.
	unrest float64
}

// compare returns the change of a page, and its expected days. Own is its index among the
// donors, or -1: a page is not compared with itself.
func (c *control) compare(series []float64, own int) (pageChange, []float64) {
	level := mean(series[:c.before])
	weights := c.weights(series, level, own)
	expected := make([]float64, len(series))
	donorNoise := 0.0
	for j, w := range weights {
		donorNoise += w * w * c.noise[j]
		for i, v := range c.donors[j] {
			expected[i] += w * v * level
		}
	}
	n, m := float64(c.before), float64(len(series)-c.before)
	after := mean(expected[c.before:])
	burst := c.burst(series, expected)
	g := pageChange{
		// Half a visitor keeps the logarithm finite without any visitor.
		log:         math.Log((mean(series[c.before:]) + 0.5/m) / (after + 0.5/m)),
		noise:       burst/(n*level) + burst/(m*max(after, 1/m)) + donorNoise*(1/n+1/m),
		noiseBefore: burst / (n * level),
	}
	g.trend = c.trend(series, level, burst)
	return g, expected
}

// burst is how many times as large the variance from one day to the next before the merge is as the variance of
// visitors who come independently of each other (Poisson): at least 1.
func (c *control) burst(series, expected []float64) float64 {
	sum, last := 0.0, 0.0
	for i := range c.before {
		residual := (series[i] - expected[i]) / math.Sqrt(max(expected[i], 1))
		if i > 0 {
			sum += (residual - last) * (residual - last) / 2
		}
		last = residual
	}
	return max(1, sum/float64(c.before-1))
}

func (c *control) trend(series []float64, level, burst float64) float64 {
	middle := mean(c.date[:c.before])
	var product, square float64
	for i := range c.before {
		d := c.date[i] - middle
		product += d * (series[i]/level - c.usual[i])
		square += d * d
	}
	shift := product / square * c.distance()
	return max(0, shift*shift-burst/level*c.distance()*c.distance()/square)
}

// weights returns the weights of the donors, which are not negative and add up to 1: those
// with the least squares of
//
//	mean over the days before of (series/level - sum of weights*donors)² + ridge * sum of (weight - 1/n)²
//
// The ridge is the noise of one day, so weights leave the plain mean only for more than noise.
// Found by accelerated projected gradients (FISTA, Beck and Teboulle 2009).
func (c *control) weights(series []float64, level float64, own int) []float64 {
	const rounds = 200
	n := len(c.donors)
	plain := 1 / float64(n)
	if own >= 0 {
		plain = 1 / float64(n-1)
	}
	ridge := 1/level + mean(c.noise)
	w, ahead, next, rising := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	for j := range w {
		w[j] = plain
	}
	if own >= 0 {
		w[own] = 0
	}
	copy(ahead, w)
	step := 1 / (c.curvature() + ridge)
	residual := make([]float64, c.before)
	momentum := 1.0
	for range rounds {
		for i := range residual {
			residual[i] = 1 - series[i]/level
		}
		for j, weight := range ahead {
			if weight != 0 {
				for i := range residual {
					residual[i] += weight * (c.donors[j][i] - 1)
				}
			}
		}
		for j := range next {
			slope := 0.0
			for i, r := range residual {
				slope += r * (c.donors[j][i] - 1)
			}
			next[j] = ahead[j] - step*(slope/float64(c.before)+ridge*(ahead[j]-plain))
		}
		if own >= 0 {
			next[own] = math.Inf(-1)
		}
		toSimplex(next, rising)
		momentumNext := (1 + math.Sqrt(1+4*momentum*momentum)) / 2
		moved := 0.0
		for j := range w {
			moved = max(moved, math.Abs(next[j]-w[j]))
			ahead[j] = next[j] + (momentum-1)/momentumNext*(next[j]-w[j])
		}
		w, next, momentum = next, w, momentumNext
		if moved < 1e-4 {
			break
		}
	}
	return w
}

// curvature bounds the largest eigenvalue of the squares from above.
func (c *control) curvature() (sum float64) {
	for _, donor := range c.donors {
		for _, v := range donor[:c.before] {
			sum += (v - 1) * (v - 1)
		}
	}
	return sum / float64(c.before)
}

// toSimplex moves w to the nearest point whose coordinates are not negative and add up to 1
// (Duchi and others 2008). It needs a second slice of that length.
func toSimplex(w, rising []float64) {
	copy(rising, w)
	slices.Sort(rising)
	sum, excess := 0.0, 0.0
	for i, v := range slices.Backward(rising) {
		sum += v
		if e := (sum - 1) / float64(len(w)-i); v > e {
			excess = e
		} else {
			break
		}
	}
	for j := range w {
		w[j] = max(0, w[j]-excess)
	}
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
