//go:build linux

// Command chdb serves libchdb, ClickHouse as a C library, over the HTTP
// interface of a ClickHouse server, as far as clickhouse-go and the tests of
// this repository use it.
//
// It hides the library's habits: one storage path for a process, connections
// that remember settings and failed queries, Native blocks without a protocol
// revision. Its invariant: a request runs on a connection of its own, and an
// INSERT whose body was cut off is cancelled, not committed.
//
// It has one user, default, no ON CLUSTER, no sessions, no external tables and no HTTP
// compression. It listens on loopback and belongs to tests only.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// goodbye is how long requests in flight may take after SIGTERM.
const goodbye = 5 * time.Second

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
	password := flag.String("password", "", "password that every request must carry; empty: none is checked")
	pong := flag.String("pong", "Ok.", "answer to GET /ping")
	var rights grants
	flag.Var(&rights, "grant", "GRANT statement for the user default, who then has no other right; may come several times")
	flag.Parse()

	l, err := load(*lib)
	if err != nil {
		return err
	}
	arguments, err := rights.configure(*path)
	if err != nil {
		return err
	}
	e, err := openEngine(l, *path, arguments...)
	if err != nil {
		return err
	}
	h, err := newHandler(e, *password, *pong)
	if err != nil {
		return err
	}
	return serve(*listen, h)
}

// serve answers until SIGTERM. It leaves the base connection open: the kernel
// closes the files, and parts are renamed into place when they are whole.
func serve(address string, h http.Handler) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	server := &http.Server{Handler: h, ReadHeaderTimeout: goodbye}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), goodbye)
	defer cancel()
	return server.Shutdown(last)
}
