package deltalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

const (
	// checkpointEvery is after how many versions a checkpoint is written.
	checkpointEvery = 100
	// groupRows is how many actions are in a row group, which is in memory compressed.
	groupRows = 256 * batchRows
	// batchRows is how many actions are in memory as they are. A page ends with a batch,
	// and so with a row; while batches are small, so are pages, for which zstd does without
	// its history window, 16 MiB of memory.
	batchRows = 64
	pageBytes = 48 << 10
	zstdLevel = 3
)

// checkpointSchema is that of the protocol's version 1, without what this program never
// writes. All is optional, as in the checkpoints of other programs: a row has one action.
func checkpointSchema() *schema.GroupNode {
	return group("schema", parquet.Repetitions.Required,
		optional("txn", text("appId"), long("version"), long("lastUpdated")),
		optional("add", text("path"), texts("partitionValues"), long("size"), long("modificationTime"), flag("dataChange"), text("stats"), texts("tags")),
		optional("remove", text("path"), long("deletionTimestamp"), flag("dataChange"), flag("extendedFileMetadata"), texts("partitionValues"), long("size")),
		optional("metaData", text("id"), text("name"), text("description"), optional("format", text("provider"), texts("options")),
			text("schemaString"), list("partitionColumns"), long("createdTime"), texts("configuration")),
		optional("protocol", integer("minReaderVersion"), integer("minWriterVersion")))
}

func group(name string, repetition parquet.Repetition, fields ...schema.Node) *schema.GroupNode {
	return schema.MustGroup(schema.NewGroupNode(name, repetition, fields, -1))
}

func optional(name string, fields ...schema.Node) schema.Node {
	return group(name, parquet.Repetitions.Optional, fields...)
}

func text(name string) schema.Node { return utf8(name, parquet.Repetitions.Optional) }

func utf8(name string, repetition parquet.Repetition) schema.Node {
	return schema.Must(schema.NewPrimitiveNodeLogical(name, repetition, schema.StringLogicalType{}, parquet.Types.ByteArray, -1, -1))
}

func long(name string) schema.Node {
	return schema.NewInt64Node(name, parquet.Repetitions.Optional, -1)
}

func integer(name string) schema.Node {
	return schema.NewInt32Node(name, parquet.Repetitions.Optional, -1)
}

func flag(name string) schema.Node {
	return schema.NewBooleanNode(name, parquet.Repetitions.Optional, -1)
}

// texts is a map from strings to strings.
func texts(name string) schema.Node {
	return schema.MustGroup(schema.MapOf(name, utf8("key", parquet.Repetitions.Required), text("value"), parquet.Repetitions.Optional, -1))
}

func list(name string) schema.Node {
	return schema.MustGroup(schema.ListOf(text(name), parquet.Repetitions.Optional, -1))
}

// checkpointIfDue writes a checkpoint of the snapshot at each hundredth version, and at any
// other one if the last is that far back. Two programs that write one at once write the
// same. A failure, or a crash anywhere in it, leaves the former checkpoint in use.
func (t *Table) checkpointIfDue(ctx context.Context) {
	s := t.snap
	overdue := func() bool { return s.version-max(0, s.checkpoint) >= checkpointEvery }
	due := s.version > 0 && s.version%checkpointEvery == 0
	if !due && overdue() { // unless another program has written one
		s.checkpoint = max(s.checkpoint, min(s.version, t.hint(ctx)))
		due = overdue()
	}
	if !due {
		return
	}
	err := t.writeCheckpoint(ctx)
	if err == nil {
		s.checkpoint = s.version
	} else {
		err = fmt.Errorf("%s: checkpoint of version %d: %w", t.describe(), s.version, err)
	}
	if t.cfg.Checkpointed != nil {
		t.cfg.Checkpointed(s.version, err)
	}
}

func (t *Table) writeCheckpoint(ctx context.Context) error {
	t.snap.forget(t.cfg.Now())
	last := lastCheckpoint{Version: t.snap.version, NumOfAddFiles: int64(len(t.snap.files))}
	err := t.publish(ctx, fmt.Sprintf("%020d.checkpoint.parquet", last.Version), func(f *os.File) (err error) {
		if last.Size, err = encodeCheckpoint(f, t.snap.actions()); err != nil {
			return err
		}
		info, err := f.Stat()
		if err == nil {
			last.SizeInBytes = info.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	// It is only a hint where to look, so it may point to an older checkpoint.
	return t.publish(ctx, hintName, func(f *os.File) error { return json.NewEncoder(f).Encode(last) })
}

// publish has write fill a file, and puts it, whole and durable, in the place of the former
// one of this name in the log.
func (t *Table) publish(ctx context.Context, base string, write func(*os.File) error) error {
	f, err := os.OpenFile(t.cfg.Files.StagingFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // a published one is no longer there, or not needed
	if err = write(f); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	return t.cfg.Files.Publish(ctx, f.Name(), t.name(base))
}

// encodeCheckpoint writes a checkpoint of one or more actions and returns their number.
func encodeCheckpoint(out io.Writer, actions iter.Seq[action]) (n int64, err error) {
	defer caught(&err)
	// The Parquet library would close a file, which is still to be flushed.
	w, err := file.NewParquetWriterWithError(struct{ io.Writer }{out}, checkpointSchema(), file.WithWriterProps(parquet.NewWriterProperties(
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
	var leaves []*leaf
	for i := range w.Schema.NumColumns() {
		leaves = append(leaves, newLeaf(w.Schema.Column(i)))
	}
	var rows file.BufferedRowGroupWriter
	for a := range actions {
		if n%groupRows == 0 { // this closes the former one
			if rows, err = w.AppendBufferedRowGroupChecked(); err != nil {
				return n, err
			}
		}
		kind, values := a.row()
		for _, l := range leaves {
			l.put(kind, values[l.field])
		}
		if n++; n%batchRows == 0 {
			if err := flush(rows, leaves); err != nil {
				return n, err
			}
		}
	}
	if err := flush(rows, leaves); err != nil {
		return n, err
	}
	return n, w.Close()
}

// row returns the kind of an action in a checkpoint, and its fields by their names.
func (a action) row() (kind string, values map[string]any) {
	none := map[string]string{}
	switch {
	case a.Add != nil:
		return "add", map[string]any{
			"add.path": a.Add.Path, "add.partitionValues": none, "add.size": a.Add.Size, "add.modificationTime": a.Add.ModificationTime,
			"add.dataChange": false, "add.stats": orNil(a.Add.Stats), "add.tags": a.Add.Tags,
		}
	case a.Remove != nil:
		return "remove", map[string]any{
			"remove.path": a.Remove.Path, "remove.deletionTimestamp": a.Remove.DeletionTimestamp, "remove.dataChange": false,
			"remove.extendedFileMetadata": true, "remove.partitionValues": none, "remove.size": a.Remove.Size,
		}
	case a.Txn != nil:
		return "txn", map[string]any{"txn.appId": a.Txn.AppID, "txn.version": a.Txn.Version, "txn.lastUpdated": orNil(a.Txn.LastUpdated)}
	case a.MetaData != nil:
		m := a.MetaData
		return "metaData", map[string]any{
			"metaData.id": m.ID, "metaData.name": orNil(m.Name), "metaData.description": orNil(m.Description),
			"metaData.format.provider": m.Format.Provider, "metaData.format.options": m.Format.Options,
			"metaData.schemaString": m.SchemaString, "metaData.partitionColumns": m.PartitionColumns,
			"metaData.createdTime": orNil(m.CreatedTime), "metaData.configuration": m.Configuration,
		}
	default:
		return "protocol", map[string]any{"protocol.minReaderVersion": a.Protocol.MinReaderVersion, "protocol.minWriterVersion": a.Protocol.MinWriterVersion}
	}
}

// orNil returns nil for what is absent.
func orNil[T comparable](v T) any {
	var zero T
	if v == zero {
		return nil
	}
	return v
}

// leaf collects the values of one column of a row group, with Parquet's levels: how much of
// the path to a value is there, and whether a value continues its row.
type leaf struct {
	kind     string // of the actions that have the field
	field    string
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

func newLeaf(c *schema.Column) *leaf {
	names := c.ColumnPath()
	l := &leaf{kind: names[0], values: c.Name() == "value", most: c.MaxDefinitionLevel(), repeated: c.MaxRepetitionLevel() > 0}
	if l.repeated {
		names = names[:len(names)-2] // without key_value.key, key_value.value or list.element
	}
	l.field, l.absent = strings.Join(names, "."), int16(len(names)-1)
	return l
}

// put appends the value of one row, an action of this kind.
func (l *leaf) put(kind string, v any) {
	if kind != l.kind {
		l.level(0, 0)
		return
	}
	switch v := v.(type) {
	case nil:
		l.level(l.absent, 0)
	case string:
		l.texts = append(l.texts, parquet.ByteArray(v))
		l.level(l.most, 0)
	case int64:
		l.longs = append(l.longs, v)
		l.level(l.most, 0)
	case int32:
		l.ints = append(l.ints, v)
		l.level(l.most, 0)
	case bool:
		l.flags = append(l.flags, v)
		l.level(l.most, 0)
	case []string:
		l.all(v)
	case map[string]string:
		keys := slices.Sorted(maps.Keys(v))
		if l.values {
			for i, key := range keys {
				keys[i] = v[key]
			}
		}
		l.all(keys)
	default:
		panic(fmt.Sprintf("deltalog: %T in %s", v, l.field))
	}
}

// all appends the values of a map or list.
func (l *leaf) all(values []string) {
	if len(values) == 0 {
		l.level(l.absent+1, 0)
	}
	for i, v := range values {
		l.texts = append(l.texts, parquet.ByteArray(v))
		l.level(l.most, int16(min(i, 1)))
	}
}

func (l *leaf) level(def, rep int16) {
	l.def = append(l.def, def)
	if l.repeated {
		l.rep = append(l.rep, rep)
	}
}

// flush writes what the leaves have to a row group, and empties them.
func flush(rows file.BufferedRowGroupWriter, leaves []*leaf) error {
	for i, l := range leaves {
		column, err := rows.Column(i)
		if err != nil {
			return err
		}
		switch cw := column.(type) {
		case *file.ByteArrayColumnChunkWriter:
			_, err = cw.WriteBatch(l.texts, l.def, l.rep)
		case *file.Int64ColumnChunkWriter:
			_, err = cw.WriteBatch(l.longs, l.def, l.rep)
		case *file.Int32ColumnChunkWriter:
			_, err = cw.WriteBatch(l.ints, l.def, l.rep)
		case *file.BooleanColumnChunkWriter:
			_, err = cw.WriteBatch(l.flags, l.def, l.rep)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", l.field, err)
		}
		l.def, l.rep, l.texts, l.longs, l.ints, l.flags = l.def[:0], l.rep[:0], l.texts[:0], l.longs[:0], l.ints[:0], l.flags[:0]
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
