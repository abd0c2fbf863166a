package verify

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/sinks"
)

// countedRevision is a window that is compared with windows around it or inside it: the totals of visitors, or, of
// agents, the people of the site that showed evidence.
type countedRevision struct {
	analytics.Revision
	counts analytics.Counts
}

// comparable are the counts of c that count the same as the counts of a longer window: people counted by another
// mode are other people.
func (c countedRevision) comparable(long analytics.Revision) analytics.Counts {
	if c.Report == analytics.VisitorsReport && c.Humans != long.Humans {
		return analytics.Totals{AI: c.Totals.AI}.Counts()
	}
	return c.counts
}

func (c countedRevision) noun() string {
	if c.Report == analytics.AgentsReport {
		return "readers of the agent " + analytics.BrowserAgent
	}
	return "visitors"
}

func (c countedRevision) String() string {
	if c.Report == analytics.AgentsReport {
		return format.Commas(c.counts[0])
	}
	return totals(c.Totals)
}

// implausibleSite is implausible for a window of a report with rows of the site, alone and beside its visitors.
func (w *survey) implausibleSite(
	ctx context.Context, shown sinks.Shown, found func(analytics.Key, string, ...any),
) {
	shape := shown.Report.Shape()
	if n := shown.Sum.Implausible; n > 0 {
		found(shown.Key, "%s with fewer requests than readers, or more readers than the %s has on the site, "+
			"such as those of %.200q", format.Plural(n, "row"), shape.Noun(), shown.Sum.Example)
	}
	site, ok := w.settledVisitors(shown)
	by := site.Humans
	if !ok || by != shown.Humans { // the mode changed between the two readings
		return
	}
	if err := shape.CheckBounds(shown.Sum, site.Totals, by); err != nil {
		found(shown.Key, "the report visitors has %v", err)
	}
	if shown.Report != analytics.AgentsReport || by == "" || site.TotalsOnly() || shown.TotalsOnly() || shown.Sum.People == site.Sum.People {
		return
	}
	switch page, visitors, readers, err := w.otherPeople(ctx, site.Revision, shown.Revision); {
	case err != nil:
		found(shown.Key, "the report visitors has other human visitors (%s) of a page than its agents that are people: %s",
			by, by.Rule())
	default:
		found(shown.Key, "the report visitors has %d human visitors (%s) of %.200q, and its agents that are people have "+
			"%d readers together: %s", visitors, by, page, readers, by.Rule())
	}
}

// implausibleSum is implausible for a window of a report whose counts add up, alone and beside its visitors.
func (w *survey) implausibleSum(
	ctx context.Context, shown sinks.Shown, found func(analytics.Key, string, ...any),
) {
	if shape := shown.Report.Shape(); !shape.Plausible(shown.Totals) {
		found(shown.Key, "the site's %s: total must be human + ai", totals(shown.Totals))
	}
	if !shown.TotalsOnly() && shown.Sum.Added != shown.Totals {
		found(shown.Key, "the pages add up to %s; the site has %s", totals(shown.Sum.Added), totals(shown.Totals))
	}
	site, ok := w.settledVisitors(shown)
	if !ok {
		return
	}
	if !shown.Totals.Counts().AtLeast(site.Totals.Counts()) {
		found(shown.Key, "fewer requests than the report visitors has readers: %s; readers: %s", totals(shown.Totals),
			totals(site.Totals))
		return
	}
	if shown.TotalsOnly() || site.TotalsOnly() {
		return
	}
	var page analytics.Record
	_ = w.readBoth(ctx, site.Revision, shown.Revision, func(visitors, views sinks.Sealed) (err error) {
		page, err = firstLess(views, visitors) // a row that a sink cannot give is a separate finding
		return err
	})
	if page != (analytics.Record{}) {
		found(shown.Key, "%.200q has fewer requests than readers in the report visitors, which has %s", page.Path(),
			totals(page.Counts.Totals()))
	}
}

// firstLess returns the first row of visitors of which a page of views has fewer, or which it lacks.
func firstLess(views, visitors sinks.Sealed) (first analytics.Record, err error) {
	next, stop := iter.Pull2(views.Rows())
	defer stop()
	var page analytics.Record
	for row, err := range visitors.Rows() {
		for ok := true; ok && err == nil && page.Path() < row.Path(); {
			if page, err, ok = next(); !ok {
				page = analytics.Record{}
			}
		}
		if err != nil {
			return analytics.Record{}, err
		}
		if (page.Path() != row.Path() || !page.Counts.AtLeast(row.Counts)) && row.Counts != (analytics.Counts{}) {
			return row, nil
		}
	}
	return analytics.Record{}, nil
}

// settledVisitors returns what is shown of the same window of visitors, if both are settled and verified: other
// readings may come from different times.
func (w *survey) settledVisitors(shown sinks.Shown) (sinks.Shown, bool) {
	key := shown.Key
	key.Report = analytics.VisitorsReport
	site, ok := w.shownAsKnown(key)
	return site, ok && shown.Settled && site.Settled && site.Verified
}

// otherPeople returns the first path that has other people in one window than in another, both as a sink shows them.
func (w *survey) otherPeople(
	ctx context.Context, a, b analytics.Revision,
) (path string, ofA, ofB int64, err error) {
	err = w.readBoth(ctx, a, b, func(inA, inB sinks.Sealed) (err error) {
		path, ofA, ofB, err = firstOther(peopleOf(inA), peopleOf(inB))
		return err
	})
	return path, ofA, ofB, err
}

// readBoth reads two windows, both as the first sink shows them that can give them.
func (w *survey) readBoth(
	ctx context.Context, a, b analytics.Revision, read func(inA, inB sinks.Sealed) error,
) (err error) {
	dir, err := os.MkdirTemp("", "docgauge-verify-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, s := range w.v.Sinks {
		err = sinks.Read(ctx, s, a, dir, func(inA sinks.Sealed) error {
			return sinks.Read(ctx, s, b, dir, func(inB sinks.Sealed) error { return read(inA, inB) })
		})
		if err == nil {
			break
		}
	}
	return err
}

// peopleOfPath is a path and its people.
type peopleOfPath struct {
	path string
	n    int64
}

// peopleOf yields the paths of a window that have people, in their order.
func peopleOf(w sinks.Sealed) iter.Seq2[peopleOfPath, error] {
	return func(yield func(peopleOfPath, error) bool) {
		shape := w.Revision().Report.Shape()
		var now peopleOfPath
		for row, err := range w.Rows() {
			if err != nil {
				yield(now, err)
				return
			}
			n := shape.People(row)
			if n > 0 && now.n > 0 && row.Path() != now.path {
				if !yield(now, nil) {
					return
				}
				now.n = 0
			}
			if n > 0 {
				now.path, now.n = row.Path(), now.n+n
			}
		}
		if now.n > 0 {
			yield(now, nil)
		}
	}
}

// firstOther returns the first path that has not as many people in both.
func firstOther(a, b iter.Seq2[peopleOfPath, error]) (path string, ofA, ofB int64, err error) {
	next, stop := iter.Pull2(b)
	defer stop()
	for inA, err := range a {
		inB, errB, _ := next()
		switch err = errors.Join(err, errB); {
		case err != nil:
			return "", 0, 0, err
		case inB.n > 0 && inB.path < inA.path:
			return inB.path, 0, inB.n, nil
		case inB.path != inA.path:
			return inA.path, inA.n, 0, nil
		case inB.n != inA.n:
			return inA.path, inA.n, inB.n, nil
		}
	}
	inB, err, _ := next()
	return inB.path, 0, inB.n, err
}
