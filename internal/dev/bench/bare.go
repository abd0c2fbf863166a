package main

import (
	"context"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/must"
)

const (
	// bareInFlight is the number of windows that "bare windows" writes at once.
	bareInFlight = 16
	// flushRows is the size of a block over the native protocol, insertRows the size of an INSERT over HTTP, where the
	// driver cannot stream.
	flushRows, insertRows = 100_000, 200_000

	// bareColumns are the columns of a row in both databases; one more says when it was exported.
	bareColumns = "project, granularity, window_start, window_end, path, human, ai, total, revision, settled, verified, "
)

// bare loads the archive in o.Dir into docgauge's tables with the driver alone: in one statement, or one for each
// window, several at once. It checks nothing.
func bare(o order, inFlight int) any {
	paths := must.Get(filepath.Glob(filepath.Join(o.Dir, "visitors/*/*/*/*/*.parquet")))
	var write func(paths []string)
	if strings.HasPrefix(o.DSN, "postgres:") {
		pool := must.Get(pgxpool.New(context.Background(), o.DSN))
		defer pool.Close()
		write = func(paths []string) { copyInto(pool, paths) }
	} else {
		options := must.Get(clickhouse.ParseDSN(o.DSN))
		options.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
		options.MaxOpenConns, options.MaxIdleConns = bareInFlight, bareInFlight
		conn := must.Get(clickhouse.Open(options))
		defer conn.Close()
		write = func(paths []string) { insertInto(conn, options.Protocol == clickhouse.HTTP, paths) }
	}
	size := 1
	if inFlight == 1 {
		size = len(paths)
	}
	var group errgroup.Group
	group.SetLimit(inFlight)
	for part := range slices.Chunk(paths, size) {
		group.Go(func() error { return must.Try(func() { write(part) }) })
	}
	must.Do(group.Wait())
	return nil
}

// archivedRow is a row with its window.
type archivedRow struct {
	analytics.Row
	window *analytics.Revision
	number uint64 // of the window
}

// archivedRows yields the rows of files.
func archivedRows(paths []string) iter.Seq[archivedRow] {
	return func(yield func(archivedRow) bool) {
		for i, path := range paths {
			f := must.Get(archive.Open(path))
			window := f.Revision()
			for row, err := range analytics.Rows[analytics.Row](f.Rows()) {
				must.Do(err)
				if !yield(archivedRow{row, &window, uint64(i)}) {
					return
				}
			}
		}
	}
}

// copyInto copies the rows of the files into PostgreSQL.
func copyInto(pool *pgxpool.Pool, paths []string) {
	next, stop := iter.Pull(archivedRows(paths))
	defer stop()
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		r, ok := next()
		if !ok {
			return nil, nil
		}
		w := r.window
		return []any{w.Project, string(w.Granularity), w.From.Time(), w.To.Time(), r.Path, r.Human, r.AI, r.Total,
			w.Number, w.Settled, w.Verified, w.ExportedAt}, nil
	})
	columns := strings.Split(bareColumns+"exported_at", ", ")
	must.Get(pool.CopyFrom(context.Background(), pgx.Identifier{"docgauge_visitors"}, columns, rows))
}

// insertInto inserts the rows of the files into ClickHouse, column by column as the driver takes them: in blocks of
// one INSERT over the native protocol, in several INSERTs over HTTP.
func insertInto(conn driver.Conn, http bool, paths []string) {
	columns := []func([]archivedRow) any{
		buffered(func(r archivedRow) string { return r.window.Project }),
		buffered(func(r archivedRow) string { return string(r.window.Granularity) }),
		buffered(func(r archivedRow) time.Time { return r.window.From.Time() }),
		buffered(func(r archivedRow) time.Time { return r.window.To.Time() }),
		buffered(func(r archivedRow) string { return r.Path }),
		buffered(func(r archivedRow) int64 { return r.Human }),
		buffered(func(r archivedRow) int64 { return r.AI }),
		buffered(func(r archivedRow) int64 { return r.Total }),
		buffered(func(r archivedRow) int32 { return r.window.Number }),
		buffered(func(archivedRow) uint8 { return 1 }), // all are settled
		buffered(func(archivedRow) uint8 { return 1 }), // and verified
		buffered(func(r archivedRow) int64 { return r.window.ExportedAt.UnixMicro() }),
		buffered(func(r archivedRow) uint64 { return r.number }),
	}
	var rows []archivedRow
	var batch driver.Batch
	add := func() {
		if batch == nil {
			batch = must.Get(conn.PrepareBatch(context.Background(),
				"INSERT INTO docgauge_visitors_rows ("+bareColumns+"exported_at_us, attempt)"))
		}
		for i, values := range columns {
			must.Do(batch.Column(i).Append(values(rows)))
		}
		rows = rows[:0]
	}
	for r := range archivedRows(paths) {
		rows = append(rows, r)
		switch {
		case http && len(rows) == insertRows:
			add()
			must.Do(batch.Send())
			batch = nil
		case !http && len(rows) == flushRows:
			add()
			must.Do(batch.Flush())
		}
	}
	if len(rows) > 0 {
		add()
	}
	if batch != nil { // over HTTP, an INSERT of no rows may be an error
		must.Do(batch.Send())
	}
}

// buffered returns a function that returns one value of each row, in a slice that it uses again: the driver copies it.
func buffered[T any](value func(archivedRow) T) func([]archivedRow) any {
	var values []T
	return func(rows []archivedRow) any {
		values = values[:0]
		for _, r := range rows {
			values = append(values, value(r))
		}
		return values
	}
}
