package schedule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

func TestGaps(t *testing.T) {
	day := func(from, to string, r analytics.Revision) analytics.Revision {
		r.Key = analytics.Key{Project: "a", Granularity: "day", Window: window(t, from, to)}
		return r
	}
	l := ledger{}
	for _, r := range []analytics.Revision{
		day("2026-03-08", "2026-03-09", analytics.Revision{Verified: true}),
		day("2026-03-07", "2026-03-08", analytics.Revision{}),
		day("2026-03-06", "2026-03-07", analytics.Revision{Settled: true, Verified: true, Rows: analytics.TotalsOnlyRows}),
		day("2026-03-04", "2026-03-05", analytics.Revision{Settled: true}),
		day("2026-02-01", "2026-02-02", analytics.Revision{Verified: true}), // from before Since
	} {
		l[r.Key] = r
	}
	ahead := analytics.Key{Project: "b", Granularity: "month", Window: window(t, "2026-03-01", "2026-04-01")}
	l[ahead] = analytics.Revision{Key: ahead} // from a clock ahead of ours
	in := schedule.Input{
		Now: time.Date(2026, 3, 10, 1, 0, 0, 0, time.UTC), Projects: []string{"a"}, Specs: specs(t, "day"),
		Since: date(t, "2026-03-04"), Known: l.known, Provisional: l.provisional(),
	}
	want := []analytics.Window{
		window(t, "2026-03-09", "2026-03-10"), window(t, "2026-03-06", "2026-03-07"), window(t, "2026-03-05", "2026-03-06"),
	}
	if diff := cmp.Diff(want, schedule.Gaps(in, "a", in.Specs[0])); diff != "" {
		t.Error(diff)
	}
	want = []analytics.Window{window(t, "2026-02-01", "2026-03-01")}
	if diff := cmp.Diff(want, schedule.Gaps(in, "b", specs(t, "month")[0])); diff != "" {
		t.Errorf("a project without a window: %s", diff)
	}
}
