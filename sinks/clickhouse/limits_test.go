package clickhouse

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
)

// TestServerDiskFull fills the server's disk.
func TestServerDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	data := filepath.Join(dir, "data") // where the tables are; the log is elsewhere
	check(t, os.Mkdir(data, 0o700))
	faults.Mount(t, data, "48m")
	server, err := engines.StartClickHouse(dir)
	engines.Need(t, err)
	t.Cleanup(func() { _ = server.Kill() })
	s, r := newSink(t, server)
	replace(t, s, windowOf(0, 1, 10))
	ballast := filepath.Join(data, "ballast")
	faults.FillDisk(t, ballast)
	big := windowOf(0, 2, 300_000)
	if err := s.Replace(t.Context(), big); err == nil || !strings.Contains(err.Error(),
		"disk is full: free space there") {
		t.Errorf("Replace = %v", err)
	}
	sees(t, r, big.Rev.Key, 1)
	check(t, os.Remove(ballast))
	if err := s.Replace(t.Context(), windowOf(0, 3, 1000)); err != nil || r.shown(big.Rev.Key) != 3 {
		t.Errorf("with space again: %v", err)
	}
}

// TestMemory holds the heap down whatever the window. It runs beside no other
// test, whose heap would count.
func TestMemory(t *testing.T) {
	t.Run("18.16", func(t *testing.T) { spares(t, old(t)) })
	t.Run("26", func(t *testing.T) { spares(t, modern(t)) })
}

// spares replaces windows whose paths alone are 200 MB.
func spares(t *testing.T, e engine) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // only live memory counts
	s, _ := newSink(t, e)
	for name, w := range map[string]window{
		"400,000 rows": {Rev: windowOf(0, 1, 400_000).Rev, Size: 500},
		"8 KiB":        {Rev: windowOf(1, 1, 25_000).Rev, Size: 8 << 10},
	} {
		most := faults.HeapDuring(func() {
			if err := s.Replace(t.Context(), w); err != nil {
				t.Error(err)
			}
		})
		t.Logf("%s: %d MiB", name, most>>20)
		if most > 128<<20 {
			t.Errorf("%s: the heap has grown to %d MiB", name, most>>20)
		}
	}
}
