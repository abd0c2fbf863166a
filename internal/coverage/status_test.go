package coverage

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

func dayOf(project string, d analytics.Date) analytics.Key {
	return analytics.Key{Project: project, Granularity: analytics.Day, Window: analytics.Window{From: d, To: d + 1}}
}

// TestGrid: the ledger's windows and the gaps, oldest first, each once.
func TestGrid(t *testing.T) {
	today := analytics.NewDate(2026, time.March, 10)
	db, err := state.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var revs []analytics.Revision
	for _, r := range []analytics.Revision{
		{Key: dayOf("a", today-2), Verified: true},
		{Key: dayOf("a", today-3)},
		{Key: dayOf("a", today-4), Settled: true, Verified: true, Rows: analytics.TotalsOnlyRows}, // rows are wanted
		{Key: dayOf("a", today-40), Settled: true, Verified: true},                                // from before Since
		{Key: dayOf("a", today), Settled: true, Verified: true},
		// from a clock ahead of ours
		{Key: dayOf("b", today-1), Settled: true, Verified: true}, // of another project
	} {
		r.Number = 1
		revs = append(revs, r)
	}
	if err := db.Restore(t.Context(), "parquet", revs); err != nil {
		t.Fatal(err)
	}
	c := config.Config{Projects: config.Projects{"a"}, Windows: config.Windows{{Granularity: analytics.Day}},
		Since: config.OptionalDate{Date: today - 5, Set: true}, StateDir: t.TempDir()}
	p, err := Selection{}.Plan(t.Context(), db, c, today.Time().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	g := projects(p)[0].Grids[0]
	var cells []string
	for _, c := range g.Cells {
		text := c.From.String()
		if c.Revision == nil {
			text += " missing"
		}
		cells = append(cells, text)
	}
	want := []string{"2026-01-29", "2026-03-05 missing", "2026-03-06", "2026-03-07", "2026-03-08", "2026-03-09 missing"}
	if diff := cmp.Diff(want, cells); diff != "" {
		t.Error(diff)
	}
	g.Cells = nil
	if diff := cmp.Diff(view.Grid{Project: "a", Granularity: analytics.Day, Newest: g.Newest, Known: 4, Missing: 2,
		Provisional: 2, Unverified: 1, Rowless: 1}, g); diff != "" {
		t.Error(diff)
	}
}

// TestPagesInSpool: pages of a begun reading count as read where the next run continues it, that is,
// where it is of the next revision, was not begun in the future, nor before the window could settle
// if it can now.
func TestPagesInSpool(t *testing.T) {
	const settle = 72 * time.Hour
	now := analytics.NewDate(2026, time.March, 10).Time()
	c := config.Config{StateDir: t.TempDir(), Projects: config.Projects{"a"},
		Windows: config.Windows{{Granularity: analytics.Day}}, Settle: config.Duration(settle), Budget: 3}
	db, err := state.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	fetching, err := spool.Open(c.StateDir)
	if err != nil {
		t.Fatal(err)
	}
	settles := now.Add(-settle)
	want := map[analytics.Key]int{}
	for i, test := range []struct {
		known, revision int32
		end, started    time.Time
		pages           int
	}{
		{0, 1, now.AddDate(0, 0, -1), now.Add(-time.Hour), 1},
		{2, 3, now.AddDate(0, 0, -1), now, 1},
		{2, 2, now.AddDate(0, 0, -1), now.Add(-time.Hour), 0},
		{2, 4, now.AddDate(0, 0, -1), now.Add(-time.Hour), 0},
		{0, 1, now.AddDate(0, 0, -1), now.Add(time.Hour), 0}, // the clock was ahead
		{0, 1, settles, now.Add(-time.Second), 0},            // since then it has settled
		{0, 1, settles, now, 1},
		{0, 1, settles.AddDate(0, 0, -7), now.AddDate(0, 0, -7), 1},
		{0, 1, settles.AddDate(0, 0, -7), now.AddDate(0, 0, -8), 0},
		{0, 1, settles.AddDate(0, 0, 1), now.Add(-time.Hour), 1}, // it settles tomorrow
	} {
		k := dayOf(fmt.Sprintf("p%d", i), analytics.DateOf(test.end)-1)
		if test.known > 0 {
			if err := db.Record(t.Context(), analytics.Revision{Key: k, Number: test.known, Verified: true},
				analytics.Provenance{}, nil); err != nil {
				t.Fatal(err)
			}
		}
		log, err := fetching.Begin(k, test.revision, test.started, test.started)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(log.Append(analytics.Page{HasMore: true}), log.Flush(), log.Close())
		if err != nil {
			t.Fatal(err)
		}
		want[k] = test.pages
	}
	p, err := Selection{}.Plan(t.Context(), db, c, now)
	if err != nil {
		t.Fatal(err)
	}
	got := map[analytics.Key]int{}
	for k := range want {
		got[k] = p.Ledger.Sizes.Begun(k)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := NewPlanReport(p); r.Requests <= int(c.Budget) || !r.Finish.After(now.Add(time.Hour)) {
		t.Errorf("%d requests within a budget of %d an hour end at %s", r.Requests, c.Budget, r.Finish)
	}
}
