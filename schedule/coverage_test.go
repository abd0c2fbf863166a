package schedule_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

func TestCover(t *testing.T) {
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
	newest := l[analytics.Key{Project: "a", Granularity: "day", Window: window(t, "2026-03-08", "2026-03-09")}]
	want := schedule.Coverage{
		Project: "a", Spec: in.Specs[0], Newest: &newest, Known: 5,
		Gaps: []analytics.Window{
			window(t, "2026-03-09", "2026-03-10"), window(t, "2026-03-06", "2026-03-07"), window(t, "2026-03-05", "2026-03-06"),
		},
		Provisional: 3, Unverified: 2,
	}
	if diff := cmp.Diff(want, schedule.Cover(in, "a", in.Specs[0])); diff != "" {
		t.Error(diff)
	}
	want = schedule.Coverage{Project: "b", Spec: specs(t, "month")[0], Gaps: []analytics.Window{window(t, "2026-02-01", "2026-03-01")}}
	if diff := cmp.Diff(want, schedule.Cover(in, "b", want.Spec)); diff != "" {
		t.Errorf("a project without a window: %s", diff)
	}
}

func TestCoverFindsTheNewestOfOldWindows(t *testing.T) {
	l := ledger{}
	in := schedule.Input{
		Now: time.Date(2026, 3, 10, 1, 0, 0, 0, time.UTC), Since: date(t, "2026-03-10"), Known: l.known,
	}
	for from := date(t, "2026-02-01"); from < date(t, "2026-02-04"); from++ {
		key := analytics.Key{Project: "a", Granularity: "day", Window: analytics.Window{From: from, To: from + 1}}
		l[key] = analytics.Revision{Key: key}
		in.Provisional = append(in.Provisional, key)
	}
	got := schedule.Cover(in, "a", specs(t, "day")[0])
	if want := window(t, "2026-02-03", "2026-02-04"); got.Newest == nil || got.Newest.Window != want || got.Known != 3 {
		t.Errorf("newest of %d is %v, want that of %s", got.Known, got.Newest, want)
	}
}
