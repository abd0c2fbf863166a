package clickhouse

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// server is what a server can do, by its version.
type server struct{ major, minor uint64 }

func serverOf(v *driver.ServerVersion) server { return server{v.Version.Major, v.Version.Minor} }

func (s server) atLeast(major, minor uint64) bool {
	return s.major > major || s.major == major && s.minor >= minor
}

func (s server) String() string { return fmt.Sprintf("%d.%d", s.major, s.minor) }

// oldest is the oldest server this package was tried with.
var oldest = server{18, 16}

// modern servers have DateTime64, Bool, CREATE OR REPLACE VIEW, asynchronous
// inserts and parallel quorum inserts.
func (s server) modern() bool { return s.atLeast(22, 3) }

// ordered reports whether the views of this server are known never to read
// markers newer than the rows; between the versions tried they may.
func (s server) ordered() bool { return s.modern() || s.major == oldest.major }

// check refuses servers too old.
func (s server) check() error {
	if !s.atLeast(oldest.major, oldest.minor) {
		return fmt.Errorf("server %s: too old, want %s or newer", s, oldest)
	}
	return nil
}
