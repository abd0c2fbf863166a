package coverage

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

var atScale = time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC)

// decade returns settings with ten years of projects, and a state: empty, or one that knows
// all their windows, in two sinks.
func decade(tb testing.TB, projects int, known bool) (c config.Config, db *state.DB, windows int) {
	tb.Helper()
	c = config.Config{Budget: 90, StateDir: tb.TempDir()}
	for i := range projects {
		c.Projects = append(c.Projects, fmt.Sprintf("prj_0123456789_%d", i))
	}
	for _, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month} {
		c.Windows = append(c.Windows, analytics.Spec{Granularity: g})
	}
	c.Windows = append(c.Windows, analytics.Spec{Granularity: "28d", TotalsOnly: true})
	c.Since.Date = analytics.DateOf(atScale) - 3653
	db, err := state.Open(c.StateDir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	var revs []analytics.Revision
	none := schedule.Input{Now: atScale, Since: c.Since.Date,
		Known: func(analytics.Key) (r analytics.Revision, known bool) { return r, false }}
	for _, project := range c.Projects {
		for _, spec := range c.Windows {
			of := schedule.Wanted{Source: schedule.Source{Project: project}, Spec: spec}
			for _, w := range schedule.Gaps(none, of) {
				revs = append(revs, analytics.Revision{Key: of.Key(w), Number: 1, Settled: true, Verified: true, Rows: 100,
					ExportedAt: atScale.Add(-time.Hour)})
			}
		}
	}
	for _, sink := range []string{"parquet", "delta"} {
		if !known {
			break
		}
		if err := db.Restore(tb.Context(), sink, revs); err != nil {
			tb.Fatal(err)
		}
	}
	return c, db, len(revs)
}

// planned returns how many bytes on the heap a plan keeps for each window.
func planned(tb testing.TB, c config.Config, db *state.DB, windows int) float64 {
	tb.Helper()
	used := func() float64 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return float64(m.HeapAlloc)
	}
	before := used()
	p, err := Selection{}.Plan(tb.Context(), db, c, atScale)
	if err != nil {
		tb.Fatal(err)
	}
	kept := used() - before
	runtime.KeepAlive(p)
	return kept / float64(windows)
}

// TestPlanMemory bounds what a plan keeps of each window, of which there can be millions:
// those that are due, and those that the ledger knows.
func TestPlanMemory(t *testing.T) {
	for known, limit := range map[bool]float64{false: 150, true: 680} {
		c, db, windows := decade(t, 1, known)
		if kept := planned(t, c, db, windows); kept > limit {
			t.Errorf("known %v: keeps %.0f bytes a window of %d, want at most %.0f", known, kept, windows, limit)
		}
	}
}

// BenchmarkPlan plans ten years of five projects: in the backlog, and once all is known.
func BenchmarkPlan(b *testing.B) {
	for name, known := range map[string]bool{"due": false, "known": true} {
		b.Run(name, func(b *testing.B) {
			c, db, windows := decade(b, 5, known)
			kept := 0.0
			for b.Loop() {
				kept = planned(b, c, db, windows)
			}
			b.ReportMetric(kept, "kept/window")
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*windows), "ns/window")
		})
	}
}
