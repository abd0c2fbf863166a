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
	"github.com/docgauge/docgauge/internal/dev/must"
)

// with runs a command beside temporary servers for the sinks of DOCGAUGE_SINKS that need a server and have no DSN,
// and sets DOCGAUGE_CLICKHOUSE_DSN and DOCGAUGE_POSTGRES_DSN for it:
//
//	DOCGAUGE_SINKS=parquet,postgres go run ./internal/dev/stack with bin/docgauge demo
//
// The servers and their data are gone when the command ends.
func with(name string, args []string) (err error) {
	defer must.Catch(&err)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dir := must.Get(os.MkdirTemp("", "docgauge-servers-"))
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = os.Environ()
	for _, s := range servers {
		if !slices.Contains(strings.Split(os.Getenv("DOCGAUGE_SINKS"), ","), s.sink) ||
			os.Getenv(s.variable)+os.Getenv(s.variable+"_FILE") != "" {
			continue // it is not chosen, or something says where it writes
		}
		server := must.Get(s.start(filepath.Join(dir, s.sink)))
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
