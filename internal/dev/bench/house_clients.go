package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks/parquet"
)

const (
	// flushRows is the size of a block over the native protocol, insertRows that
	// of an INSERT over HTTP, where the driver cannot stream.
	flushRows  = 100_000
	insertRows = 200_000
	// bareInFlight is how many windows the bare client writes at once.
	bareInFlight = 16

	bareColumns = "project, granularity, window_start, window_end, attempt, path, human, ai, total, revision, settled, verified, exported_at_us"
	// bareTable has the columns and keys of docgauge_visitors_rows.
	bareTable = ` (project String, granularity String, window_start Date, window_end Date, attempt UInt64, path String,
		human Int64, ai Int64, total Int64, revision Int32, settled UInt8, verified UInt8, exported_at_us Int64, written_at DateTime DEFAULT now())
		ENGINE = MergeTree PARTITION BY toYYYYMM(window_start) ORDER BY (project, granularity, window_start, attempt, path)`
)

// seal writes an archive of so many windows below dir/data.
func seal(dir, windows, rows string) error {
	n, bad := strconv.Atoi(windows)
	size, worse := strconv.Atoi(rows)
	sink, err := parquet.New(filepath.Join(dir, "data"))
	if err := errors.Join(bad, worse, err); err != nil {
		return err
	}
	staged := filepath.Join(dir, "staged")
	for i := range n {
		from := analytics.DateOf(firstDay) - analytics.Date(i)
		rev := analytics.Revision{
			Key:    analytics.Key{Project: "bench", Granularity: analytics.Day, Window: analytics.Window{From: from, To: from + 1}},
			Number: 1, Settled: true, Verified: true, ExportedAt: firstDay,
		}
		if _, err := archive.Write(staged, rev, sortedRows(size, i)); err != nil {
			return err
		}
		w, err := archive.Open(staged)
		if err != nil {
			return err
		}
		if err := errors.Join(sink.Replace(context.Background(), w), os.Remove(staged)); err != nil {
			return err
		}
	}
	return nil
}

// sortedRows yields n rows in the order of their paths.
func sortedRows(n, day int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			human, ai := int64((i^day)%5000), int64((i>>3+day)%700)
			row := analytics.Row{
				Path:  fmt.Sprintf("/docs/%08x/%s/%s", i, sections[i*7%16], topics[i%16]),
				Human: human, AI: ai, Total: max(human, ai) + min(human, ai)/2,
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}

// bare inserts everything below dir/data by the driver alone: as one INSERT, or
// window by window, several at once. It checks nothing.
func bare(dsn, dir, http string, windows bool) error {
	options, err := clickhouse.ParseDSN(dsn)
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
	files, err := windowFiles(filepath.Join(dir, "data", "visitors"))
	if err != nil {
		return err
	}
	if !windows {
		w := &writer{conn: conn, http: http == "true"}
		for i, f := range files {
			if err := w.window(f, uint64(i)); err != nil {
				return err
			}
		}
		return w.end()
	}
	var group errgroup.Group
	group.SetLimit(bareInFlight)
	for i, f := range files {
		group.Go(func() error {
			w := &writer{conn: conn, http: http == "true"}
			return errors.Join(w.window(f, uint64(i)), w.end())
		})
	}
	return group.Wait()
}

func windowFiles(root string) (files []*archive.File, err error) {
	err = filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".parquet") {
			return err
		}
		f, err := archive.Open(path)
		files = append(files, f)
		return err
	})
	return files, err
}

// writer fills columns and sends them.
type writer struct {
	conn  driver.Conn
	http  bool
	batch driver.Batch

	projects, granularities []string
	starts, ends            []time.Time
	attempts                []uint64
	paths                   []string
	human, ai, total        []int64
	revisions               []int32
	settled, verified       []uint8
	exported                []int64
}

func (w *writer) window(f *archive.File, attempt uint64) error {
	rev := f.Revision()
	from, to, exported := rev.From.Time(), rev.To.Time(), rev.ExportedAt.UnixMicro()
	size := flushRows
	if w.http {
		size = insertRows
	}
	for r, err := range f.Rows() {
		if err != nil {
			return err
		}
		w.projects, w.granularities = append(w.projects, rev.Project), append(w.granularities, string(rev.Granularity))
		w.starts, w.ends, w.attempts = append(w.starts, from), append(w.ends, to), append(w.attempts, attempt)
		w.paths, w.human, w.ai, w.total = append(w.paths, r.Path), append(w.human, r.Human), append(w.ai, r.AI), append(w.total, r.Total)
		w.revisions, w.settled, w.verified = append(w.revisions, rev.Number), append(w.settled, 1), append(w.verified, 1)
		w.exported = append(w.exported, exported)
		if len(w.paths) == size {
			if err := w.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *writer) flush() error {
	if w.batch == nil {
		batch, err := w.conn.PrepareBatch(context.Background(), "INSERT INTO bare ("+bareColumns+")")
		if err != nil {
			return err
		}
		w.batch = batch
	}
	for i, column := range []any{
		w.projects, w.granularities, w.starts, w.ends, w.attempts, w.paths, w.human, w.ai, w.total, w.revisions, w.settled, w.verified, w.exported,
	} {
		if err := w.batch.Column(i).Append(column); err != nil {
			return err
		}
	}
	w.projects, w.granularities, w.starts, w.ends, w.attempts = w.projects[:0], w.granularities[:0], w.starts[:0], w.ends[:0], w.attempts[:0]
	w.paths, w.human, w.ai, w.total = w.paths[:0], w.human[:0], w.ai[:0], w.total[:0]
	w.revisions, w.settled, w.verified, w.exported = w.revisions[:0], w.settled[:0], w.verified[:0], w.exported[:0]
	if w.http {
		return w.send()
	}
	return w.batch.Flush()
}

func (w *writer) end() error {
	if len(w.paths) > 0 {
		if err := w.flush(); err != nil {
			return err
		}
	}
	if w.batch == nil {
		return nil
	}
	return w.send()
}

func (w *writer) send() error {
	err := w.batch.Send()
	w.batch = nil
	return err
}
