package engines

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// awaited is how long a test waits for what must come.
const awaited = 2 * time.Minute

// Await waits until an expression has a result, and returns the first value of it.
func (p *Prometheus) Await(t testing.TB, expr string) float64 {
	t.Helper()
	for deadline := time.Now().Add(awaited); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		got, err := p.Query(t.Context(), expr, time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) > 0 {
			return got[0].Value
		}
	}
	targets, err := p.Targets(t.Context())
	t.Fatalf("%s: nothing in %v; targets: %v, %v", expr, awaited, targets, err)
	return 0
}

// ScrapedAt waits until series meet a condition ("== 10", or none), and returns when
// they were scraped. After that a scrape may fail, which on a machine that is busy
// takes longer than it may, and all series are stale; at that time they are there
// for ever.
func (p *Prometheus) ScrapedAt(t testing.TB, series, condition string) time.Time {
	t.Helper()
	at := p.Await(t, fmt.Sprintf("timestamp(%s) and %s %s", series, series, condition))
	return time.UnixMilli(int64(math.Round(1000 * at)))
}
