package archive

import (
	"fmt"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/docgauge/docgauge/internal/analytics"
)

// A row group ends at the first of these limits. Together they bound the
// memory of the writer and, with long paths, of readers.
const (
	groupRows  = 131_072
	groupBytes = 4 << 20
)

// encoder collects the rows of one row group column by column, and writes the
// group when it is full.
type encoder struct {
	w      *file.Writer
	before []fill // the columns left of path, the same in every row
	after  []fill // those right of total
	rows   int64
	sum    analytics.Checksum
	last   string

	*columns
}

// columns are the rows of one group.
type columns struct {
	paths            []byte // the paths of the group, one after the other
	ends             []int  // where each of them ends
	human, ai, total []int64
}

// spare keeps the memory of the last file's group for the next file.
var spare = sync.Pool{New: func() any { return new(columns) }}

func newEncoder(w *file.Writer, rev analytics.Revision) *encoder {
	return &encoder{w: w, before: keyFills(rev), after: readingFills(rev), columns: spare.Get().(*columns)}
}

// release gives the memory back; the encoder is of no use any more.
func (e *encoder) release() {
	e.clear()
	spare.Put(e.columns)
	e.columns = nil
}

func (c *columns) clear() {
	c.paths, c.ends = c.paths[:0], c.ends[:0]
	c.human, c.ai, c.total = c.human[:0], c.ai[:0], c.total[:0]
}

// add takes one row, which must sort after the former one.
func (e *encoder) add(row analytics.Row) error {
	switch {
	case !utf8.ValidString(row.Path):
		return fmt.Errorf("path %q: must be UTF-8", row.Path)
	case e.rows > 0 && row.Path == e.last:
		return fmt.Errorf("path %q: comes twice, each path must come once", row.Path)
	case e.rows > 0 && row.Path < e.last:
		return fmt.Errorf("path %q: comes after %q, rows must be sorted by path", row.Path, e.last)
	}
	if len(e.ends) == groupRows || len(e.paths) >= groupBytes {
		if err := e.flush(); err != nil {
			return err
		}
	}
	e.paths = append(e.paths, row.Path...)
	e.ends = append(e.ends, len(e.paths))
	e.human = append(e.human, row.Human)
	e.ai = append(e.ai, row.AI)
	e.total = append(e.total, row.Total)
	e.last = row.Path
	e.rows++
	e.sum.Add(row)
	return nil
}

// finish writes the last row group and the metadata of rev.
func (e *encoder) finish(rev analytics.Revision) error {
	if len(e.ends) > 0 {
		if err := e.flush(); err != nil {
			return err
		}
	}
	return describe(e.w, rev, e.sum.String())
}

func (e *encoder) flush() error {
	own := []fill{texts(e.paths, e.ends), values(e.human), values(e.ai), values(e.total)}
	err := writeGroup(e.w, len(e.ends), slices.Concat(e.before, own, e.after))
	e.clear()
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
	return describe(w, rev, "")
}

// describe writes the metadata of rev, and where there are rows their checksum.
func describe(w *file.Writer, rev analytics.Revision, checksum string) error {
	all := pairs(rev)
	if checksum != "" {
		all = append(all, [2]string{checksumKey, checksum})
	}
	for _, kv := range append(all, [2]string{crcKey, crcBlank}) {
		if err := w.AppendKeyValueMetadata(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}
