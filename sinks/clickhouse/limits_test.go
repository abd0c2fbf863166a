package clickhouse

import (
	"os"
	"path/filepath"
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
	faults.ServerDiskFull(t, s, r, filepath.Join(data, "ballast"), 300_000)
}

// TestMemory holds the heap down whatever the window. It runs beside no other
// test, whose heap would count.
func TestMemory(t *testing.T) {
	engines.Long(t)
	for name, e := range map[string]engine{"18.16": old(t), "26": modern(t)} {
		t.Run(name, func(t *testing.T) {
			s, _ := newSink(t, e)
			faults.Spares(t, s, 400_000, "Replace", "Inspect")
		})
	}
}
