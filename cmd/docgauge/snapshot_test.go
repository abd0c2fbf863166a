package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
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
		{Key: dayOf("a", today), Settled: true, Verified: true},                                   // from a clock ahead of ours
		{Key: dayOf("b", today-1), Settled: true, Verified: true},                                 // of another project
	} {
		r.Number = 1
		revs = append(revs, r)
	}
	if err := db.Restore(t.Context(), "parquet", revs); err != nil {
		t.Fatal(err)
	}
	l, err := readLedger(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	spec := analytics.Spec{Granularity: analytics.Day}
	g, gaps := l.grid(schedule.Input{
		Now: today.Time().Add(time.Hour), Projects: []string{"a"}, Specs: []analytics.Spec{spec}, Since: today - 5, Known: l.known,
	}, "a", spec)
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
	if diff := cmp.Diff(exporter.Grid{Granularity: analytics.Day, Known: 4, Missing: 3, Provisional: 2, Unverified: 1}, g); diff != "" || len(gaps) != 3 {
		t.Error(diff, gaps)
	}
}

// TestBefore: the window that ends where another begins, as far as it was read.
func TestBefore(t *testing.T) {
	cell := func(from analytics.Date, read bool) exporter.Cell {
		k := dayOf("a", from)
		c := exporter.Cell{Window: k.Window}
		if read {
			c.Revision = &analytics.Revision{Key: k, Totals: analytics.Totals{Total: int64(from)}}
		}
		return c
	}
	g := exporter.Grid{Cells: []exporter.Cell{cell(1, true), cell(2, true), cell(3, false), cell(5, true)}}
	for from, want := range map[analytics.Date]int64{2: 1, 3: 2, 4: 0, 5: 0, 6: 5} {
		var got int64
		if totals := before(g, analytics.Window{From: from, To: from + 1}); totals != nil {
			got = totals.Total
		}
		if got != want {
			t.Errorf("before %d: %d, want %d", from, got, want)
		}
	}
}

// TestCountPrompts: a wrong file that is of no configured project is counted too,
// and a project that is not configured makes no series.
func TestCountPrompts(t *testing.T) {
	got := map[exporter.Prompts]bool{}
	for _, p := range countPrompts([]string{"a", "b"}, []jobs.Planned{
		{Project: "a", State: journal.Pending}, {Project: "a", State: journal.Pending}, {Project: "b", State: journal.Invalid},
		{State: journal.Invalid}, {Project: "gone", State: journal.Invalid}, {Project: "gone", State: journal.Completed}, {State: journal.Pending},
	}) {
		if p.Count > 0 {
			got[p] = true
		}
	}
	want := map[exporter.Prompts]bool{
		{Project: "a", State: "pending", Count: 2}: true, {Project: "b", State: "invalid", Count: 1}: true, {State: "invalid", Count: 2}: true,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
