//go:build linux

// Command chdb serves libchdb, ClickHouse as a C library, over the HTTP
// interface of a ClickHouse server, as far as clickhouse-go and the tests of
// this repository use it.
//
// It hides the library's habits: one storage path for a process, connections
// that remember settings and failed queries, Native blocks without a protocol
// revision. Its invariant: each request runs on its own connection, and an
// INSERT whose body was cut off is cancelled, not committed.
//
// It has one user, default, without a password, no ON CLUSTER, no sessions, no external tables and no HTTP
// compression. It listens on loopback and belongs to tests only.
package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// shutdownTimeout is for requests in flight after SIGTERM.
const shutdownTimeout = 5 * time.Second

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "chdb:", err)
		os.Exit(1)
	}
}

func run() error {
	lib := flag.String("lib", "", "path of libchdb.so")
	path := flag.String("path", "", "storage directory")
	listen := flag.String("listen", "127.0.0.1:0", "loopback address")
	pong := flag.String("pong", "Ok.", "answer to GET /ping")
	var rights grants
	flag.Var(&rights, "grant", "GRANT statement for the user default, who then has no other right; may come "+
		"several times")
	flag.Parse()

	l, err := load(*lib)
	if err != nil {
		return err
	}
	arguments, err := rights.configure(*path)
	if err != nil {
		return err
	}
	l.setSignalHandlers(0)
	// The engine reads its arguments at its first connection only.
	if _, err := l.open(append([]string{"--path=" + *path}, arguments...)...); err != nil {
		return err
	}
	e := &engine{lib: l, path: *path}
	h, err := newHandler(e, *pong)
	if err != nil {
		return err
	}
	return serve(*listen, h)
}

// serve answers until SIGTERM. It does not close the engine: the kernel closes
// the files, and parts are renamed into place when they are complete.
func serve(address string, h http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Handler: h, ReadHeaderTimeout: shutdownTimeout}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	return server.Shutdown(last)
}

// grants are the rights of the one user, as GRANT statements. Without any, the
// engine's own configuration applies, which has nearly every right.
type grants []string

func (g *grants) String() string { return strings.Join(*g, "; ") }

// Set adds one statement: the flag may come several times.
func (g *grants) Set(statement string) error {
	*g = append(*g, statement)
	return nil
}

// configure writes the configuration of the user below dir and returns the
// arguments that make the engine read it.
func (g grants) configure(dir string) ([]string, error) {
	if len(g) == 0 {
		return nil, nil
	}
	dir = filepath.Join(dir, "adapter")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var queries bytes.Buffer
	for _, statement := range g {
		queries.WriteString("<query>")
		if err := xml.EscapeText(&queries, []byte(statement)); err != nil {
			return nil, err
		}
		queries.WriteString("</query>")
	}
	users := filepath.Join(dir, "users.xml")
	if err := os.WriteFile(users, []byte(strings.Replace(usersXML, "{grants}", queries.String(), 1)),
		0o600); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "config.xml")
	text := "<clickhouse><users_config>" + users + "</users_config></clickhouse>"
	return []string{"--config-file=" + config}, os.WriteFile(config, []byte(text), 0o600)
}

const usersXML = `<clickhouse>
  <profiles><default/></profiles>
  <users>
    <default>
      <password></password>
      <networks><ip>::/0</ip></networks>
      <profile>default</profile>
      <quota>default</quota>
      <grants>{grants}</grants>
    </default>
  </users>
  <quotas><default/></quotas>
</clickhouse>
`
