package main

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/dustin/go-humanize"
)

func (r result) ratio() float64         { return float64(r.requests) / float64(r.work.fewest()) }
func (r result) rowsPerSecond() float64 { return float64(r.work.totalRows()) / r.cost.seconds }
func (r result) cpuPerMillion() float64 { return r.cost.cpuSeconds / float64(r.work.totalRows()) * 1e6 }

// key names a result for the aims: "many days, 40 × 2,500, 50 ms, docgauge, 16 in flight".
func (r result) key() string {
	c := r.client
	return fmt.Sprintf("%s, %s, %d ms, %s, %d in flight", r.scenario, r.work, r.work.ms(), c.label(), c.inFlight)
}

const (
	exportTable = iota
	loadTable
	scrapeTable
	siteTable
	serveTable
	agentsTable
)

// tables have a head and a function for each row, with | between cells.
var tables = [...]struct {
	head string
	row  func(result) string
}{
	exportTable: {
		"scenario|windows × rows|latency|client|in flight|" + spentHead + "|requests|ratio|× plain|× " +
			"go-parquet|× before",
		func(r result) string {
			return fmt.Sprintf("%s|%s|%d ms|%s|%d|%s|%s|%.2f|%s|%s|%s", r.scenario, r.work, r.work.ms(),
				r.client.label(), r.client.inFlight, r.spent(), humanize.Comma(r.requests), r.ratio(),
				orDash(r.times[plainClient]), orDash(r.times[goParquetClient]), orDash(r.times[formerClient]))
		},
	},
	loadTable: {
		"sink|windows × rows|client|" + spentHead + "|log entries|× first|× before",
		func(r result) string {
			entries := "-"
			if r.entries > 0 {
				entries = strconv.Itoa(r.entries)
			}
			return fmt.Sprintf("%s|%s|%s|%s|%s|%.2f|%s",
				r.scenario, r.work, r.client.label(), r.spent(), entries, r.timesFirst, orDash(r.times[formerClient]))
		},
	},
	scrapeTable: {
		"scrape|format|in flight|scrapes|median|p99|allocations|allocated|bytes sent",
		func(r result) string {
			s := r.scraped
			return fmt.Sprintf("%s|%s|%d|%s|%.2f ms|%.2f ms|%s|%.0f KiB|%s", r.scenario, r.client.name,
				r.client.inFlight,
				humanize.Comma(int64(s.scrapes)), s.median, s.p99,
				humanize.Comma(int64(s.allocations)), s.allocatedBytes/1024, humanize.Comma(s.size))
		},
	},
	siteTable: {
		"log|lines|counter|seconds|CPU s|lines per CPU s|peak RSS|readers",
		func(r result) string {
			return fmt.Sprintf("%s|%s|%s|%.2f|%.2f|%s|%s|%s", r.scenario, humanize.Comma(r.work.totalRows()),
				r.client.label(), r.cost.seconds, r.cost.cpuSeconds, humanize.Comma(int64(r.rowsPerCPUSecond())),
				mebibytes(r.cost.maxRSS), humanize.Comma(r.readers))
		},
	},
	serveTable: {
		"log, kept by site serve|lines|readers|seconds|lines/s|CPU s|lines per CPU s|peak RSS|bytes a view|" +
			"all pages of the month|again",
		func(r result) string {
			return fmt.Sprintf("%s|%s|%s|%.2f|%s|%.2f|%s|%s|%.1f|%.0f ms|%.0f ms", r.scenario,
				humanize.Comma(r.work.totalRows()), humanize.Comma(r.readers), r.cost.seconds,
				humanize.Comma(int64(r.rowsPerSecond())), r.cost.cpuSeconds,
				humanize.Comma(int64(r.rowsPerCPUSecond())), mebibytes(r.cost.maxRSS), r.served.bytesPerView,
				r.served.cold, r.served.kept)
		},
	},
	agentsTable: {
		"a site of 5,000 pages and 40 agents, 90 days|visitors|and agents|ratio",
		func(r result) string {
			return fmt.Sprintf("%s|%.2f|%.2f|%.2f", r.scenario, r.compared.visitors, r.compared.agents, r.timesVisitors())
		},
	},
}

func (r result) timesVisitors() float64 { return r.compared.agents / r.compared.visitors }

func (r result) rowsPerCPUSecond() float64 { return float64(r.work.totalRows()) / r.cost.cpuSeconds }

const spentHead = "seconds|rows/s|windows/s|CPU s/Mrow|peak RSS"

func (r result) spent() string {
	cpu := "-"
	if r.work.totalRows() >= 10_000 { // fewer say little about it
		cpu = fmt.Sprintf("%.2f", r.cpuPerMillion())
	}
	return fmt.Sprintf("%.2f|%s|%.1f|%s|%s", r.cost.seconds, humanize.Comma(int64(r.rowsPerSecond())),
		float64(r.work.Windows)/r.cost.seconds, cpu, mebibytes(r.cost.maxRSS))
}

// orDash is a ratio, or a dash for 0: not measured.
func orDash(times float64) string {
	if times == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", times)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20)) }

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

// report renders the tables that have results, and the aims.
func report(all []result) (text string) {
	for i, t := range tables {
		var rows []string
		for _, r := range all {
			if r.table == i {
				rows = append(rows, t.row(r))
			}
		}
		text += markdown(t.head, rows)
	}
	return text + markdown("what|aim|measured|met", judge(all))
}

// aim is a number that the project wants to reach. The worst of the values is judged: those of docgauge's results
// whose keys match. With over, it is the first value divided by that of the first result that matches over.
type aim struct {
	name, format string
	value        func(result) float64 // 0 if it was not measured
	match        string
	bound        string // "≥" or "≤"
	limit        float64
	over         string
}

var aims = []aim{
	{"with a budget: requests to fewest possible", "%.4g", result.ratio, "budget 100,000", "≤", 1, ""},
	{"without: requests that find nothing, to ⌈log₂ pages⌉", "%.2f", emptyShare, ".", "≤", 1, ""},
	{"1,000 windows × 10 rows: × before", "%.2f", times(formerClient), "^small", "≥", 3.5, ""},
	{"1,000 windows × 10 rows: × go-parquet, one at a time", "%.2f", times(goParquetClient), "^small", "≥", 1, ""},
	{"5 windows × 100,000 rows: × go-parquet with 4 in flight", "%.2f", times(goParquetClient), "^five", "≥", 1.3, ""},
	{"one window of 1,000,000 rows: × before", "%.2f", times(formerClient), "^one.* × 1,000,000,", "≥", 1.6, ""},
	{"large windows: CPU s per million rows", "%.2f", result.cpuPerMillion, " large window", "≤", 2.8, ""},
	{"large windows: peak RSS, MiB", "%.0f", maxMiB, " large window", "≤", 96, ""},
	{"peak RSS of 10,000,000 rows to 1,000,000", "%.2f", maxMiB, "^one.* × 10,000,000,", "≤", 1.1,
		"^one.* × 1,000,000,"},
	{"a first reading, 50 ms, 16 in flight: × plain", "%.1f", times(plainClient), "^first", "≥", 5, ""},
	{"40 × 25,000, 0 ms, 4 in flight: rows/s", "%.0f", result.rowsPerSecond, "^many.* 0 ms.* 4 in", "≥", 300_000, ""},
	{"40 × 2,500, 50 ms, 16 in flight: × plain", "%.1f", times(plainClient), "^many.* 50 ms.* 16 in", "≥", 10, ""},
	{"12,000 requests: time with a budget to without", "%.2f", seconds, "budget 100,000", "≤", 1.1, "^with.*gauge, 4"},
	{"ClickHouse, windows of ≥ 20,000 rows: × bare", "%.2f", first, "^Click.* × (20|1,000),000,", "≥", 0.9, ""},
	{"ClickHouse, windows of 1,000 rows: × bare", "%.2f", first, "^Click.* × 1,000, ", "≥", 0.5, ""},
	{"ClickHouse: peak RSS, MiB", "%.0f", maxMiB, "^Click", "≤", 160, ""},
	{"Delta Lake, 10,000,000 rows: × Parquet sink", "%.2f", first, "^Delta.* × 100,000,.*(copies|links)", "≥", 0.9, ""},
	{"Delta Lake, windows of 1,000: × Parquet sink", "%.2f", first, "^Delta.* × 1,000,.*(copies|links)", "≥", 0.83, ""},
	{"PostgreSQL, windows of ≥ 20,000 rows: × bare", "%.2f", first, "^Postgre.* × (20|100),000,", "≥", 0.8, ""},
	{"PostgreSQL, windows of 1,000 rows: × bare", "%.2f", first, "^Postgre.* × 1,000, ", "≥", 0.5, ""},
	{"Delta Lake and PostgreSQL: peak RSS, MiB", "%.0f", maxMiB, "copies|links|^Postgre", "≤", 128, ""},
	{"a scrape of 10 projects × 4 windows × 50 pages: ms", "%.2f", medianScrape, "^same", "≤", 10, ""},
	{"first scrape, 10,000 windows in the ledger: ms", "%.2f", medianScrape, "^new snapshot", "≤", 10, ""},
	{"first scrape after every number changed: ms", "%.2f", medianScrape, "^new numbers", "≤", 10, ""},
	{"site, combined: lines per CPU s", "%.0f", linesCounted, "^combined, 1 × 5", "≥", 2_000_000, ""},
	{"site, gzip: lines per CPU s", "%.0f", linesCounted, "^combined, gzip", "≥", 1_000_000, ""},
	{"site, Caddy JSON: lines per CPU s", "%.0f", linesCounted, "^Caddy", "≥", 600_000, ""},
	{"site, 20 M lines, 3 M readers: peak RSS, MiB", "%.0f", countedMiB, "^combined, 1 × 20", "≤", 512, ""},
	{"site serve, combined: durable lines/s", "%.0f", linesServed, "^combined, 1 × 5", "≥", 1_500_000, ""},
	{"site serve, gzip: durable lines/s", "%.0f", linesServed, "^combined, gzip", "≥", 1_000_000, ""},
	{"site serve: disk, to 9 bytes a view and 130 a reader", "%.2f", share, ".", "≤", 1, ""},
	{"site serve, 100 M lines, 3 M readers: peak RSS, MiB", "%.0f", servedMiB, "^combined, 1 × 100", "≤", 256, ""},
	{"site serve: peak RSS of 100 M lines to 20 M", "%.2f", servedMiB, "^combined, 1 × 100", "≤", 1.1,
		"^combined, 1 × 20"},
	{"site serve: all pages of a month, ms", "%.0f", cold, ".", "≤", 1500, ""},
	{"site serve: the same again, ms", "%.0f", kept, ".", "≤", 20, ""},
	{"a row of agents: CPU to that of a row of visitors", "%.2f", agentsToVisitors, "^CPU .*same site", "≤", 1, ""},
}

// of is a value of the results of one table.
func of(table int, value func(result) float64) func(result) float64 {
	return func(r result) float64 {
		if r.table != table {
			return 0
		}
		return value(r)
	}
}

var (
	linesCounted = of(siteTable, result.rowsPerCPUSecond)
	countedMiB   = of(siteTable, maxMiB)
	linesServed  = of(serveTable, result.rowsPerSecond)
	servedMiB    = of(serveTable, maxMiB)

	agentsToVisitors = of(agentsTable, result.timesVisitors)
)

func share(r result) float64        { return r.served.share }
func cold(r result) float64         { return r.served.cold }
func kept(r result) float64         { return r.served.kept }
func seconds(r result) float64      { return r.cost.seconds }
func maxMiB(r result) float64       { return float64(r.cost.maxRSS) / (1 << 20) }
func first(r result) float64        { return r.timesFirst }
func medianScrape(r result) float64 { return r.scraped.median }

func times(client string) func(result) float64 {
	return func(r result) float64 { return r.times[client] }
}

// emptyShare divides the requests without a budget that found no rows by how many there may be: asking ahead in
// growing steps doubles what is known each time, so that is the logarithm of the pages of each window.
func emptyShare(r result) float64 {
	if r.table != exportTable || r.client.budget > 0 {
		return 0
	}
	windows, fewest := int64(r.work.Windows), r.work.fewest()
	most := windows * int64(bits.Len64(uint64(fewest/windows-1)))
	return float64(r.requests-fewest) / float64(max(most, 1))
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
		if a.bound == "≥" {
			worst = slices.Min(values)
		}
		if worst == a.limit || worst > a.limit == (a.bound == "≥") {
			met = "yes"
		}
		rows = append(rows, fmt.Sprintf("%s|%s %v|"+a.format+"|%s", a.name, a.bound, a.limit, worst, met))
	}
	return rows
}

func (a aim) values(match string, all []result) (values []float64) {
	keys := regexp.MustCompile(match)
	for _, r := range all {
		isOurs := r.client.name == docgaugeClient || r.table == scrapeTable
		if isOurs && keys.MatchString(r.key()) && a.value(r) > 0 {
			values = append(values, a.value(r))
		}
	}
	return values
}
