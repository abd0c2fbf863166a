package clickhouse

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

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var long = flag.Bool("long", false, "also run what takes minutes; `make torture` does")

// engine is a running server, of whichever version.
type engine interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
}

// testsAtOnce is how many tests run at the same time, on whatever machine: they
// share servers, and wait for them most of the time.
const testsAtOnce = "8"

// shared are the servers that serve every test that stops none. Each test has
// databases of its own there.
var shared struct {
	dir   string
	count atomic.Int64 // of databases

	sync.Mutex
	kill []func() error
}

var (
	old         = sharing("old", func(dir string) (*engines.ClickHouse, error) { return engines.StartClickHouse(dir) })
	modern      = sharing("modern", func(dir string) (*engines.Engine26, error) { return engines.StartEngine26(dir) })
	twoReplicas = sharing("replicas", func(dir string) (*engines.Cluster, error) {
		return engines.StartClusterOf(dir, 1, 2, engines.WithConfig(uneven))
	})
	twoShards = sharing("shards", func(dir string) (*engines.Cluster, error) { return engines.StartClusterOf(dir, 2, 1) })
)

// sharing returns what returns a shared server, started at the first call.
func sharing[S interface {
	Kill() error
	Tail() string
}](name string, start func(dir string) (S, error)) func(*testing.T) S {
	once := sync.OnceValues(func() (S, error) {
		dir := filepath.Join(shared.dir, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			return *new(S), err
		}
		server, err := start(dir)
		if err == nil {
			shared.Lock()
			defer shared.Unlock()
			shared.kill = append(shared.kill, server.Kill)
		}
		return server, err
	})
	return func(t *testing.T) S {
		t.Helper()
		server, err := once()
		engines.Need(t, err)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(server.Tail())
			}
		})
		return server
	}
}

func TestMain(m *testing.M) {
	if os.Getenv(childDSN) != "" { // it is killed, and would leave a directory behind
		os.Exit(m.Run())
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clickhouse-test-")
	if err == nil {
		err = flag.Set("test.parallel", testsAtOnce)
	}
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	shared.dir = dir
	defer func() {
		for _, kill := range shared.kill {
			_ = kill()
		}
	}()
	return m.Run()
}

// both runs f against either server, beside other tests.
func both(t *testing.T, f func(t *testing.T, e engine)) {
	t.Parallel()
	t.Run("18.16", func(t *testing.T) { t.Parallel(); f(t, old(t)) })
	t.Run("26", func(t *testing.T) { t.Parallel(); f(t, modern(t)) })
}

// database makes an empty database, dropped at the end.
func database(t *testing.T, e engine) string {
	t.Helper()
	name := fmt.Sprintf("t%d", shared.count.Add(1))
	must(t, e, "CREATE DATABASE "+name)
	t.Cleanup(func() {
		if _, err := e.Exec(context.Background(), "DROP DATABASE "+name); err != nil {
			t.Log(err)
		}
	})
	return name
}

func must(t *testing.T, e engine, sql string) string {
	t.Helper()
	out, err := e.Exec(t.Context(), sql)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// newSink returns a sink on an empty database, and a reader of its views.
func newSink(t *testing.T, e engine) (*Sink, reader) {
	t.Helper()
	dsn := e.DSN(database(t, e))
	return open(t, dsn), newReader(t, dsn)
}

func open(t *testing.T, dsn string) *Sink {
	t.Helper()
	s, err := New(Config{DSN: dsn, Version: "test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// smallBlock is the rows of a block of a sink that openSmall has opened.
const smallBlock = 2000

// openSmall opens a sink that makes do with few rows for a block.
func openSmall(t *testing.T, dsn string) *Sink {
	t.Helper()
	s := open(t, dsn)
	s.blockRows = smallBlock
	return s
}

// reader queries the views, as users do.
type reader struct {
	t    *testing.T
	conn driver.Conn
}

func newReader(t *testing.T, dsn string) reader {
	t.Helper()
	o, err := parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := clickhouse.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return reader{t, conn}
}

const unknownTable = 60

func (r reader) query(view string, key analytics.Key, columns string) (driver.Rows, error) {
	return r.conn.Query(context.Background(), fmt.Sprintf("SELECT %s FROM %s WHERE %s", columns, view, is(key)))
}

// missing reports whether the views were not made yet.
func missing(err error) bool {
	e, ok := errors.AsType[*clickhouse.Exception](err)
	return ok && e.Code == unknownTable
}

func (r reader) Visitors(key analytics.Key) (rows []analytics.Row, revs []analytics.Revision, err error) {
	result, err := r.query(visitorsView, key, "path, human, ai, total, "+r.described())
	if missing(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer result.Close()
	for result.Next() {
		var row analytics.Row
		rev := analytics.Revision{Key: key}
		var settled, verified uint8
		var exported int64
		if err := result.Scan(&row.Path, &row.Human, &row.AI, &row.Total, &rev.Number, &settled, &verified, &exported); err != nil {
			return nil, nil, err
		}
		rev.Settled, rev.Verified, rev.ExportedAt = isTrue(settled), isTrue(verified), time.UnixMicro(exported).UTC()
		rows = append(rows, row)
		if !slices.Contains(revs, rev) {
			revs = append(revs, rev)
		}
	}
	return rows, revs, result.Err()
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	result, err := r.query(totalsView, key, "human, ai, total, page_count, "+r.described())
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer result.Close()
	for result.Next() {
		rev := analytics.Revision{Key: key}
		var settled, verified uint8
		var exported int64
		if err := result.Scan(&rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, &rev.Rows, &rev.Number, &settled, &verified, &exported); err != nil {
			return nil, err
		}
		rev.Settled, rev.Verified, rev.ExportedAt = isTrue(settled), isTrue(verified), time.UnixMicro(exported).UTC()
		revs = append(revs, rev)
	}
	return revs, result.Err()
}

// described selects the last columns of both views in the types scanned here.
func (r reader) described() string {
	const columns = "revision, settled = 1, verified = 1, "
	v, err := r.conn.ServerVersion()
	if err != nil {
		r.t.Fatal(err)
	}
	if serverOf(v).modern() {
		return columns + "toUnixTimestamp64Micro(exported_at)"
	}
	return columns + "exported_at_us"
}

func isTrue(n uint8) bool { return n == 1 }

// shows replaces w and expects readers to see it.
func shows(t *testing.T, s *Sink, r reader, w window) {
	t.Helper()
	if err := s.Replace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	if got := r.shown(w.Revision().Key); got != w.Revision().Number {
		t.Errorf("readers see revision %d, want %d", got, w.Revision().Number)
	}
}

// shown returns which revision of a window both views show, whole; 0 if none.
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

// of returns w as a window of another project.
func (w window) of(project string) window {
	w.rev.Project = project
	return w
}
