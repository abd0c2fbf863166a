package archive

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

// sumOf adds up the rows of a file of a report, of which there must be so many.
func sumOf(r *io.SectionReader, shape *analytics.Shape, want int64) (analytics.Sum, error) {
	add, sum := shape.Sum()
	err := scan(r, shape, want, func(row analytics.Record, _ error) bool {
		add(row)
		return true
	})
	return *sum, err
}

// nodes make the columns of each kind.
var nodes = [...]func(name string) schema.Node{
	analytics.Text: text, analytics.Truth: truth, analytics.Count: integer,
}

// rowsSchema is the columns of a file of rows.
func rowsSchema(s *analytics.Shape) *schema.GroupNode {
	var own schema.FieldList
	for _, c := range s.Columns {
		own = append(own, nodes[c.Kind](c.Name))
	}
	return group(keyColumns(), own, readingColumns())
}

// rowGroup holds the columns of the report for the rows of one group.
type rowGroup struct {
	texts       []texts
	truths      [][]bool
	counts      [][]int64
	rows, bytes int
}

// texts is a column of texts, one after the other, and where each of them ends.
type texts struct {
	data []byte
	ends []int
}

// newGroup returns an empty group for rows with such fields.
func newGroup(f analytics.Fields) *rowGroup {
	return &rowGroup{texts: make([]texts, len(f.Texts)), truths: make([][]bool, len(f.Truths)),
		counts: make([][]int64, len(f.Counts))}
}

func (g *rowGroup) clear() {
	g.rows, g.bytes = 0, 0
	for i := range g.texts {
		g.texts[i].data, g.texts[i].ends = g.texts[i].data[:0], g.texts[i].ends[:0]
	}
	for i := range g.truths {
		g.truths[i] = g.truths[i][:0]
	}
	for i := range g.counts {
		g.counts[i] = g.counts[i][:0]
	}
}

func (g *rowGroup) add(f analytics.Fields) {
	g.rows++
	for i, text := range f.Texts {
		column := &g.texts[i]
		column.data = append(column.data, *text...)
		column.ends = append(column.ends, len(column.data))
		g.bytes += len(*text)
	}
	for i, truth := range f.Truths {
		g.truths[i] = append(g.truths[i], *truth)
	}
	for i, count := range f.Counts {
		g.counts[i] = append(g.counts[i], *count)
	}
}

// flush writes a row group, if there are rows: the columns of before, its own, and the columns of after.
func (g *rowGroup) flush(w *file.Writer, before, after []fill) error {
	if g.rows == 0 {
		return nil
	}
	all := slices.Clone(before)
	for _, column := range g.texts {
		all = append(all, column.fill)
	}
	for _, column := range g.truths {
		all = append(all, values(column))
	}
	for _, column := range g.counts {
		all = append(all, values(column))
	}
	err := writeGroup(w, g.rows, append(all, after...))
	g.clear()
	return err
}

// columns reads the report's own columns of a row group.
type columns struct {
	texts  []*chunk[parquet.ByteArray]
	truths []*chunk[bool]
	counts []*chunk[int64]
	// all are the same in the order of the file.
	all []interface {
		enter(g *file.RowGroupReader, index int) error
		read(n int) error
	}
}

func newColumns(f analytics.Fields) (c columns) {
	for range f.Texts {
		c.texts = append(c.texts, new(chunk[parquet.ByteArray]))
		c.all = append(c.all, c.texts[len(c.texts)-1])
	}
	for range f.Truths {
		c.truths = append(c.truths, new(chunk[bool]))
		c.all = append(c.all, c.truths[len(c.truths)-1])
	}
	for range f.Counts {
		c.counts = append(c.counts, new(chunk[int64]))
		c.all = append(c.all, c.counts[len(c.counts)-1])
	}
	return c
}

// chunk is a column of a row group, and the values read last.
type chunk[V any] struct {
	reader reader[V]
	values [batchRows]V
}

type reader[V any] interface {
	ReadBatch(n int64, values []V, defLevels, repLevels []int16) (int64, int, error)
	Err() error
}

// enter opens a column of a row group.
func (c *chunk[V]) enter(g *file.RowGroupReader, index int) error {
	in, err := g.Column(index)
	if err != nil {
		return err
	}
	own, ok := in.(reader[V])
	if !ok {
		return fmt.Errorf("column %d is a %T", index, in)
	}
	c.reader = own
	return nil
}

// read reads some rows, at most n and at least one.
func (c *columns) read(n int) (int, error) {
	n, err := c.readPaths(n)
	for _, column := range c.all[1:] {
		if err == nil {
			err = column.read(n)
		}
	}
	return n, err
}

// readPaths reads the paths of some rows, at most n and at least one. They come from one page of the column, so that
// they are copied only once.
func (c *columns) readPaths(n int) (int, error) {
	paths, ok := c.texts[0].reader.(*file.ByteArrayColumnChunkReader)
	if !ok || !paths.HasNext() {
		return 0, errors.Join(c.texts[0].reader.Err(), errors.New("has fewer paths than the footer says"))
	}
	_, n, err := paths.ReadBatchInPage(int64(n), c.texts[0].values[:n], nil, nil)
	if err == nil && n == 0 {
		err = errors.New("page without a value")
	}
	return n, err
}

// read reads n values.
func (c *chunk[V]) read(n int) error {
	_, got, err := c.reader.ReadBatch(int64(n), c.values[:n], nil, nil)
	if err = errors.Join(err, c.reader.Err()); err == nil && got != n {
		err = errors.New("columns differ in length")
	}
	return err
}

// into sets rows to the values read last.
func (c *columns) into(rows []analytics.Record) {
	for j, column := range c.texts {
		for i := range rows {
			rows[i].Texts[j] = string(column.values[i])
		}
	}
	for j, column := range c.truths {
		for i := range rows {
			rows[i].Truths[j] = column.values[i]
		}
	}
	for j, column := range c.counts {
		for i := range rows {
			rows[i].Counts[j] = column.values[i]
		}
	}
}
