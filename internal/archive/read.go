// Package archive hides the window file: one revision of one window as a
// Parquet file, the one format in the spool and in the Parquet sink.
//
// There are three shapes. A visitors file has a row per path. A totals file has one row, the site totals; it stands
// for the window if only its totals were read. An agents file has a row per path, agent, audience and found. The
// rows of the site, without a path, come first; they are all if only totals were read. All carry the whole
// [analytics.Revision] as key-value metadata, so that the footer alone identifies a file.
//
// Invariant: a file that [Open] accepts contains exactly one whole revision,
// its rows in their order and each once: by path in byte order. Files are written
// once and never changed. Memory grows neither with the rows written nor with
// the rows read.
//
// The package does not name files, move them or make their directory entries
// durable; it does not know which windows are due, nor the sinks. Parquet
// libraries panic on some damaged input: such a panic leaves this package as
// an error.
package archive

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// maxFooter is the longest footer that is read, in bytes: ours take a few
	// hundred bytes for each column and row group, so a longer one is damage.
	maxFooter = 64 << 20
	// footerEnd is the size of the footer's length and the magic that end a file.
	footerEnd = 8
)

// File is a sealed window file: a visitors or agents file, or the totals file of a
// window of which only totals were read. It holds no open file, and many
// goroutines can use it at once.
type File struct {
	path string
	data []byte // the file, if it is in memory
	foot Footer
}

// Footer is the contents of a file's footer.
type Footer struct {
	analytics.Revision
	// Checksum is the [analytics.Checksum] of the rows of a visitors or agents file; empty
	// if the file was written by a version that kept none.
	Checksum string
	// Table is the name of the report in a file of its rows, and [analytics.Shape.TotalsTable] in a totals file.
	Table string
	// SiteRows is the number of rows of the site, in an agents file.
	SiteRows int64
}

// IsTotals reports whether it is the footer of a totals file.
func (f Footer) IsTotals() bool { return f.Table == f.Report.Shape().TotalsTable }

// Tables are the tables of the files of a window: the table of the rows, and the table of the totals unless the rows
// include them.
func Tables(report analytics.Report) []string {
	if report.Shape().Site {
		return []string{report.String()}
	}
	return []string{report.String(), report.Shape().TotalsTable}
}

// Open reads the footer of the window file at path and checks it: schema
// version, columns, every docgauge.* key, and the number of rows. It refuses
// the totals file of a window that has rows elsewhere. Errors name the file
// and the rule it breaks.
func Open(path string) (*File, error) {
	f := &File{path: path}
	err := f.read(func(r *io.SectionReader) (err error) {
		f.foot, err = readFooter(r)
		if err == nil && f.foot.IsTotals() && !f.foot.TotalsOnly() {
			err = fmt.Errorf("is the totals file of a window with %d rows, want its visitors file", f.foot.Rows)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// OpenIntact opens the window file at path, which must belong to this window, and reads it to its end: [ErrDamaged]
// if its bytes are not those that were written.
func OpenIntact(path string, key analytics.Key) (*File, error) {
	f, err := Open(path)
	if err == nil && f.foot.Key != key {
		err = fmt.Errorf("holds %s", f.foot.Key)
	}
	if err == nil {
		err = f.read(intact)
	}
	return f, err
}

// read opens the file for the time of do. Errors name the file.
func (f *File) read(do func(*io.SectionReader) error) error {
	if f.data != nil {
		return do(io.NewSectionReader(bytes.NewReader(f.data), 0, int64(len(f.data))))
	}
	in, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("window file: %w", err)
	}
	defer in.Close()
	info, err := in.Stat()
	if err == nil {
		err = do(io.NewSectionReader(in, 0, info.Size()))
	}
	if err != nil {
		return fmt.Errorf("window file %s: %w", f.path, err)
	}
	return nil
}

// Revision returns the revision in the file's footer.
func (f *File) Revision() analytics.Revision { return f.foot.Revision }

// Checksum returns the checksum of the rows in the file's footer; empty if the
// file has no rows or was written by a version that kept none.
func (f *File) Checksum() string { return f.foot.Checksum }

// Path returns the name that f was opened by.
func (f *File) Path() string { return f.path }

// Remove removes the file from disk, if that is where it is.
func (f *File) Remove() error {
	if f.data != nil {
		return nil
	}
	return os.Remove(f.path)
}

// Open opens the file itself for reading; the caller closes it.
func (f *File) Open() (io.ReadCloser, error) {
	if f.data != nil {
		return io.NopCloser(bytes.NewReader(f.data)), nil
	}
	return os.Open(f.path)
}

// ReadFooter reads the footer of a window file, visitors or totals, in r,
// which is size bytes long, with the checks of [Open]. It reads only the footer,
// and it returns an error for any damaged input.
func ReadFooter(r io.ReaderAt, size int64) (Footer, error) {
	return readFooter(io.NewSectionReader(r, 0, size))
}

// Holds reads the footer of the window file in r, and returns an error unless it is the
// visitors or agents file of want.
func Holds(r io.ReaderAt, size int64, want analytics.Revision) error {
	foot, err := ReadFooter(r, size)
	if err == nil {
		err = foot.RowsOf(want)
	}
	return err
}

// RowsOf returns an error unless f is the footer of the visitors or agents file of want.
func (f Footer) RowsOf(want analytics.Revision) error {
	if f.IsTotals() || !f.Same(want) {
		return fmt.Errorf("holds %s revision %d, want revision %d as sealed", f.Key, f.Number, want.Number)
	}
	return nil
}

func readFooter(r *io.SectionReader) (foot Footer, err error) {
	defer caught(&err)
	encoded := encodedFooter(r)
	if foot, ok := quickFooter(encoded); ok {
		return foot, nil
	}
	reader, err := newReader(r)
	if err != nil {
		return foot, err
	}
	if foot, err = parseFooter(reader.MetaData()); err == nil && encoded != nil {
		acceptedSchemas.Store(foot.Table, string(splitFooter(encoded).schema))
	}
	return foot, err
}

func parseFooter(meta *metadata.FileMetaData) (foot Footer, err error) {
	if foot, err = readMetadata(meta.KeyValueMetadata().FindValue); err != nil {
		return foot, err
	}
	shape, root := foot.Report.Shape(), meta.Schema.Root()
	switch foot.Table = shape.Name; {
	case root.Equals(rowsSchema(shape)):
	case shape.Site:
		return foot, fmt.Errorf("columns are not as in an %s file", foot.Table)
	case root.Equals(totalsSchema()):
		foot.Table = shape.TotalsTable
	default:
		return foot, errors.New("columns are neither as in a visitors file nor as in a totals file")
	}
	var groups []int64
	for _, g := range meta.RowGroups {
		groups = append(groups, g.GetNumRows())
	}
	return foot, checkRows(meta.GetNumRows(), groups, foot.rowsInFile())
}

// rowsInFile is the number of rows that the file must have.
func (f Footer) rowsInFile() int64 {
	if f.IsTotals() {
		return 1
	}
	return f.SiteRows + max(f.Rows, 0)
}

func newReader(r *io.SectionReader) (*file.Reader, error) {
	if _, err := footerLength(r); err != nil {
		return nil, err
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	return file.NewParquetReader(r, file.WithReadProps(props))
}

func footerLength(r *io.SectionReader) (int64, error) {
	var end [4]byte
	if _, err := r.ReadAt(end[:], r.Size()-footerEnd); err != nil {
		return 0, fmt.Errorf("not a Parquet file, %d bytes: %w", r.Size(), err)
	}
	length, most := int64(binary.LittleEndian.Uint32(end[:])), min(maxFooter, r.Size()-footerEnd)
	if length > most {
		return 0, fmt.Errorf("footer of %d bytes: this window file can have at most %d", length, most)
	}
	return length, nil
}

// checkRows compares the rows that the footer counts, in total and by row group,
// with the number there must be.
func checkRows(got int64, groups []int64, want int64) error {
	var sum int64
	for _, n := range groups {
		if n < 0 {
			return errors.New("a row group counts fewer than 0 rows")
		}
		sum += n
	}
	if got != want || sum != want {
		return fmt.Errorf("the footer counts %d rows, its row groups %d; there must be %d", got, sum, want)
	}
	return nil
}

// errStop ends a scan because the consumer wants no more rows.
var errStop = errors.New("stopped")

// Rows yields the rows in the order of their paths, none for a totals-only
// window. It reads the file anew each time it is ranged over, a batch at a
// time. An error is yielded last and names the file: damage, or rows that are
// not sorted or not as many as the footer says.
func (f *File) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		if f.foot.IsTotals() {
			return
		}
		err := f.read(func(r *io.SectionReader) error {
			return scan(r, f.foot.Report.Shape(), f.foot.rowsInFile(), yield)
		})
		if err != nil && !errors.Is(err, errStop) {
			yield(analytics.Record{}, err)
		}
	}
}

// scan yields the rows of a file without an error; there must be want rows. It calls yield
// outside the Parquet library, so that a panic of the consumer stays a panic.
func scan(r *io.SectionReader, shape *analytics.Shape, want int64, yield func(analytics.Record, error) bool) error {
	s, err := newScanner(r, shape)
	if err != nil {
		return err
	}
	for {
		batch, err := s.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		for i := range batch {
			if !yield(batch[i], nil) {
				return errStop
			}
		}
	}
	if s.seen != want {
		return fmt.Errorf("has %d rows, its footer says %d", s.seen, want)
	}
	return nil
}

// scanner reads a file batch by batch.
type scanner struct {
	shape   *analytics.Shape
	file    *file.Reader
	columns columns
	group   int // the next row group
	left    int64
	seen    int64
	last    analytics.Record // of the former batch
	rows    [batchRows]analytics.Record
}

func newScanner(in *io.SectionReader, shape *analytics.Shape) (s *scanner, err error) {
	defer caught(&err)
	r, err := newReader(in)
	s = &scanner{shape: shape, file: r}
	s.columns = newColumns(shape.Fields(&s.last))
	return s, err
}

// next returns the next rows, valid until the next call, or io.EOF.
func (s *scanner) next() (rows []analytics.Record, err error) {
	defer caught(&err)
	for s.left == 0 {
		if s.group == s.file.NumRowGroups() {
			return nil, io.EOF
		}
		g := s.file.RowGroup(s.group)
		for i, column := range s.columns.all {
			err = errors.Join(err, column.enter(g, pathIndex+i))
		}
		if err != nil {
			return nil, fmt.Errorf("row group %d: %w", s.group, err)
		}
		s.left = g.NumRows()
		s.group++
	}
	n, err := s.columns.read(int(min(batchRows, s.left)))
	if err != nil {
		return nil, fmt.Errorf("row group %d: %w", s.group-1, err)
	}
	s.left -= int64(n)
	rows = s.rows[:n]
	s.columns.into(rows)
	last := &s.last
	for i := range rows {
		row := &rows[i]
		if s.seen > 0 && row.Texts[0] <= last.Texts[0] && s.shape.Compare(*row, *last) <= 0 {
			return nil, fmt.Errorf("%s: comes after %s, rows must be sorted by path, each once", s.shape.Describe(*row),
				s.shape.Describe(*last))
		}
		last = row
		s.seen++
	}
	s.last = *last
	return rows, nil
}

// RowsOf yields the row of a path in a file with a row for each; nothing if there is none. Of the other rows it reads the
// paths alone, up to that one.
func (f *File) RowsOf(path string) iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
		if f.foot.IsTotals() {
			return
		}
		var s *scanner
		found := false
		err := f.read(func(r *io.SectionReader) (err error) {
			if s, err = newScanner(r, f.foot.Report.Shape()); err == nil {
				found, err = s.find([]byte(path))
			}
			return err
		})
		switch {
		case err != nil:
			yield(analytics.Record{}, err)
		case found:
			yield(s.rows[0], nil)
		}
	}
}

// find reads the row of a path into the first of rows, unless there is none.
func (s *scanner) find(path []byte) (found bool, err error) {
	defer caught(&err)
	paths := s.columns.texts[0]
	for i := range s.file.NumRowGroups() {
		g, before := s.file.RowGroup(i), 0
		if err := paths.enter(g, pathIndex); err != nil {
			return false, fmt.Errorf("row group %d: %w", i, err)
		}
		for before < int(g.NumRows()) {
			n, err := s.columns.readPaths(min(batchRows, int(g.NumRows())-before))
			if err != nil {
				return false, fmt.Errorf("row group %d: %w", i, err)
			}
			at, found := slices.BinarySearchFunc(paths.values[:n], path, func(value parquet.ByteArray, path []byte) int {
				return bytes.Compare(value, path)
			})
			switch {
			case found:
				paths.values[0] = paths.values[at]
				return true, s.readRest(g, before+at)
			case at < n:
				return false, nil
			}
			before += n
		}
	}
	return false, nil
}

// readRest reads the columns after the path of a row into the first of rows, whose path is the first that was read.
func (s *scanner) readRest(g *file.RowGroupReader, row int) error {
	for i, column := range s.columns.all[1:] {
		if err := column.enter(g, pathIndex+1+i); err != nil {
			return err
		}
		for left := row; left > 0; left -= batchRows {
			if err := column.read(min(left, batchRows)); err != nil {
				return err
			}
		}
		if err := column.read(1); err != nil {
			return err
		}
	}
	s.columns.into(s.rows[:1])
	return nil
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
