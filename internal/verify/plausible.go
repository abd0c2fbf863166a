package verify

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// implausible returns where verified counts contradict each other, of windows
// that are not damaged. It is no damage of ours: a service may count visitors
// approximately.
func (w *view) implausible(damaged map[analytics.Key]bool) (out []Finding) {
	found := func(key analytics.Key, detail string, args ...any) {
		out = append(out, Finding{Key: key, Kind: Implausible, Remedy: Approximate, Detail: fmt.Sprintf(detail, args...)})
	}
	days, longer := map[string][]analytics.Revision{}, []analytics.Revision{}
	for _, key := range w.keys() {
		name, ok := w.holder(key)
		if !ok || damaged[key] {
			continue
		}
		shown := w.shown[name][key]
		if !shown.Verified {
			continue
		}
		if !shown.Totals.Plausible() {
			found(key, "the site's %s: total must lie between the larger of human and ai and their sum", totals(shown.Totals))
		}
		if n := shown.Sum.Implausible; n > 0 {
			found(key, "the counts of %s contradict each other, such as those of %.200q", pageCount(n), shown.Sum.Example)
		}
		if !shown.Totals.AtLeast(shown.Sum.Largest) {
			found(key, "a page has more visitors than the site: %s at most, of the site %s", totals(shown.Sum.Largest), totals(shown.Totals))
		}
		if key.Granularity == analytics.Day {
			days[key.Project] = append(days[key.Project], shown.Revision)
		} else {
			longer = append(longer, shown.Revision)
		}
	}
	for _, long := range longer {
		for _, day := range inside(days[long.Project], long) {
			found(long.Key, "it has fewer visitors than its day %s: %s; the day %s", day.From, totals(long.Totals), totals(day.Totals))
		}
	}
	return out
}

// holder returns the first sink that shows the window as the ledger has it.
func (w *view) holder(key analytics.Key) (string, bool) {
	e, known := w.ledger[key]
	for _, name := range w.order {
		shown, there := w.shown[name][key]
		if _, faulty := w.faults[name][key]; there && !faulty && known && same(shown.Revision, e.Revision) {
			return name, true
		}
	}
	return "", false
}

// inside returns the days within a longer window that have more visitors than it,
// where it was not read before them. Days are in the order of their dates.
func inside(days []analytics.Revision, long analytics.Revision) (out []analytics.Revision) {
	begin, _ := slices.BinarySearchFunc(days, long.From, func(r analytics.Revision, d analytics.Date) int { return cmp.Compare(r.From, d) })
	for _, day := range days[begin:] {
		if day.To > long.To {
			break
		}
		later := long.Settled || !long.ExportedAt.Before(day.ExportedAt)
		if later && !long.Totals.AtLeast(day.Totals) {
			out = append(out, day)
		}
	}
	return out
}

func pageCount(n int64) string {
	if n == 1 {
		return "1 page"
	}
	return fmt.Sprintf("%d pages", n)
}
