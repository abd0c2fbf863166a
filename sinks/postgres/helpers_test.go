package postgres

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// testsAtOnce is how many tests run at the same time, on whatever machine: they
// share servers, and wait for them most of the time.
const testsAtOnce = "8"

// shared are the servers that serve every test that stops none, by version. Each test
// has schemas of its own there.
var shared struct {
	dir     string
	count   atomic.Int64 // of schemas and databases
	servers map[string]func() (*engines.Postgres, error)

	sync.Mutex
	started []*engines.Postgres
}

func TestMain(m *testing.M) {
	if os.Getenv(childDSN) != "" { // it is killed, and would leave a directory behind
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "postgres-test-")
	if err == nil {
		err = flag.Set("test.parallel", testsAtOnce)
	}
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	shared.dir, shared.servers = dir, map[string]func() (*engines.Postgres, error){}
	for _, version := range engines.PostgresVersions {
		shared.servers[version] = sync.OnceValues(func() (*engines.Postgres, error) { return start(version) })
	}
	defer func() {
		for _, server := range shared.started {
			_ = server.Stop()
		}
	}()
	return m.Run()
}

func start(version string) (*engines.Postgres, error) {
	dir := filepath.Join(shared.dir, version)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	server, err := engines.StartPostgres(dir, version)
	if err == nil {
		shared.Lock()
		defer shared.Unlock()
		shared.started = append(shared.started, server)
	}
	return server, err
}

// server returns the shared server of a version.
func serverOf(t testing.TB, version string) *engines.Postgres {
	t.Helper()
	e, err := shared.servers[version]()
	engines.Need(t, err)
	return e
}

// debian is the version that most tests make do with.
const debian = "15"

// each runs f against every version, beside other tests.
func each(t *testing.T, f func(t *testing.T, e *engines.Postgres)) {
	t.Parallel()
	for _, version := range engines.PostgresVersions {
		t.Run(version, func(t *testing.T) { t.Parallel(); f(t, serverOf(t, version)) })
	}
}

// place makes an empty schema, and returns its DSN, whose connections have a name.
func place(t *testing.T, e *engines.Postgres) (dsn string) {
	t.Helper()
	name := fmt.Sprintf("t%d", shared.count.Add(1))
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
	name := fmt.Sprintf("t%d", shared.count.Add(1))
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
	if err != nil {
		t.Fatal(err)
	}
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
func newSink(t *testing.T, e *engines.Postgres) (*Sink, reader) {
	t.Helper()
	dsn := place(t, e)
	return open(t, dsn), readerAt(t, dsn)
}

func open(t testing.TB, dsn string) *Sink {
	t.Helper()
	s, err := New(Config{DSN: dsn, Version: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
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

func (r reader) Visitors(key analytics.Key) (rows []analytics.Row, revs []analytics.Revision, err error) {
	result, err := r.Query(context.Background(), "SELECT path, path_bytes, human, ai, total, revision, settled, verified, exported_at FROM docgauge_visitors WHERE "+ofWindow, keyValues(key)...)
	if err != nil {
		return nil, nil, err
	}
	var row analytics.Row
	var raw []byte
	rev := analytics.Revision{Key: key}
	_, err = pgx.ForEachRow(result, []any{&row.Path, &raw, &row.Human, &row.AI, &row.Total, &rev.Number, &rev.Settled, &rev.Verified, &rev.ExportedAt}, func() error {
		if raw != nil {
			row.Path = string(raw)
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
	result, err := r.Query(context.Background(), "SELECT human, ai, total, page_count, revision, settled, verified, exported_at FROM docgauge_totals WHERE "+ofWindow, keyValues(key)...)
	if err != nil {
		return nil, err
	}
	rev := analytics.Revision{Key: key}
	_, err = pgx.ForEachRow(result, []any{&rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, &rev.Rows, &rev.Number, &rev.Settled, &rev.Verified, &rev.ExportedAt}, func() error {
		rev.ExportedAt = rev.ExportedAt.UTC()
		revs = append(revs, rev)
		return nil
	})
	if missing(err) {
		err = nil
	}
	return revs, err
}

// shows replaces w and expects readers to see it.
func shows(t *testing.T, s *Sink, r reader, w window) {
	t.Helper()
	if err := s.Replace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := r.shown(w.rev.Key); got != w.rev.Number {
		t.Errorf("readers see revision %d, want %d", got, w.rev.Number)
	}
}

// shown returns which revision of a window both tables show, whole; 0 if none.
func (r reader) shown(key analytics.Key) int32 {
	r.t.Helper()
	return sinktest.Shown(r.t, r, key)
}

// window is a sealed window that makes its rows, each of which carries the
// number of the revision in Human.
type window struct {
	rev   analytics.Revision
	size  int   // of a path
	lacks int64 // rows
}

func (w window) Revision() analytics.Revision { return w.rev }

func (w window) Open() (io.ReadCloser, error) { return nil, errors.New("a window without a file") }

func (w window) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		tail := strings.Repeat("x", max(w.size-20, 0))
		for i := range w.rev.Rows - w.lacks {
			path := fmt.Sprintf("/docs/page-%08d%s", i, tail)
			if !yield(analytics.Row{Path: path, Human: int64(w.rev.Number), AI: 7, Total: int64(w.rev.Number) + 3}, nil) {
				return
			}
		}
	}
}

// windowOf is a revision of the given day of prj_a with n rows.
func windowOf(day int, number int32, n int64) window {
	rev := sinktest.Revision(sinktest.Key("prj_a", day), number)
	rev.Rows = n
	return window{rev: rev, size: 30}
}

// seal is a revision of the first day of prj_a with n rows.
func seal(number int32, n int64) window { return windowOf(0, number, n) }
