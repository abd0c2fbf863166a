package view_test

import (
	"cmp"
	"slices"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// TestGrid: the words of a grid about its cells.
func TestGrid(t *testing.T) {
	var g view.Grid
	for from, read := range map[analytics.Date]*analytics.Revision{
		1: {Settled: true, Verified: true}, 2: {Rows: analytics.TotalsOnlyRows, Verified: true}, 3: nil, 4: {}, 6: nil,
	} {
		w := analytics.Window{From: from, To: from + 1}
		if read != nil {
			read.Window = w
		}
		g.Cells = append(g.Cells, view.Cell{Window: w, Revision: read})
	}
	slices.SortFunc(g.Cells, func(a, b view.Cell) int { return cmp.Compare(a.From, b.From) })
	for to, want := range map[analytics.Date]analytics.Date{2: 1, 3: 2, 4: 0, 5: 4, 6: 0, 7: 0} {
		var got analytics.Date
		if r := g.EndingAt(to); r != nil {
			got = r.From
		}
		if got != want {
			t.Errorf("the window that ends at %d begins at %d, want %d", to, got, want)
		}
	}
	g.Count()
	g.Count()
	if r := g.Newest; r == nil || r.From != 4 {
		t.Errorf("newest: %+v", r)
	}
	if g.Known != 3 || g.Missing != 2 || g.Provisional != 2 || g.Unverified != 1 || g.Rowless != 1 {
		t.Errorf("counts: %+v", g)
	}
	g.TotalsOnly = true
	g.Count()
	if g.Rowless != 0 {
		t.Errorf("rows that are not wanted are missed: %d", g.Rowless)
	}
	g.Cells = nil
	if g.Count(); g.Newest != nil || g.Known != 0 {
		t.Errorf("an empty grid: %+v", g)
	}
}
