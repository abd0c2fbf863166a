package main

import (
	"context"
	"io"
	"io/fs"
	"iter"
	"path/filepath"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/archive"
)

// bareInFlight is the number of windows that the bare clients write at once.
const bareInFlight = 16

// bare loads the archive in o.Dir with the driver alone: in one statement, or one for each window, several at
// once. It checks nothing.
func bare(o order, _ io.Writer) error {
	files, err := windowFiles(o.Dir)
	if err != nil {
		return err
	}
	var write func(files []*archive.File) error
	if o.Sink == "postgres" {
		pool, err := pgxpool.New(context.Background(), o.DSN)
		if err != nil {
			return err
		}
		defer pool.Close()
		write = func(files []*archive.File) error { return copyInto(pool, files) }
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
		write = func(files []*archive.File) error {
			return insertInto(conn, options.Protocol == clickhouse.HTTP, files)
		}
	}
	if !o.ByWindow {
		return write(files)
	}
	var group errgroup.Group
	group.SetLimit(bareInFlight)
	for i := range files {
		group.Go(func() error { return write(files[i : i+1]) })
	}
	return group.Wait()
}

// windowFiles opens the visitors files of an archive.
func windowFiles(data string) (files []*archive.File, err error) {
	err = filepath.WalkDir(filepath.Join(data, "visitors"), func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		f, err := archive.Open(path)
		files = append(files, f)
		return err
	})
	return files, err
}

const visitorsTable = "docgauge_visitors" // PostgreSQL

// copyColumns are those of a row; the others have defaults.
var copyColumns = []string{
	"project", "granularity", "window_start", "window_end", "path", "human", "ai", "total",
	"revision", "settled", "verified", "exported_at",
}

// copyInto copies the rows of the files into PostgreSQL.
func copyInto(pool *pgxpool.Pool, files []*archive.File) error {
	next, stop := iter.Pull2(func(yield func([]any, error) bool) {
		for _, f := range files {
			rev := f.Revision()
			from, to := rev.From.Time(), rev.To.Time()
			values := []any{
				rev.Project, string(rev.Granularity), from, to, "", int64(0), int64(0), int64(0),
				rev.Number, rev.Settled, rev.Verified, rev.ExportedAt,
			}
			for r, err := range f.Rows() {
				values[4], values[5], values[6], values[7] = r.Path, r.Human, r.AI, r.Total
				if !yield(values, err) || err != nil {
					return
				}
			}
		}
	})
	defer stop()
	rows := pgx.CopyFromFunc(func() ([]any, error) {
		row, err, _ := next()
		return row, err
	})
	_, err := pool.CopyFrom(context.Background(), pgx.Identifier{visitorsTable}, copyColumns, rows)
	return err
}

const (
	// flushRows is the size of a block over the native protocol, insertRows that of an INSERT over HTTP, where the
	// driver cannot stream.
	flushRows  = 100_000
	insertRows = 200_000

	bareInsert = "INSERT INTO bare (project, granularity, window_start, window_end, attempt, path, " +
		"human, ai, total, revision, settled, verified, exported_at_us)"
	// bareTable has the columns and keys of docgauge_visitors_rows.
	bareTable = ` (project String, granularity String, window_start Date, window_end Date, attempt UInt64, path String,
		human Int64, ai Int64, total Int64, revision Int32, settled UInt8, verified UInt8,
		exported_at_us Int64, written_at DateTime DEFAULT now())
		ENGINE = MergeTree PARTITION BY toYYYYMM(window_start) ORDER BY (project, granularity, window_start, attempt, path)`
)

// blockColumns are rows as ClickHouse's driver takes them.
type blockColumns struct {
	projects, granularities []string
	starts, ends            []time.Time
	attempts                []uint64
	paths                   []string
	human, ai, total        []int64
	revisions               []int32
	flags                   []uint8 // settled and verified: all are both
	exported                []int64
}

// insertInto inserts the rows of the files into ClickHouse.
func insertInto(conn driver.Conn, http bool, files []*archive.File) (err error) {
	var batch driver.Batch
	var c blockColumns
	// send sends what is there: a block of one INSERT over the native protocol, an INSERT over HTTP.
	send := func(last bool) error {
		if batch == nil && len(c.paths) > 0 {
			if batch, err = conn.PrepareBatch(context.Background(), bareInsert); err != nil {
				return err
			}
		}
		if len(c.paths) > 0 {
			for i, column := range []any{
				c.projects, c.granularities, c.starts, c.ends, c.attempts, c.paths,
				c.human, c.ai, c.total, c.revisions, c.flags, c.flags, c.exported,
			} {
				if err := batch.Column(i).Append(column); err != nil {
					return err
				}
			}
		}
		c = blockColumns{
			c.projects[:0], c.granularities[:0], c.starts[:0], c.ends[:0], c.attempts[:0], c.paths[:0],
			c.human[:0], c.ai[:0], c.total[:0], c.revisions[:0], c.flags[:0], c.exported[:0],
		}
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
	for i, f := range files {
		rev := f.Revision()
		from, to, exported := rev.From.Time(), rev.To.Time(), rev.ExportedAt.UnixMicro()
		for r, err := range f.Rows() {
			if err != nil {
				return err
			}
			c.projects, c.granularities = append(c.projects, rev.Project), append(c.granularities, string(rev.Granularity))
			c.starts, c.ends = append(c.starts, from), append(c.ends, to)
			c.attempts, c.paths = append(c.attempts, uint64(i)), append(c.paths, r.Path)
			c.human, c.ai, c.total = append(c.human, r.Human), append(c.ai, r.AI), append(c.total, r.Total)
			c.revisions, c.flags, c.exported = append(c.revisions, rev.Number), append(c.flags, 1), append(c.exported, exported)
			if len(c.paths) == size {
				if err := send(false); err != nil {
					return err
				}
			}
		}
	}
	return send(true)
}
