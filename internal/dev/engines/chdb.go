package engines

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Engine26 is ClickHouse 26.7 as a library, behind an adapter that speaks the
// HTTP interface of a server. It has one user, "default", no password, no cluster and no
// native protocol.
type Engine26 struct{ process }

// RunEngine26 starts the engine for one test, as [StartEngine26] does.
func RunEngine26(t testing.TB, flags ...string) *Engine26 {
	t.Helper()
	return run(t, func(dir string) (*Engine26, error) { return StartEngine26(dir, flags...) })
}

// StartEngine26 starts the engine with its storage in dir, which is made if it
// is absent, and waits until it answers. The flag of the adapter,
// "--grant=GRANT SELECT ON db.*", any number of times, limits the user to these
// rights. A test that needs tables first makes them without the flag, and then
// starts the engine again over the same dir.
func StartEngine26(dir string, flags ...string) (*Engine26, error) {
	return start(dir, 1, func(dir string, ports []int) (*Engine26, error) {
		library := filepath.Join(Tools(), "node", "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so")
		if _, err := os.Stat(library); err != nil {
			return nil, Missing{Engine: "libchdb 26.7", Install: installer}
		}
		adapter, err := chdbAdapter()
		if err != nil {
			return nil, err
		}
		storage, address, token := filepath.Join(dir, "storage"), loopback(ports[0]), rand.Text()
		return &Engine26{process{
			name: "chdb",
			argv: append([]string{adapter, "--lib=" + library, "--path=" + storage, "--listen=" + address,
				"--pong=" + token}, flags...),
			dir:   dir,
			ports: ports,
			ready: answers("http://"+address+"/ping", token),
		}}, os.MkdirAll(storage, 0o700)
	})
}

// chdbAdapter builds the adapter once for this process and returns its path.
// The file is renamed into place, so that processes that build at the same time
// never run or overwrite half a program.
var chdbAdapter = sync.OnceValues(func() (path string, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("build the chdb adapter: %w", err)
		}
	}()
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "docgauge-engines")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", err
	}
	path = filepath.Join(cache, "chdb")
	fresh := path + "." + rand.Text()
	build := exec.Command("go", "build", "-o", fresh, "./internal/dev/engines/chdb")
	build.Dir, build.Env = root(), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

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
