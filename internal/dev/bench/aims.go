package main

import (
	"fmt"
	"math/bits"
	"regexp"
	"slices"
)

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
	{"peak RSS of 10,000,000 rows to 1,000,000", "%.2f", maxMiB, "^one.* × 10,000,000,", "≤", 1.1, "^one.* × 1,000,000,"},
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
}

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
