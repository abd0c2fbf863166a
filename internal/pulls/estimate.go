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
	// span is how many days before the merge, and how many after it, are used. The day of
	// the merge is in neither.
	span = 28
	// leastBefore, leastAfter and leastVisitors are the least days before and after, and the
	// least mean of daily visitors before.
	leastBefore, leastAfter, leastVisitors = 14, 7, 20
)

// Estimate returns the outcomes of merges, in their order. All merges of a project must be among
// them: a page that another one touched cannot be compared with. A window that cannot be read
// counts as missing; the outcomes come with its error. They are nil only where ctx has ended.
func Estimate(ctx context.Context, from sinks.Sink, merges []view.Merge) ([]view.Outcome, error) {
	out := make([]view.Outcome, len(merges))
	byDate := make([]int, len(merges))
	for i, m := range merges {
		out[i], byDate[i] = view.Outcome{Merge: m, Effects: []view.Effect{}}, i
	}
	slices.SortStableFunc(byDate, func(i, j int) int {
		return cmp.Or(cmp.Compare(merges[i].Project, merges[j].Project),
			cmp.Compare(merges[i].Date(), merges[j].Date()))
	})
	var errs []error
	for len(byDate) > 0 {
		n, project, end := 1, merges[byDate[0]].Project, merges[byDate[0]].Date()+span
		for n < len(byDate) && merges[byDate[n]].Project == project && merges[byDate[n]].Date() <= end {
			n++
		}
		if err := estimate(ctx, from, out, byDate[:n]); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		byDate = byDate[n:]
	}
	return out, errors.Join(errs...)
}

// estimate fills in the outcomes named by which: merges of one project, by date, that lie no
// further apart than span, so that they share what is read.
func estimate(ctx context.Context, from sinks.Sink, out []view.Outcome, which []int) error {
	var merges, all []view.Merge
	for _, i := range which {
		merges = append(merges, out[i].Merge)
	}
	for _, o := range out {
		if o.Project == merges[0].Project {
			all = append(all, o.Merge)
		}
	}
	p, err := load(ctx, from, merges)
	if p == nil {
		return err
	}
	for _, i := range which {
		s := newStudy(p, out[i].Merge, all)
		for _, path := range out[i].Pages {
			for _, a := range audiences {
				out[i].Effects = append(out[i].Effects, s.effect(path, a))
			}
		}
		judge(out[i].Effects)
		out[i].Final = s.final()
	}
	return err
}
