package faults

import (
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// Spares expects the heap to stay small in calls of a sink, Replace and then perhaps Inspect and Window, with
// windows whose paths alone are 100 MB and more. It must run beside no other test, whose heap would count.
func Spares(t *testing.T, s sinks.Sink, rows int64, calls ...string) {
	t.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // only live memory counts
	for name, w := range map[string]sinktest.Window{
		"many rows":  {Rev: sinktest.WindowOf(0, 1, rows).Rev, Size: 500},
		"long paths": {Rev: sinktest.WindowOf(1, 1, rows/16).Rev, Size: 8 << 10},
	} {
		for _, call := range calls {
			do := map[string]func() error{
				"Replace": func() error { return s.Replace(t.Context(), w) },
				"Inspect": func() error {
					scope := sinks.Scope{Rows: true, Keys: map[analytics.Key]bool{w.Rev.Key: true}}
					for _, err := range s.Inspect(t.Context(), scope) {
						check(t, err)
					}
					return nil
				},
				"Window": func() error {
					_, done, err := s.Window(t.Context(), w.Rev, t.TempDir())
					check(t, err)
					return done()
				},
			}[call]
			most := heapDuring(func() {
				if err := do(); err != nil {
					t.Errorf("%s: %v", call, err)
				}
			})
			if t.Logf("%s of %s: %d MiB", call, name, most>>20); most > 128<<20 {
				t.Errorf("%s of %s: the heap has grown to %d MiB", call, name, most>>20)
			}
		}
	}
}

// ServerDiskFull fills the disk of a server by a file: a window of so many rows that does not fit is
// an error that names the remedy, and readers see the former one until there is space again.
func ServerDiskFull(t *testing.T, s sinks.Sink, r sinktest.Reader, ballast string, rows int64) {
	t.Helper()
	sinktest.Shows(t, s, r, sinktest.FirstDay(1, 10))
	FillDisk(t, ballast)
	if err := s.Replace(t.Context(), sinktest.FirstDay(2, rows)); err == nil ||
		!strings.Contains(err.Error(), "disk is full: free space there") {
		t.Errorf("Replace = %v", err)
	}
	sinktest.Sees(t, r, sinktest.Key("prj_a", 0), 1)
	check(t, os.Remove(ballast))
	sinktest.Shows(t, s, r, sinktest.FirstDay(3, 1000))
}

// Killing is a server that is killed in the middle of a commit of a window of a report.
type Killing struct {
	Kill, Restart func() error
	Sink          sinks.Sink
	// On has the sink call f once, at the step of the commit.
	On     func(f func())
	Report analytics.Report
	Rows   int64
	// Sees is the revision that readers see afterwards if Replace fails, and Fails whether it does.
	Sees  int32
	Fails bool
	// AtOnce: the server is started again at once, and not after the sink gave up.
	AtOnce bool
	// Reader sees the tables once the server is back.
	Reader func() sinktest.Reader
}

// Run kills the server: readers see the former revision or the new one, and the next Replace heals.
func (k Killing) Run(t *testing.T) {
	t.Helper()
	does := func(do func() error) {
		if err := do(); err != nil {
			t.Error(err)
		}
	}
	sinktest.Replace(t, k.Sink, sinktest.FirstDay(1, 10).For(k.Report))
	k.On(func() {
		if does(k.Kill); k.AtOnce {
			does(k.Restart)
		}
	})
	next := sinktest.FirstDay(2, k.Rows).For(k.Report)
	err := k.Sink.Replace(t.Context(), next)
	if !k.AtOnce {
		does(k.Restart)
	}
	if (err != nil) != k.Fails {
		t.Errorf("Replace = %v", err)
	}
	if err == nil {
		k.Sees = 2
	}
	r := k.Reader()
	sinktest.Sees(t, r, next.Rev.Key, k.Sees)
	sinktest.Shows(t, k.Sink, r, sinktest.FirstDay(3, 20).For(k.Report))
}
