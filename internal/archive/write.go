package archive

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"os"
	"slices"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// fileMode lets other users read published files: warehouses run as other users.
	fileMode = 0o644

	// A row group ends at the first of these limits. Together they bound the
	// memory of the writer and, with long paths, of readers.
	groupRows  = 65_536
	groupBytes = 2 << 20

	// outputBytes is the size of the buffer for one write to the file.
	outputBytes = 256 << 10

	// batchRows is the number of values that go to or come from a column at once.
	batchRows = 1024
)

// Write writes rev and its rows to a new file at path. The file is not flushed to disk: it is a
// temporary one, or copied from there. Write returns rev as stored: with Rows counted and
// ExportedAt cut to microseconds.
//
// Rows must come in the order of [analytics.Shape.Compare], each once, in UTF-8. Rows of the site come first, and
// Rows counts the others. If rev.Rows is [analytics.TotalsOnlyRows], there are only rows of the site; where the
// report has none, Write writes a totals file, and rows is not used. It is an error if path exists. After an error
// nothing is left at path, unless it was there before.
func Write(
	path string, rev analytics.Revision, rows iter.Seq2[analytics.Record, error],
) (analytics.Revision, error) {
	var foot Footer
	err := create(path, func(out *os.File) (err error) {
		foot, err = encode(out, rev, rows)
		return err
	})
	return foot.Revision, err
}

// Encode is [Write] into memory, for a window of few rows.
func Encode(rev analytics.Revision, rows iter.Seq2[analytics.Record, error]) (*File, error) {
	var out bytes.Buffer
	foot, err := encode(&out, rev, rows)
	if err != nil {
		return nil, fmt.Errorf("window file: %w", err)
	}
	return &File{path: "in memory", data: out.Bytes(), foot: foot}, nil
}

// WriteTotals writes the totals file of rev to a new file at path, on the terms
// of [Write], and flushes it to disk; the caller flushes the directory entry. The column
// page_count holds rev.Rows.
func WriteTotals(path string, rev analytics.Revision) error {
	return create(path, func(out *os.File) error {
		rev, err := checked(rev)
		if err == nil && rev.Report.Shape().Site {
			err = fmt.Errorf("%s: the report has no totals beside its rows", rev.Key)
		}
		if err == nil {
			err = write(out, totalsSchema(), func(w *file.Writer) error { return encodeTotals(w, rev) })
		}
		if err == nil {
			err = out.Sync()
		}
		return err
	})
}

// encode writes a window file, and returns its footer.
func encode(
	to io.Writer, rev analytics.Revision, rows iter.Seq2[analytics.Record, error],
) (foot Footer, err error) {
	shape := rev.Report.Shape()
	if !rev.TotalsOnly() {
		rev.Rows = 0
	}
	if foot.Revision, err = checked(rev); err != nil {
		return foot, err
	}
	if !foot.HasRows() {
		foot.Table = shape.TotalsTable
		err = write(to, totalsSchema(), func(w *file.Writer) error { return encodeTotals(w, foot.Revision) })
		return foot, err
	}
	foot.Table = shape.Name
	err = write(to, rowsSchema(shape), func(w *file.Writer) error {
		enc := newEncoder(w, shape, foot.Revision)
		for row, err := range rows {
			if err != nil {
				return err
			}
			if err := enc.add(row, &foot); err != nil {
				return err
			}
		}
		if err := enc.group.flush(w, enc.before, enc.after); err != nil {
			return err
		}
		foot.Checksum = enc.sum.String()
		return writeMetadata(w, foot)
	})
	return foot, err
}

// create makes path and lets fill write it, or removes it. The footer is written last, so that
// a file cut short by a crash is not a readable window file.
func create(path string, fill func(*os.File) error) error {
	out, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return fmt.Errorf("window file: %w", err)
	}
	if err = errors.Join(fill(out), out.Close()); err != nil {
		return fmt.Errorf("window file %s: %w", path, errors.Join(err, os.Remove(path)))
	}
	return nil
}

func write(to io.Writer, columns *schema.GroupNode, encode func(*file.Writer) error) (err error) {
	defer caught(&err)
	out := &output{to: to}
	w, err := file.NewParquetWriterWithError(out, columns, file.WithWriterProps(properties()))
	if err != nil {
		return err
	}
	if err := encode(w); err != nil {
		return err
	}
	out.footer = true
	if err := w.Close(); err != nil {
		return err
	}
	return out.finish()
}

// output gathers the many small writes of the Parquet writer, and adds up the CRC of
// what goes to the file. The footer stays in memory until finish.
type output struct {
	to     io.Writer
	buf    []byte
	sum    uint32 // of the bytes that have left buf
	footer bool
}

func (o *output) Write(p []byte) (int, error) {
	o.buf = append(o.buf, p...)
	if o.footer || len(o.buf) < outputBytes {
		return len(p), nil
	}
	o.sum = crc32.Update(o.sum, castagnoli, o.buf)
	_, err := o.to.Write(o.buf)
	o.buf = o.buf[:0]
	return len(p), err
}

// finish puts the CRC into the footer and writes the rest.
func (o *output) finish() error {
	at, err := crcOffset(o.buf)
	if err != nil {
		return err
	}
	copy(o.buf[at:], fmt.Appendf(nil, "%08x", crc32.Update(o.sum, castagnoli, o.buf)))
	_, err = o.to.Write(o.buf)
	return err
}

// encoder collects the rows of one row group column by column, and writes the
// group when it is full.
type encoder struct {
	shape     *analytics.Shape
	w         *file.Writer
	before    []fill // the columns left of path, the same in every row
	after     []fill // the columns of the reading
	group     *rowGroup
	sum       analytics.Checksum
	row, last analytics.Record
	fields    analytics.Fields // of row
	first     bool
}

func newEncoder(w *file.Writer, shape *analytics.Shape, rev analytics.Revision) *encoder {
	e := &encoder{shape: shape, w: w, before: keyFills(rev), after: readingFills(rev), first: true}
	e.fields = shape.Fields(&e.row)
	e.group = newGroup(e.fields)
	return e
}

// add takes one row, which must sort after the former one, and counts it in foot.
func (e *encoder) add(row analytics.Record, foot *Footer) error {
	e.last, e.row = e.row, row
	if e.shape.Check != nil {
		if err := e.shape.Check(row); err != nil {
			return err
		}
	}
	switch {
	case e.shape.IsOfSite(row):
		foot.SiteRows++
	case foot.TotalsOnly():
		return fmt.Errorf("path %q: want no path where only totals were read", row.Path())
	default:
		foot.Rows++
	}
	for i, text := range e.fields.Texts {
		if !utf8.ValidString(*text) {
			return fmt.Errorf("%s %q: must be UTF-8", e.shape.Columns[i].Name, *text)
		}
	}
	if !e.first {
		switch c := e.shape.Compare(row, e.last); {
		case c == 0:
			return fmt.Errorf("%s: comes twice, each path must come once", e.shape.Describe(row))
		case c < 0:
			return fmt.Errorf("%s: comes after %s, rows must be sorted by path", e.shape.Describe(row), e.shape.Describe(e.last))
		}
	}
	if e.group.rows == groupRows || e.group.bytes >= groupBytes {
		if err := e.group.flush(e.w, e.before, e.after); err != nil {
			return err
		}
	}
	e.group.add(e.fields)
	e.first = false
	e.shape.Checksum(&e.sum, row)
	return nil
}

// encodeTotals writes the one row and the metadata of a totals file.
func encodeTotals(w *file.Writer, rev analytics.Revision) error {
	var counts []fill
	for _, n := range rev.Totals.Fields() {
		counts = append(counts, constant(*n))
	}
	counts = append(counts, constant(parquet.ByteArray(rev.Humans)))
	pages := []fill{constant(rev.Rows)}
	if err := writeGroup(w, 1, slices.Concat(keyFills(rev), counts, readingFills(rev), pages)); err != nil {
		return err
	}
	return writeMetadata(w, Footer{Revision: rev})
}

// fill writes the n values of one column of a row group.
type fill func(cw file.ColumnChunkWriter, n int) error

// writeGroup writes one row group of n rows, with one fill for each column, in the
// order of the schema.
func writeGroup(w *file.Writer, n int, fills []fill) error {
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		return err
	}
	for _, fill := range fills {
		cw, err := group.NextColumn()
		if err != nil {
			return err
		}
		if err := fill(cw, n); err != nil {
			return err
		}
	}
	return group.Close()
}

// keyFills fills the columns that name the window.
func keyFills(rev analytics.Revision) []fill {
	return []fill{
		constant(parquet.ByteArray(rev.Project)),
		constant(parquet.ByteArray(rev.Granularity)),
		constant(int32(rev.From)),
		constant(int32(rev.To)),
	}
}

// readingFills fills the columns that describe the reading.
func readingFills(rev analytics.Revision) []fill {
	return []fill{
		constant(rev.Number),
		constant(rev.Settled),
		constant(rev.Verified),
		constant(rev.ExportedAt.UnixMicro()),
	}
}

// constant fills a column with one value.
func constant[T any](v T) fill {
	return func(cw file.ColumnChunkWriter, n int) error {
		batch := slices.Repeat([]T{v}, min(n, batchRows))
		for ; n > 0; n -= batchRows {
			if err := put(cw, batch[:min(n, batchRows)]); err != nil {
				return err
			}
		}
		return nil
	}
}

// values fills a column from a slice.
func values[T any](all []T) fill {
	return func(cw file.ColumnChunkWriter, n int) error { return put(cw, all[:n]) }
}

// fill fills a column.
func (t texts) fill(cw file.ColumnChunkWriter, n int) error {
	batch := make([]parquet.ByteArray, 0, batchRows)
	begin := 0
	for chunk := range slices.Chunk(t.ends[:n], batchRows) {
		batch = batch[:0]
		for _, end := range chunk {
			batch = append(batch, t.data[begin:end])
			begin = end
		}
		if err := put(cw, batch); err != nil {
			return err
		}
	}
	return nil
}

func put[T any](cw file.ColumnChunkWriter, batch []T) error {
	w, ok := cw.(interface {
		WriteBatch(values []T, defLevels, repLevels []int16) (int64, error)
	})
	if !ok {
		return fmt.Errorf("column %s does not take %T", cw.Descr().Name(), batch)
	}
	_, err := w.WriteBatch(batch, nil, nil)
	return err
}
