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

// series are the windows that are compared.
type series struct {
	report  analytics.Report
	project string
}

func (c countedRevision) series() series { return series{c.Report, c.Project} }

// comparable are the counts of c that count the same as those of a longer window: people counted by another mode are
// other people.
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

// implausibleAgents is implausible for a window of the report of agents, alone and beside its visitors.
func (w *survey) implausibleAgents(
	ctx context.Context, shown sinks.Shown, found func(analytics.Key, string, ...any),
) {
	if n := shown.Sum.Implausible; n > 0 {
		found(shown.Key, "%s with fewer requests than readers, or more readers than the agent has on the site, "+
			"such as those of %.200q", format.Plural(n, "row"), shown.Sum.Example)
	}
	key := shown.Key
	key.Report = analytics.VisitorsReport
	site, ok := w.shownAsKnown(key)
	if !ok || !shown.Settled || !site.Settled || !site.Verified { // they may have been read at different times
		return
	}
	by := site.Humans
	if by != shown.Humans { // the mode changed between the two readings
		return
	}
	if err := shown.Sum.Bounds(site.Totals, by); err != nil {
		found(shown.Key, "the report visitors has %v", err)
	}
	if by == "" || site.TotalsOnly() || shown.TotalsOnly() || shown.Sum.People == site.Sum.People {
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

// otherPeople returns the first path that has other people in one window than in another, both as a sink shows them.
func (w *survey) otherPeople(
	ctx context.Context, a, b analytics.Revision,
) (path string, ofA, ofB int64, err error) {
	dir, err := os.MkdirTemp("", "docgauge-verify-")
	if err != nil {
		return "", 0, 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, s := range w.v.Sinks {
		err = sinks.Read(ctx, s, a, dir, func(inA sinks.Sealed) error {
			return sinks.Read(ctx, s, b, dir, func(inB sinks.Sealed) error {
				path, ofA, ofB, err = firstOther(peopleOf(inA), peopleOf(inB))
				return err
			})
		})
		if err == nil {
			break
		}
	}
	return path, ofA, ofB, err
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
