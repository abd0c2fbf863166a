package archive

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
)

// errStop ends a walk because the reader of the rows wants no more.
var errStop = errors.New("stopped")

// Rows yields the rows in the order of their paths, none for a totals-only
// window. It reads the file anew each time it is ranged over, a batch at a
// time. An error is yielded last and names the file: damage, or rows that are
// not sorted or not as many as the footer tells.
func (f *File) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		if f.foot.TotalsOnly() {
			return
		}
		err := f.walk(func(r analytics.Row) bool { return yield(r, nil) })
		if err != nil && !errors.Is(err, errStop) {
			yield(analytics.Row{}, fmt.Errorf("window file %s: %w", f.path, err))
		}
	}
}

// walk calls yield outside the Parquet library, so that a panic of the
// consumer stays a panic.
func (f *File) walk(yield func(analytics.Row) bool) error {
	in, err := f.Open()
	if err != nil {
		return err
	}
	defer in.Close()
	section, err := whole(in)
	if err != nil {
		return err
	}
	return scan(section, f.foot.Rows, yield)
}

// scan yields the rows of a visitors file, of which there must be want.
func scan(r *io.SectionReader, want int64, yield func(analytics.Row) bool) error {
	s, err := newScanner(r)
	if err != nil {
		return err
	}
	for {
		batch, err := s.next()
		if errors.Is(err, io.EOF) {
			return s.finish(want)
		}
		if err != nil {
			return err
		}
		for _, r := range batch {
			if !yield(r) {
				return errStop
			}
		}
	}
}

// scanner reads a visitors file batch by batch.
type scanner struct {
	file  *file.Reader
	group int // the next row group
	left  int64
	path  *file.ByteArrayColumnChunkReader
	count [3]*file.Int64ColumnChunkReader
	seen  int64
	last  string

	paths  [batchRows]parquet.ByteArray
	counts [3][batchRows]int64
	rows   [batchRows]analytics.Row
}

func newScanner(in *io.SectionReader) (s *scanner, err error) {
	defer caught(&err)
	r, err := newReader(in)
	return &scanner{file: r}, err
}

// next returns the next rows, valid until it is called again, or io.EOF.
func (s *scanner) next() (rows []analytics.Row, err error) {
	defer caught(&err)
	for s.left == 0 {
		if s.group == s.file.NumRowGroups() {
			return nil, io.EOF
		}
		if err := s.enter(s.group); err != nil {
			return nil, fmt.Errorf("row group %d: %w", s.group, err)
		}
		s.group++
	}
	n, err := s.read()
	if err != nil {
		return nil, fmt.Errorf("row group %d: %w", s.group-1, err)
	}
	s.left -= int64(n)
	for i := range n {
		s.rows[i] = analytics.Row{Path: string(s.paths[i]), Human: s.counts[0][i], AI: s.counts[1][i], Total: s.counts[2][i]}
	}
	return s.rows[:n], s.check(s.rows[:n])
}

func (s *scanner) enter(group int) error {
	g := s.file.RowGroup(group)
	c, err := g.Column(pathIndex)
	if err != nil {
		return err
	}
	s.path = c.(*file.ByteArrayColumnChunkReader)
	for i, index := range []int{humanIndex, aiIndex, totalIndex} {
		if c, err = g.Column(index); err != nil {
			return err
		}
		s.count[i] = c.(*file.Int64ColumnChunkReader)
	}
	s.left = g.NumRows()
	return nil
}

// read fills paths and counts with the same number of values and returns it.
// Paths stay inside one page, where they need not be copied twice.
func (s *scanner) read() (int, error) {
	if !s.path.HasNext() {
		return 0, errors.Join(s.path.Err(), errors.New("has fewer paths than the footer tells"))
	}
	_, n, err := s.path.ReadBatchInPage(min(batchRows, s.left), s.paths[:], nil, nil)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, errors.New("page without a value")
	}
	for i := range s.count {
		_, got, err := s.count[i].ReadBatch(int64(n), s.counts[i][:], nil, nil)
		if err = errors.Join(err, s.count[i].Err()); err != nil {
			return 0, err
		}
		if got != n {
			return 0, errors.New("columns differ in length")
		}
	}
	return n, nil
}

func (s *scanner) check(batch []analytics.Row) error {
	for _, r := range batch {
		if s.seen > 0 && r.Path <= s.last {
			return fmt.Errorf("path %q: comes after %q, rows must be sorted by path, each once", r.Path, s.last)
		}
		s.last = r.Path
		s.seen++
	}
	return nil
}

func (s *scanner) finish(want int64) error {
	if s.seen != want {
		return fmt.Errorf("has %d rows, its footer tells %d", s.seen, want)
	}
	return nil
}
