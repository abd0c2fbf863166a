package outcomes

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks"
)

// pageDay is a page on the day of a merge.
type pageDay struct {
	project string
	date    analytics.Date
	path    string
}

func targetOf(r view.Redirect) pageDay {
	return pageDay{r.Project, analytics.DateOf(r.Since), r.Target}
}

// redirectMerges returns a merge for each day on which redirects began, with the pages to which they lead. A page that
// one of the merges touched on that day is left out: its readers have one change, however many commits made it.
func redirectMerges(rules []view.Redirect, merges []view.Merge) (out []view.Merge) {
	known := map[pageDay]bool{}
	for _, m := range merges {
		for _, path := range m.Pages {
			known[pageDay{m.Project, m.Date(), path}] = true
		}
	}
	of := map[pageDay]int{} // index into out, by the project and the day
	for _, r := range rules {
		target := targetOf(r)
		if known[target] {
			continue
		}
		known[target] = true
		day := pageDay{project: target.project, date: target.date}
		i, begun := of[day]
		if !begun {
			i = len(out)
			of[day] = i
			out = append(out, view.Merge{Project: r.Project, At: r.Since})
		}
		out[i].Pages = append(out[i].Pages, r.Target)
	}
	return out
}

// asked returns the redirects whose path was missed in the days around their beginning, the newest first, without their
// effects. It leaves out a redirect whose path was never missed: such a redirect cannot have changed the readers of its
// target. The error says what could not be read; the redirects come with it.
func asked(ctx context.Context, from sinks.Sink, rules []journal.Redirect) ([]view.Redirect, error) {
	byProject := map[string][]journal.Redirect{}
	for _, r := range rules {
		byProject[r.Project] = append(byProject[r.Project], r)
	}
	out := []view.Redirect{}
	var errs []error
	for project, of := range byProject {
		around := func(r journal.Redirect) analytics.Window {
			since := analytics.DateOf(r.Since)
			return analytics.Window{From: since - span, To: since + span + 1}
		}
		within := around(of[0])
		for _, r := range of {
			within.From, within.To = min(within.From, around(r).From), max(within.To, around(r).To)
		}
		days, err := query.MissedDays(ctx, from, project, within, func(d analytics.Date) map[string]bool {
			paths := map[string]bool{}
			for _, r := range of {
				if w := around(r); w.From <= d && d < w.To {
					paths[r.Path] = true
				}
			}
			return paths
		})
		errs = append(errs, err)
		for _, r := range of {
			since := analytics.DateOf(r.Since)
			missed := func(from, to analytics.Date) *float64 {
				var known []float64
				for d := from; d < to; d++ {
					if day, ok := days[d]; ok && day[r.Path] >= 0 {
						known = append(known, float64(day[r.Path]))
					}
				}
				if len(known) == 0 {
					return nil
				}
				return new(mean(known))
			}
			before, after := missed(around(r).From, since), missed(since+1, around(r).To)
			if before != nil && *before > 0 || after != nil && *after > 0 {
				out = append(out, view.Redirect{Redirect: r, MissedBefore: before, MissedAfter: after})
			}
		}
	}
	slices.SortFunc(out, func(a, b view.Redirect) int {
		return cmp.Or(b.Since.Compare(a.Since), strings.Compare(a.Project, b.Project), strings.Compare(a.Path, b.Path))
	})
	return out, errors.Join(errs...)
}

// addEffects adds to redirects the changes of the readers of their targets, by the outcomes of all merges.
func addEffects(all []view.Redirect, merges []view.Outcome) {
	effects, final := map[pageDay][]view.Effect{}, map[pageDay]bool{}
	for _, o := range merges {
		for _, e := range o.Effects {
			page := pageDay{o.Project, o.Date(), e.Path}
			effects[page], final[page] = append(effects[page], e), o.Final
		}
	}
	for i, r := range all {
		all[i].Effects, all[i].Final = effects[targetOf(r)], final[targetOf(r)]
	}
}
