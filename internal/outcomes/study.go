package outcomes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// What an estimate needs.
const (
	span = view.OutcomeDays
	// leastBefore, leastAfter and leastVisitors are the least days before and after, and the
	// least mean of daily visitors before.
	leastBefore, leastAfter, leastVisitors = 14, 7, 3
)

// estimate returns the outcomes of merges, in their order. All merges of a project must be among
// them: a page that another one touched cannot be compared with. A window that cannot be read
// counts as missing; the outcomes come with its error. They are nil only where ctx has ended.
func estimate(ctx context.Context, from sinks.Sink, merges []view.Merge) ([]view.Outcome, error) {
	out := make([]view.Outcome, len(merges))
	byDate := make([]int, len(merges))
	ofProject := map[string][]view.Merge{}
	for i, m := range merges {
		out[i], byDate[i] = view.Outcome{Merge: m, Effects: []view.Effect{}}, i
		ofProject[m.Project] = append(ofProject[m.Project], m)
	}
	slices.SortStableFunc(byDate, func(i, j int) int {
		return cmp.Or(cmp.Compare(merges[i].Project, merges[j].Project),
			cmp.Compare(merges[i].Date(), merges[j].Date()))
	})
	var errs []error
	for len(byDate) > 0 {
		// Merges of a project that lie no further apart than span share their day windows.
		project := merges[byDate[0]].Project
		var group []view.Merge
		for _, i := range byDate {
			m := merges[i]
			if m.Project != project || len(group) > 0 && m.Date() > group[0].Date()+span {
				break
			}
			group = append(group, m)
		}
		p, err := load(ctx, from, group)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		errs = append(errs, err)
		for _, i := range byDate[:len(group)] {
			s := newStudy(p, out[i].Merge, ofProject[project])
			for _, path := range out[i].Pages {
				for _, a := range audiences {
					out[i].Effects = append(out[i].Effects, s.effect(path, a))
				}
			}
			// A provisional day will be read again, unless the service has dropped it: then the days after do.
			from, last := s.merge.Date()-2*span, s.merge.Date()+span
			waits := p.newest < last+span && slices.ContainsFunc(p.provisional, func(d analytics.Date) bool {
				return d >= from && d <= last
			})
			out[i].Final = p.newest >= last && !waits
			judge(out[i].Effects, out[i].Final)
		}
		byDate = byDate[len(group):]
	}
	return out, errors.Join(errs...)
}

// study estimates the effects of one merge.
type study struct {
	*panel
	merge view.Merge
	// others are the merges of the project near this one, itself included.
	others []view.Merge
	// earlier has the pages that another merge touched in the two months before this one.
	earlier map[string]bool
	// untouched has the pages that no merge touched near this one, sorted.
	untouched []string
	// humans is the mode by which people were counted before the merge, or else first after it: people counted by another
	// one are others.
	humans analytics.Humans
	// known has the comparisons made so far: touched pages with the same days share one.
	known map[comparisonKey]*comparison
}

type comparisonKey struct {
	audience analytics.Audience
	window   analytics.Window
}

// comparison is what pages of an audience are compared with in some days.
type comparison struct {
	*control
	placebos  []pageChange
	scattered *scattered
	usual     correction
	// weeks are the relative levels of the donors in the weeks before the merge.
	weeks [weeksBefore]float64
	// pages is how many untouched pages have enough visitors.
	pages int
	// levels are the changes of those pages where they are too few for placebos.
	levels []levelled
}

func newStudy(p *panel, m view.Merge, all []view.Merge) *study {
	s := &study{panel: p, merge: m, earlier: map[string]bool{}, known: map[comparisonKey]*comparison{}}
	near := map[string]bool{}
	for _, o := range all {
		if o.Date() >= m.Date()-2*span && o.Date() < m.Date() {
			for _, path := range o.Pages {
				s.earlier[path] = true
			}
		}
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
	counted := false
	for i, usable := range p.usable {
		if usable && (!counted || i <= int(m.Date()-p.first)) {
			s.humans, counted = p.humans[i], true
		}
	}
	return s
}

// has reports whether the visitors of an audience on a day may be compared.
func (s *study) has(day int, a analytics.Audience) bool {
	return s.usable[day] && (a != analytics.Human || s.panel.humans[day] == s.humans)
}

// in returns the days of a window that may be compared, without the day of the merge, and their indices.
func (s *study) in(w analytics.Window, a analytics.Audience) (d days, index []int) {
	for date := w.From; date < w.To; date++ {
		i := int(date - s.first)
		if !s.has(i, a) || date == s.merge.Date() {
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

// effect is the protocol from the counts of daily visitors to the change of the readers of a page, its interval and
// its p-value. [judge] gives the verdict, by all pages of the merge.
func (s *study) effect(path string, a analytics.Audience) view.Effect {
	e := view.Effect{Path: path, Audience: a, Verdict: view.NotEnoughData}

	// 1. The days before and after the merge, and whether they suffice.
	w, reason := s.window(path, a)
	d, index := s.in(w, a)
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
	// for placebos, or else by the page's own weekdays and trend, and what those few pages did.
	c := s.comparison(w, a)
	var change, shift, p, width float64
	var expected []float64
	if len(c.placebos) >= leastPlacebos {
		var g pageChange
		e.Method, e.Placebos = view.SyntheticControl, len(c.placebos)
		g, expected = c.compare(series, -1)
		g.past = s.past(path, a)
		g.unrest = s.unrest(path, a, c.weeks, g.noise, d)
		shift = c.usual.usualOf(g)
		if e.Corrected = g.past.known && c.usual.known; !e.Corrected {
			e.Reason = "not corrected for a rise or fall before the merge, which needs 56 days before it without " +
				"another merge of the page"
		}
		g.log -= shift
		change = g.log
		p, width = placeboTest(g, c.placebos, c.scattered)
	} else {
		own, freedom, days, err := levelChange(d, series)
		if err != nil {
			e.Reason = err.Error()
			return e
		}
		expected = days
		before := own.change
		own, freedom = own.against(c.levels, freedom)
		e.Method = view.LevelChange
		change, shift = own.change, before-own.change
		deviation := math.Sqrt(own.variance)
		p, width = twoSided(change/deviation, freedom), quantile(outside, freedom)*deviation
		e.Reason = fmt.Sprintf("only %d untouched pages have %d visitors a day, a comparison needs %d: the page is "+
			"compared with its own weekdays and trend, and what those pages did, which is less certain",
			c.pages, leastVisitors, leastPlacebos)
	}
	for i := d.before; i < len(expected); i++ {
		expected[i] *= math.Exp(shift)
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
	return w, s.young(path, a)
}

// young says why a page is too new for a comparison: its first reader came in the 28 days before the
// merge or later, and the days without one before that are not a matter of chance. It is empty for
// other pages, and for one that was never read.
func (s *study) young(path string, a analytics.Audience) string {
	date := s.merge.Date()
	empty, days, visitors := 0, 0, 0.0
	first := date + span
	for i, n := range s.pages[path][a][:date-s.first+span+1] {
		switch d := s.first + analytics.Date(i); {
		case !s.has(i, a):
		case days == 0 && n == 0:
			empty++
		default:
			first = min(first, d)
			days++
			visitors += n
		}
	}
	// A page with this mean has so many days without a reader in a row less than once in a hundred times.
	const certain = 5
	switch {
	case days == 0 || first < date-span || visitors/float64(days)*float64(empty) < certain:
		return ""
	case first >= date:
		return "the page had no reader before the merge: it is new"
	}
	return fmt.Sprintf("the page is %d days old at the merge: new pages rise and fall by themselves", date-first)
}

// weeksBefore is how many weeks before the merge show how far a page strays by itself.
const (
	weeksBefore = 2 * span / weekdays
	leastWeek   = 4
)

// weeks returns the mean daily visitors of a page in each week before the merge, the oldest first;
// not a number for a week with fewer than leastWeek usable days.
func (s *study) weeks(path string, a analytics.Audience) (levels [weeksBefore]float64) {
	for k := range levels {
		from := s.merge.Date() - 2*span + analytics.Date(k*weekdays)
		level, days := s.level(path, a, from, from+weekdays)
		if levels[k] = math.NaN(); days >= leastWeek {
			levels[k] = level
		}
	}
	return levels
}

// level returns the mean daily visitors of a page from one date until another, and how many of the days are usable.
// Half a visitor more keeps its logarithm finite.
func (s *study) level(path string, a analytics.Audience, from, to analytics.Date) (level float64, days int) {
	for i := from - s.first; i < to-s.first; i++ {
		if s.has(int(i), a) {
			level += s.pages[path][a][i]
			days++
		}
	}
	return (level + 0.5) / float64(max(days, 1)), days
}

// unrest is the variance that a change has from how the page strayed from week to week against the
// donors, beyond noise, which is from day to day.
func (s *study) unrest(path string, a analytics.Audience, usual [weeksBefore]float64, noise float64, d days) float64 {
	squares, steps, last := 0.0, 0.0, math.NaN()
	for k, level := range s.weeks(path, a) {
		now := math.Log(level / usual[k])
		if step := now - last; !math.IsNaN(step) && !math.IsInf(step, 0) {
			squares += step * step / 2
			steps++
		}
		last = now
	}
	if steps == 0 {
		return 0
	}
	n, m := float64(d.before), float64(len(d.date)-d.before)
	return max(0, squares/steps*weekdays*(1/n+1/m)-noise)
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
		return fmt.Sprintf("%d verified, settled days before the merge and after any other merge of the page, "+
			"%d are needed", e.DaysBefore, leastBefore) + s.changedMode(e.Audience)
	case e.DaysAfter < leastAfter:
		return fmt.Sprintf("%d verified, settled days after the merge and before any other merge of the page, "+
			"%d are needed", e.DaysAfter, leastAfter) + s.changedMode(e.Audience)
	case e.Before < leastVisitors:
		return fmt.Sprintf("%.1f visitors a day before the merge, %d are needed", e.Before, leastVisitors)
	case gone >= min(leastAfter, e.DaysAfter):
		return fmt.Sprintf("no reader since %s: the page seems to be removed or moved",
			analytics.Date(d.date[len(series)-gone]))
	}
	return ""
}

// changedMode says that days are left out because they count other people.
func (s *study) changedMode(a analytics.Audience) string {
	for i, usable := range s.usable {
		if usable && !s.has(i, a) {
			return "; days that count people by another mode are left out"
		}
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
	d, index := s.in(w, a)
	type untouched struct {
		path   string
		series []float64
	}
	var pool []untouched
	for _, path := range s.untouched {
		series := s.series(path, a, index)
		empty := 0
		for _, v := range series {
			if v == 0 {
				empty++
			}
		}
		if mean(series[:d.before]) >= leastVisitors && empty*10 <= len(series) && s.young(path, a) == "" {
			pool = append(pool, untouched{path, series})
		}
	}
	slices.SortStableFunc(pool, func(x, y untouched) int {
		return cmp.Compare(mean(y.series[:d.before]), mean(x.series[:d.before]))
	})
	c := &comparison{pages: len(pool)}
	s.known[key] = c
	if len(pool) < leastPlacebos {
		for _, u := range pool {
			if l, _, _, err := levelChange(d, u.series); err == nil {
				c.levels = append(c.levels, l)
			}
		}
		return c
	}
	var donors [][]float64
	for _, u := range pool[:min(maxDonors, len(pool))] {
		donors = append(donors, u.series)
	}
	c.control = newControl(d, donors)
	for _, u := range pool[:len(donors)] {
		for i, level := range s.weeks(u.path, a) {
			c.weeks[i] += level / mean(u.series[:d.before]) / float64(len(donors))
		}
	}
	indices := make([]int, len(pool))
	for i := range indices {
		indices[i] = i
	}
	for _, i := range spread(indices, maxPlacebos) {
		own := -1
		if i < len(c.donors) {
			own = i
		}
		g, _ := c.compare(pool[i].series, own)
		g.past = s.past(pool[i].path, a)
		g.unrest = s.unrest(pool[i].path, a, c.weeks, g.noise, d)
		c.placebos = append(c.placebos, g)
	}
	c.usual = correct(c.placebos)
	c.scattered = newScattered(c.placebos)
	return c
}

// judge gives the effects of one merge their verdicts, which wait until it is final: a look every day would find a
// few times as many by chance. Among many pages some change clearly by chance too, so the effects of an audience are
// clear if the method of Benjamini and Hochberg (1995) says so: at most one in twenty of the clear ones is expected
// to be without any effect.
func judge(effects []view.Effect, final bool) {
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
			case !final:
				e.Verdict = view.TooEarly
			case i < clear && e.Change > 0:
				e.Verdict = view.MoreReaders
			case i < clear:
				e.Verdict = view.FewerReaders
			case e.P > level:
			case e.Placebos > 0 && 1/float64(beyond*(e.Placebos+1)) > level/float64(len(tested)):
				e.Reason = fmt.Sprintf("%d untouched pages are too few to tell one of %d pages of a merge from chance",
					e.Placebos, len(tested))
			default:
				e.Reason = cmp.Or(e.Reason, fmt.Sprintf("of %d pages of this merge some change as much by chance",
					len(tested)))
			}
		}
	}
}
