package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
)

// The clients of contests. The former docgauge was built from an earlier commit.
const (
	docgaugeClient    = "docgauge"
	formerClient      = "docgauge before"
	plainClient       = "plain"
	goParquetClient   = "go-parquet"
	bareClient        = "bare"
	bareWindowsClient = "bare windows"
	ownClient         = "own client"
	clickHouseClient  = "ClickHouse"
	duckDBClient      = "DuckDB"
	goAccessClient    = "GoAccess"
	polarsClient      = "Polars"
	rhitClient        = "rhit"
)

// client does the work of a contest, with its settings.
type client struct {
	name, variant string
	inFlight      int // requests of docgauge, windows of go-parquet
	budget        int // DOCGAUGE_BUDGET; 0 is unlimited
}

func (c client) label() string {
	if c.variant != "" {
		return c.name + ", " + c.variant
	}
	return c.name
}

// workload is the data that is exported or loaded: day windows, all of one size. A log is one window of lines.
type workload struct {
	Windows int
	Rows    int // of each window
	Latency time.Duration
}

// shortened is w for a smoke run.
func (w workload) shortened() workload {
	return workload{min(w.Windows, 6), min(w.Rows, 2_501), min(w.Latency, 5*time.Millisecond)}
}

func (w workload) totalRows() int64 { return int64(w.Windows) * int64(w.Rows) }

// fewest returns the least number of requests that can return all rows.
func (w workload) fewest() int64 {
	return int64(w.Windows) * int64(max(1, (w.Rows+pageRows-1)/pageRows))
}

// String is the workload as a table shows it: 40 × 25,000.
func (w workload) String() string {
	return humanize.Comma(int64(w.Windows)) + " × " + humanize.Comma(int64(w.Rows))
}

// contest is work that several clients do in turns, round after round.
type contest struct {
	table, scenario string
	work            workload
	rounds          int
	clients         []client
}

// values are the numbers of a row by the heads of their columns.
type values map[string]float64

// result is one row of a table.
type result struct {
	table, scenario string
	client          client
	work            workload
	values          values
}

// compete runs a contest; the former docgauge takes its turns before docgauge. A run returns the values of one row,
// or of one row more for each of the scenarios. Of several rounds, the row of median duration counts.
func (l *lab) compete(c contest, run func(client, workload) []values, scenarios ...string) (medians []result) {
	if l.short {
		c.rounds = 1
	}
	rounds := make([][]result, c.rounds)
	for i := range rounds {
		turn := func(cl client) {
			for n, v := range run(cl, c.work) {
				scenario := append([]string{c.scenario}, scenarios...)[n]
				rounds[i] = append(rounds[i], l.show(result{c.table, scenario, cl, c.work, v}))
			}
		}
		for _, cl := range c.clients {
			if cl.name == docgaugeClient && l.binaries[formerClient] != "" {
				before := cl
				before.name = formerClient
				turn(before)
			}
			turn(cl)
		}
	}
	for i := range rounds[0] {
		slices.SortFunc(rounds, func(a, b []result) int {
			return cmp.Compare(a[i].values["seconds"], b[i].values["seconds"])
		})
		medians = append(medians, rounds[len(rounds)/2][i])
	}
	compare(medians)
	return medians
}

// show adds what follows from the workload, the seconds and the CPU time, and logs the row.
func (l *lab) show(r result) result {
	v, rows := r.values, float64(r.work.totalRows())
	v["latency"], v["in flight"] = float64(r.work.Latency.Milliseconds()), float64(r.client.inFlight)
	v["lines"], v["lines/s"], v["lines per CPU s"] = rows, rows/v["seconds"], rows/v["CPU s"]
	v["rows/s"], v["windows/s"] = rows/v["seconds"], float64(r.work.Windows)/v["seconds"]
	if rows >= 10_000 { // fewer say little about it
		v["CPU s/Mrow"] = v["CPU s"] / rows * 1e6
	}
	fmt.Fprintln(l.log, strings.ReplaceAll(rowOf(r), "|", "  "))
	return r
}

// compare adds each speed as a multiple of other speeds: docgauge with the former docgauge of the same settings, and
// all clients with each other client and with the first.
func compare(results []result) {
	for _, r := range results {
		isFirst := true
		for _, other := range results {
			times, isFormer := other.values["seconds"]/r.values["seconds"], other.client.name == formerClient
			if same := r.client; isFormer {
				if same.name = formerClient; other.client == same && other.scenario == r.scenario {
					r.values["× before"] = times
				}
				continue
			}
			if other.client.name != docgaugeClient {
				r.values["× "+other.client.name] = times
			}
			if isFirst {
				r.values["× first"], isFirst = times, false
			}
		}
	}
}
