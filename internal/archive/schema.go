package archive

import (
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/schema"
)

const (
	// createdBy has the form that Parquet readers parse before they trust a
	// writer's statistics.
	createdBy = "docgauge version 1.1.0 (build arrow-go 18.8.0)"
	// createdByFormer is in files that have no checksums.
	createdByFormer = "docgauge version 1.0.0 (build arrow-go 18.8.0)"
	zstdLevel       = 3
	// A page closes at pageBytes, seen every writeBatch values. Pages that end
	// below 128 KiB let zstd do without its history window, 10 MiB of memory.
	pageBytes  = 112 << 10
	writeBatch = 256
)

// The columns of SPEC 6, in its order. A schema is made for each file: its nodes
// note their paths when they are first asked for them, and files are written at
// the same time.

func visitorsSchema() *schema.GroupNode {
	return group(keyColumns(), schema.FieldList{text("path")}, numbers(), readColumns())
}

func totalsSchema() *schema.GroupNode {
	return group(keyColumns(), numbers(), readColumns(), schema.FieldList{integer("page_count")})
}

func keyColumns() schema.FieldList {
	return schema.FieldList{text("project"), text("granularity"), date("window_start"), date("window_end")}
}

func numbers() schema.FieldList {
	return schema.FieldList{integer("human"), integer("ai"), integer("total")}
}

func readColumns() schema.FieldList {
	return schema.FieldList{
		schema.NewInt32Node("revision", parquet.Repetitions.Required, -1),
		schema.NewBooleanNode("settled", parquet.Repetitions.Required, -1),
		schema.NewBooleanNode("verified", parquet.Repetitions.Required, -1),
		column("exported_at", schema.NewTimestampLogicalType(true, schema.TimeUnitMicros), parquet.Types.Int64),
	}
}

// Places of the columns that are read back from a visitors file.
const (
	pathIndex  = 4
	humanIndex = 5
	aiIndex    = 6
	totalIndex = 7
)

// Places of the counts of a totals file: human, ai, total, page_count.
var totalsIndexes = [...]int{4, 5, 6, 11}

func text(name string) schema.Node {
	return column(name, schema.StringLogicalType{}, parquet.Types.ByteArray)
}

func date(name string) schema.Node {
	return column(name, schema.DateLogicalType{}, parquet.Types.Int32)
}

func integer(name string) schema.Node {
	return schema.NewInt64Node(name, parquet.Repetitions.Required, -1)
}

func column(name string, logical schema.LogicalType, physical parquet.Type) schema.Node {
	return schema.Must(schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Required, logical, physical, -1, -1))
}

func group(lists ...schema.FieldList) *schema.GroupNode {
	var fields schema.FieldList
	for _, l := range lists {
		fields = append(fields, l...)
	}
	return schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))
}

// properties turns off what some warehouses misread (page index, bloom
// filters). Paths are all different: a dictionary of them is waste.
func properties() *parquet.WriterProperties {
	return parquet.NewWriterProperties(
		parquet.WithCreatedBy(createdBy),
		parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithCompressionLevel(zstdLevel),
		parquet.WithDataPageVersion(parquet.DataPageV1),
		parquet.WithDataPageSize(pageBytes),
		parquet.WithBatchSize(writeBatch),
		parquet.WithStats(true),
		parquet.WithPageIndexEnabled(false),
		parquet.WithBloomFilterEnabled(false),
		parquet.WithDictionaryFor("path", false),
	)
}
