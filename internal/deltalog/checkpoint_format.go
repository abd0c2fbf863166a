package deltalog

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/array/arreflect"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
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
	// readRows is the number of actions that are read at once.
	readRows = 1024
	// footerEnd is the size of the footer's length and the magic that end a file.
	footerEnd = 8
)

// checkpointType is that of the protocol's version 1 without what this program neither writes nor
// reads. All columns are optional, as in the checkpoints of other programs: a row has one action.
var checkpointType = func() *arrow.StructType {
	inferred, err := arreflect.InferType[action]()
	if err != nil {
		panic(err) // a field of an action has no column
	}
	return optional(inferred).(*arrow.StructType)
}()

// optional returns t with all of its fields optional.
func optional(t arrow.DataType) arrow.DataType {
	group, ok := t.(*arrow.StructType)
	if !ok {
		return t
	}
	fields := slices.Clone(group.Fields())
	for i, f := range fields {
		fields[i].Type, fields[i].Nullable = optional(f.Type), true
	}
	return arrow.StructOf(fields...)
}

// put appends v to its column as to JSON: what may be omitted there is null here.
func put(column array.Builder, v reflect.Value) {
	switch column := column.(type) {
	case *array.StructBuilder:
		column.Append(true)
		v = reflect.Indirect(v)
		for i := range column.NumField() {
			field, tag := v.Field(i), v.Type().Field(i).Tag.Get("json")
			if field.IsZero() && strings.HasSuffix(tag, ",omitempty") {
				column.FieldBuilder(i).AppendNull()
			} else {
				put(column.FieldBuilder(i), field)
			}
		}
	case *array.ListBuilder:
		column.Append(true)
		for i := range v.Len() {
			put(column.ValueBuilder(), v.Index(i))
		}
	case *array.MapBuilder:
		column.Append(true)
		m := v.Interface().(map[string]string)
		for _, key := range slices.Sorted(maps.Keys(m)) {
			put(column.KeyBuilder(), reflect.ValueOf(key))
			put(column.ItemBuilder(), reflect.ValueOf(m[key]))
		}
	case *array.StringBuilder:
		column.Append(v.String())
	case *array.Int64Builder:
		column.Append(v.Int())
	case *array.Int32Builder:
		column.Append(int32(v.Int()))
	case *array.BooleanBuilder:
		column.Append(v.Bool())
	}
}

// encodeCheckpoint writes a checkpoint of one or more actions and returns their number.
func encodeCheckpoint(out io.Writer, actions iter.Seq[action]) (n int64, err error) {
	defer caught(&err)
	schema := arrow.NewSchema(checkpointType.Fields(), nil)
	// The Parquet library would close a file, which is still to be flushed.
	w, err := pqarrow.NewFileWriter(schema, struct{ io.Writer }{out}, parquet.NewWriterProperties(
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(zstdLevel),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDataPageSize(pageBytes),
		parquet.WithBatchSize(1<<16), // in levels, more than our batches have: pages end with them, not within
		parquet.WithMaxRowGroupLength(groupRows),
		parquet.WithDictionaryDefault(false),
	), pqarrow.DefaultWriterProps())
	if err != nil {
		return 0, err
	}
	rows := array.NewStructBuilder(memory.DefaultAllocator, checkpointType)
	flush := func() error {
		return w.WriteBuffered(array.RecordFromStructArray(rows.NewStructArray(), schema))
	}
	for a := range actions {
		put(rows, reflect.ValueOf(a))
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
	var known []int
	schema := r.MetaData().Schema
	for i := range schema.NumColumns() {
		path := strings.Split(schema.Column(i).Path(), ".")
		f, ok := checkpointType.FieldByName(path[0])
		if !ok || len(path) == 1 {
			continue
		}
		if _, ok := f.Type.(*arrow.StructType).FieldIdx(path[1]); ok {
			known = append(known, i)
		}
	}
	// The Parquet library opens these in goroutines, where a panic would end the program.
	for i := range min(1, r.NumRowGroups()) {
		for _, column := range known {
			pages, err := r.RowGroup(i).GetColumnPageReader(column)
			if err != nil {
				return err
			}
			if err := pages.Close(); err != nil {
				return err
			}
		}
	}
	arrows, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{BatchSize: readRows}, memory.DefaultAllocator)
	if err != nil {
		return err
	}
	batches, err := arrows.GetRecordReader(context.Background(), known, nil)
	if err != nil {
		return err
	}
	rows := int64(0)
	for batches.Next() {
		for _, column := range batches.RecordBatch().Columns() {
			if err := complete(column.Data()); err != nil {
				return err
			}
		}
		actions, err := arreflect.RecordToSlice[action](batches.RecordBatch())
		if err != nil {
			return err
		}
		for _, a := range actions {
			switch {
			case a.Add != nil && a.Add.Path != "":
				yield(action{Add: a.Add})
			case a.Remove != nil && a.Remove.Path != "":
				yield(action{Remove: a.Remove})
			case a.Txn != nil && a.Txn.AppID != "":
				yield(action{Txn: a.Txn})
			case a.MetaData != nil && a.MetaData.ID != "":
				yield(action{MetaData: a.MetaData})
			case a.Protocol != nil && a.Protocol.MinReaderVersion != 0:
				yield(action{Protocol: a.Protocol})
			}
		}
		rows += int64(len(actions))
	}
	if err := batches.Err(); err != nil {
		return err
	}
	if rows != r.NumRows() {
		return fmt.Errorf("%d rows, but the footer says %d", rows, r.NumRows())
	}
	return nil
}

// complete returns an error if a field of a group has other than one value for each of the group.
func complete(values arrow.ArrayData) error {
	for i, column := range values.Children() {
		if values.DataType().ID() == arrow.STRUCT && column.Len() != values.Len() {
			return fmt.Errorf("field %d of %s has %d values, want %d", i, values.DataType(), column.Len(), values.Len())
		}
		if err := complete(column); err != nil {
			return err
		}
	}
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
