package coverage

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
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
	p, err := Selection{}.Plan(t.Context(), db, c, today.Time().Add(time.Hour), 0)
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
