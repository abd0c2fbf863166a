package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

const (
	exportTable = "export"
	loadTable   = "load"
	scrapeTable = "scrape"
	siteTable   = "site"
	serveTable  = "site serve"
	agentsTable = "agents"
	peersTable  = "peers"
)

// tables are the heads of all tables, in the order of the report. The first column is the scenario; the others are
// what text knows, or values of the result.
var tables = []struct{ name, head string }{
	{exportTable, "scenario|windows × rows|latency|client|in flight|seconds|rows/s|windows/s|CPU s/Mrow|peak RSS|" +
		"requests|ratio|× plain|× go-parquet|× before"},
	{loadTable, "sink|windows × rows|client|seconds|rows/s|windows/s|CPU s/Mrow|peak RSS|log entries|× first|× before"},
	{scrapeTable, "scrape|format|in flight|scrapes|median|p99|allocations|allocated|bytes sent"},
	{siteTable, "log|lines|counter|seconds|CPU s|lines per CPU s|peak RSS|readers"},
	{serveTable, "log, kept by site serve|lines|readers|seconds|lines/s|CPU s|lines per CPU s|peak RSS|bytes a view|" +
		"all pages of the month|again"},
	{agentsTable, "a site of 5,000 pages and 40 agents, 90 days|visitors|and agents|ratio"},
	{peersTable, "tool|1,000 × 10, 0 ms: s|5 × 100,000, 0 ms: s|1 × 25,000, 50 ms: s|peak RSS|requests|" +
		"killed in 40 × 2,500: repeated|missing|doubled|guarantees"},
}

// formats are the formats of values that are no whole numbers.
var formats = map[string]string{
	"latency": "%.0f ms", "seconds": "%.2f", "windows/s": "%.1f", "CPU s/Mrow": "%.2f", "CPU s": "%.2f",
	"peak RSS": "%.0f MiB", "ratio": "%.2f", "× plain": "%.2f", "× go-parquet": "%.2f", "× before": "%.2f",
	"× first": "%.2f", "median": "%.2f ms", "p99": "%.2f ms", "allocated": "%.0f KiB", "bytes a view": "%.1f",
	"all pages of the month": "%.0f ms", "again": "%.0f ms", "visitors": "%.2f", "and agents": "%.2f",
	"1,000 × 10, 0 ms: s": "%.2f", "5 × 100,000, 0 ms: s": "%.2f", "1 × 25,000, 50 ms: s": "%.2f",
}

// text is the cell of a result below a head.
func (r result) text(head string) string {
	value, ok := r.values[head]
	switch format := formats[head]; {
	case format != "" && ok:
		return fmt.Sprintf(format, value)
	case ok:
		return humanize.Comma(int64(value))
	case head == "windows × rows":
		return r.work.String()
	case head == "client", head == "counter":
		return r.client.label()
	case head == "format":
		return r.client.variant
	case head == "guarantees":
		return peerTools[r.client.name].guarantees
	}
	return "-" // not measured
}

// rowOf has | between cells.
func rowOf(r result) string {
	row := r.scenario
	for _, t := range tables {
		if t.name == r.table {
			for _, head := range strings.Split(t.head, "|")[1:] {
				row += "|" + r.text(head)
			}
		}
	}
	return row
}

// report renders the tables that have results, and the aims.
func report(all []result) (text string) {
	for _, t := range tables {
		var rows []string
		for _, r := range all {
			if r.table == t.name {
				rows = append(rows, rowOf(r))
			}
		}
		text += markdown(t.head, rows)
	}
	return text + markdown("what|aim|measured|met", judge(all))
}

// markdown renders a table after an empty line, or nothing without rows.
func markdown(head string, rows []string) string {
	if len(rows) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 1, ' ', 0)
	rule := strings.Repeat("---|", strings.Count(head, "|")) + "---"
	for _, line := range append([]string{head, rule}, rows...) {
		fmt.Fprintln(w, "| "+strings.ReplaceAll(line, "|", "\t| ")+"\t|")
	}
	_ = w.Flush() // to a string
	return "\n" + b.String()
}

// spread is the bound of the highest value less the lowest.
const spread = "spread ≤"

// aim is a number that the project wants to reach. The worst value among docgauge's results whose keys match is
// judged. With over, it is the first of these values divided by the value of the first result that matches over.
type aim struct {
	name, format, value string
	match               string
	bound               string // "≥", "≤" or spread
	limit               float64
	over                string
}

var aims = []aim{
	{"with a budget: requests to fewest possible", "%.4g", "ratio", "budget 100,000", "≤", 1, ""},
	{"without: requests that find nothing, to ⌈log₂ pages⌉", "%.2f", "empty share", ".", "≤", 1, ""},
	{"1,000 windows × 10 rows: × before", "%.2f", "× before", "small windows", "≥", 3.5, ""},
	{"1,000 windows × 10 rows: × go-parquet, one at a time", "%.2f", "× go-parquet", "small windows", "≥", 1, ""},
	{"5 windows × 100,000 rows: × go-parquet with 4 in flight", "%.2f", "× go-parquet", "five large", "≥", 1.3, ""},
	{"one window of 1,000,000 rows: × before", "%.2f", "× before", "one large.* × 1,000,000,", "≥", 1.6, ""},
	{"large windows: CPU s per million rows", "%.2f", "CPU s/Mrow", " large window", "≤", 2.8, ""},
	{"large windows: peak RSS, MiB", "%.0f", "peak RSS", " large window", "≤", 140, ""},
	{"one window of 1, 2 and 10 M rows: peak RSS, highest less lowest, MiB", "%.0f", "peak RSS", "one large", spread, 30,
		""},
	{"a first reading, 50 ms, 16 in flight: × plain", "%.1f", "× plain", "first reading", "≥", 5, ""},
	{"40 × 25,000, 0 ms, 4 in flight: rows/s", "%.0f", "rows/s", "many days.* 0 ms.* 4 in", "≥", 300_000, ""},
	{"40 × 2,500, 50 ms, 16 in flight: × plain", "%.1f", "× plain", "many days.* 50 ms.* 16 in", "≥", 10, ""},
	{"12,000 requests: time with a budget to without", "%.2f", "seconds", "budget 100,000", "≤", 1.1,
		"with a budget.*gauge, 4"},
	{"ClickHouse, windows of ≥ 20,000 rows: × bare", "%.2f", "× first", "ClickHouse.* × (20|1,000),000,", "≥", 0.9, ""},
	{"ClickHouse, windows of 1,000 rows: × bare", "%.2f", "× first", "ClickHouse.* × 1,000, ", "≥", 0.5, ""},
	{"ClickHouse: peak RSS, MiB", "%.0f", "peak RSS", "ClickHouse", "≤", 160, ""},
	{"Delta Lake, 10,000,000 rows: × Parquet sink", "%.2f", "× first", "Delta.* × 100,000,.*(copies|links)", "≥", 0.9, ""},
	{"Delta Lake, windows of 1,000: × Parquet sink", "%.2f", "× first", "Delta.* × 1,000,.*(copies|links)", "≥", 0.83, ""},
	{"PostgreSQL, windows of ≥ 20,000 rows: × bare", "%.2f", "× first", "Post.* × (20|100),000,", "≥", 0.8, ""},
	{"PostgreSQL, windows of 1,000 rows: × bare", "%.2f", "× first", "Post.* × 1,000, ", "≥", 0.5, ""},
	{"200 windows × 5,000 rows: × the database's own client", "%.2f", "× first", "(ClickH|Post).* × 5,000, ", "≥", 0.59, ""},
	{"Delta Lake and PostgreSQL: peak RSS, MiB", "%.0f", "peak RSS", "copies|links|PostgreSQL", "≤", 128, ""},
	{"a scrape of 10 projects × 4 windows × 50 pages: ms", "%.2f", "median", "same snap", "≤", 10, ""},
	{"first scrape, 10,000 windows in the ledger: ms", "%.2f", "median", "new snapshot", "≤", 10, ""},
	{"first scrape after every number changed: ms", "%.2f", "median", "new numbers", "≤", 10, ""},
	{"site, combined: lines per CPU s", "%.0f", "lines per CPU s", "^site: combined, 1 × 5", "≥", 2_000_000, ""},
	{"site, gzip: lines per CPU s", "%.0f", "lines per CPU s", "^site: combined, gzip", "≥", 1_000_000, ""},
	{"site, Caddy JSON: lines per CPU s", "%.0f", "lines per CPU s", "^site: Caddy", "≥", 600_000, ""},
	{"site, 20 M lines, 3 M readers: peak RSS, MiB", "%.0f", "peak RSS", "^site: combined, 1 × 20", "≤", 256, ""},
	{"site report, combined, 5 M lines: seconds", "%.1f", "seconds", "^site: combined, as", "≤", 10, ""},
	{"site report, combined, 5 M lines: peak RSS, MiB", "%.0f", "peak RSS", "^site: combined, as", "≤", 256, ""},
	{"site serve, combined: durable lines/s", "%.0f", "lines/s", "^site serve: combined, 1 × 5", "≥", 1_500_000, ""},
	{"site serve, gzip: durable lines/s", "%.0f", "lines/s", "^site serve: combined, gzip", "≥", 1_000_000, ""},
	{"site serve, pushed in bodies of 500: durable lines/s, one core", "%.0f", "lines/s", "^site serve: .*pushed", "≥",
		50_000, ""},
	{"site serve, pushed: peak RSS, MiB", "%.0f", "peak RSS", "^site serve: .*pushed", "≤", 150, ""},
	{"site serve: disk, to 9 bytes a view and 130 a reader", "%.2f", "disk share", ".", "≤", 1, ""},
	{"site serve, 100 M lines, 3 M readers: peak RSS, MiB", "%.0f", "peak RSS", "^site serve: .* × 100,", "≤", 256, ""},
	{"site serve: peak RSS of 100 M lines to 20 M", "%.2f", "peak RSS", "^site serve: .* × 100,", "≤", 1.1,
		"^site serve: .* × 20,"},
	{"site serve: all pages of a month, ms", "%.0f", "all pages of the month", ".", "≤", 1500, ""},
	{"site serve: the same again, ms", "%.0f", "again", ".", "≤", 20, ""},
	{"a row of agents: CPU to that of a row of visitors", "%.2f", "ratio", "^agents: CPU .*same site", "≤", 1, ""},
}

// judge returns the cells of each aim that was measured.
func judge(all []result) (rows []string) {
	for _, a := range aims {
		values, others := a.values(a.match, all), a.values(a.over, all)
		if len(values) == 0 || len(others) == 0 {
			continue
		}
		if a.over != "" {
			values = []float64{values[0] / others[0]}
		}
		worst, met := slices.Max(values), "no"
		switch a.bound {
		case "≥":
			worst = slices.Min(values)
		case spread:
			worst -= slices.Min(values)
		}
		if worst == a.limit || worst > a.limit == (a.bound == "≥") {
			met = "yes"
		}
		rows = append(rows, fmt.Sprintf("%s|%s %v|"+a.format+"|%s", a.name, a.bound, a.limit, worst, met))
	}
	return rows
}

// values are the values of docgauge's results whose keys match, such as "export: many days, 40 × 2,500, 50 ms,
// docgauge, 16 in flight".
func (a aim) values(match string, all []result) (values []float64) {
	keys := regexp.MustCompile(match)
	for _, r := range all {
		key := fmt.Sprintf("%s: %s, %s, %d ms, %s, %d in flight", r.table, r.scenario, r.work,
			r.work.Latency.Milliseconds(), r.client.label(), r.client.inFlight)
		if r.client.name == docgaugeClient && keys.MatchString(key) && r.values[a.value] > 0 {
			values = append(values, r.values[a.value])
		}
	}
	return values
}
