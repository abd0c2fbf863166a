package clickhouse

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

var long = flag.Bool("long", false, "also run what takes minutes; `make torture` does")

// engine is a running server of any version.
type engine interface {
	DSN(database string) string
	Exec(ctx context.Context, sql string) (string, error)
}

var (
	old         = sharing("old", func(dir string) (*engines.ClickHouse, error) { return engines.StartClickHouse(dir) })
	modern      = sharing("modern", func(dir string) (*engines.Engine26, error) { return engines.StartEngine26(dir) })
	twoReplicas = sharing("replicas", func(dir string) (*engines.Cluster, error) {
		return engines.StartClusterOf(dir, 1, 2, engines.WithConfig(uneven))
	})
	twoShards = sharing("shards", func(dir string) (*engines.Cluster, error) {
		return engines.StartClusterOf(dir, 2, 1)
	})
)

// sharing returns what returns a shared server, started at the first call. Each test has
// its own databases there.
func sharing[S interface {
	Kill() error
	Tail() string
}](name string, start func(dir string) (S, error)) func(*testing.T) S {
	shared := sinktest.Shared(name, start, S.Kill)
	return func(t *testing.T) S {
		t.Helper()
		server, err := shared()
		engines.Need(t, err)
		t.Cleanup(func() {
			if t.Failed() {
				t.Log(server.Tail())
			}
		})
		return server
	}
}

func TestMain(m *testing.M) { os.Exit(sinktest.Main(m)) }

type window = sinktest.Window

var (
	windowOf = sinktest.WindowOf
	seal     = sinktest.FirstDay
	replace  = sinktest.Replace
	shows    = sinktest.Shows
	sees     = sinktest.Sees
	check    = sinktest.Check
)

// both runs f against either server, beside other tests.
func both(t *testing.T, f func(t *testing.T, e engine)) {
	t.Parallel()
	t.Run("18.16", func(t *testing.T) { t.Parallel(); f(t, old(t)) })
	t.Run("26", func(t *testing.T) { t.Parallel(); f(t, modern(t)) })
}

// turn is the report of case n of a table: reports take turns, and differ between the two servers, so
// that each case has both.
func turn(t *testing.T, n int) analytics.Report {
	if strings.Contains(t.Name(), "/26") {
		n++
	}
	return analytics.Reports[n%len(analytics.Reports)]
}

// database makes an empty database, dropped at the end.
func database(t *testing.T, e engine) string {
	t.Helper()
	name := sinktest.NewName()
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
	check(t, err)
	return out
}

// newSink returns a sink on an empty database, and a reader of its views.
func newSink(t *testing.T, e engine, reports ...analytics.Report) (*Sink, reader) {
	t.Helper()
	dsn := e.DSN(database(t, e))
	return open(t, dsn, reports...), newReader(t, dsn)
}

func open(t *testing.T, dsn string, reports ...analytics.Report) *Sink {
	t.Helper()
	s, err := New(Options{DSN: dsn, Version: "test", Now: time.Now, Reports: reports})
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// smallBlock is the rows of a block of a sink that openSmall has opened.
const smallBlock = 2000

// openSmall opens a sink that makes do with few rows for a block.
func openSmall(t *testing.T, dsn string, reports ...analytics.Report) *Sink {
	t.Helper()
	s := open(t, dsn, reports...)
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
	check(t, err)
	conn, err := clickhouse.Open(o)
	check(t, err)
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

// Rows reads the rows of a window.
func (r reader) Rows(key analytics.Key) (rows []analytics.Record, revs []analytics.Revision, err error) {
	var row analytics.Record
	of := key.Report.Shape()
	var columns []string
	for _, c := range of.Columns {
		if columns = append(columns, c.Name); c.Kind == analytics.Truth {
			columns[len(columns)-1] += " = 1"
		}
	}
	into := of.Fields(&row).All()
	result, err := r.query(datasets[key.Report].view, key, strings.Join(columns, ", ")+", "+r.described())
	if missing(err) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer result.Close()
	for result.Next() {
		rev := analytics.Revision{Key: key}
		var exported int64
		if err := result.Scan(append(into, &rev.Number, &rev.Settled, &rev.Verified, &exported)...); err != nil {
			return nil, nil, err
		}
		rev.ExportedAt = time.UnixMicro(exported).UTC()
		rows = append(rows, row)
		if !slices.Contains(revs, rev) {
			revs = append(revs, rev)
		}
	}
	return rows, revs, result.Err()
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	result, err := r.query(datasets[key.Report].windows, key, "human, ai, total, humans, page_count, "+r.described())
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
		if err := result.Scan(&rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, (*string)(&rev.Humans), &rev.Rows,
			&rev.Number, &settled, &verified, &exported); err != nil {
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

// shown returns which revision of a window both views show, whole; 0 if none.
func (r reader) shown(key analytics.Key) int32 {
	r.t.Helper()
	return sinktest.Shown(r.t, r, key)
}
