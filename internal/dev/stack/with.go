package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// with runs a command beside temporary servers for those of DOCGAUGE_SINKS that need one and
// have no DSN, and sets DOCGAUGE_CLICKHOUSE_DSN and DOCGAUGE_POSTGRES_DSN for it:
//
//	DOCGAUGE_SINKS=parquet,postgres go run ./internal/dev/stack with bin/docgauge demo
//
// The servers and their data are gone when the command ends.
func with(name string, args []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir, err := os.MkdirTemp("", "docgauge-servers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = os.Environ()
	for _, s := range servers {
		if !s.isWanted() {
			continue
		}
		server, failed := s.start(filepath.Join(dir, s.sink))
		if failed != nil {
			return failed
		}
		defer func() { err = errors.Join(err, server.Stop()) }()
		cmd.Env = append(cmd.Env, s.variable+"="+server.DSN(s.database))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	return cmd.Run()
}

// server is a started server.
type server interface {
	DSN(database string) string
	Stop() error
}

// kind is a server for one of the sinks.
type kind struct {
	sink, variable, database string
	start                    func(dir string) (server, error)
}

var servers = []kind{
	{"clickhouse", "DOCGAUGE_CLICKHOUSE_DSN", "default",
		func(dir string) (server, error) { return engines.StartClickHouse(dir) }},
	{"postgres", "DOCGAUGE_POSTGRES_DSN", "postgres",
		func(dir string) (server, error) { return engines.StartPostgres(dir, "15") }},
}

// isWanted reports whether the sink is chosen, and nothing says where it writes.
func (k kind) isWanted() bool {
	return slices.Contains(strings.Split(os.Getenv("DOCGAUGE_SINKS"), ","), k.sink) &&
		os.Getenv(k.variable)+os.Getenv(k.variable+"_FILE") == ""
}
