package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/must"
)

// loadSink is a sink that several clients load the same archives into.
type loadSink struct {
	name, title string // for -only, and in the table
	sink        string // as in DOCGAUGE_SINKS
	tasks       []task
	clients     []client  // the others are compared with the first
	engine      *database // nil: the sink needs none
}

// task is an archive that is loaded in that many rounds.
type task struct {
	windows, rows int
	rounds        int
}

// database is an engine with SQL.
type database struct {
	start         func(dir string) (sqlServer, error)
	driver, admin string // of database/sql, and the database that it connects to
	name, schema  string // of the database that is loaded into, and of its tables in SQL
	empty         []string
}

type sqlServer interface {
	DSN(database string) string
	Stop() error
}

const (
	parquetVariant = "Parquet sink"
	linksVariant   = "hard links"
)

var loadSinks = func() []loadSink {
	bare := []client{{name: bareClient}, {name: docgaugeClient}, {name: bareWindowsClient}}
	// Compared with the Parquet sink, with data files that are copies, and with hard links to the archive's.
	files := []client{
		{name: docgaugeClient, variant: parquetVariant}, {name: docgaugeClient, variant: "copies"},
		{name: docgaugeClient, variant: linksVariant},
	}
	// Compared with the database's own client, which loads the same rows from one file into the same table.
	own, client := []task{{200, 5_000, 5}}, []client{{name: ownClient}, {name: docgaugeClient}}
	insert := []task{{1_000, 1_000, 1}, {50, 20_000, 3}, {1, 1_000_000, 3}, {500, 20_000, 1}, {10, 1_000_000, 1}}
	copies := []task{{1_000, 1_000, 3}, {50, 20_000, 3}, {100, 100_000, 1}}
	native := database{func(dir string) (sqlServer, error) { return engines.StartClickHouse(dir) },
		"clickhouse", "default", "bench", "bench", []string{"DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench"}}
	http := native
	http.start = func(dir string) (sqlServer, error) { return engines.StartEngine26(dir) }
	postgres := database{func(dir string) (sqlServer, error) { return engines.StartPostgres(dir, "15") },
		"pgx", "postgres", "postgres", "public",
		[]string{"DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CHECKPOINT"}}
	return []loadSink{
		{"clickhouse native", "ClickHouse 18.16, native", "clickhouse", insert, bare, &native},
		{"clickhouse http", "ClickHouse 26, HTTP", "clickhouse", insert, bare, &http},
		{"delta", "Delta Lake", "delta", append(copies, task{10_000, 100, 1}), files, nil},
		{"postgres", "PostgreSQL", "postgres", copies, bare, &postgres},
		{"clickhouse client", "ClickHouse 18.16, native", "clickhouse", own, client, &native},
		{"psql", "PostgreSQL", "postgres", own, client, &postgres},
	}
}()

// loadAll lets the clients of s load each archive in turns.
func (l *lab) loadAll(ctx context.Context, s loadSink) (all []result) {
	var db *sql.DB
	var dsn string
	if s.engine != nil {
		running := must.Get(s.engine.start(filepath.Join(l.dir, s.name)))
		dsn, db = running.DSN(s.engine.name), must.Get(sql.Open(s.engine.driver, running.DSN(s.engine.admin)))
		defer func() { must.Do(errors.Join(db.Close(), running.Stop())) }()
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
			return []values{l.load(ctx, s, db, cl, order{DSN: dsn, Work: w, First: firstDay})}
		})...)
	}
	return all
}

// load lets c load an archive. It is an error if other rows than these are there afterwards.
func (l *lab) load(ctx context.Context, s loadSink, db *sql.DB, c client, o order) values {
	maker := c
	if l.binaries[c.name] == "" {
		maker.name = docgaugeClient
	}
	if db != nil {
		for _, statement := range s.engine.empty {
			must.Get(db.ExecContext(ctx, statement))
		}
		o.Dir = l.newDir()
		measure(l.loadCommand(ctx, s.sink, maker, o, l.archive(ctx, maker, workload{1, 0, 0}))) // makes the tables
	}
	o.Dir = l.newDir()
	command := l.loadCommand(ctx, s.sink, c, o, l.archive(ctx, maker, o.Work))
	if c.name == ownClient {
		measure(l.loadCommand(ctx, s.sink, maker, o, l.archive(ctx, maker, o.Work)))
		command = s.ownCommand(ctx, db, o)
	}
	_, v := measure(command)
	var rows int64
	if db == nil {
		rows = findRows(ctx, o).Rows
	} else {
		table := s.engine.schema + ".docgauge_visitors"
		if s.sink == "clickhouse" && l.binaries[c.name] == "" {
			table += "_rows" // a bare client commits nothing
		}
		must.Do(db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&rows))
	}
	if rows != o.Work.totalRows() {
		must.Do(fmt.Errorf("%s, %s: there are %d rows", c.label(), o.Work, rows))
	}
	if logs := must.Get(filepath.Glob(filepath.Join(o.Dir, "delta", "*", "_delta_log", "*.json"))); len(logs) > 0 {
		v["log entries"] = float64(len(logs))
	}
	return v
}

// ownCommand moves the rows that docgauge has loaded to a file, and returns the command that loads it.
func (s loadSink) ownCommand(ctx context.Context, db *sql.DB, o order) *exec.Cmd {
	dsn, file := must.Get(url.Parse(o.DSN)), filepath.Join(o.Dir, "rows")
	name, table := "psql", s.engine.schema+".docgauge_visitors"
	if s.sink == "clickhouse" {
		name, table = "clickhouse-client", table+"_rows"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		must.Do(engines.Missing{Engine: name, Install: "apt-get install postgresql-client clickhouse-client"})
	}
	out, load := exec.CommandContext(ctx, path, o.DSN, "-c", `\copy `+table+" to '"+file+"'"),
		exec.CommandContext(ctx, path, o.DSN, "-c", `\copy `+table+" from '"+file+"'")
	if s.sink == "clickhouse" {
		out = exec.CommandContext(ctx, path, "--port", dsn.Port(), "-q", "SELECT * FROM "+table+" FORMAT Native")
		load = exec.CommandContext(ctx, path, "--port", dsn.Port(), "-q", "INSERT INTO "+table+" FORMAT Native")
		out.Stdout = must.Get(os.Create(file)) // the bench itself holds no data
		load.Stdin = must.Get(os.Open(file))
	}
	must.Do(out.Run())
	must.Get(db.ExecContext(ctx, "TRUNCATE TABLE "+table))
	return load
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

// archive returns a directory of Parquet files with the windows of w, which maker exports if it is missing: a former
// docgauge reads only its own.
func (l *lab) archive(ctx context.Context, maker client, w workload) string {
	o := order{Base: l.server, Work: w, InFlight: 4, First: firstDay,
		Dir: filepath.Join(l.dir, fmt.Sprintf("archive-%s-%d-%d", maker.name, w.Windows, w.Rows))}
	if _, err := os.Stat(o.Dir); err != nil {
		l.export(ctx, client{name: maker.name}, o)
	}
	return filepath.Join(o.Dir, "data")
}
