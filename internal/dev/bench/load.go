package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/postgres"
)

// loadSink is a sink that several clients load the same archives into.
type loadSink struct {
	name    string // for -only
	title   string
	key     string // as in DOCGAUGE_SINKS
	tasks   []task
	clients []client // the others are compared with the first
	open    func(ctx context.Context, dir string) (database, error)
}

// database is an open loadSink.
type database struct {
	dsn   string
	empty func() error
	rows  func(c client, dir string) (int64, error) // that are there now
	stop  func() error
}

var loadSinks = func() []loadSink {
	sql := []client{{name: bareClient}, {name: docgaugeClient}, {name: bareWindowsClient}}
	// Compared with the Parquet sink, with data files that are copies, and with hard links to the archive's.
	files := []client{
		{name: docgaugeClient, variant: parquetVariant}, {name: docgaugeClient, variant: "copies"},
		{name: docgaugeClient, variant: linksVariant},
	}
	small, days, large := workload{1_000, 1_000, 0}, workload{50, 20_000, 0}, workload{100, 100_000, 0}
	insert := []task{
		{small, 1}, {days, 3}, {workload{1, 1_000_000, 0}, 3}, {workload{500, 20_000, 0}, 1},
		{workload{10, 1_000_000, 0}, 1},
	}
	copies := []task{{small, 3}, {days, 3}, {large, 1}}
	return []loadSink{
		{"clickhouse native", "ClickHouse 18.16, native", "clickhouse", insert, sql, nativeClickHouse},
		{"clickhouse http", "ClickHouse 26, HTTP", "clickhouse", insert, sql, httpClickHouse},
		{"delta", "Delta Lake", "delta", append(copies, task{workload{10_000, 100, 0}, 1}), files, deltaTables},
		{"postgres", "PostgreSQL", "postgres", copies, sql, postgresTables},
	}
}()

const (
	parquetVariant = "Parquet sink"
	linksVariant   = "hard links"
)

// loadAll lets the clients of s load each archive in turns. It is an error if other rows than these are there
// afterwards.
func (l *lab) loadAll(ctx context.Context, s loadSink) (all []result, err error) {
	db, err := s.open(ctx, filepath.Join(l.dir, s.name))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.stop()) }()
	if l.short {
		s.tasks = s.tasks[:2] // the others are the same when shortened
	}
	for _, t := range s.tasks {
		results, err := l.contest(loadTable, s.title, t, s.clients, func(c client, w workload) ([]result, error) {
			r, err := l.load(ctx, s, db, c, w)
			return []result{r}, err
		})
		if err != nil {
			return all, err
		}
		all = append(all, results...)
	}
	return all, nil
}

func (l *lab) load(ctx context.Context, s loadSink, db database, c client, w workload) (r result, err error) {
	data, err := l.archive(ctx, w)
	if err != nil {
		return r, err
	}
	dir, err := l.newDir()
	if err != nil {
		return r, err
	}
	if err := db.empty(); err != nil {
		return r, err
	}
	cmd, err := l.loadCommand(ctx, s.key, db.dsn, c, data, dir)
	if err != nil {
		return r, err
	}
	if _, r.cost, err = measure(cmd); err != nil || c.variant == parquetVariant {
		return r, err
	}
	logs, err := filepath.Glob(filepath.Join(dir, "delta", "*", "_delta_log", "*.json"))
	if err != nil {
		return r, err
	}
	r.entries = len(logs)
	got, err := db.rows(c, dir)
	if err == nil && got != w.totalRows() {
		err = fmt.Errorf("there are %d rows, want %d", got, w.totalRows())
	}
	return r, err
}

// loadCommand is `docgauge load` with a new state, or a bare client.
func (l *lab) loadCommand(ctx context.Context, sink, dsn string, c client, data, dir string) (*exec.Cmd, error) {
	if l.binaries[c.name] == "" {
		return child(ctx, bareClient, order{Sink: sink, DSN: dsn, Dir: data, ByWindow: c.name == bareWindowsClient})
	}
	copies := filepath.Join(dir, "parquet")
	switch c.variant {
	case linksVariant:
		copies = data
	case parquetVariant:
		sink = "parquet"
	}
	cmd := exec.CommandContext(ctx, l.binaries[c.name], "load", "--sink", sink, "--archive", data)
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_SINKS="+sink,
		"DOCGAUGE_PARQUET_URL="+copies,
		"DOCGAUGE_DELTA_URL="+filepath.Join(dir, "delta"),
		"DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"),
		"DOCGAUGE_LOG_LEVEL=error",
	)
	if dsn != "" {
		cmd.Env = append(cmd.Env, "DOCGAUGE_"+strings.ToUpper(sink)+"_DSN="+dsn)
	}
	return cmd, nil
}

func nativeClickHouse(ctx context.Context, dir string) (db database, err error) {
	server, err := engines.StartClickHouse(dir)
	if err == nil {
		db = clickHouse(ctx, server)
	}
	return db, err
}

func httpClickHouse(ctx context.Context, dir string) (db database, err error) {
	server, err := engines.StartEngine26(dir)
	if err == nil {
		db = clickHouse(ctx, server)
	}
	return db, err
}

func clickHouse(ctx context.Context, server interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
	Stop() error
}) database {
	return database{server.DSN("bench"), func() error {
		create := "CREATE TABLE bench.bare" + bareTable
		for _, sql := range []string{"DROP DATABASE IF EXISTS bench", "CREATE DATABASE bench", create} {
			if _, err := server.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	}, func(c client, _ string) (rows int64, err error) {
		table := "bare"
		if c.name == docgaugeClient || c.name == formerClient {
			table = visitorsTable
		}
		out, err := server.Exec(ctx, "SELECT toString(count()) FROM bench."+table)
		if err == nil {
			_, err = fmt.Sscan(out, &rows)
		}
		return rows, err
	}, server.Stop}
}

func deltaTables(ctx context.Context, _ string) (database, error) {
	nothing := func() error { return nil } // each run has its own directory
	return database{"", nothing, func(_ client, dir string) (rows int64, err error) {
		sink, err := delta.New(delta.Options{URL: filepath.Join(dir, "delta"), Now: time.Now})
		if err != nil {
			return 0, err
		}
		for shown, err := range sink.Inspect(ctx, sinks.Scope{}) {
			if err != nil {
				return 0, err
			}
			rows += shown.Rows
		}
		return rows, sink.Close()
	}, nothing}, nil
}

// postgresTables are those that docgauge creates; the bare clients use them too.
func postgresTables(ctx context.Context, dir string) (db database, err error) {
	server, err := engines.StartPostgres(dir, "15")
	if err != nil {
		return db, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, server.Stop())
		}
	}()
	dsn := server.DSN("postgres")
	sink, err := postgres.New(postgres.Options{DSN: dsn, Now: time.Now})
	if err != nil {
		return db, err
	}
	if err := errors.Join(sink.Check(ctx), sink.Close()); err != nil {
		return db, err
	}
	conn, err := pgx.Connect(ctx, dsn)
	return database{dsn, func() error {
		_, err := conn.Exec(ctx, "TRUNCATE "+visitorsTable+", docgauge_totals")
		if err == nil {
			_, err = conn.Exec(ctx, "CHECKPOINT")
		}
		return err
	}, func(client, string) (rows int64, err error) {
		err = conn.QueryRow(ctx, "SELECT count(*) FROM "+visitorsTable).Scan(&rows)
		return rows, err
	}, func() error { return errors.Join(conn.Close(ctx), server.Stop()) }}, err
}

// archive returns a directory of Parquet files with the windows of w. It first writes missing files.
func (l *lab) archive(ctx context.Context, w workload) (string, error) {
	dir := filepath.Join(l.dir, fmt.Sprintf("archive-%d-%d", w.Windows, w.Rows))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	cmd, err := child(ctx, archiveRole, order{Work: w, Dir: dir})
	if err == nil {
		_, _, err = measure(cmd)
	}
	return dir, err
}

// writeArchive writes o.Work below o.Dir, the newest window first, with rows in the order of their paths.
func writeArchive(o order, _ io.Writer) error {
	sink, err := parquet.New(o.Dir)
	if err != nil {
		return err
	}
	temp := o.Dir + ".window"
	for i := range o.Work.Windows {
		from := analytics.DateOf(firstDay) - analytics.Date(i)
		rev := analytics.Revision{
			Key: analytics.Key{
				Project: "bench", Granularity: analytics.Day, Window: analytics.Window{From: from, To: from + 1},
			},
			Number: 1, Settled: true, Verified: true, ExportedAt: firstDay,
		}
		_, err := archive.Write(temp, rev, func(yield func(analytics.Row, error) bool) {
			for n := range o.Work.Rows {
				row := analytics.Row{Path: fmt.Sprintf("/docs/%08x/%s/%s", n, sections[n*7%16], topics[n%16])}
				row.Human, row.AI, row.Total = counts(uint32(n), i)
				if !yield(row, nil) {
					return
				}
			}
		})
		if err != nil {
			return err
		}
		w, err := archive.Open(temp)
		if err != nil {
			return err
		}
		if err := errors.Join(sink.Replace(context.Background(), w), os.Remove(temp)); err != nil {
			return err
		}
	}
	return nil
}
