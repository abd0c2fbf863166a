package spool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

// TestPageSet holds the set against a plain map.
func TestPageSet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var set pageSet
		model := map[int]PageInfo{}
		for range rapid.IntRange(0, 200).Draw(t, "pages") {
			offset := rapid.IntRange(0, 130).Draw(t, "page") * usualStride
			if rapid.IntRange(0, 9).Draw(t, "kind") == 0 {
				offset = rapid.IntRange(0, 1<<62).Draw(t, "offset")
			}
			if _, there := model[offset]; there != set.has(offset) {
				t.Fatalf("has(%d) = %v", offset, !there)
			} else if there {
				continue
			}
			p := PageInfo{Rows: 250 - rapid.IntRange(0, 1).Draw(t, "short"), HasMore: rapid.Bool().Draw(t, "more"),
				Totals: analytics.Totals{Human: int64(rapid.IntRange(0, 1).Draw(t, "totals"))}}
			model[offset] = p
			set.put(offset, p)
		}
		if d := cmp.Diff(model, set.all()); d != "" || set.n != len(model) {
			t.Fatalf("%d pages, want %d (-want +got):\n%s", set.n, len(model), d)
		}
	})
}
