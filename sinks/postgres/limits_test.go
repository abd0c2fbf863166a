package postgres

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/faults"
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
	faults.ServerDiskFull(t, s, r, filepath.Join(disk, "ballast"), 100_000)
}

// TestMemory holds the heap down whatever the window. It runs beside no other test, whose heap
// would count.
func TestMemory(t *testing.T) {
	engines.Long(t)
	s, _ := newSink(t, serverOf(t, debian))
	faults.Spares(t, s, 200_000, "Replace", "Inspect", "Window")
}
