package archive

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/apache/arrow-go/v18/parquet/metadata"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	keyPrefix     = "docgauge."
	schemaVersion = "1"
	// checksumKey holds the analytics.Checksum of the rows of a visitors file.
	checksumKey = keyPrefix + "checksum"
	// timeLayout is RFC 3339 in UTC with microseconds.
	timeLayout = "2006-01-02T15:04:05.000000Z"
)

// checked returns rev with its time as it is stored, in UTC and microseconds,
// or the first rule of SPEC 2, 4 and 6 that rev breaks.
func checked(rev analytics.Revision) (analytics.Revision, error) {
	rev.ExportedAt = rev.ExportedAt.UTC().Truncate(time.Microsecond)
	if !analytics.ValidProject(rev.Project) {
		return rev, fmt.Errorf("project %q: must match %s", rev.Project, analytics.ProjectPattern)
	}
	if _, err := analytics.ParseGranularity(string(rev.Granularity)); err != nil {
		return rev, err
	}
	if rev.From >= rev.To {
		return rev, fmt.Errorf("window %s: must begin before it ends", rev.Window)
	}
	for _, d := range []analytics.Date{rev.From, rev.To} {
		if _, err := analytics.ParseDate(d.String()); err != nil {
			return rev, err
		}
	}
	if rev.Number < 1 {
		return rev, fmt.Errorf("revision %d: revisions count from 1", rev.Number)
	}
	if rev.Rows < analytics.TotalsOnlyRows {
		return rev, fmt.Errorf("row_count %d: must be %d or more", rev.Rows, analytics.TotalsOnlyRows)
	}
	if year := rev.ExportedAt.Year(); year < 1970 || year > 9999 {
		return rev, fmt.Errorf("exported_at %s: must lie in the years 1970 to 9999", rev.ExportedAt)
	}
	return rev, nil
}

// pairs returns rev as the key-value metadata of SPEC 6, in its order.
func pairs(rev analytics.Revision) [][2]string {
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	return [][2]string{
		{keyPrefix + "schema_version", schemaVersion},
		{keyPrefix + "project", rev.Project},
		{keyPrefix + "granularity", string(rev.Granularity)},
		{keyPrefix + "window_start", rev.From.String()},
		{keyPrefix + "window_end", rev.To.String()},
		{keyPrefix + "revision", count(int64(rev.Number))},
		{keyPrefix + "settled", strconv.FormatBool(rev.Settled)},
		{keyPrefix + "verified", strconv.FormatBool(rev.Verified)},
		{keyPrefix + "row_count", count(rev.Rows)},
		{keyPrefix + "totals_human", count(rev.Totals.Human)},
		{keyPrefix + "totals_ai", count(rev.Totals.AI)},
		{keyPrefix + "totals_total", count(rev.Totals.Total)},
		{keyPrefix + "exported_at", rev.ExportedAt.Format(timeLayout)},
	}
}

// fields reads key-value metadata and keeps the first error.
type fields struct {
	kv  metadata.KeyValueMetadata
	err error
}

func (f *fields) text(name string) string {
	v := f.kv.FindValue(keyPrefix + name)
	if v == nil {
		f.fail(name, errors.New("missing"))
		return ""
	}
	return *v
}

func (f *fields) fail(name string, err error) {
	if err != nil && f.err == nil {
		f.err = fmt.Errorf("metadata %s%s: %w", keyPrefix, name, err)
	}
}

func (f *fields) integer(name string, bits int) int64 {
	n, err := strconv.ParseInt(f.text(name), 10, bits)
	f.fail(name, err)
	return n
}

func (f *fields) boolean(name string) bool {
	v := f.text(name)
	if v != "true" && v != "false" {
		f.fail(name, fmt.Errorf("%q: want true or false", v))
	}
	return v == "true"
}

func (f *fields) date(name string) analytics.Date {
	d, err := analytics.ParseDate(f.text(name))
	f.fail(name, err)
	return d
}

func (f *fields) time(name string) time.Time {
	t, err := time.Parse(timeLayout, f.text(name))
	f.fail(name, err)
	return t
}

// revisionFrom is the inverse of pairs.
func revisionFrom(kv metadata.KeyValueMetadata) (analytics.Revision, error) {
	f := fields{kv: kv}
	if v := f.text("schema_version"); f.err != nil {
		return analytics.Revision{}, fmt.Errorf("not a window file: %w", f.err)
	} else if v != schemaVersion {
		return analytics.Revision{}, fmt.Errorf("schema version %q: this program knows %s only, use the release that wrote the file or a newer one", v, schemaVersion)
	}
	rev := analytics.Revision{
		Key: analytics.Key{
			Project:     f.text("project"),
			Granularity: analytics.Granularity(f.text("granularity")),
			Window:      analytics.Window{From: f.date("window_start"), To: f.date("window_end")},
		},
		Number:   int32(f.integer("revision", 32)),
		Settled:  f.boolean("settled"),
		Verified: f.boolean("verified"),
		Totals: analytics.Totals{
			Human: f.integer("totals_human", 64),
			AI:    f.integer("totals_ai", 64),
			Total: f.integer("totals_total", 64),
		},
		Rows:       f.integer("row_count", 64),
		ExportedAt: f.time("exported_at"),
	}
	if f.err != nil {
		return analytics.Revision{}, f.err
	}
	return checked(rev)
}
