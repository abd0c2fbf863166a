package postgres

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks"
)

// TestServerDiskFull fills the disk of the tables.
func TestServerDiskFull(t *testing.T) {
	t.Parallel()
	e := engines.RunPostgres(t, debian)
	disk := filepath.Join(filepath.Dir(e.Data()), "disk")
	check(t, os.Mkdir(disk, 0o700))
	faults.Mount(t, disk, "24m")
	t.Cleanup(func() { _ = e.Stop() }) // before the disk is unmounted
	check(t, e.Give(disk))
	connect(t, e.DSN("postgres")).must("CREATE TABLESPACE small LOCATION '" + disk + "'")
	dsn := e.DSN("postgres") + "&default_tablespace=small"
	s, r := open(t, dsn), reader{connect(t, dsn)}
	shows(t, s, r, seal(1, 10))
	ballast := filepath.Join(disk, "ballast")
	faults.FillDisk(t, ballast)
	if err := s.Replace(t.Context(), seal(2, 100_000)); err == nil ||
		!strings.Contains(err.Error(), "disk is full: free space there") {
		t.Errorf("Replace = %v", err)
	}
	sees(t, r, seal(1, 0).Rev.Key, 1)
	check(t, os.Remove(ballast))
	shows(t, s, r, seal(3, 1000))
}

// TestMemory holds the heap down for windows whose paths alone are 100 MB. It runs beside no other test,
// whose heap would count.
func TestMemory(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(20)) // only live memory counts
	s, _ := newSink(t, serverOf(t, debian))
	for name, w := range map[string]window{
		"200,000 rows": {Rev: windowOf(0, 1, 200_000).Rev, Size: 500},
		"8 KiB":        {Rev: windowOf(1, 1, 12_000).Rev, Size: 8 << 10},
	} {
		for _, call := range []struct {
			what string
			do   func() error
		}{
			{"Replace", func() error { return s.Replace(t.Context(), w) }},
			{"Inspect", func() error {
				for _, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true,
					Keys: map[analytics.Key]bool{w.Rev.Key: true}}) {
					if err != nil {
						return err
					}
				}
				return nil
			}},
			{"Window", func() error {
				_, done, err := s.Window(t.Context(), w.Rev, t.TempDir())
				if err != nil {
					return err
				}
				return done()
			}},
		} {
			most := faults.HeapDuring(func() {
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
