package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
)

// benchCase is what -only chooses.
type benchCase struct {
	name string
	run  func(context.Context) ([]result, error)
}

// cases are all of them, in the order of the tables. They take about ten minutes on two cores.
func (l *lab) cases() (all []benchCase) {
	for _, s := range exportScenarios {
		all = append(all, benchCase{s.name, func(ctx context.Context) ([]result, error) { return l.exportAll(ctx, s) }})
	}
	for _, s := range loadSinks {
		all = append(all, benchCase{s.name, func(ctx context.Context) ([]result, error) { return l.loadAll(ctx, s) }})
	}
	return append(all, benchCase{"scrape", l.scrapeAll})
}

// The clients of contests. The former docgauge was built from an earlier commit.
const (
	docgaugeClient    = "docgauge"
	formerClient      = "docgauge before"
	plainClient       = "plain"
	goParquetClient   = "go-parquet"
	bareClient        = "bare"
	bareWindowsClient = "bare windows"
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

// workload is the data that is exported or loaded: day windows, all of one size.
type workload struct {
	Windows int
	Rows    int // of each window
	Latency time.Duration
}

// shortened is w for a smoke run.
func (w workload) shortened() workload {
	return workload{min(w.Windows, 6), min(w.Rows, 2_501), min(w.Latency, 5*time.Millisecond)}
}

func (w workload) ms() int64        { return w.Latency.Milliseconds() }
func (w workload) totalRows() int64 { return int64(w.Windows) * int64(w.Rows) }

// fewest returns the least number of requests that can return all rows.
func (w workload) fewest() int64 {
	return int64(w.Windows) * int64(max(1, (w.Rows+pageRows-1)/pageRows))
}

// String is the workload as a table shows it: 40 × 25,000.
func (w workload) String() string {
	return humanize.Comma(int64(w.Windows)) + " × " + humanize.Comma(int64(w.Rows))
}

// result is one row of a table. Fields that its table does not show are zero.
type result struct {
	table    int // an index of tables
	scenario string
	client   client
	work     workload
	cost     cost

	requests   int64              // exports: received by the server
	entries    int                // Delta Lake: log entries of both tables
	times      map[string]float64 // the speed divided by that of another client, by its name
	timesFirst float64            // and by that of the first client
	scraped    scraped
}

func (r result) ratio() float64         { return float64(r.requests) / float64(r.work.fewest()) }
func (r result) rowsPerSecond() float64 { return float64(r.work.totalRows()) / r.cost.seconds }
func (r result) cpuPerMillion() float64 { return r.cost.cpuSeconds / float64(r.work.totalRows()) * 1e6 }

// key is what the aims choose results by: "many days, 40 × 2,500, 50 ms, docgauge, 16 in flight".
func (r result) key() string {
	c := r.client
	return fmt.Sprintf("%s, %s, %d ms, %s, %d in flight", r.scenario, r.work, r.work.ms(), c.label(), c.inFlight)
}

const (
	exportTable = iota
	loadTable
	scrapeTable
)

// tables have a head and a function for each row, with | between cells.
var tables = [...]struct {
	head string
	row  func(result) string
}{
	exportTable: {
		"scenario|windows × rows|latency|client|in flight|" + spentHead + "|requests|ratio|× plain|× go-parquet|× before",
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
			return fmt.Sprintf("%s|%s|%d|%s|%.2f ms|%.2f ms|%s|%.0f KiB|%s", r.scenario, r.client.name, r.client.inFlight,
				humanize.Comma(int64(s.scrapes)), s.median, s.p99,
				humanize.Comma(int64(s.allocations)), s.allocatedBytes/1024, humanize.Comma(s.size))
		},
	},
}

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

// markdown renders a table after an empty line, or nothing if there are no rows.
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

// task is work that is done that many times.
type task struct {
	work   workload
	rounds int
}

// contest lets the clients do the work in turns, round after round. A run returns a result, or several under
// scenarios of their own. The median of each client and scenario counts.
func (l *lab) contest(
	table int, scenario string, g task, clients []client, run func(client, workload) ([]result, error),
) (medians []result, err error) {
	if l.short {
		g = task{g.work.shortened(), 1}
	}
	type key struct {
		scenario string
		client   client
	}
	var order []key
	runs := map[key][]result{}
	for range g.rounds {
		for _, c := range l.withFormer(clients) {
			results, err := run(c, g.work)
			if err != nil {
				return nil, fmt.Errorf("%s, %s: %w", g.work, c.label(), err)
			}
			for _, r := range results {
				if r.scenario == "" {
					r.scenario = scenario
				}
				r.table, r.client, r.work = table, c, g.work
				k := key{r.scenario, c}
				if runs[k] == nil {
					order = append(order, k)
				}
				runs[k] = append(runs[k], r)
			}
		}
	}
	for _, k := range order {
		medians = append(medians, median(runs[k], func(r result) float64 { return r.cost.seconds }))
	}
	compare(medians)
	return medians, nil
}

// withFormer puts the former docgauge, if there is one, before each docgauge.
func (l *lab) withFormer(clients []client) (all []client) {
	for _, c := range clients {
		if c.name == docgaugeClient && l.binaries[formerClient] != "" {
			twin := c
			twin.name = formerClient
			all = append(all, twin)
		}
		all = append(all, c)
	}
	return all
}

// compare fills in times: the former docgauge is compared with the docgauge that has the same settings, each
// other client with everyone.
func compare(results []result) {
	for i, r := range results {
		r.times = map[string]float64{}
		twin := r.client
		twin.name = formerClient
		for _, other := range results {
			times := other.cost.seconds / r.cost.seconds
			isFormer, isTwin := other.client.name == formerClient, other.client == twin && other.scenario == r.scenario
			if isTwin || !isFormer && other.client.name != docgaugeClient {
				r.times[other.client.name] = times
			}
			if !isFormer && r.timesFirst == 0 {
				r.timesFirst = times
			}
		}
		results[i] = r
	}
}
