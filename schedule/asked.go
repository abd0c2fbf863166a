package schedule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Asked returns exactly the windows of the specs that lie wholly inside
// [from, to), whatever the ledger knows of them: newest first (ties in spec
// order), the projects taking turns. Every error is a mistake of the caller:
// from >= to, to after today (UTC), or no window that fits.
func Asked(in Input, from, to analytics.Date) ([]Item, error) {
	p := newPlanner(in)
	if err := p.checkAsked(analytics.Window{From: from, To: to}); err != nil {
		return nil, err
	}
	var queues [][]Item
	for _, project := range p.projects {
		queues = append(queues, p.asked(project, from, to))
	}
	return interleave(queues), nil
}

func (p *planner) checkAsked(w analytics.Window) error {
	if w.From >= w.To {
		return fmt.Errorf("window %s is empty: its end is exclusive and must be after its begin; for the one day %s give the end %s", w, w.From, w.From+1)
	}
	if !w.Complete(p.Now) {
		return fmt.Errorf("window %s is not complete until %s 00:00 UTC: give an end up to %s", w, w.To, p.today)
	}
	fits := func(s analytics.Spec) bool {
		newest := Newest(s.Granularity, w.To)
		return w.From <= newest.From && newest.From < newest.To
	}
	if !slices.ContainsFunc(p.specs, fits) {
		return fmt.Errorf("no window of %s lies wholly inside %s: widen it, or choose a shorter granularity", specNames(p.specs), w)
	}
	return nil
}

// asked returns the windows of one project inside [from, to), newest first.
func (p *planner) asked(project string, from, to analytics.Date) []Item {
	var items []Item
	for _, spec := range p.specs {
		for w := range Within(spec.Granularity, from, to) {
			item, _, _ := p.item(project, spec, w)
			item.Reason = ReasonAsked
			items = append(items, item)
		}
	}
	slices.SortStableFunc(items, func(a, b Item) int { return newestFirst(a.Window, b.Window) })
	return items
}

func specNames(specs []analytics.Spec) string {
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = string(spec.Granularity)
	}
	return strings.Join(names, ", ")
}
