package engines

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Engine26 is ClickHouse 26.7 as a library, behind an adapter that speaks the
// HTTP interface of a server. It has one user, "default", no cluster and no
// native protocol.
type Engine26 struct {
	process
	port  int
	token string // what the adapter answers to a ping, so that no other server is taken for it
}

// StartEngine26 starts the engine with its storage in dir, which is made if it
// is not there, and waits until it answers. Flags go to the adapter:
// "--password=…" makes it refuse requests with another password;
// "--grant=GRANT SELECT ON db.*", any number of times, leaves the user only
// these rights. Where a test needs tables first, it makes them without the flag
// and starts the engine again over the same dir.
func StartEngine26(dir string, flags ...string) (*Engine26, error) {
	var e *Engine26
	err := withPorts(1, func(ports []int) (err error) {
		if e, err = newEngine26(dir, ports, flags); err != nil {
			return err
		}
		return e.Restart()
	})
	if err != nil {
		return nil, err
	}
	return e, nil
}

// RunEngine26 starts the engine for one test, as [StartEngine26] does.
func RunEngine26(t testing.TB, flags ...string) *Engine26 {
	t.Helper()
	e, err := StartEngine26(t.TempDir(), flags...)
	Need(t, err)
	cleanup(t, e)
	return e
}

func newEngine26(dir string, ports []int, flags []string) (*Engine26, error) {
	library := filepath.Join(Tools(), "node", "node_modules", "@chdb", "lib-linux-x64-gnu", "libchdb.so")
	if _, err := os.Stat(library); err != nil {
		return nil, Missing{Engine: "libchdb 26.7", Install: installer}
	}
	adapter, err := chdbAdapter()
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	storage := filepath.Join(dir, "storage")
	if err := os.MkdirAll(storage, 0o700); err != nil {
		return nil, err
	}
	e := &Engine26{port: ports[0], token: rand.Text()}
	e.process = process{
		name: "chdb",
		argv: append([]string{adapter, "--lib=" + library, "--path=" + storage,
			"--listen=" + loopback(e.port), "--pong=" + e.token}, flags...),
		dir:   dir,
		ports: ports,
		ready: e.answers,
	}
	return e, nil
}

// chdbAdapter builds the adapter once for this process and returns its path.
// The file is renamed into place, so that processes which build at the same
// time never run or overwrite half a program.
var chdbAdapter = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("build the chdb adapter: %w", err)
	}
	cache = filepath.Join(cache, "docgauge-engines")
	if err := os.MkdirAll(cache, 0o700); err != nil {
		return "", fmt.Errorf("build the chdb adapter: %w", err)
	}
	path := filepath.Join(cache, "chdb")
	fresh := path + "." + rand.Text()
	build := exec.Command("go", "build", "-o", fresh, "./internal/dev/engines/chdb")
	build.Dir, build.Env = filepath.Dir(Tools()), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the chdb adapter: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

// Addr is host:port of the HTTP interface.
func (e *Engine26) Addr() string { return loopback(e.port) }

// DSN is the address of a database, for clickhouse-go.
func (e *Engine26) DSN(database string) string { return "http://" + e.Addr() + "/" + database }

// Exec runs one statement and returns its result as tab-separated values, a
// newline after each row. Its error carries the engine's message. It sends no
// password.
func (e *Engine26) Exec(ctx context.Context, sql string) (string, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+e.Addr()+"/", strings.NewReader(sql))
	if err != nil {
		return "", err
	}
	status, body, err := send(request)
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(body))
	}
	if err != nil {
		return "", fmt.Errorf("chdb %s: %w", e.Addr(), err)
	}
	return body, nil
}

func (e *Engine26) answers(ctx context.Context) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+e.Addr()+"/ping", nil)
	if err != nil {
		return false
	}
	_, body, err := send(request)
	return err == nil && strings.TrimSpace(body) == e.token
}
