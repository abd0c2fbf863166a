package postgres

import (
	"context"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// servers serve every test that stops none, by version. Each test has its own schemas there.
var servers = map[string]func() (*engines.Postgres, error){}

func TestMain(m *testing.M) {
	for _, version := range engines.PostgresVersions {
		servers[version] = sinktest.Shared(version, func(dir string) (*engines.Postgres, error) {
			return engines.StartPostgres(dir, version)
		}, (*engines.Postgres).Stop)
	}
	os.Exit(sinktest.Main(m))
}

type window = sinktest.Window

var (
	windowOf = sinktest.WindowOf
	seal     = sinktest.FirstDay
	replace  = sinktest.Replace
	shows    = sinktest.Shows
	sees     = sinktest.Sees
	check    = sinktest.Check
)

// serverOf returns the shared server of a version.
func serverOf(t testing.TB, version string) *engines.Postgres {
	t.Helper()
	e, err := servers[version]()
	engines.Need(t, err)
	return e
}

// debian is the version that most tests make do with.
const debian = "15"

// versions are the versions that each test of versions runs against.
func versions() []string {
	if testing.Short() {
		return []string{debian}
	}
	return engines.PostgresVersions
}

// each runs f against every version, beside other tests.
func each(t *testing.T, f func(t *testing.T, e *engines.Postgres)) {
	t.Parallel()
	for _, version := range versions() {
		t.Run(version, func(t *testing.T) { t.Parallel(); f(t, serverOf(t, version)) })
	}
}

// byTurns runs f for each case of a table, beside other tests: the versions take turns.
func byTurns[C any](t *testing.T, cases map[string]C, f func(t *testing.T, e *engines.Postgres, c C)) {
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, serverOf(t, versions()[i%len(versions())]), cases[name])
		})
	}
}

// place makes an empty schema, and returns its DSN, whose connections have a name.
func place(t *testing.T, e *engines.Postgres) (dsn string) {
	t.Helper()
	name := sinktest.NewName()
	connect(t, e.DSN("postgres")).must("CREATE SCHEMA " + name)
	return e.DSN("postgres") + "&search_path=" + name + "&application_name=" + name
}

// atPlace selects the connections of sinks to the place of a reader, in pg_stat_activity.
const atPlace = "'r' || application_name = current_setting('application_name')"

// readerAt reads at a place, by connections that [atPlace] does not select.
func readerAt(t *testing.T, dsn string) reader {
	t.Helper()
	return reader{connect(t, strings.Replace(dsn, "application_name=", "application_name=r", 1))}
}

// database makes an empty database, and returns its DSN.
func database(t *testing.T, e *engines.Postgres, more ...string) (dsn string) {
	t.Helper()
	name := sinktest.NewName()
	connect(t, e.DSN("postgres")).must("CREATE DATABASE " + name + " " + strings.Join(more, " "))
	return e.DSN(name)
}

// client is the connection of a reader, or of an administrator.
type client struct {
	*pgxpool.Pool
	t testing.TB
}

func connect(t testing.TB, dsn string) client {
	t.Helper()
	pool, err := pgxpool.New(context.Background(), dsn)
	check(t, err)
	t.Cleanup(pool.Close)
	return client{pool, t}
}

func (c client) must(sql string) {
	c.t.Helper()
	if _, err := c.Exec(context.Background(), sql); err != nil {
		c.t.Fatalf("%v\n%s", err, sql)
	}
}

func value[T any](c client, sql string) (v T) {
	c.t.Helper()
	if err := c.QueryRow(context.Background(), sql).Scan(&v); err != nil {
		c.t.Fatalf("%v\n%s", err, sql)
	}
	return v
}

// newSink returns a sink on an empty schema, and a reader of its tables.
func newSink(t *testing.T, e *engines.Postgres, reports ...analytics.Report) (*Sink, reader) {
	t.Helper()
	dsn := place(t, e)
	return open(t, dsn, reports...), readerAt(t, dsn)
}

func open(t testing.TB, dsn string, reports ...analytics.Report) *Sink {
	t.Helper()
	s, err := New(Options{DSN: dsn, Version: "test", Now: time.Now, Reports: reports})
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// reader queries the tables, as users do.
type reader struct{ client }

// missing reports whether the tables were not made yet.
func missing(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "42P01"
}

const ofWindow = "project = $1 AND granularity = $2 AND window_start = $3 AND window_end = $4"

// Rows reads the rows of a window.
func (r reader) Rows(key analytics.Key) (rows []analytics.Record, revs []analytics.Revision, err error) {
	var row analytics.Record
	of := key.Report.Shape()
	fields := of.Fields(&row)
	d := datasets[key.Report]
	result, err := r.Query(context.Background(), "SELECT path, "+names(d.ownColumns)+", path_bytes, revision, settled, "+
		"verified, exported_at FROM "+d.rows.name+" WHERE "+ofWindow, keyValues(key)...)
	if err != nil {
		return nil, nil, err
	}
	var raw []byte
	rev := analytics.Revision{Key: key}
	into := slices.Concat(fields.All(), []any{&raw, &rev.Number, &rev.Settled, &rev.Verified, &rev.ExportedAt})
	_, err = pgx.ForEachRow(result, into, func() error {
		if raw != nil {
			*fields.Texts[0] = string(raw)
		}
		rows = append(rows, row)
		rev.ExportedAt = rev.ExportedAt.UTC()
		if !slices.Contains(revs, rev) {
			revs = append(revs, rev)
		}
		return nil
	})
	if missing(err) {
		err = nil
	}
	return rows, revs, err
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	result, err := r.Query(context.Background(), "SELECT human, ai, total, humans, page_count, revision, settled, "+
		"verified, exported_at FROM "+datasets[key.Report].windows.name+" WHERE "+ofWindow, keyValues(key)...)
	if err != nil {
		return nil, err
	}
	rev := analytics.Revision{Key: key}
	_, err = pgx.ForEachRow(result, []any{&rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, &rev.Humans, &rev.Rows,
		&rev.Number, &rev.Settled, &rev.Verified, &rev.ExportedAt}, func() error {
		rev.ExportedAt = rev.ExportedAt.UTC()
		revs = append(revs, rev)
		return nil
	})
	if missing(err) {
		err = nil
	}
	return revs, err
}

// shown returns which revision of a window both tables show, whole; 0 if none.
func (r reader) shown(key analytics.Key) int32 {
	r.t.Helper()
	return sinktest.Shown(r.t, r, key)
}
