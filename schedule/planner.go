package schedule

import (
	"cmp"
	"fmt"
	"iter"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// planner is an Input made ready: nothing twice, projects in the order of this run.
type planner struct {
	Input
	today    analytics.Date
	projects []string
	specs    []analytics.Spec
	// older holds the complete provisional windows that begin before Since,
	// under their Key without the window, newest first.
	older map[analytics.Key][]analytics.Window
	// waiting collects what would be due but for its time.
	waiting []Item
}

func newPlanner(in Input) *planner {
	p := &planner{
		Input:    in,
		today:    analytics.DateOf(in.Now),
		projects: rotate(distinct(in.Projects), in.Rotate),
		specs:    mergeSpecs(in.Specs),
		older:    map[analytics.Key][]analytics.Window{},
	}
	for _, key := range distinct(in.Provisional) {
		if key.From < p.Since && key.To <= p.today {
			group := analytics.Key{Project: key.Project, Granularity: key.Granularity}
			p.older[group] = append(p.older[group], key.Window)
		}
	}
	for _, windows := range p.older {
		slices.SortFunc(windows, newestFirst)
	}
	return p
}

// due returns the items of one project, by tier and in the order of the tier.
func (p *planner) due(project string) [tiers][]Item {
	var items [tiers][]Item
	for _, spec := range p.specs {
		for w := range p.windows(project, spec.Granularity) {
			item, t := p.classify(project, spec, w)
			if t != notDue {
				items[t] = append(items[t], item)
			}
		}
	}
	items[tierOpen] = p.open(project)
	for t := tierSettling; t < tiers; t++ {
		slices.SortStableFunc(items[t], rollingLastThenNewest)
	}
	return items
}

// windows yields the windows the plan is about, newest first and each once: the
// newest complete one, those that begin on or after Since, and older ones that
// are provisional.
func (p *planner) windows(project string, g analytics.Granularity) iter.Seq[analytics.Window] {
	return func(yield func(analytics.Window) bool) {
		newest := Newest(g, p.today)
		if newest.From < p.Since && newest.From < newest.To && !yield(newest) {
			return
		}
		for w := range Since(g, p.Since, p.today) {
			if !yield(w) {
				return
			}
		}
		for _, w := range p.older[analytics.Key{Project: project, Granularity: g}] {
			if w != newest && !yield(w) {
				return
			}
		}
	}
}

// classify returns w as an item and its tier, or notDue.
func (p *planner) classify(project string, spec analytics.Spec, w analytics.Window) (Item, tier) {
	item, revision, known := p.item(project, spec, w)
	t := tierSettling
	switch {
	case p.wants(item, revision, known):
		item.Reason = ReasonMissing
		t = missingTier(item)
	case !known || revision.Settled || !ripe(w, p.Settle, p.Now):
		return item, notDue
	case revision.Verified:
		item.Reason = ReasonSettle
	default:
		item.Reason = ReasonUnverified
	}
	if p.waits(&item, known) {
		p.waiting = append(p.waiting, item)
		return item, notDue
	}
	return item, t
}

// waits reports whether a due window is not read now, and says in it what was
// decided: it is set aside; or its rows are read later, and of those windows the
// totals are read first.
func (p *planner) waits(item *Item, known bool) bool {
	if p.Aside != nil {
		if a, aside := p.Aside(item.Key); aside && a.Until.After(p.Now) {
			item.Why = fmt.Sprintf("set aside until %s: %s (failure %d)", a.Until.UTC().Format("2006-01-02 15:04"), a.Reason, a.Failures)
			return true
		}
	}
	if p.GaveUp != nil && known && item.Reason == ReasonMissing && !ripe(item.Window, p.Settle, p.Now) && p.GaveUp(item.Key) {
		item.Why = "rows from " + item.To.Time().Add(p.Settle).UTC().Format("2006-01-02 15:04") + ": they moved while they were read"
		return true
	}
	if p.Sizes == nil || item.TotalsOnly || item.Reason != ReasonMissing {
		return false
	}
	pages, _ := p.Sizes.Pages(*item)
	why, totals := p.Policy.TotalsFirst(item.Key, pages, p.Now)
	if totals {
		item.TotalsOnly, item.Why = true, why
	}
	return totals && known
}

// item returns w as an item without a reason, and its newest revision.
func (p *planner) item(project string, spec analytics.Spec, w analytics.Window) (Item, analytics.Revision, bool) {
	key := analytics.Key{Project: project, Granularity: spec.Granularity, Window: w}
	revision, known := p.Known(key)
	hasRows := known && !revision.TotalsOnly()
	return Item{
		Key:        key,
		TotalsOnly: spec.TotalsOnly && !hasRows,
		Newest:     w == Newest(spec.Granularity, p.today),
	}, revision, known
}

// wants reports whether item is to be exported and the ledger does not have it,
// or has only its totals where rows are wanted.
func (p *planner) wants(item Item, revision analytics.Revision, known bool) bool {
	if item.From < p.Since && !item.Newest {
		return false
	}
	return !known || revision.TotalsOnly() && !item.TotalsOnly
}

func missingTier(item Item) tier {
	switch {
	case item.Newest:
		return tierNewest
	case item.Granularity.RollingDays() > 0:
		return tierRolling
	}
	return tierBackfill
}

// open returns the running windows to read for the gauges, totals only.
func (p *planner) open(project string) []Item {
	var items []Item
	for _, g := range distinct(p.Open) {
		if w, ok := Open(g, p.today); ok {
			key := analytics.Key{Project: project, Granularity: g, Window: w}
			items = append(items, Item{Key: key, TotalsOnly: true, Reason: ReasonOpen})
		}
	}
	return items
}

// rollingLastThenNewest leaves ties as they are: in spec order.
func rollingLastThenNewest(a, b Item) int {
	aRolls, bRolls := a.Granularity.RollingDays() > 0, b.Granularity.RollingDays() > 0
	switch {
	case aRolls && !bRolls:
		return 1
	case bRolls && !aRolls:
		return -1
	}
	return newestFirst(a.Window, b.Window)
}

func newestFirst(a, b analytics.Window) int { return cmp.Compare(b.To, a.To) }

// mergeSpecs leaves one spec a granularity, at its first place.
func mergeSpecs(specs []analytics.Spec) []analytics.Spec {
	var merged []analytics.Spec
	for _, spec := range specs {
		i := slices.IndexFunc(merged, func(m analytics.Spec) bool { return m.Granularity == spec.Granularity })
		if i < 0 {
			merged = append(merged, spec)
			continue
		}
		merged[i].TotalsOnly = merged[i].TotalsOnly && spec.TotalsOnly
	}
	return merged
}

// distinct returns the values of s, each at its first place.
func distinct[T comparable](s []T) []T {
	seen := make(map[T]bool, len(s))
	var first []T
	for _, v := range s {
		if !seen[v] {
			seen[v] = true
			first = append(first, v)
		}
	}
	return first
}

// rotate returns s beginning with element n mod len(s).
func rotate[T any](s []T, n int) []T {
	if len(s) == 0 {
		return nil
	}
	n = (n%len(s) + len(s)) % len(s)
	return slices.Concat(s[n:], s[:n])
}
