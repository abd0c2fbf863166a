package main

import (
	"context"
	"io"
	"iter"
	"path/filepath"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
)

const (
	// bareInFlight is the number of windows that the bare clients write at once.
	bareInFlight = 16
	// flushRows is the size of a block over the native protocol, insertRows that of an INSERT over HTTP, where the
	// driver cannot stream.
	flushRows, insertRows = 100_000, 200_000

	visitorsTable = "docgauge_visitors"
	bareInsert    = "INSERT INTO bare (project, granularity, window_start, window_end, attempt, path, " +
		"human, ai, total, revision, settled, verified, exported_at_us)"
	// bareTable has the columns and keys of docgauge_visitors_rows.
	bareTable = ` (project String, granularity String, window_start Date, window_end Date, attempt UInt64, path String,
		human Int64, ai Int64, total Int64, revision Int32, settled UInt8, verified UInt8,
		exported_at_us Int64, written_at DateTime DEFAULT now())
		ENGINE = MergeTree PARTITION BY toYYYYMM(window_start)
		ORDER BY (project, granularity, window_start, attempt, path)`
)

// copyColumns are those of a row in PostgreSQL; the others have defaults.
var copyColumns = []string{
	"project", "granularity", "window_start", "window_end", "path", "human", "ai", "total",
	"revision", "settled", "verified", "exported_at",
}

// bare loads the archive in o.Dir with the driver alone: in one statement, or one for each window, several at
// once. It checks nothing.
func bare(o order, _ io.Writer) error {
	paths, err := filepath.Glob(filepath.Join(o.Dir, "visitors/*/*/*/*/*.parquet"))
	if err != nil {
		return err
	}
	var write func(paths []string) error
	if o.Sink == "postgres" {
		pool, err := pgxpool.New(context.Background(), o.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		write = func(paths []string) error { return copyInto(pool, paths) }
	} else {
		options, err := clickhouse.ParseDSN(o.DSN)
		if err != nil {
			return err
		}
		options.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
		options.MaxOpenConns, options.MaxIdleConns = bareInFlight, bareInFlight
		conn, err := clickhouse.Open(options)
		if err != nil {
			return err
		}
		defer conn.Close()
		write = func(paths []string) error { return insertInto(conn, options.Protocol == clickhouse.HTTP, paths) }
	}
	if !o.ByWindow {
		return write(paths)
	}
	var group errgroup.Group
	group.SetLimit(bareInFlight)
	for i := range paths {
		group.Go(func() error { return write(paths[i : i+1]) })
	}
	return group.Wait()
}

// archivedRow is a row with its window.
type archivedRow struct {
	analytics.Row
	window *analytics.Revision
	number uint64 // of the window
}

// archivedRows yields the rows of files until the first error.
func archivedRows(paths []string) iter.Seq2[archivedRow, error] {
	return func(yield func(archivedRow, error) bool) {
		for i, path := range paths {
			f, err := archive.Open(path)
			if err != nil {
				yield(archivedRow{}, err)
				return
			}
			window := f.Revision()
			for row, err := range f.Rows() {
				if !yield(archivedRow{row, &window, uint64(i)}, err) || err != nil {
					return
				}
			}
		}
	}
}

// copyInto copies the rows of the files into PostgreSQL.
func copyInto(pool *pgxpool.Pool, paths []string) error {
	next, stop := iter.Pull2(archivedRows(paths))
	defer stop()
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		r, err, ok := next()
		if !ok || err != nil {
			return nil, err
		}
		w := r.window
		return []any{
			w.Project, string(w.Granularity), w.From.Time(), w.To.Time(), r.Path, r.Human, r.AI, r.Total,
			w.Number, w.Settled, w.Verified, w.ExportedAt,
		}, nil
	})
	_, err := pool.CopyFrom(context.Background(), pgx.Identifier{visitorsTable}, copyColumns, rows)
	return err
}

// insertInto inserts the rows of the files into ClickHouse, column by column as the driver takes them.
func insertInto(conn driver.Conn, http bool, paths []string) (err error) {
	var (
		projects, granularities, names []string
		starts, ends                   []time.Time
		attempts                       []uint64
		human, ai, total, exported     []int64
		revisions                      []int32
		flags                          []uint8 // settled and verified: all are both
		batch                          driver.Batch
	)
	// send sends the buffer: a block of one INSERT over the native protocol, an INSERT over HTTP.
	send := func(last bool) error {
		if len(names) > 0 {
			if batch == nil {
				if batch, err = conn.PrepareBatch(context.Background(), bareInsert); err != nil {
					return err
				}
			}
			for i, column := range []any{
				projects, granularities, starts, ends, attempts, names,
				human, ai, total, revisions, flags, flags, exported,
			} {
				if err := batch.Column(i).Append(column); err != nil {
					return err
				}
			}
		}
		projects, granularities, names, starts, ends = projects[:0], granularities[:0], names[:0], starts[:0], ends[:0]
		attempts, human, ai, total, exported = attempts[:0], human[:0], ai[:0], total[:0], exported[:0]
		revisions, flags = revisions[:0], flags[:0]
		switch {
		case batch == nil:
			return nil
		case !http && !last:
			return batch.Flush()
		}
		sent := batch
		batch = nil
		return sent.Send()
	}
	size := flushRows
	if http {
		size = insertRows
	}
	for r, err := range archivedRows(paths) {
		if err != nil {
			return err
		}
		w := r.window
		projects, granularities = append(projects, w.Project), append(granularities, string(w.Granularity))
		starts, ends = append(starts, w.From.Time()), append(ends, w.To.Time())
		attempts, names = append(attempts, r.number), append(names, r.Path)
		human, ai, total = append(human, r.Human), append(ai, r.AI), append(total, r.Total)
		revisions, flags = append(revisions, w.Number), append(flags, 1)
		exported = append(exported, w.ExportedAt.UnixMicro())
		if len(names) == size {
			if err := send(false); err != nil {
				return err
			}
		}
	}
	return send(true)
}
