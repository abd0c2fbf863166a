package postgres

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
)

// TestServerDiskFull fills the disk of the tables.
func TestServerDiskFull(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("SKIPPED: needs a tmpfs, which only Linux has")
	}
	e := engines.RunPostgres(t, debian)
	disk := filepath.Join(filepath.Dir(e.Data()), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v: %s", err, out)
	}
	t.Cleanup(func() {
		_ = e.Stop()
		if out, err := exec.Command("umount", disk).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	if err := e.Give(disk); err != nil {
		t.Fatal(err)
	}
	connect(t, e.DSN("postgres")).must("CREATE TABLESPACE small LOCATION '" + disk + "'")
	dsn := e.DSN("postgres") + "&default_tablespace=small"
	s, r := open(t, dsn), reader{connect(t, dsn)}
	shows(t, s, r, seal(1, 10))
	ballast := filepath.Join(disk, "ballast")
	fillDisk(t, ballast)
	if err := s.Replace(t.Context(), seal(2, 100_000)); err == nil || !strings.Contains(err.Error(), "disk is full: free space there") {
		t.Errorf("Replace = %v", err)
	}
	if got := r.shown(seal(1, 0).rev.Key); got != 1 {
		t.Errorf("readers see revision %d", got)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	shows(t, s, r, seal(3, 1000))
}

// fillDisk writes a file until the disk has no room.
func fillDisk(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(bytes.Repeat([]byte{1}, 16<<10))
	}
}

// TestMemory holds the heap down for windows whose paths alone are 100 MB. It runs beside no other test,
// whose heap would count.
func TestMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // what is held counts, not what may go
	s, _ := newSink(t, serverOf(t, debian))
	for name, w := range map[string]window{
		"200,000 rows": {rev: windowOf(0, 1, 200_000).rev, size: 500},
		"8 KiB":        {rev: windowOf(1, 1, 12_000).rev, size: 8 << 10},
	} {
		for _, call := range []struct {
			what string
			do   func() error
		}{
			{"Replace", func() error { return s.Replace(t.Context(), w) }},
			{"Inspect", func() error {
				for _, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true, Keys: map[analytics.Key]bool{w.rev.Key: true}}) {
					if err != nil {
						return err
					}
				}
				return nil
			}},
			{"Window", func() error {
				_, done, err := s.Window(t.Context(), w.rev, t.TempDir())
				if err != nil {
					return err
				}
				return done()
			}},
			{"Top", func() error { _, err := s.Top(t.Context(), w.rev, 100); return err }},
		} {
			most := heapDuring(func() {
				if err := call.do(); err != nil {
					t.Errorf("%s: %v", call.what, err)
				}
			})
			t.Logf("%s of %s: %d MiB", call.what, name, most>>20)
			if most > 128<<20 {
				t.Errorf("%s of %s: the heap has grown to %d MiB", call.what, name, most>>20)
			}
		}
	}
}

// heapDuring returns the most heap in use while f runs.
func heapDuring(f func()) (most uint64) {
	runtime.GC() // what other tests have left
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		most = max(most, m.HeapInuse)
		select {
		case <-done:
			return most
		case <-tick.C:
		}
	}
}
