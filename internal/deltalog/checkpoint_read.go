package deltalog

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

const (
	// batchLevels is how many levels, and the values to them, come from a column at once.
	batchLevels = 512
	// footerEnd is the size of the footer's length and the magic that end a file.
	footerEnd = 8
)

// readCheckpoint reads the parts of a checkpoint. Removals are given to remove, all other
// actions to set. The error is ErrDamaged if it is not one whole checkpoint.
func (t *Table) readCheckpoint(ctx context.Context, parts []string, set func(action), remove func(*remove)) error {
	protocols, metas := 0, 0
	for _, name := range parts {
		f, err := t.cfg.Files.OpenWhole(ctx, name)
		if err != nil {
			return err
		}
		in := &source{File: f}
		err = decodeCheckpoint(io.NewSectionReader(in, 0, f.Size()), func(a action) {
			switch {
			case a.Remove != nil:
				remove(a.Remove)
				return
			case a.Protocol != nil:
				protocols++
			case a.MetaData != nil:
				metas++
			}
			set(a)
		})
		_ = f.Close() // it was only read
		switch {
		case in.err != nil:
			return fmt.Errorf("%s: %w", t.cfg.Files.Describe(name), in.err)
		case err != nil:
			return fmt.Errorf("%s: %w: %w", t.cfg.Files.Describe(name), ErrDamaged, err)
		}
	}
	if protocols != 1 || metas != 1 {
		return fmt.Errorf("%s: %w: %d protocols and %d metaData, want one of each", t.cfg.Files.Describe(parts[0]), ErrDamaged, protocols, metas)
	}
	return nil
}

// decodeCheckpoint yields the actions of a checkpoint, of any program: it takes the columns
// it knows, whatever else there is.
func decodeCheckpoint(in *io.SectionReader, yield func(action)) (err error) {
	defer caught(&err)
	var end [4]byte
	if _, err := in.ReadAt(end[:], in.Size()-footerEnd); err != nil {
		return fmt.Errorf("no Parquet file, %d bytes: %w", in.Size(), err)
	}
	if length := int64(binary.LittleEndian.Uint32(end[:])); length > in.Size()-footerEnd {
		return fmt.Errorf("a footer of %d bytes in a file of %d", length, in.Size())
	}
	props := parquet.NewReaderProperties(memory.DefaultAllocator)
	props.BufferedStreamEnabled = true
	r, err := file.NewParquetReader(in, file.WithReadProps(props))
	if err != nil {
		return err
	}
	for i := range r.NumRowGroups() {
		if err := decodeGroup(r.RowGroup(i), r.MetaData().Schema, yield); err != nil {
			return fmt.Errorf("row group %d: %w", i, err)
		}
	}
	return nil
}

func decodeGroup(rows *file.RowGroupReader, s *schema.Schema, yield func(action)) error {
	c := columns{rows: rows, schema: s}
	next := c.actions()
	if c.err != nil {
		return c.err
	}
	for range rows.NumRows() {
		a := next()
		if c.err != nil {
			return c.err
		}
		if a != (action{}) {
			yield(a)
		}
	}
	return nil
}

// columns is the columns of a row group, and the first error in reading them.
type columns struct {
	rows   *file.RowGroupReader
	schema *schema.Schema
	err    error
}

// actions opens the columns and returns a function that reads one row of each.
func (c *columns) actions() func() action {
	var (
		addPath, addSize, addTime, addStats, addTags = c.text("add.path"), c.long("add.size"), c.long("add.modificationTime"), c.text("add.stats"), c.texts("add.tags")

		removePath, removeTime, removeSize = c.text("remove.path"), c.long("remove.deletionTimestamp"), c.long("remove.size")

		appID, txnVersion, txnTime = c.text("txn.appId"), c.long("txn.version"), c.long("txn.lastUpdated")

		reader, writer                 = c.integer("protocol.minReaderVersion"), c.integer("protocol.minWriterVersion")
		readerFeatures, writerFeatures = c.list("protocol.readerFeatures"), c.list("protocol.writerFeatures")

		id, name, description, schemaString = c.text("metaData.id"), c.text("metaData.name"), c.text("metaData.description"), c.text("metaData.schemaString")
		provider, options                   = c.text("metaData.format.provider"), c.texts("metaData.format.options")
		partitions, created, configuration  = c.list("metaData.partitionColumns"), c.long("metaData.createdTime"), c.texts("metaData.configuration")
	)
	return func() (a action) {
		// Every column is read in every row, so that all stay in step.
		added := add{Path: addPath(), Size: addSize(), ModificationTime: addTime(), Stats: addStats(), Tags: addTags()}
		removed := remove{Path: removePath(), DeletionTimestamp: removeTime(), Size: removeSize()}
		transaction := txn{AppID: appID(), Version: txnVersion(), LastUpdated: txnTime()}
		needs := protocol{MinReaderVersion: reader(), MinWriterVersion: writer(), ReaderFeatures: readerFeatures(), WriterFeatures: writerFeatures()}
		meta := metaData{
			ID: id(), Name: name(), Description: description(), SchemaString: schemaString(),
			Format: format{Provider: provider(), Options: options()}, PartitionColumns: partitions(), CreatedTime: created(), Configuration: configuration(),
		}
		switch {
		case added.Path != "":
			a.Add = &added
		case removed.Path != "":
			a.Remove = &removed
		case transaction.AppID != "":
			a.Txn = &transaction
		case meta.ID != "":
			a.MetaData = &meta
		case needs.MinReaderVersion != 0:
			a.Protocol = &needs
		}
		return a
	}
}

func (c *columns) text(field string) func() string {
	all := open(c, field, 0, 1, parquet.ByteArray.String)
	return func() string { return one(all()) }
}

func (c *columns) long(field string) func() int64 {
	all := open(c, field, 0, 1, func(v int64) int64 { return v })
	return func() int64 { return one(all()) }
}

func (c *columns) integer(field string) func() int32 {
	all := open(c, field, 0, 1, func(v int32) int32 { return v })
	return func() int32 { return one(all()) }
}

// one returns the value of a field, the zero value if there is none.
func one[T any](values []T) (v T) {
	if len(values) > 0 {
		v = values[0]
	}
	return v
}

func (c *columns) list(field string) func() []string {
	all := open(c, field, 0, 1, parquet.ByteArray.String)
	return func() []string { return append([]string(nil), all()...) }
}

func (c *columns) texts(field string) func() map[string]string {
	keys, values := open(c, field, 0, 2, parquet.ByteArray.String), open(c, field, 1, 2, parquet.ByteArray.String)
	return func() map[string]string {
		k, v := keys(), values()
		if len(k) != len(v) && c.err == nil {
			c.err = fmt.Errorf("%s: %d keys and %d values", field, len(k), len(v))
		}
		if len(k) == 0 || c.err != nil {
			return nil
		}
		m := make(map[string]string, len(k))
		for i := range k {
			m[k[i]] = v[i]
		}
		return m
	}
}

// open opens the index-th of the leaves of a field, which must be as many as this, and
// returns a function that reads the values of one row, valid until its next call. A field
// that is not in the file has no values.
func open[P, T any](c *columns, field string, index, leaves int, convert func(P) T) func() []T {
	var found []int
	for i, column := range c.schema.Columns() {
		if path := column.Path(); path == field || strings.HasPrefix(path, field+".") {
			found = append(found, i)
		}
	}
	if len(found) == 0 || c.err != nil {
		return func() []T { return nil }
	}
	if len(found) != leaves {
		c.err = fmt.Errorf("%s has %d columns, want %d", field, len(found), leaves)
		return func() []T { return nil }
	}
	chunk, err := c.rows.Column(found[index])
	values, ok := chunk.(batches[P])
	if !ok && err == nil {
		err = fmt.Errorf("%s has values of type %s", field, c.schema.Column(found[index]).PhysicalType())
	}
	if err != nil {
		c.err = err
		return func() []T { return nil }
	}
	col := &column[P]{
		from: values, err: &c.err, most: c.schema.Column(found[index]).MaxDefinitionLevel(),
		entry: entryLevel(c.schema.Column(found[index])), repeats: c.schema.Column(found[index]).MaxRepetitionLevel() > 0,
	}
	var row []T
	return func() []T {
		row = row[:0]
		for there, v := range col.row {
			var value T
			if there {
				value = convert(v)
			}
			row = append(row, value)
		}
		return row
	}
}

// entryLevel is the definition level from which on a column has an entry: a value, or in a
// map or list a null.
func entryLevel(c *schema.Column) int16 {
	level := c.MaxDefinitionLevel()
	if c.MaxRepetitionLevel() == 0 {
		return level
	}
	for n := c.SchemaNode(); n != nil && n.RepetitionType() != parquet.Repetitions.Repeated; n = n.Parent() {
		if n.RepetitionType() == parquet.Repetitions.Optional {
			level--
		}
	}
	return level
}

// batches is what the Parquet library offers for columns of one type.
type batches[P any] interface {
	ReadBatch(levels int64, values []P, def, rep []int16) (int64, int, error)
	Err() error
}

// column reads a column row by row.
type column[P any] struct {
	from        batches[P]
	err         *error
	most, entry int16
	repeats     bool

	values   [batchLevels]P
	def, rep [batchLevels]int16
	at, n    int // the next level, and how many there are
	value    int // the next value
}

// row yields the entries of a row: whether there is a value, and the value.
func (c *column[P]) row(yield func(bool, P) bool) {
	for first := true; *c.err == nil; first = false {
		if c.at == c.n && !c.fill() {
			if first && *c.err == nil {
				*c.err = errors.New("a column has fewer rows than the footer says")
			}
			return
		}
		if !first && (!c.repeats || c.rep[c.at] == 0) {
			return // the next row
		}
		def := c.def[c.at]
		c.at++
		var v P
		if def == c.most {
			if c.value == len(c.values) {
				*c.err = errors.New("a column has fewer values than levels")
				return
			}
			v = c.values[c.value]
			c.value++
		}
		if def >= c.entry && !yield(def == c.most, v) {
			return
		}
	}
}

// fill reads the next batch; false at the end and after an error.
func (c *column[P]) fill() bool {
	n, _, err := c.from.ReadBatch(batchLevels, c.values[:], c.def[:], c.rep[:])
	if err == nil {
		err = c.from.Err()
	}
	if err != nil {
		*c.err = err
	}
	c.at, c.n, c.value = 0, int(n), 0
	return n > 0 && err == nil
}
