package archive

import (
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"

	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

// fileMode lets other users read published files: warehouses run as others.
const fileMode = 0o644

// Write writes rev and its rows to a new file at path and flushes the file to
// disk; the directory entry is the caller's to flush. It returns rev with Rows
// counted and ExportedAt cut to microseconds, as the file tells it. Where
// rev.Rows is [analytics.TotalsOnlyRows] it is [WriteTotals], and rows is not used.
//
// Rows must come sorted by path in byte order, each path once, paths in UTF-8.
// It is an error if path exists. After an error nothing is left at path,
// unless it was there before.
func Write(path string, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) (analytics.Revision, error) {
	if !rev.TotalsOnly() {
		rev.Rows = 0
	}
	rev, err := checked(rev)
	if err != nil {
		return rev, fmt.Errorf("window file %s: %w", path, err)
	}
	if rev.TotalsOnly() {
		return rev, WriteTotals(path, rev)
	}
	err = create(path, visitorsSchema(), func(w *file.Writer) error {
		enc := newEncoder(w, rev)
		defer enc.release()
		for row, err := range rows {
			if err != nil {
				return err
			}
			if err := enc.add(row); err != nil {
				return err
			}
		}
		rev.Rows = enc.rows
		return enc.finish(rev)
	})
	return rev, err
}

// WriteTotals writes the totals file of rev to a new file at path, on the terms
// of [Write]. The column page_count holds rev.Rows.
func WriteTotals(path string, rev analytics.Revision) error {
	rev, err := checked(rev)
	if err != nil {
		return fmt.Errorf("totals file %s: %w", path, err)
	}
	return create(path, totalsSchema(), func(w *file.Writer) error {
		return encodeTotals(w, rev)
	})
}

// create makes path, lets encode fill it, and makes it durable or removes it.
// The footer is written last, after encode has succeeded, so a file cut short
// by a crash does not read as a window file either.
func create(path string, columns *schema.GroupNode, encode func(*file.Writer) error) error {
	out, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return fmt.Errorf("window file: %w", err)
	}
	err = write(out, columns, encode)
	if err == nil {
		err = out.Sync()
	}
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("window file %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

func write(out *os.File, columns *schema.GroupNode, encode func(*file.Writer) error) (err error) {
	defer caught(&err)
	sums := &sumWriter{to: out, sum: crc32.New(castagnoli)}
	w, err := file.NewParquetWriterWithError(sums, columns, file.WithWriterProps(properties()))
	if err != nil {
		return err
	}
	if err := encode(w); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return err
	}
	return stamp(out, sums)
}

// caught turns a panic of the Parquet library into an error.
func caught(err *error) {
	switch r := recover().(type) {
	case nil:
	case error:
		*err = fmt.Errorf("parquet library: %w", r)
	default:
		*err = fmt.Errorf("parquet library: %v", r)
	}
}
