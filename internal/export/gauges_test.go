package export

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

// TestPagesOfTheNewest: the largest pages of a newest window are kept for the
// gauges, those of others are not read again for them.
func TestPagesOfTheNewest(t *testing.T) {
	w := newWorld(t, t.TempDir())
	newest, older, totals := day("prj_a", 0), day("prj_a", -1), day("prj_b", 0)
	for i, k := range []analytics.Key{newest, older, totals} {
		w.service.put(k, 600, i)
	}
	w.clean(w.run(
		schedule.Item{Key: newest, Reason: schedule.ReasonMissing, Newest: true},
		schedule.Item{Key: older, Reason: schedule.ReasonMissing},
		schedule.Item{Key: totals, Reason: schedule.ReasonMissing, Newest: true, TotalsOnly: true},
	))
	want, err := analytics.Top(func(yield func(analytics.Row, error) bool) {
		for _, r := range w.service.all(newest) {
			if !yield(r, nil) {
				return
			}
		}
	}, topPages)
	if err != nil || len(want) != topPages {
		t.Fatalf("%v, %v", want, err)
	}
	if diff := cmp.Diff(map[analytics.Key][]analytics.Row{newest: want}, w.ledger.pages); diff != "" {
		t.Error(diff)
	}
}
