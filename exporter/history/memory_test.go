package history_test

import (
	"iter"
	"runtime"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

const mib = 1 << 20

// gauged counts what is written, and looks at the memory in use now and then.
type gauged struct{ bytes, looked, most uint64 }

func (g *gauged) Write(p []byte) (int, error) {
	g.bytes += uint64(len(p))
	if g.bytes-g.looked > 8*mib {
		g.looked = g.bytes
		g.look()
	}
	return len(p), nil
}

func (g *gauged) look() {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g.most = max(g.most, m.HeapAlloc)
}

// TestMemoryIsBounded: 1,000 windows of 500 rows each, as 40 megabytes of text, in a few.
func TestMemoryIsBounded(t *testing.T) {
	engines.Long(t)
	const days, rows, pages = 1000, 500, 5
	s := &shelf{rows: func(k analytics.Key) iter.Seq2[analytics.Row, error] {
		return func(yield func(analytics.Row, error) bool) {
			for n := range rows {
				if !yield(analytics.Row{Path: path(n), Totals: analytics.Totals{Total: int64((n + int(k.To)) % rows)}}, nil) {
					return
				}
			}
		}
	}}
	first := date("2023-01-01")
	for day := range analytics.Date(days) {
		s.windows = append(s.windows, reading("prj_a", "day", first+day, first+day+1))
	}
	o := history.Options{From: first.Time(), To: (first + days + 1).Time(), Step: time.Hour, Pages: pages}
	var out gauged
	out.look()
	before := out.most
	started := time.Now()
	summary, err := history.Write(t.Context(), &out, s, o)
	must(t, err)
	t.Logf("%d windows with %d rows as %d samples, %d MiB of text: %.1f MiB in use at most, in %s",
		summary.Windows, summary.Windows*rows, summary.Samples, out.bytes/mib, float64(out.most-before)/mib,
		time.Since(started).Round(time.Millisecond))
	if summary.Windows != days || out.bytes < 40*mib {
		t.Errorf("too little was written to tell: %+v", summary)
	}
	if used := out.most - before; used > 8*mib {
		t.Errorf("%d MiB in use, must be bounded by windows", used/mib)
	}
}
