package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// loadSink is a sink that several clients load the same archives into.
type loadSink struct {
	name, title string // for -only, and in the table
	sink        string // as in DOCGAUGE_SINKS
	tasks       []task
	clients     []client // the others are compared with the first
	database    string
	start       func(dir string) (sqlServer, error) // nil: the sink needs no server
	empty       []string                            // SQL that empties the database
}

// task is an archive that is loaded in that many rounds.
type task struct {
	windows, rows int
	rounds        int
}

// sqlServer is an engine with databases.
type sqlServer interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
	Stop() error
}

const (
	parquetVariant = "Parquet sink"
	linksVariant   = "hard links"
)

var loadSinks = func() []loadSink {
	sql := []client{{name: bareClient}, {name: docgaugeClient}, {name: bareWindowsClient}}
	// Compared with the Parquet sink, with data files that are copies, and with hard links to the archive's.
	files := []client{
		{name: docgaugeClient, variant: parquetVariant}, {name: docgaugeClient, variant: "copies"},
		{name: docgaugeClient, variant: linksVariant},
	}
	insert := []task{{1_000, 1_000, 1}, {50, 20_000, 3}, {1, 1_000_000, 3}, {500, 20_000, 1}, {10, 1_000_000, 1}}
	copies := []task{{1_000, 1_000, 3}, {50, 20_000, 3}, {100, 100_000, 1}}
	drop := []string{"DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench"}
	return []loadSink{
		{"clickhouse native", "ClickHouse 18.16, native", "clickhouse", insert, sql, "bench",
			func(dir string) (sqlServer, error) { return engines.StartClickHouse(dir) }, drop},
		{"clickhouse http", "ClickHouse 26, HTTP", "clickhouse", insert, sql, "bench",
			func(dir string) (sqlServer, error) { return engines.StartEngine26(dir) }, drop},
		{"delta", "Delta Lake", "delta", append(copies, task{10_000, 100, 1}), files, "", nil, nil},
		{"postgres", "PostgreSQL", "postgres", copies, sql, "postgres",
			func(dir string) (sqlServer, error) {
				server, err := engines.StartPostgres(dir, "15")
				return postgresServer{server}, err
			}, []string{"DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CHECKPOINT"}},
	}
}()

// postgresServer also runs SQL.
type postgresServer struct{ *engines.Postgres }

// Exec returns the first value of the answer.
func (s postgresServer) Exec(ctx context.Context, sql string) (text string, err error) {
	conn, err := pgx.Connect(ctx, s.DSN("postgres"))
	if err != nil {
		return "", err
	}
	err = conn.QueryRow(ctx, sql, pgx.QueryExecModeSimpleProtocol).Scan(&text)
	if errors.Is(err, pgx.ErrNoRows) {
		err = nil
	}
	return text, errors.Join(err, conn.Close(ctx))
}

// loadAll lets the clients of s load each archive in turns. It is an error if other rows than these are there
// afterwards.
func (l *lab) loadAll(ctx context.Context, s loadSink) (all []result) {
	var server sqlServer
	if s.start != nil {
		server = must.Get(s.start(filepath.Join(l.dir, s.name)))
		defer func() { must.Do(server.Stop()) }()
	}
	for i, t := range s.tasks {
		w := workload{t.windows, t.rows, 0}
		if l.short && i == 2 {
			break // the others are the same when shortened
		} else if l.short {
			w = w.shortened()
		}
		c := contest{loadTable, s.title, w, t.rounds, s.clients}
		all = append(all, l.compete(c, func(cl client, w workload) []values {
			return []values{l.load(ctx, s, server, cl, w)}
		})...)
	}
	return all
}

func (l *lab) load(ctx context.Context, s loadSink, server sqlServer, c client, w workload) values {
	o := order{Dir: l.newDir(), Work: w, First: firstDay}
	if server != nil {
		o.DSN = server.DSN(s.database)
		for _, sql := range s.empty {
			must.Get(server.Exec(ctx, sql))
		}
		// An empty window makes the tables that all clients use.
		maker := client{name: docgaugeClient}
		if c.name == formerClient {
			maker.name = formerClient
		}
		measure(l.loadCommand(ctx, s.sink, maker, o, l.archive(ctx, workload{1, 0, 0})))
		o.Dir = l.newDir()
	}
	_, v := measure(l.loadCommand(ctx, s.sink, c, o, l.archive(ctx, w)))
	var rows int64
	if server == nil {
		rows = findRows(ctx, o).Rows
	} else {
		table := "docgauge_visitors"
		if s.sink == "clickhouse" {
			table = "bench.docgauge_visitors"
			if l.binaries[c.name] == "" {
				table += "_rows"
			}
		}
		text := must.Get(server.Exec(ctx, "SELECT count(*) FROM "+table))
		rows = must.Get(strconv.ParseInt(strings.TrimSpace(text), 10, 64))
	}
	if rows != w.totalRows() {
		must.Do(fmt.Errorf("%s, %s: there are %d rows", c.label(), w, rows))
	}
	if logs := must.Get(filepath.Glob(filepath.Join(o.Dir, "delta", "*", "_delta_log", "*.json"))); len(logs) > 0 {
		v["log entries"] = float64(len(logs))
	}
	return v
}

// loadCommand is `docgauge load` with a new state, or a bare client.
func (l *lab) loadCommand(ctx context.Context, sink string, c client, o order, data string) *exec.Cmd {
	if l.binaries[c.name] == "" {
		o.Dir = data
		return child(ctx, c.name, o)
	}
	files := filepath.Join(o.Dir, "parquet")
	switch c.variant {
	case linksVariant:
		files = data
	case parquetVariant:
		sink = "parquet"
	}
	cmd := l.docgauge(ctx, c.name, o.Dir, "load", "--sink", sink, "--archive", data)
	cmd.Env = append(cmd.Env, "DOCGAUGE_SINKS="+sink, "DOCGAUGE_PARQUET_URL="+files,
		"DOCGAUGE_DELTA_URL="+filepath.Join(o.Dir, "delta"))
	if o.DSN != "" {
		cmd.Env = append(cmd.Env, "DOCGAUGE_"+strings.ToUpper(sink)+"_DSN="+o.DSN)
	}
	return cmd
}

// archive returns a directory of Parquet files with the windows of w, which docgauge exports if it is missing.
func (l *lab) archive(ctx context.Context, w workload) string {
	o := order{Base: l.server, Work: w, InFlight: 4, First: firstDay,
		Dir: filepath.Join(l.dir, fmt.Sprintf("archive-%d-%d", w.Windows, w.Rows))}
	if _, err := os.Stat(o.Dir); err != nil {
		l.export(ctx, client{name: docgaugeClient}, o)
	}
	return filepath.Join(o.Dir, "data")
}
