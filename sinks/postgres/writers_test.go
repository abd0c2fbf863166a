package postgres

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// sizes are the rows of two revisions that take turns.
var sizes = map[int32]int64{1: 2500, 2: 90}

// TestReadersOfBothTables reads both tables in one transaction while a window is written again and again at
// another size.
func TestReadersOfBothTables(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		s, r := newSink(t, e)
		shows(t, s, r, seal(2, sizes[2]))
		ctx, stop := context.WithCancel(t.Context())
		var reader sync.WaitGroup
		reader.Go(func() {
			for ctx.Err() == nil {
				if err := r.bothAtOnce(); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for i := range int32(12) {
			if err := s.Replace(t.Context(), seal(1+i%2, sizes[1+i%2])); err != nil {
				t.Errorf("Replace = %v", err)
				break
			}
		}
		stop()
		reader.Wait()
	})
}

const (
	countVisitors = "SELECT count(*), min(revision), max(revision) FROM docgauge_visitors WHERE human = revision"
	countTotals   = "SELECT min(page_count), min(revision), max(revision) FROM docgauge_totals"
)

// counted is the result of a statement over one table.
type counted struct {
	rows      int64
	low, high int32
}

func count(row pgx.Row) (c counted, err error) {
	return c, row.Scan(&c.rows, &c.low, &c.high)
}

// bothAtOnce reads both tables in one transaction, which must see the same revision.
func (r reader) bothAtOnce() error {
	return pgx.BeginTxFunc(context.Background(), r, pgx.TxOptions{IsoLevel: pgx.RepeatableRead}, func(tx pgx.Tx) error {
		totals, err := count(tx.QueryRow(context.Background(), countTotals))
		if err != nil {
			return err
		}
		visitors, err := count(tx.QueryRow(context.Background(), countVisitors))
		if err == nil && (visitors != totals || visitors.low != visitors.high || visitors.rows != sizes[visitors.low]) {
			err = fmt.Errorf("a reader sees %+v and totals %+v", visitors, totals)
		}
		return err
	})
}

// TestTwoWriters lets two sinks write one window: the later Replace is shown.
func TestTwoWriters(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		dsn := place(t, e)
		writers, r := []*Sink{open(t, dsn), open(t, dsn)}, readerAt(t, dsn)
		for i := range int32(4) {
			shows(t, writers[i%2], r, seal(i+1, int64(100+i)))
		}
		for range 10 {
			var wait sync.WaitGroup
			for i, s := range writers {
				wait.Go(func() {
					if err := s.Replace(t.Context(), seal(int32(10+i), int64(500-200*i))); err != nil {
						t.Error(err)
					}
				})
			}
			wait.Wait()
			if got := r.shown(seal(1, 0).Rev.Key); got != 10 && got != 11 {
				t.Errorf("readers see revision %d", got)
			}
		}
	})
}

func TestMigrationsAtOnce(t *testing.T) {
	each(t, func(t *testing.T, e *engines.Postgres) {
		dsn := place(t, e)
		r := readerAt(t, dsn)
		sinktest.MigrationsAtOnce(t, func() sinks.Sink { return open(t, dsn, analytics.Reports...) }, r)
		for _, d := range datasets {
			if n := value[int](r.client, "SELECT count(*) FROM "+d.versions); n != 1 {
				t.Errorf("%s: %d migrations", d.report, n)
			}
		}
	})
}
