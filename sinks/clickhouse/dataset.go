package clickhouse

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// dataset is the tables and views of a report, and how its rows go to them and come back: one more
// report is one more dataset.
type dataset struct {
	report analytics.Report
	// rows, markers and versions are tables; view and windows are the views that users query, and
	// attempts is one between rows and view.
	rows, markers, versions, view, windows, attempts string

	own    []column // of the report, in rows after the path
	order  []string // of own, by which rows are sorted after the path
	totals []column // of the site, in markers; none if they are rows
	count  column   // of markers: Revision.Rows
	stored stored
}

const truth = "UInt8" // the type of a column that is 0 or 1

var (
	attempted = []column{{"project", "String"}, {"granularity", "String"}, {"window_start", "Date"},
		{"window_end", "Date"}, {"attempt", "UInt64"}}
	readColumns = []column{{"revision", "Int32"}, {"settled", truth}, {"verified", truth}, {"exported_at_us", "Int64"}}
	counts      = []column{{"human", "Int64"}, {"ai", "Int64"}, {"total", "Int64"}}
)

// rowColumns are inserted in this order; written_at is the server's.
func (d *dataset) rowColumns() []column {
	return slices.Concat(attempted, []column{{"path", "String"}}, d.own, readColumns)
}

// markerColumns are those of a marker; committed_at is the server's.
func (d *dataset) markerColumns() []column {
	return slices.Concat(attempted, d.totals, []column{d.count}, readColumns)
}

var visitors = &dataset{
	report: analytics.VisitorsReport,
	rows:   "docgauge_visitors_rows", markers: "docgauge_windows", versions: "docgauge_migrations",
	view: "docgauge_visitors", windows: "docgauge_totals", attempts: "docgauge_visitors_attempts",
	own: counts, totals: counts, count: column{"page_count", "Int64"},
	stored: storedAs(&sinks.Visitors, func() block[analytics.Row] { return new(visitorsBlock) },
		func(r *analytics.Row) []any { return []any{&r.Path, &r.Human, &r.AI, &r.Total} }, sumVisitors),
}

var agents = &dataset{
	report: analytics.AgentsReport,
	rows:   "docgauge_agents_rows", markers: "docgauge_agents_markers", versions: "docgauge_agents_migrations",
	view: "docgauge_agents", windows: "docgauge_agents_windows", attempts: "docgauge_agents_attempts",
	own: []column{{"agent", "String"}, {"class", "String"}, {"audience", "String"}, {"found", truth},
		{"visitors", "Int64"}, {"requests", "Int64"}},
	order: []string{"agent", "audience", "found"}, count: column{"row_count", "Int64"},
	stored: storedAs(&sinks.Agents, func() block[analytics.AgentRow] { return new(agentsBlock) },
		func(r *analytics.AgentRow) []any {
			return []any{&r.Path, &r.Agent, &r.Class, (*string)(&r.Audience), &r.Found, &r.Visitors, &r.Requests}
		}, nil),
}

var datasets = []*dataset{visitors, agents}

// visitorsBlock and agentsBlock keep the columns of rows from the path to the last one of own.
type visitorsBlock struct {
	paths  []string
	counts [3][]int64
}

func (b *visitorsBlock) add(r analytics.Row) (size int) {
	b.paths = append(b.paths, r.Path)
	for i, n := range [...]int64{r.Human, r.AI, r.Total} {
		b.counts[i] = append(b.counts[i], n)
	}
	return len(r.Path)
}

func (b *visitorsBlock) columns() []any { return []any{b.paths, b.counts[0], b.counts[1], b.counts[2]} }

func (b *visitorsBlock) clear() {
	clear(b.paths)
	b.paths = b.paths[:0]
	for i := range b.counts {
		b.counts[i] = b.counts[i][:0]
	}
}

type agentsBlock struct {
	texts  [4][]string
	found  []uint8
	counts [2][]int64
}

func (b *agentsBlock) add(r analytics.AgentRow) (size int) {
	for i, text := range [...]string{r.Path, r.Agent, r.Class, string(r.Audience)} {
		b.texts[i] = append(b.texts[i], text)
		size += len(text)
	}
	b.found = append(b.found, asUInt8(r.Found))
	b.counts[0], b.counts[1] = append(b.counts[0], r.Visitors), append(b.counts[1], r.Requests)
	return size
}

func (b *agentsBlock) columns() (all []any) {
	for i := range b.texts {
		all = append(all, b.texts[i])
	}
	return append(all, b.found, b.counts[0], b.counts[1])
}

func (b *agentsBlock) clear() {
	for i := range b.texts {
		clear(b.texts[i])
		b.texts[i] = b.texts[i][:0]
	}
	b.found, b.counts[0], b.counts[1] = b.found[:0], b.counts[0][:0], b.counts[1][:0]
}
