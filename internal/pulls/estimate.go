package pulls

import (
	"cmp"
	"context"
	"errors"
	"slices"

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
			out[i].Final = p.newest >= s.merge.Date()+span
			judge(out[i].Effects, out[i].Final)
		}
		byDate = byDate[len(group):]
	}
	return out, errors.Join(errs...)
}
