package outcomes

import (
	"cmp"
	"math"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// summarize returns what the verdicts of each project with effects say together, and what its merges
// cost, by project.
func summarize(all []view.Outcome) []view.OutcomeSummary {
	byProject := map[string]*view.OutcomeSummary{}
	pooled, effects := map[string][]pooledChange{}, map[string]int{}
	for _, o := range all {
		s := byProject[o.Project]
		if s == nil {
			s = &view.OutcomeSummary{Project: o.Project}
			byProject[o.Project] = s
		}
		if !o.At.IsZero() {
			s.Merged++
			s.Cost = s.Cost.Plus(o.Cost)
		}
		effects[o.Project] += len(o.Effects)
		judged := map[analytics.Audience]bool{}
		for _, e := range o.Effects {
			switch e.Verdict {
			case view.NotEnoughData:
				s.NotEnoughData++
				continue
			case view.TooEarly:
				s.TooEarly++
				continue
			case view.MoreReaders:
				s.More++
			case view.FewerReaders:
				s.Fewer++
			}
			judged[e.Audience] = true
			s.Comparisons++
			if e.Corrected {
				pooled[o.Project] = append(pooled[o.Project], pooledChange{o.Date(), math.Log1p(e.Change),
					(math.Log1p(e.High) - math.Log1p(e.Low)) / (2 * math.Sqrt2 * math.Erfinv(1-outside))})
			}
		}
		s.ByChance += float64(len(judged))
		if len(judged) > 0 {
			s.Merges++
		}
	}
	out := []view.OutcomeSummary{}
	for project, s := range byProject {
		if known, _ := s.Cost.Totals(); len(known) == 0 && effects[project] == 0 {
			continue
		}
		s.ByChance *= level // judge bounds all effects of a merge on an audience together
		s.Mean = meanChange(pooled[project])
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b view.OutcomeSummary) int { return cmp.Compare(a.Project, b.Project) })
	return out
}

// pooledChange is the change of a page after a merge, a logarithm, with its standard deviation.
type pooledChange struct {
	date              analytics.Date
	change, deviation float64
}

// meanChange is the mean of changes by the random effects model of DerSimonian and Laird (1986),
// with the interval of Hartung and Knapp (2001). Merges of one date share their days and most of
// their untouched pages, so they are one observation: their mean.
func meanChange(all []pooledChange) *view.MeanChange {
	byDate := map[analytics.Date][]pooledChange{}
	for _, c := range all {
		byDate[c.date] = append(byDate[c.date], c)
	}
	k := len(byDate)
	if k < view.MeanDates {
		return nil
	}
	dates := make([]pooledChange, 0, k)
	for date, same := range byDate {
		precision, product := 0.0, 0.0
		for _, c := range same {
			w := 1 / (c.deviation * c.deviation)
			precision, product = precision+w, product+w*c.change
		}
		dates = append(dates, pooledChange{date, product / precision, math.Sqrt(1 / precision)})
	}
	slices.SortFunc(dates, func(a, b pooledChange) int { return cmp.Compare(a.date, b.date) }) // sums in one order
	// pool returns the mean with weights for a variance between dates, and the weighted squares.
	pool := func(between float64) (middle, sum, sumOfSquares, squares float64) {
		for _, d := range dates {
			w := 1 / (d.deviation*d.deviation + between)
			sum, sumOfSquares, middle = sum+w, sumOfSquares+w*w, middle+w*d.change
		}
		middle /= sum
		for _, d := range dates {
			squares += (d.change - middle) * (d.change - middle) / (d.deviation*d.deviation + between)
		}
		return middle, sum, sumOfSquares, squares
	}
	freedom := float64(k - 1)
	_, sum, sumOfSquares, squares := pool(0)
	middle, sum, _, squares := pool(max(0, (squares-freedom)/(sum-sumOfSquares/sum)))
	width := quantile(outside, freedom) * math.Sqrt(max(1, squares/freedom)/sum)
	return &view.MeanChange{Change: math.Expm1(middle), Low: math.Expm1(middle - width),
		High: math.Expm1(middle + width), Comparisons: len(all), Dates: k}
}
