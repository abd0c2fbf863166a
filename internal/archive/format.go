package archive

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	// createdBy has the form that Parquet readers parse before they trust a
	// writer's statistics.
	createdBy = "docgauge version 1.1.0 (build arrow-go 18.8.0)"
	zstdLevel = 3
	// A page closes at pageBytes, which is checked every writeBatch values. Pages
	// below 128 KiB let zstd do without its history window, 10 MiB of memory.
	pageBytes  = 112 << 10
	writeBatch = 256

	keyPrefix     = "docgauge."
	schemaVersion = "1"
	// checksumKey holds the analytics.Checksum of the rows of a visitors or agents file.
	checksumKey = keyPrefix + "checksum"
	// reportKey is there in files of other reports than visitors.
	reportKey = keyPrefix + "report"
	// humansKey is there where the service says by which mode it counts.
	humansKey = keyPrefix + "humans"
	// timeLayout is RFC 3339 in UTC with microseconds.
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// The columns, in their fixed order. Each file gets a separate schema, because
// the nodes of a schema store their paths when they are first asked for them, and
// files are written concurrently.

// totalsSchema is the columns of a totals file.
func totalsSchema() *schema.GroupNode {
	var counts schema.FieldList
	for _, name := range analytics.TotalsNames() {
		counts = append(counts, integer(name))
	}
	return group(keyColumns(), counts, schema.FieldList{text("humans")}, readingColumns(),
		schema.FieldList{integer("page_count")})
}

// pathIndex is the index of the column that follows the key columns. In a file of rows this is path, in a totals
// file the first count.
const pathIndex = 4

func keyColumns() schema.FieldList {
	return schema.FieldList{text("project"), text("granularity"), date("window_start"), date("window_end")}
}

func readingColumns() schema.FieldList {
	return schema.FieldList{
		schema.NewInt32Node("revision", parquet.Repetitions.Required, -1),
		truth("settled"), truth("verified"),
		column("exported_at", schema.NewTimestampLogicalType(true, schema.TimeUnitMicros), parquet.Types.Int64),
	}
}

func text(name string) schema.Node {
	return column(name, schema.StringLogicalType{}, parquet.Types.ByteArray)
}

func date(name string) schema.Node {
	return column(name, schema.DateLogicalType{}, parquet.Types.Int32)
}

func truth(name string) schema.Node {
	return schema.NewBooleanNode(name, parquet.Repetitions.Required, -1)
}

func integer(name string) schema.Node {
	return schema.NewInt64Node(name, parquet.Repetitions.Required, -1)
}

func column(name string, logical schema.LogicalType, physical parquet.Type) schema.Node {
	return schema.Must(schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Required, logical, physical, -1, -1))
}

func group(lists ...schema.FieldList) *schema.GroupNode {
	return schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, slices.Concat(lists...), -1))
}

// properties turns off what some warehouses misread (page index, bloom
// filters), and dictionaries of paths, which are useless: all paths differ.
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
		parquet.WithDictionaryPageSizeLimit(pageBytes),
		parquet.WithDictionaryFor("path", false),
	)
}

// checked returns rev with its time in the stored form, UTC and microseconds,
// or the first rule of a window file that rev breaks.
func checked(rev analytics.Revision) (analytics.Revision, error) {
	rev.ExportedAt = rev.ExportedAt.UTC().Truncate(time.Microsecond)
	project := analytics.CheckProject(rev.Project)
	_, granularity := analytics.ParseGranularity(string(rev.Granularity))
	_, from := analytics.ParseDate(rev.From.String())
	_, to := analytics.ParseDate(rev.To.String())
	year := rev.ExportedAt.Year()
	switch {
	case project != nil:
		return rev, project
	case granularity != nil:
		return rev, granularity
	case rev.From >= rev.To:
		return rev, fmt.Errorf("window %s: must begin before it ends", rev.Window)
	case from != nil:
		return rev, from
	case to != nil:
		return rev, to
	case rev.Number < 1:
		return rev, fmt.Errorf("revision %d: revisions count from 1", rev.Number)
	case rev.Rows < analytics.TotalsOnlyRows:
		return rev, fmt.Errorf("row_count %d: must be %d or more", rev.Rows, analytics.TotalsOnlyRows)
	case year < 1970 || year > 9999:
		return rev, fmt.Errorf("exported_at %s: must be in the years 1970 to 9999", rev.ExportedAt)
	}
	return rev, nil
}

// totalsKey is the key of the count of totals at i, without the prefix.
func totalsKey(i int) string { return "totals_" + analytics.TotalsNames()[i] }

// pairs is the key-value metadata of a file, in its fixed order, but for the CRC.
func (f Footer) pairs() [][2]string {
	rev := f.Revision
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	var totals [][2]string
	shape := rev.Report.Shape()
	if rev.Report != analytics.VisitorsReport {
		totals = append(totals, [2]string{reportKey, shape.Name})
	}
	if shape.Site {
		totals = append(totals, [2]string{keyPrefix + "site_rows", count(f.SiteRows)})
	} else {
		for i, n := range rev.Totals.Fields() {
			totals = append(totals, [2]string{keyPrefix + totalsKey(i), count(*n)})
		}
	}
	pairs := slices.Concat([][2]string{
		{keyPrefix + "schema_version", schemaVersion},
		{keyPrefix + "project", rev.Project},
		{keyPrefix + "granularity", string(rev.Granularity)},
		{keyPrefix + "window_start", rev.From.String()},
		{keyPrefix + "window_end", rev.To.String()},
		{keyPrefix + "revision", count(int64(rev.Number))},
		{keyPrefix + "settled", strconv.FormatBool(rev.Settled)},
		{keyPrefix + "verified", strconv.FormatBool(rev.Verified)},
		{keyPrefix + "row_count", count(rev.Rows)},
	}, totals, [][2]string{{keyPrefix + "exported_at", rev.ExportedAt.UTC().Format(timeLayout)}})
	if rev.Humans != "" {
		pairs = append(pairs, [2]string{humansKey, string(rev.Humans)})
	}
	if f.Checksum != "" {
		pairs = append(pairs, [2]string{checksumKey, f.Checksum})
	}
	return pairs
}

// writeMetadata writes the key-value metadata, and blank digits for the CRC.
func writeMetadata(w *file.Writer, f Footer) error {
	for _, kv := range append(f.pairs(), [2]string{crcKey, crcBlank}) {
		if err := w.AppendKeyValueMetadata(kv[0], kv[1]); err != nil {
			return err
		}
	}
	return nil
}

// Metadata returns what the footer says of the revision as keys and values, for
// programs that keep them beside the file.
func (f Footer) Metadata() map[string]string {
	kv := map[string]string{}
	for _, pair := range f.pairs() {
		kv[pair[0]] = pair[1]
	}
	return kv
}

// ParseMetadata is the inverse of [Footer.Metadata], with the checks of a footer.
func ParseMetadata(kv map[string]string) (f Footer, err error) {
	return readMetadata(func(key string) *string {
		if value, ok := kv[key]; ok {
			return &value
		}
		return nil
	})
}

// readMetadata is the inverse of writeMetadata.
func readMetadata(find func(key string) *string) (foot Footer, err error) {
	f := fields{find: find}
	if v := f.text("schema_version"); f.err != nil {
		return foot, fmt.Errorf("not a window file: %w", f.err)
	} else if v != schemaVersion {
		return foot, fmt.Errorf(
			"schema version %q: this program knows %s only, use the release that wrote the file or a newer one", v,
			schemaVersion)
	}
	if sum := find(checksumKey); sum != nil {
		foot.Checksum = *sum
	}
	if mode := find(humansKey); mode != nil {
		if err := foot.Humans.UnmarshalText([]byte(*mode)); err != nil {
			return foot, fmt.Errorf("metadata %s: %w", humansKey, err)
		}
	}
	report := analytics.VisitorsReport
	if name := find(reportKey); name != nil {
		var err error
		if report, err = analytics.ParseReport(*name); err != nil {
			return foot, fmt.Errorf("%w; use the release that wrote the file or a newer one", err)
		}
	}
	foot.Revision = analytics.Revision{
		Humans: foot.Humans,
		Key: analytics.Key{
			Report:      report,
			Project:     f.text("project"),
			Granularity: analytics.Granularity(f.text("granularity")),
			Window: analytics.Window{
				From: parse(&f, "window_start", analytics.ParseDate),
				To:   parse(&f, "window_end", analytics.ParseDate),
			},
		},
		Number:   int32(f.integer("revision", 32)),
		Settled:  parse(&f, "settled", parseBool),
		Verified: parse(&f, "verified", parseBool),
		Rows:     f.integer("row_count", 64),
		ExportedAt: parse(&f, "exported_at", func(s string) (time.Time, error) {
			return time.Parse(timeLayout, s)
		}),
	}
	if !report.Shape().Site {
		for i, n := range foot.Totals.Fields() {
			*n = f.integer(totalsKey(i), 64)
		}
	} else if foot.SiteRows = f.integer("site_rows", 64); foot.SiteRows < 0 && f.err == nil {
		f.err = fmt.Errorf("metadata %ssite_rows: %d, must be 0 or more", keyPrefix, foot.SiteRows)
	}
	if f.err != nil {
		return Footer{}, f.err
	}
	foot.Revision, err = checked(foot.Revision)
	return foot, err
}

// fields reads key-value metadata and keeps the first error.
type fields struct {
	find func(key string) *string
	err  error
}

func parse[T any](f *fields, name string, read func(string) (T, error)) T {
	var value T
	err := errors.New("missing")
	if text := f.find(keyPrefix + name); text != nil {
		value, err = read(*text)
	}
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("metadata %s%s: %w", keyPrefix, name, err)
	}
	return value
}

func (f *fields) text(name string) string {
	return parse(f, name, func(s string) (string, error) { return s, nil })
}

func (f *fields) integer(name string, bits int) int64 {
	return parse(f, name, func(s string) (int64, error) { return strconv.ParseInt(s, 10, bits) })
}

func parseBool(s string) (bool, error) {
	if s != "true" && s != "false" {
		return false, fmt.Errorf("%q: want true or false", s)
	}
	return s == "true", nil
}
