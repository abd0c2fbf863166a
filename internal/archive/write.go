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
	"sync"

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
// ExportedAt cut to microseconds. If rev.Rows is [analytics.TotalsOnlyRows] it writes a totals
// file, and rows is not used.
//
// Rows must come sorted by path in byte order, each path once, paths in UTF-8.
// It is an error if path exists. After an error nothing is left at path,
// unless it was there before.
func Write(path string, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) (analytics.Revision, error) {
	var foot Footer
	err := create(path, func(out *os.File) (err error) {
		foot, err = encode(out, rev, rows)
		return err
	})
	return foot.Revision, err
}

// Encode is [Write] into memory, for a window of few rows.
func Encode(rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) (*File, error) {
	return inMemory(func(out io.Writer) (Footer, error) { return encode(out, rev, rows) })
}

// EncodeAgents is [WriteAgents] into memory, for a window of few rows.
func EncodeAgents(rev analytics.Revision, rows iter.Seq2[analytics.AgentRow, error]) (*File, error) {
	return inMemory(func(out io.Writer) (Footer, error) { return encodeAgents(out, rev, rows) })
}

func inMemory(encode func(io.Writer) (Footer, error)) (*File, error) {
	var out bytes.Buffer
	foot, err := encode(&out)
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
		rev, err := checkedVisitors(rev)
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
func encode(to io.Writer, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) (foot Footer, err error) {
	if !rev.TotalsOnly() {
		rev.Rows = 0
	}
	if foot.Revision, err = checkedVisitors(rev); err != nil {
		return foot, err
	}
	if rev.TotalsOnly() {
		err = write(to, totalsSchema(), func(w *file.Writer) error { return encodeTotals(w, foot.Revision) })
		return foot, err
	}
	err = encodeRows(to, visitors, &foot, rows, func(analytics.Row) error {
		foot.Rows++
		return nil
	})
	foot.Visitors = true
	return foot, err
}

// WriteAgents is [Write] for the report of agents: rows come in the order of [analytics.AgentRow.Compare], so
// that those of the site, which have no path, are first; Rows counts the others. If rev.Rows is
// [analytics.TotalsOnlyRows], there are no others.
func WriteAgents(path string, rev analytics.Revision, rows iter.Seq2[analytics.AgentRow, error],
) (analytics.Revision, error) {
	var foot Footer
	err := create(path, func(out *os.File) (err error) {
		foot, err = encodeAgents(out, rev, rows)
		return err
	})
	return foot.Revision, err
}

func encodeAgents(to io.Writer, rev analytics.Revision, rows iter.Seq2[analytics.AgentRow, error],
) (foot Footer, err error) {
	if rev.Report != analytics.AgentsReport {
		return foot, fmt.Errorf("%s: is not of the report %s", rev.Key, analytics.AgentsReport)
	}
	if !rev.TotalsOnly() {
		rev.Rows = 0
	}
	if foot.Revision, err = checked(rev); err != nil {
		return foot, err
	}
	return foot, encodeRows(to, agents, &foot, rows, func(row analytics.AgentRow) error {
		switch {
		case row.Path == "" && !row.Found:
			return fmt.Errorf("agent %q: the site has no row of paths that were not found", row.Agent)
		case row.Path == "":
			foot.SiteRows++
		case rev.TotalsOnly():
			return fmt.Errorf("path %q: want no path where only totals were read", row.Path)
		default:
			foot.Rows++
		}
		return nil
	})
}

// checkedVisitors is checked for a revision of the report of visitors.
func checkedVisitors(rev analytics.Revision) (analytics.Revision, error) {
	if rev.Report != analytics.VisitorsReport {
		return rev, fmt.Errorf("%s: is not of the report %s", rev.Key, analytics.VisitorsReport)
	}
	return checked(rev)
}

// encodeRows writes a file of rows, each of which take accepts and counts in foot.
func encodeRows[R any](to io.Writer, d *dataset[R], foot *Footer, rows iter.Seq2[R, error], take func(R) error) error {
	return write(to, d.schema(), func(w *file.Writer) error {
		enc := newEncoder(w, d, foot.Revision)
		defer enc.release()
		for row, err := range rows {
			if err == nil {
				err = take(row)
			}
			if err == nil {
				err = enc.add(row)
			}
			if err != nil {
				return err
			}
		}
		if err := enc.flush(); err != nil {
			return err
		}
		foot.Checksum = enc.sum.String()
		return writeMetadata(w, *foot)
	})
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
	out := outputs.Get().(*output)
	defer outputs.Put(out)
	*out = output{to: to, buf: out.buf[:0]}
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

// outputs keeps the memory of the last file's buffer for the next file.
var outputs = sync.Pool{New: func() any { return new(output) }}

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
type encoder[R any] struct {
	of     *dataset[R]
	w      *file.Writer
	before []fill // the columns left of path, the same in every row
	after  []fill // those of the reading
	group  rowGroup[R]
	sum    analytics.Checksum
	last   R
	first  bool
}

func newEncoder[R any](w *file.Writer, d *dataset[R], rev analytics.Revision) *encoder[R] {
	return &encoder[R]{of: d, w: w, before: keyFills(rev), after: readingFills(rev), group: d.groups.Get().(rowGroup[R]),
		first: true}
}

// release gives the memory back; the encoder cannot be used afterwards.
func (e *encoder[R]) release() {
	e.group.clear()
	e.of.groups.Put(e.group)
	e.group = nil
}

// add takes one row, which must sort after the former one.
func (e *encoder[R]) add(row R) error {
	if bad := e.of.invalid(row); bad != "" {
		return fmt.Errorf("%s: must be UTF-8", bad)
	}
	if !e.first {
		switch c := e.of.compare(row, e.last); {
		case c == 0:
			return fmt.Errorf("%s: comes twice, each path must come once", e.of.name(row))
		case c < 0:
			return fmt.Errorf("%s: comes after %s, rows must be sorted by path", e.of.name(row), e.of.name(e.last))
		}
	}
	if rows, bytes := e.group.size(); rows == groupRows || bytes >= groupBytes {
		if err := e.flush(); err != nil {
			return err
		}
	}
	e.group.add(row)
	e.last, e.first = row, false
	e.of.sum(&e.sum, row)
	return nil
}

// flush writes a row group, if there are rows.
func (e *encoder[R]) flush() error {
	rows, _ := e.group.size()
	if rows == 0 {
		return nil
	}
	err := writeGroup(e.w, rows, slices.Concat(e.before, e.group.fills(), e.after))
	e.group.clear()
	return err
}

// encodeTotals writes the one row and the metadata of a totals file.
func encodeTotals(w *file.Writer, rev analytics.Revision) error {
	t := rev.Totals
	counts := []fill{constant(t.Human), constant(t.AI), constant(t.Total)}
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

// texts fills a column from strings that are stored in data one after the other,
// each up to its place in ends.
func texts(data []byte, ends []int) fill {
	return func(cw file.ColumnChunkWriter, n int) error {
		batch := make([]parquet.ByteArray, 0, batchRows)
		begin := 0
		for chunk := range slices.Chunk(ends[:n], batchRows) {
			batch = batch[:0]
			for _, end := range chunk {
				batch = append(batch, data[begin:end])
				begin = end
			}
			if err := put(cw, batch); err != nil {
				return err
			}
		}
		return nil
	}
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
