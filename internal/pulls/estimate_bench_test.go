package pulls

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks/parquet"
)

// BenchmarkStudy is one page against 200 placebos.
func BenchmarkStudy(b *testing.B) {
	p := restlessTraffic(400)(b, 1)
	path := p.eligible(50, 100)[0]
	m := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{path}}
	for b.Loop() {
		if e := newStudy(p, m, []view.Merge{m}).effect(path, analytics.Human); e.Placebos != maxPlacebos {
			b.Fatalf("%+v", e)
		}
	}
}

// BenchmarkEstimate is one merge in an archive of 57 days with 25,000 pages each. It reports the
// heap at its largest moment that is looked at.
func BenchmarkEstimate(b *testing.B) {
	const pages = 25_000
	sink, err := parquet.New(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer sink.Close()
	r := rand.New(rand.NewPCG(1, 2))
	for d := mergeDate - span; d <= mergeDate+span; d++ {
		rev := analytics.Revision{
			Key:    analytics.Key{Project: "prj_a", Granularity: analytics.Day, Window: analytics.Window{From: d, To: d + 1}},
			Number: 1, Settled: true, Verified: true, Rows: pages, ExportedAt: (d + 9).Time(),
		}
		file := filepath.Join(b.TempDir(), "window")
		_, err := archive.Write(file, rev, func(yield func(analytics.Row, error) bool) {
			for i := range pages {
				n := int64(poisson(r, 10_000/float64(i+20)))
				if !yield(analytics.Row{Path: fmt.Sprintf("/reference/page-%06d", i), Human: n, AI: n / 2, Total: n}, nil) {
					return
				}
			}
		})
		if err != nil {
			b.Fatal(err)
		}
		window, err := archive.Open(file)
		if err == nil {
			err = sink.Replace(b.Context(), window)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	m := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{"/reference/page-000100"}}
	most := uint64(0)
	for b.Loop() {
		done := make(chan struct{})
		go func() {
			defer close(done)
			if got, err := Estimate(b.Context(), sink, []view.Merge{m}); err != nil || got[0].Effects[0].Verdict == view.NotEnoughData {
				b.Errorf("%+v, %v", got, err)
			}
		}()
		for running := true; running; {
			select {
			case <-done:
				running = false
			case <-time.After(20 * time.Millisecond):
				var s runtime.MemStats
				runtime.ReadMemStats(&s)
				most = max(most, s.HeapAlloc)
			}
		}
	}
	b.ReportMetric(float64(most)/(1<<20), "heap-MiB")
}
