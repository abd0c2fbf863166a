package deltalog

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

const (
	// groupRows is the number of actions in a row group, which is in memory compressed.
	groupRows = 256 * batchRows
	// batchRows is the number of actions that are in memory uncompressed. A page ends with a batch,
	// and so with a row; while batches are small, so are pages, for which zstd does without
	// its history window, 16 MiB of memory.
	batchRows = 64
	pageBytes = 48 << 10
	zstdLevel = 3
	// batchLevels is the number of levels, with their values, that are read from a column at once.
	batchLevels = 512
	// footerEnd is the size of the footer's length and the magic that end a file.
	footerEnd = 8
)

// checkpointField is a field of an action in a checkpoint: a column, or two for a map.
type checkpointField struct {
	index    []int // of the field in type action
	kind     reflect.Type
	optional bool // the zero value is null
}

// checkpointFields are named by their paths in checkpointSchema, which is the schema of the protocol's version 1
// without what this program neither writes nor reads. All columns are optional, as in the checkpoints of other
// programs: a row has one action.
var (
	checkpointFields = map[string]checkpointField{}
	checkpointSchema = func() *schema.GroupNode {
		columns := groupOf("schema", parquet.Repetitions.Required, reflect.TypeFor[action](), "", nil)
		// Nodes of a schema store their paths when they are first asked for them, as here: later
		// checkpoints, which several goroutines write, then only read them.
		schema.NewSchema(columns)
		return columns
	}()
)

// groupOf returns the schema of a struct, and enters its fields in checkpointFields.
func groupOf(name string, repetition parquet.Repetition, t reflect.Type, path string, index []int) *schema.GroupNode {
	optional := parquet.Repetitions.Optional
	text := func(name string, repetition parquet.Repetition) schema.Node {
		return schema.Must(schema.NewPrimitiveNodeLogical(name, repetition, schema.StringLogicalType{},
			parquet.Types.ByteArray, -1, -1))
	}
	var nodes schema.FieldList
	for i := range t.NumField() {
		kind := t.Field(i).Type
		name, options, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		at := append(slices.Clone(index), i)
		if kind == reflect.TypeFor[*commitInfo]() {
			continue // is in no checkpoint
		}
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct {
			nodes = append(nodes, groupOf(name, optional, kind, path+name+".", at))
			continue
		}
		checkpointFields[path+name] = checkpointField{at, kind, options == "omitempty"}
		switch kind.Kind() {
		case reflect.String:
			nodes = append(nodes, text(name, optional))
		case reflect.Int64:
			nodes = append(nodes, schema.NewInt64Node(name, optional, -1))
		case reflect.Int32:
			nodes = append(nodes, schema.NewInt32Node(name, optional, -1))
		case reflect.Bool:
			nodes = append(nodes, schema.NewBooleanNode(name, optional, -1))
		case reflect.Slice:
			nodes = append(nodes, schema.MustGroup(schema.ListOf(text(name, optional), optional, -1)))
		case reflect.Map:
			key, value := text("key", parquet.Repetitions.Required), text("value", optional)
			nodes = append(nodes, schema.MustGroup(schema.MapOf(name, key, value, optional, -1)))
		default:
			panic("deltalog: no column for " + kind.String())
		}
	}
	return schema.MustGroup(schema.NewGroupNode(name, repetition, nodes, -1))
}

// encodeCheckpoint writes a checkpoint of one or more actions and returns their number.
func encodeCheckpoint(out io.Writer, actions iter.Seq[action]) (n int64, err error) {
	defer caught(&err)
	// The Parquet library would close a file, which is still to be flushed.
	w, err := file.NewParquetWriterWithError(struct{ io.Writer }{out}, checkpointSchema,
		file.WithWriterProps(parquet.NewWriterProperties(
			parquet.WithCompression(compress.Codecs.Zstd),
			parquet.WithCompressionLevel(zstdLevel),
			parquet.WithDataPageVersion(parquet.DataPageV1),
			parquet.WithDataPageSize(pageBytes),
			parquet.WithBatchSize(1<<30), // pages end with our batches, not within
			parquet.WithDictionaryDefault(false),
		)))
	if err != nil {
		return 0, err
	}
	leaves := make([]leaf, w.Schema.NumColumns())
	for i := range leaves {
		leaves[i] = newLeaf(w.Schema.Column(i))
	}
	var rows file.BufferedRowGroupWriter
	flush := func() error {
		for i := range leaves {
			column, err := rows.Column(i)
			if err == nil {
				err = leaves[i].flush(column)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	for a := range actions {
		if n%groupRows == 0 { // this closes the former one
			if rows, err = w.AppendBufferedRowGroupChecked(); err != nil {
				return n, err
			}
		}
		row := reflect.ValueOf(a)
		for i := range leaves {
			leaves[i].put(row)
		}
		if n++; n%batchRows == 0 {
			if err := flush(); err != nil {
				return n, err
			}
		}
	}
	if err := flush(); err != nil {
		return n, err
	}
	return n, w.Close()
}

// leaf collects the values of one column of a row group, with Parquet's levels: how much of
// the path to a value is there, and whether a value continues its row.
type leaf struct {
	checkpointField
	values   bool  // of a map; otherwise its keys
	absent   int16 // the definition level of a field that is not there, its parent being there
	most     int16
	repeated bool
	def, rep []int16
	texts    []parquet.ByteArray
	longs    []int64
	ints     []int32
	flags    []bool
}

func newLeaf(c *schema.Column) leaf {
	names := c.ColumnPath()
	l := leaf{values: c.Name() == "value", most: c.MaxDefinitionLevel(), repeated: c.MaxRepetitionLevel() > 0}
	if l.repeated {
		names = names[:len(names)-2] // without key_value.key, key_value.value or list.element
	}
	l.checkpointField, l.absent = checkpointFields[strings.Join(names, ".")], int16(len(names)-1)
	return l
}

// put appends the value of one row.
func (l *leaf) put(row reflect.Value) {
	v := row.Field(l.index[0])
	if v.IsNil() { // another action
		l.level(0, 0)
		return
	}
	if v = v.Elem().FieldByIndex(l.index[1:]); l.optional && v.IsZero() {
		l.level(l.absent, 0)
		return
	}
	var texts []string
	switch l.kind.Kind() {
	case reflect.String:
		l.texts = append(l.texts, parquet.ByteArray(v.String()))
	case reflect.Int64:
		l.longs = append(l.longs, v.Int())
	case reflect.Int32:
		l.ints = append(l.ints, int32(v.Int()))
	case reflect.Bool:
		l.flags = append(l.flags, v.Bool())
	case reflect.Slice:
		texts = v.Interface().([]string)
	case reflect.Map:
		m := v.Interface().(map[string]string)
		texts = slices.Sorted(maps.Keys(m))
		if l.values {
			for i, key := range texts {
				texts[i] = m[key]
			}
		}
	}
	switch {
	case !l.repeated:
		l.level(l.most, 0)
	case len(texts) == 0:
		l.level(l.absent+1, 0)
	}
	for i, text := range texts {
		l.texts = append(l.texts, parquet.ByteArray(text))
		l.level(l.most, int16(min(i, 1)))
	}
}

func (l *leaf) level(def, rep int16) {
	l.def = append(l.def, def)
	if l.repeated {
		l.rep = append(l.rep, rep)
	}
}

// flush writes what the leaf has to its column, and empties it.
func (l *leaf) flush(column file.ColumnChunkWriter) (err error) {
	switch w := column.(type) {
	case *file.ByteArrayColumnChunkWriter:
		_, err = w.WriteBatch(l.texts, l.def, l.rep)
	case *file.Int64ColumnChunkWriter:
		_, err = w.WriteBatch(l.longs, l.def, l.rep)
	case *file.Int32ColumnChunkWriter:
		_, err = w.WriteBatch(l.ints, l.def, l.rep)
	case *file.BooleanColumnChunkWriter:
		_, err = w.WriteBatch(l.flags, l.def, l.rep)
	}
	l.def, l.rep, l.texts, l.longs, l.ints, l.flags = l.def[:0], l.rep[:0], l.texts[:0], l.longs[:0], l.ints[:0],
		l.flags[:0]
	return err
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
		c := columns{rows: r.RowGroup(i), schema: r.MetaData().Schema}
		if c.read(yield); c.err != nil {
			return fmt.Errorf("row group %d: %w", i, c.err)
		}
	}
	return nil
}

// columns are the columns of a row group, and the first error in reading them.
type columns struct {
	rows   *file.RowGroupReader
	schema *schema.Schema
	err    error
}

// read yields the actions of a row group. Every column is read in every row, so that all stay
// in step.
func (c *columns) read(yield func(action)) {
	type reader struct {
		index []int
		read  func(reflect.Value)
	}
	var readers []reader
	for path, field := range checkpointFields {
		if read := c.open(path, field.kind); read != nil {
			readers = append(readers, reader{field.index, read})
		}
	}
	row := action{
		Protocol: new(protocol), MetaData: new(metaData), Txn: new(txn), Remove: new(remove), Add: new(add),
	}
	v := reflect.ValueOf(&row).Elem()
	for n := int64(0); n < c.rows.NumRows() && c.err == nil; n++ {
		for _, r := range readers {
			r.read(v.FieldByIndex(r.index))
		}
		switch {
		case c.err != nil:
		case row.Add.Path != "":
			yield(action{Add: row.Add})
			row.Add = new(add)
		case row.Remove.Path != "":
			yield(action{Remove: row.Remove})
			row.Remove = new(remove)
		case row.Txn.AppID != "":
			yield(action{Txn: row.Txn})
			row.Txn = new(txn)
		case row.MetaData.ID != "":
			yield(action{MetaData: row.MetaData})
			row.MetaData = new(metaData)
		case row.Protocol.MinReaderVersion != 0:
			yield(action{Protocol: row.Protocol})
			row.Protocol = new(protocol)
		}
	}
}

// open returns a function that reads a field of the next row; nil for one that is not used.
func (c *columns) open(path string, kind reflect.Type) func(reflect.Value) {
	switch kind.Kind() {
	case reflect.String:
		entries := entriesOf(c, path, 0, 1, parquet.ByteArray.String)
		return func(v reflect.Value) { v.SetString(last(entries)) }
	case reflect.Int64:
		entries := entriesOf(c, path, 0, 1, func(n int64) int64 { return n })
		return func(v reflect.Value) { v.SetInt(last(entries)) }
	case reflect.Int32:
		entries := entriesOf(c, path, 0, 1, func(n int32) int64 { return int64(n) })
		return func(v reflect.Value) { v.SetInt(last(entries)) }
	case reflect.Slice:
		entries := entriesOf(c, path, 0, 1, parquet.ByteArray.String)
		return func(v reflect.Value) {
			v.SetZero()
			for text := range entries {
				v.Set(reflect.Append(v, reflect.ValueOf(text)))
			}
		}
	case reflect.Map:
		keys := entriesOf(c, path, 0, 2, parquet.ByteArray.String)
		values := entriesOf(c, path, 1, 2, parquet.ByteArray.String)
		var names, texts []string
		return func(v reflect.Value) {
			names, texts = slices.AppendSeq(names[:0], keys), slices.AppendSeq(texts[:0], values)
			if len(names) != len(texts) && c.err == nil {
				c.err = fmt.Errorf("%s: %d keys and %d values", path, len(names), len(texts))
			}
			v.SetZero()
			if len(names) == 0 || c.err != nil {
				return
			}
			m := make(map[string]string, len(names))
			for i, name := range names {
				m[name] = texts[i]
			}
			v.Set(reflect.ValueOf(m))
		}
	}
	return nil
}

// last returns the only value of a sequence, or the zero value for an empty one.
func last[T any](values iter.Seq[T]) (value T) {
	for v := range values {
		value = v
	}
	return value
}

// entriesOf opens the index-th of the leaves of a field, which must be as many as this, and
// returns a function that yields the entries of the next row: a value, or the zero value for
// null. A field that is not in the file has no entries.
func entriesOf[P, T any](c *columns, field string, index, leaves int, convert func(P) T) iter.Seq[T] {
	none := func(func(T) bool) {}
	var found []int
	for i := range c.schema.NumColumns() {
		if path := c.schema.Column(i).Path(); path == field || strings.HasPrefix(path, field+".") {
			found = append(found, i)
		}
	}
	if len(found) == 0 || c.err != nil {
		return none
	}
	if len(found) != leaves {
		c.err = fmt.Errorf("%s has %d columns, want %d", field, len(found), leaves)
		return none
	}
	column := c.schema.Column(found[index])
	chunk, err := c.rows.Column(found[index])
	from, reads := chunk.(batches[P])
	if err == nil && !reads {
		err = fmt.Errorf("%s has values of type %s", field, column.PhysicalType())
	}
	if err != nil {
		c.err = err
		return none
	}
	// most is the definition level of a value, entry that from which on there is an entry.
	most, repeats := column.MaxDefinitionLevel(), column.MaxRepetitionLevel() > 0
	entry := most
	for n := column.SchemaNode(); repeats && n != nil &&
		n.RepetitionType() != parquet.Repetitions.Repeated; n = n.Parent() {
		if n.RepetitionType() == parquet.Repetitions.Optional {
			entry--
		}
	}
	var (
		values   = make([]P, batchLevels)
		def, rep [batchLevels]int16
		at, n    int // the next level, and how many there are
		value    int // the next value
	)
	return func(yield func(T) bool) {
		for first := true; c.err == nil; first = false {
			if at == n {
				read, _, err := from.ReadBatch(batchLevels, values, def[:], rep[:])
				at, n, value = 0, int(read), 0
				if err = cmp.Or(err, from.Err()); err != nil {
					c.err = err
				} else if n == 0 && first {
					c.err = errors.New("a column has fewer rows than the footer says")
				}
				if n == 0 || c.err != nil {
					return
				}
			}
			if !first && (!repeats || rep[at] == 0) {
				return // the next row
			}
			level := def[at]
			at++
			var v T
			if level == most {
				if value == len(values) {
					c.err = errors.New("a column has fewer values than levels")
					return
				}
				v = convert(values[value])
				value++
			}
			if level >= entry && !yield(v) {
				return
			}
		}
	}
}

// batches is the interface of the Parquet library's readers for columns of one type.
type batches[P any] interface {
	ReadBatch(levels int64, values []P, def, rep []int16) (int64, int, error)
	Err() error
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
