package clickhouse

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// dataset is the tables and views of a report, and how its rows go to them and come back: one more
// report is one more dataset.
type dataset struct {
	*analytics.Shape
	report analytics.Report
	// rows, markers and versions are tables; view and windows are the views that users query, and
	// attempts is one between rows and view.
	rows, markers, versions, view, windows, attempts string

	ownColumns []column // of the report, in rows after the path
	totals     []column // of the site, in markers; none if they are rows
	count      column   // of markers: Revision.Rows
	// sums is the query of [session.sums] over view.
	sums func(ses *session, condition string) string
}

const truth = "UInt8" // the type of a column that is 0 or 1

var (
	attempted = []column{{"project", "String"}, {"granularity", "String"}, {"window_start", "Date"},
		{"window_end", "Date"}, {"attempt", "UInt64"}}
	readColumns = []column{{"revision", "Int32"}, {"settled", truth}, {"verified", truth}, {"exported_at_us", "Int64"}}
	types       = [...]string{analytics.Text: "String", analytics.Truth: truth, analytics.Count: "Int64"}
)

// rowColumns are inserted in this order; written_at is the server's.
func (d *dataset) rowColumns() []column {
	return slices.Concat(attempted, []column{{"path", "String"}}, d.ownColumns, readColumns)
}

// markerColumns are the columns of a marker; committed_at is the server's.
func (d *dataset) markerColumns() []column {
	return slices.Concat(attempted, d.shown(), readColumns)
}

// shown are the columns of markers that the view of windows shows under their names.
func (d *dataset) shown() []column {
	return slices.Concat(d.totals, []column{{"humans", "String"}, d.count})
}

var (
	datasets = func() (all []*dataset) {
		for _, report := range analytics.Reports {
			all = append(all, newDataset(report))
		}
		return all
	}()
	visitors = datasets[analytics.VisitorsReport]
)

func newDataset(report analytics.Report) *dataset {
	prefix := "docgauge_" + report.String()
	d := &dataset{
		Shape: report.Shape(), report: report, rows: prefix + "_rows", markers: prefix + "_markers",
		versions: prefix + "_migrations", view: prefix, windows: prefix + "_windows", attempts: prefix + "_attempts",
		count: column{"row_count", "Int64"}, sums: sumsOfSite,
	}
	for _, c := range d.Columns[1:] {
		d.ownColumns = append(d.ownColumns, column{c.Name, types[c.Kind]})
	}
	if !d.Site {
		d.windows = "docgauge_" + d.TotalsTable
		d.totals, d.count, d.sums = d.ownColumns, column{"page_count", "Int64"}, sumsOfCounts
	}
	if report == analytics.VisitorsReport {
		d.markers, d.versions = "docgauge_windows", "docgauge_migrations"
	}
	return d
}

// block keeps the columns of rows from the path to the last column of own.
type block struct {
	texts  [][]string
	truths [][]uint8
	counts [][]int64
}

func (b *block) add(f analytics.Fields) (size int) {
	for i, text := range f.Texts {
		b.texts[i] = append(b.texts[i], *text)
		size += len(*text)
	}
	for i, truth := range f.Truths {
		b.truths[i] = append(b.truths[i], asUInt8(*truth))
	}
	for i, count := range f.Counts {
		b.counts[i] = append(b.counts[i], *count)
	}
	return size
}

func (b *block) columns() (all []any) {
	for _, column := range b.texts {
		all = append(all, column)
	}
	for _, column := range b.truths {
		all = append(all, column)
	}
	for _, column := range b.counts {
		all = append(all, column)
	}
	return all
}

// clear keeps the memory.
func (b *block) clear() {
	for i := range b.texts {
		clear(b.texts[i])
		b.texts[i] = b.texts[i][:0]
	}
	for i := range b.truths {
		b.truths[i] = b.truths[i][:0]
	}
	for i := range b.counts {
		b.counts[i] = b.counts[i][:0]
	}
}
