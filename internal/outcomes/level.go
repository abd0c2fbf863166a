package outcomes

import (
	"errors"
	"math"
	"slices"
)

// weekdays, the trend and the change: the coefficients of a level.
const (
	weekdays  = 7
	trendAt   = weekdays
	changeAt  = weekdays + 1
	levelSize = weekdays + 2
)

type (
	vector [levelSize]float64
	matrix [levelSize]vector
)

var errSingular = errors.New("the days do not tell trend and change apart")

// levelled is the change of the level of a page, a logarithm, with its variance, and with the variance that it would
// have if visitors came independently of each other.
type levelled struct{ change, variance, poisson float64 }

// drift is by how much the level of a page strays for no reason, a standard deviation.
const drift = 0.05

// usualChange is the weighted mean change of pages with its variance, both 0 without any. The weight of a page
// ignores how restless it was: a launch makes those restless that change most.
func usualChange(all []levelled) (change, variance float64) {
	sum := 0.0
	for _, l := range all {
		w := 1 / (l.poisson + drift*drift)
		change += w * l.change
		variance += w * w * (l.variance + drift*drift)
		sum += w
	}
	if sum == 0 {
		return 0, 0
	}
	return change / sum, variance / sum / sum
}

// against returns the change less the change of the other pages, and its degrees of freedom, at most freedom. The
// variance grows with how far the others stray from each other: that they stray as their regressions say has the
// weight of four of them.
func (l levelled) against(others []levelled, freedom float64) (levelled, float64) {
	const trust = 4
	if len(others) == 0 {
		return l, min(freedom, trust)
	}
	strayed := 0.0
	for i, o := range others {
		usual, variance := usualChange(slices.Delete(slices.Clone(others), i, i+1))
		strayed += (o.change - usual) * (o.change - usual) / (o.variance + drift*drift + variance)
	}
	all := trust + float64(len(others))
	usual, variance := usualChange(others)
	l.change -= usual
	l.variance = max(1, (trust+strayed)/all) * (l.variance + drift*drift + variance)
	return l, min(freedom, all)
}

// levelChange fits daily visitors with a level for each weekday, a trend and a change of the level after the merge:
// a Poisson regression with a logarithmic link, whose variance is scaled to the variance of the days. It returns the
// change, the degrees of freedom of its variance, and the days expected without the change.
func levelChange(d days, series []float64) (l levelled, freedom float64, expected []float64, err error) {
	rows := make([]vector, len(series))
	for i, date := range d.date {
		rows[i][int(date)%weekdays] = 1
		rows[i][trendAt] = (date - mean(d.date)) / span
		if i >= d.before {
			rows[i][changeAt] = 1
		}
	}
	fitted := make([]float64, len(series))
	for i, v := range series {
		fitted[i] = v + 0.5
	}
	var beta vector
	var inverse matrix
	// Iteratively reweighted least squares (McCullagh and Nelder 1989, 2.5).
	for range 25 {
		var square matrix
		var product vector
		for i, row := range rows {
			target := math.Log(fitted[i]) + (series[i]-fitted[i])/fitted[i]
			for a := range row {
				product[a] += fitted[i] * row[a] * target
				for b := range row {
					square[a][b] += fitted[i] * row[a] * row[b]
				}
			}
		}
		for a := range square {
			square[a][a] += 1e-9 // a weekday may have no day
		}
		if inverse, err = square.invert(); err != nil {
			return l, 0, nil, err
		}
		beta = inverse.times(product)
		for i, row := range rows {
			fitted[i] = math.Exp(min(row.dot(beta), 50))
		}
	}
	freedom = float64(len(series) - levelSize)
	scale := dispersion(series, fitted, freedom)
	expected = make([]float64, len(series))
	for i := range fitted {
		expected[i] = fitted[i] / math.Exp(rows[i][changeAt]*beta[changeAt])
	}
	at := inverse[changeAt][changeAt]
	return levelled{beta[changeAt], scale * at, at}, freedom, expected, nil
}

// dispersion is the variance of the days relative to the variance of independent visitors, at least 1, and more
// where one day takes after the day before.
func dispersion(series, fitted []float64, freedom float64) float64 {
	var square, product, last float64
	for i := range series {
		residual := (series[i] - fitted[i]) / math.Sqrt(fitted[i])
		square += residual * residual
		product += residual * last
		last = residual
	}
	after := 0.0
	if square > 0 {
		after = min(max(product/square, 0), 0.9)
	}
	return max(1, square/freedom) * (1 + after) / (1 - after)
}

func (v vector) dot(w vector) (sum float64) {
	for i := range v {
		sum += v[i] * w[i]
	}
	return sum
}

func (m matrix) times(v vector) (out vector) {
	for i := range m {
		out[i] = m[i].dot(v)
	}
	return out
}

// invert is the elimination of Gauss and Jordan; m is symmetric and positive definite, so it
// needs no exchange of rows.
func (m matrix) invert() (inverse matrix, err error) {
	for i := range inverse {
		inverse[i][i] = 1
	}
	for i := range m {
		pivot := m[i][i]
		if !(pivot > 1e-10) {
			return inverse, errSingular
		}
		for k := range m {
			m[i][k] /= pivot
			inverse[i][k] /= pivot
		}
		for j := range m {
			if factor := m[j][i]; j != i && factor != 0 {
				for k := range m {
					m[j][k] -= factor * m[i][k]
					inverse[j][k] -= factor * inverse[i][k]
				}
			}
		}
	}
	return inverse, nil
}

// twoSided is the probability of a Student distribution beyond -t and t (Wallace 1959,
// within 0.001 from 5 degrees of freedom on).
func twoSided(t, freedom float64) float64 {
	z := (8*freedom + 1) / (8*freedom + 3) * math.Sqrt(freedom*math.Log1p(t*t/freedom))
	return math.Erfc(z / math.Sqrt2)
}

// quantile is the t beyond which twoSided is p.
func quantile(p, freedom float64) float64 {
	z := math.Sqrt2 * math.Erfinv(1-p) * (8*freedom + 3) / (8*freedom + 1)
	return math.Sqrt(freedom * math.Expm1(z*z/freedom))
}
