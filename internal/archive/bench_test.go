package archive

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

// BenchmarkWrite reports rows/s, the peak of the heap over its size before, and
// the bytes of file a row takes. The heap must not depend on the number of rows.
func BenchmarkWrite(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			dir := b.TempDir()
			base := heap()
			var peak, size int64
			for b.Loop() {
				path := filepath.Join(dir, "w.parquet")
				_, err := Write(path, sample(), analytics.Records(watched(traffic(n), &peak)))
				check(b, err)
				info, _ := os.Stat(path)
				size = info.Size()
				os.Remove(path)
			}
			report(b, n, peak-base)
			b.ReportMetric(float64(size)/float64(n), "file-B/row")
		})
	}
}

// BenchmarkWriteAgents is BenchmarkWrite for the report of agents: 40 agents on each page.
func BenchmarkWriteAgents(b *testing.B) {
	const n, each = 1_000_000, 40
	rev := sample()
	rev.Report, rev.Totals = analytics.AgentsReport, analytics.Totals{}
	var names [each]string
	for i := range names {
		names[i] = fmt.Sprintf("agent-%02d", i)
	}
	rows := func(yield func(analytics.AgentRow, error) bool) {
		for page := range traffic(n / each) {
			for agent := range each {
				row := analytics.AgentRow{Path: page.Path, Agent: names[agent], Class: "coding",
					Audience: analytics.AI, Found: true, Visitors: page.AI, Requests: 2*page.AI + int64(agent)}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
	b.ReportAllocs()
	path := filepath.Join(b.TempDir(), "w.parquet")
	for b.Loop() {
		_, err := Write(path, rev, analytics.Records(rows))
		check(b, err)
		os.Remove(path)
	}
	report(b, n, 0)
}

// BenchmarkWriteSmall writes the window of a small site: the cost of a file apart from its rows.
func BenchmarkWriteSmall(b *testing.B) {
	b.ReportAllocs()
	path := filepath.Join(b.TempDir(), "w.parquet")
	for b.Loop() {
		_, err := Write(path, sample(), analytics.Records(traffic(10)))
		check(b, err)
		os.Remove(path)
	}
}

func BenchmarkRows(b *testing.B) {
	for _, n := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "w.parquet")
			_, err := Write(path, sample(), analytics.Records(traffic(n)))
			check(b, err)
			f, err := Open(path)
			check(b, err)
			b.ReportAllocs()
			base := heap()
			var peak int64
			for b.Loop() {
				for _, err := range watched(analytics.Rows[analytics.Row](f.Rows()), &peak) {
					if err != nil { // a call would show in the result
						b.Fatal(err)
					}
				}
			}
			report(b, n, peak-base)
		})
	}
}

func report(b *testing.B, rows int, extra int64) {
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(float64(extra)/(1<<20), "peak-heap-MiB")
}

func heap() int64 {
	runtime.GC()
	return inUse()
}

func inUse() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse)
}

// watched passes rows on and stores the largest heap in peak.
func watched(rows iter.Seq2[analytics.Row, error], peak *int64) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		n := 0
		for r, err := range rows {
			if n++; n%20_000 == 0 {
				*peak = max(*peak, inUse())
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

// traffic yields n rows like the rows of a site: long paths with common beginnings, few pages with many visitors.
func traffic(n int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		var path []byte
		for i := range n {
			human, ai := skewed(i), skewed(i+7)/3
			path = strconv.AppendInt(append(path[:0], "/docs/guides/section-"...), int64(1_000_000+i/500), 10)
			path = strconv.AppendInt(append(path, "/page-"...), int64(100_000_000+i), 10)
			row := analytics.Row{Path: string(path), Totals: analytics.Totals{Human: human, AI: ai,
				Total: human + ai - min(human, ai)/8}}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// skewed spreads i over counts the way visitors spread over pages: half of all
// pages have a handful, one in a thousand has thousands.
func skewed(i int) int64 {
	x := uint64(i)*0x9E3779B97F4A7C15 ^ uint64(i)<<7
	x ^= x >> 29
	x *= 0xBF58476D1CE4E5B9
	return int64(1<<20/(1+x>>44)) + int64(x&7)
}
