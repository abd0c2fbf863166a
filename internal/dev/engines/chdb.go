package engines

import (
	"context"
	"crypto/rand"
	_ "embed"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Engine26 is ClickHouse 26.7 as a Python package, behind an adapter that speaks the
// HTTP interface of a server. It has one user, "default", no password, no cluster and no
// native protocol.
type Engine26 struct{ process }

// RunEngine26 starts the engine for one test, as [StartEngine26] does.
func RunEngine26(t testing.TB, grants ...string) *Engine26 {
	t.Helper()
	return run(t, func(dir string) (*Engine26, error) { return StartEngine26(dir, grants...) })
}

// StartEngine26 starts the engine with its storage in dir, which is made if it
// is absent, and waits until it answers. Grants, such as "GRANT SELECT ON db.*", limit the user to these
// rights. A test that needs tables first makes them without grants, and then
// starts the engine again over the same dir.
func StartEngine26(dir string, grants ...string) (*Engine26, error) {
	return start(dir, 1, func(dir string, ports []int) (*Engine26, error) {
		python := filepath.Join(Tools(), "chdb", "bin", "python")
		if _, err := os.Stat(python); err != nil {
			return nil, Missing{Engine: "chdb, ClickHouse 26.7", Install: installer}
		}
		storage, address, token := filepath.Join(dir, "storage"), loopback(ports[0]), rand.Text()
		return &Engine26{process{
			name:  "chdb",
			argv:  append([]string{python, "-c", chdbAdapter, storage, strconv.Itoa(ports[0]), token}, grants...),
			dir:   dir,
			ports: ports,
			ready: answers("http://"+address+"/ping", token),
		}}, os.MkdirAll(storage, 0o700)
	})
}

//go:embed files/chdb.py
var chdbAdapter string

// DSN is the address of a database, for clickhouse-go.
func (e *Engine26) DSN(database string) string {
	return "http://" + loopback(e.ports[0]) + "/" + database
}

// Exec runs one statement and returns its result as
// tab-separated values, a newline after each row. Its error carries the
// engine's message.
func (e *Engine26) Exec(ctx context.Context, sql string) (string, error) {
	return query(ctx, loopback(e.ports[0]), sql)
}
