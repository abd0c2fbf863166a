// Package engines starts the real engines that tests and benchmarks run
// against, on loopback, and stops them: ClickHouse 18.16 alone or as a cluster
// with ZooKeeper, the engine of ClickHouse 26, PostgreSQL 13, 15 and 18, PgBouncer,
// an S3 server, Prometheus with Pushgateway, Alertmanager and node_exporter, nginx and
// Caddy, browsers, and any other program ([StartCommand]). It also finds
// programs that run to their end ([Tool], and readers of Delta tables,
// [DeltaReader]) and builds the docgauge that tests run ([Docgauge]). A proxy harms requests to
// the S3 server ([S3Proxy]), a [CodeHost] behaves as GitHub and others do, and functions check what
// a browser shows ([OpenPage]).
//
// It hides the location of the programs, their configuration, the choice of
// free ports, and the wait until an engine answers. Its invariant: an engine is
// a child of this process that keeps everything it writes in the one directory
// it was given, listens on 127.0.0.1 only, and does not outlive this process
// (on Linux not even when this process is killed).
//
// It knows nothing of docgauge's tables or files, has no client library but the browser's, and installs nothing:
// install.sh and install-delta.sh do. An engine whose program is absent is a [Missing] error, which [Need] turns
// into a skipped test.
package engines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// installer is the command that installs every engine.
const installer = "make engines"

// Missing says that an engine is not installed.
type Missing struct {
	Engine  string // "clickhouse-server"
	Install string // the command that installs it
}

func (m Missing) Error() string {
	return fmt.Sprintf("%s is not installed: run %s", m.Engine, m.Install)
}

// Need ends the test unless err is nil. A [Missing] engine skips the test, or
// fails it where the environment has CI=true; any other error fails it.
func Need(t testing.TB, err error) {
	t.Helper()
	var missing Missing
	switch {
	case err == nil:
	case errors.As(err, &missing) && os.Getenv("CI") != "true":
		t.Skip(missing.Error())
	default:
		t.Fatal(err)
	}
}

// Long skips a long test under -short, as `make test` runs it; `make check` runs every test. A test is long only if a
// quicker one fails too for most of what it would find.
func Long(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("long: make check runs it")
	}
}

// Tool returns a command that has not been started: promtool, amtool, helm,
// compose-spec (the loader of docker compose), or a systemd program that works
// without systemd running, such as systemd-analyze.
func Tool(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	path, err := program(name)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, path, args...), nil
}

// NodeModule returns the directory of a package of npm that tests use.
func NodeModule(name string) (string, error) {
	dir := filepath.Join(Tools(), "node", "node_modules", name)
	if _, err := os.Stat(filepath.Join(dir, "package.json")); err != nil {
		return "", Missing{Engine: name, Install: installer}
	}
	return dir, nil
}

// Has reports whether the program of an engine is installed, or a version such as "PostgreSQL 15".
func Has(name string) bool {
	_, err := program(name)
	if version, ok := strings.CutPrefix(name, "PostgreSQL "); ok {
		_, err = postgresPrograms(version)
	}
	return err == nil
}

// program finds an executable in .tools/bin at the top of the repository, in
// PATH, or in /usr/sbin, which the PATH of ordinary users often lacks.
func program(name string) (string, error) {
	for _, path := range []string{filepath.Join(Tools(), "bin", name), name, "/usr/sbin/" + name} {
		if found, err := exec.LookPath(path); err == nil {
			return filepath.Abs(found)
		}
	}
	return "", Missing{Engine: name, Install: installer}
}

// Tools returns the directory .tools at the top of the repository, whether it
// exists or not.
func Tools() string { return filepath.Join(root(), ".tools") }

// root returns the top of the repository: the directory of the go.mod at or
// above the working directory, or the working directory without one.
func root() string {
	dir, err := os.Getwd()
	for err == nil && dir != filepath.Dir(dir) {
		if _, none := os.Stat(filepath.Join(dir, "go.mod")); none == nil {
			return dir
		}
		dir = filepath.Dir(dir)
	}
	return "."
}

// engine is the common interface of the results of the Start functions.
type engine interface {
	Restart() error
	Kill() error
	Tail() string
}

// start prepares an engine that listens on n free ports and keeps its files in
// dir, and starts it. It tries other ports if one turns out to be taken.
func start[E engine](dir string, n int, prepare func(dir string, ports []int) (E, error)) (E, error) {
	var none E
	dir, err := filepath.Abs(dir)
	if err != nil {
		return none, err
	}
	for attempt := 1; ; attempt++ {
		ports := make([]int, n)
		for i := range ports {
			if ports[i], err = Port(); err != nil {
				return none, err
			}
		}
		e, err := prepare(dir, ports)
		if err != nil {
			return none, err
		}
		err = e.Restart()
		if err == nil {
			return e, nil
		}
		if !errors.Is(err, errPortTaken) || attempt == portAttempts {
			return none, err
		}
	}
}

// run starts an engine for one test. When the test ends, the engine is killed
// (its directory is removed with the test, so nothing is lost by that), and if
// the test failed, its error log is shown.
func run[E engine](t testing.TB, start func(dir string) (E, error)) E {
	t.Helper()
	e, err := start(t.TempDir())
	Need(t, err)
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(e.Tail())
		}
		if err := e.Kill(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// write writes a file and makes the directories above it.
func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}

// client keeps no connection open, so that a server that stops need not wait for us.
var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// request sends a GET, or a POST where there is a body.
func request(ctx context.Context, url, body string) (status int, answer string, err error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	response, err := client.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return response.StatusCode, string(text), err
}

// answers returns a probe for a server that answers a request with status 200
// and, unless token is empty, that text. A random path or token makes sure that
// no other server on the port is mistaken for ours.
func answers(url, token string) func(context.Context) bool {
	return func(ctx context.Context) bool {
		status, body, err := request(ctx, url, "")
		return err == nil && status == http.StatusOK && (token == "" || strings.TrimSpace(body) == token)
	}
}

// getJSON reads an answer of the API that Prometheus and Pushgateway share.
func getJSON(ctx context.Context, url string, data any) error {
	status, body, err := request(ctx, url, "")
	if err != nil {
		return err
	}
	answer := struct {
		Status, Error string
		Data          any
	}{Data: data}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		return fmt.Errorf("status %d: %w", status, err)
	}
	if answer.Status != "success" {
		return errors.New(answer.Error)
	}
	return nil
}
