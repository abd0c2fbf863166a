package spool

import (
	"fmt"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

// BenchmarkSorter sorts a million rows that come in no order, page by page.
func BenchmarkSorter(b *testing.B) {
	const rows = 1_000_000
	b.ReportAllocs()
	for b.Loop() {
		s := &sorter{dir: b.TempDir(), runRows: 1 << 15, runBytes: 4 << 20}
		page := make([]analytics.Row, analytics.PageRows)
		for i := range rows {
			n := i * 7_654_321 % rows
			page[i%len(page)] = analytics.Row{Path: fmt.Sprintf("/docs/section-%03d/page-%07d", n/1000, n), Human: int64(n % 97), Total: 100}
			if (i+1)%len(page) == 0 {
				check(b, s.add(page))
			}
		}
		got := 0
		for _, err := range s.sorted(new(int)) {
			check(b, err)
			got++
		}
		check(b, s.reset())
		if got != rows {
			b.Fatalf("%d rows of %d", got, rows)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
