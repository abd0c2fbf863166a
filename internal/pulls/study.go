package pulls

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// study estimates the effects of one merge.
type study struct {
	*panel
	merge view.Merge
	// others are the other merges of the project.
	others []view.Merge
	// untouched has the pages that no merge touched near this one, sorted.
	untouched []string
	// known has the comparisons made so far: touched pages with the same days share one.
	known map[comparisonKey]*comparison
}

type comparisonKey struct {
	analytics.Audience
	analytics.Window
}

// comparison is what pages of an audience are compared with in some days.
type comparison struct {
	*control
	placebos []pageChange
	// pages is how many untouched pages have enough visitors.
	pages int
	// strayed is the sum of the squares of the level changes of those pages, each in its own
	// standard deviation, where they are too few for placebos.
	strayed float64
}

func newStudy(p *panel, m view.Merge, all []view.Merge) *study {
	s := &study{panel: p, merge: m, known: map[comparisonKey]*comparison{}}
	near := map[string]bool{}
	for _, o := range all {
		if o.Date() >= m.Date()-span && o.Date() <= m.Date()+span {
			for _, path := range o.Pages {
				near[path] = true
			}
			s.others = append(s.others, o)
		}
	}
	for path := range p.pages {
		if !near[path] {
			s.untouched = append(s.untouched, path)
		}
	}
	slices.Sort(s.untouched)
	return s
}

// in returns the usable days of a window, without that of the merge, and their indices.
func (s *study) in(w analytics.Window) (d days, index []int) {
	for date := w.From; date < w.To; date++ {
		i := int(date - s.first)
		if !s.usable[i] || date == s.merge.Date() {
			continue
		}
		if date < s.merge.Date() {
			d.before++
		}
		d.date = append(d.date, float64(date))
		index = append(index, i)
	}
	return d, index
}

func (s *study) series(path string, a analytics.Audience, index []int) []float64 {
	all := s.pages[path][a]
	series := make([]float64, len(index))
	for i, at := range index {
		series[i] = all[at]
	}
	return series
}

// effect is the protocol from the counts of daily visitors to the change of the readers of a
// page, its interval and its p-value. The verdict is that of [judge], by all pages of the merge.
func (s *study) effect(path string, a analytics.Audience) view.Effect {
	e := view.Effect{Path: path, Audience: a, Verdict: view.NotEnoughData}

	// 1. The days before and after the merge, and whether they suffice.
	w, reason := s.window(path, a)
	d, index := s.in(w)
	series := s.series(path, a, index)
	e.DaysBefore, e.DaysAfter = d.before, len(d.date)-d.before
	if d.before > 0 {
		e.Before = mean(series[:d.before])
	}
	if e.Reason = cmp.Or(reason, s.lacks(e, d, series)); e.Reason != "" {
		return e
	}
	e.Actual = mean(series[d.before:])

	// 2. The change against the expectation: by untouched pages, if there are enough of them
	// for placebos, or else by the page's own weekdays and trend.
	c := s.comparison(w, a)
	var change, p, width float64
	var expected []float64
	if len(c.placebos) >= leastPlacebos {
		var g pageChange
		e.Method, e.Placebos = view.SyntheticControl, len(c.placebos)
		g, expected = c.compare(series, -1)
		change = g.log
		p, width = placeboTest(g, c.placebos)
	} else {
		var deviation, freedom float64
		var err error
		change, deviation, freedom, expected, err = levelChange(d, series)
		if err != nil {
			e.Reason = err.Error()
			return e
		}
		deviation, freedom = c.widened(deviation, freedom)
		e.Method = view.LevelChange
		p, width = twoSided(change/deviation, freedom), quantile(outside, freedom)*deviation
		e.Reason = fmt.Sprintf("only %d untouched pages have %d visitors a day, a comparison needs %d: the page is "+
			"compared with its own weekdays and trend, which is less certain", c.pages, leastVisitors, leastPlacebos)
	}

	// 3. The interval, of the whole and of each day: width is half of it, as a logarithm.
	e.Expected = mean(expected[d.before:])
	e.P, e.Change, e.Low, e.High = p, math.Expm1(change), math.Expm1(change-width), math.Expm1(change+width)
	for i := range series {
		day := view.EffectDay{Date: analytics.Date(d.date[i]), Actual: series[i], Expected: expected[i],
			Low: expected[i], High: expected[i]}
		if i >= d.before {
			day.Low, day.High = expected[i]*math.Exp(-width), expected[i]*math.Exp(width)
		}
		e.Days = append(e.Days, day)
	}
	e.Verdict = view.NoClearChange
	return e
}

// window returns the days around the merge in which nothing else touched the page, and the
// page existed, or the reason why not.
func (s *study) window(path string, a analytics.Audience) (w analytics.Window, reason string) {
	date := s.merge.Date()
	w = analytics.Window{From: date - span, To: date + span + 1}
	same := 0
	for _, o := range s.others {
		switch other := o.Date(); {
		case !slices.Contains(o.Pages, path):
		case other == date:
			same++
		case other < date:
			w.From = max(w.From, other+1)
		default:
			w.To = min(w.To, other)
		}
	}
	if same > 1 {
		return w, fmt.Sprintf("%d merges touched the page on %s: their effects cannot be told apart", same, date)
	}
	for ; w.From < date; w.From++ { // to its first reader
		if i := w.From - s.first; s.usable[i] && s.pages[path][a][i] > 0 {
			break
		}
	}
	return w, ""
}

// lacks says why the days do not suffice; empty if they do.
func (s *study) lacks(e view.Effect, d days, series []float64) string {
	gone := 0 // days at the end without a reader
	for gone < len(series) && series[len(series)-1-gone] == 0 {
		gone++
	}
	switch {
	case gone == len(series) && e.DaysAfter >= leastAfter:
		return "the archive has no reader of this path near the merge: is it the path of the page? " +
			"`pages:` in the front matter of the prompt names it"
	case e.DaysBefore < leastBefore:
		return fmt.Sprintf("%d days with readers before the merge and after any other merge of the page, "+
			"%d are needed", e.DaysBefore, leastBefore)
	case e.DaysAfter < leastAfter:
		return fmt.Sprintf("%d verified, settled days after the merge and before any other merge of the page, "+
			"%d are needed", e.DaysAfter, leastAfter)
	case e.Before < leastVisitors:
		return fmt.Sprintf("%.1f visitors a day before the merge, %d are needed", e.Before, leastVisitors)
	case gone >= min(leastAfter, e.DaysAfter):
		return fmt.Sprintf("no reader since %s: the page seems to be removed or moved",
			analytics.Date(d.date[len(series)-gone]))
	}
	return ""
}

// comparison returns what pages are compared with in a window: untouched pages that were
// there all the time and have enough visitors.
func (s *study) comparison(w analytics.Window, a analytics.Audience) *comparison {
	key := comparisonKey{a, w}
	if c := s.known[key]; c != nil {
		return c
	}
	d, index := s.in(w)
	var pool [][]float64
	for _, path := range s.untouched {
		series := s.series(path, a, index)
		empty := 0
		for _, v := range series {
			if v == 0 {
				empty++
			}
		}
		if mean(series[:d.before]) >= leastVisitors && empty*10 <= len(series) {
			pool = append(pool, series)
		}
	}
	slices.SortStableFunc(pool, func(x, y []float64) int {
		return cmp.Compare(mean(y[:d.before]), mean(x[:d.before]))
	})
	c := &comparison{pages: len(pool)}
	s.known[key] = c
	if len(pool) < leastPlacebos {
		for _, series := range pool {
			if change, deviation, _, _, err := levelChange(d, series); err == nil {
				c.strayed += change * change / deviation / deviation
			}
		}
		return c
	}
	c.control = newControl(d, pool[:min(maxDonors, len(pool))])
	indices := make([]int, len(pool))
	for i := range indices {
		indices[i] = i
	}
	for _, i := range spread(indices, maxPlacebos) {
		own := -1
		if i < len(c.donors) {
			own = i
		}
		g, _ := c.compare(pool[i], own)
		c.placebos = append(c.placebos, g)
	}
	return c
}

// widened returns the standard deviation of a level change, and its degrees of freedom, after
// what the few untouched pages did: that pages stray as the regression says has the weight of
// four of them.
func (c *comparison) widened(deviation, freedom float64) (float64, float64) {
	const trust = 4
	all := trust + float64(c.pages)
	return deviation * math.Sqrt(max(1, (trust+c.strayed)/all)), min(freedom, all)
}

// judge gives the effects of one merge their verdicts. Among many pages some change clearly
// by chance, so those of an audience are clear that are so by the method of Benjamini and
// Hochberg (1995): at most one verdict in twenty is expected to be without any effect.
func judge(effects []view.Effect) {
	for _, a := range audiences {
		var tested []*view.Effect
		for i := range effects {
			if e := &effects[i]; e.Audience == a && e.Verdict != view.NotEnoughData {
				tested = append(tested, e)
			}
		}
		slices.SortFunc(tested, func(x, y *view.Effect) int { return cmp.Compare(x.P, y.P) })
		clear := 0
		for i, e := range tested {
			if e.P <= level*float64(i+1)/float64(len(tested)) {
				clear = i + 1
			}
		}
		for i, e := range tested {
			switch {
			case i < clear && e.Change > 0:
				e.Verdict = view.MoreReaders
			case i < clear:
				e.Verdict = view.FewerReaders
			case e.P <= level:
				e.Reason = cmp.Or(e.Reason, fmt.Sprintf("of %d pages of this merge some change as much by chance",
					len(tested)))
			}
		}
	}
}
