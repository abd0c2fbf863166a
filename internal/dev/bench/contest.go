package main

import (
	"fmt"
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

// former is the former docgauge with the settings of c.
func (c client) former() client {
	c.name = formerClient
	return c
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

// task is work that is done that many times.
type task struct {
	work   workload
	rounds int
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
	readers    int64 // of a site, as the client says
	served     served
	compared   compared
}

// contest lets the clients do the work in turns, round after round. A run returns one result, or
// several with different scenarios. The median of each client and scenario counts.
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
	turn := func(c client) error {
		results, err := run(c, g.work)
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
		if err != nil {
			err = fmt.Errorf("%s, %s: %w", g.work, c.label(), err)
		}
		return err
	}
	for range g.rounds {
		for _, c := range clients {
			if c.name == docgaugeClient && l.binaries[formerClient] != "" {
				err = turn(c.former())
			}
			if err == nil {
				err = turn(c)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	for _, k := range order {
		medians = append(medians, median(runs[k], func(r result) float64 { return r.cost.seconds }))
	}
	compare(medians)
	return medians, nil
}

// compare fills in times: the former docgauge is compared with the docgauge that has the same settings, each
// other client with everyone.
func compare(results []result) {
	for i := range results {
		r := &results[i]
		r.times = map[string]float64{}
		for _, other := range results {
			times := other.cost.seconds / r.cost.seconds
			isFormer := other.client.name == formerClient
			if isFormer && other.client == r.client.former() && other.scenario == r.scenario ||
				!isFormer && other.client.name != docgaugeClient {
				r.times[other.client.name] = times
			}
			if !isFormer && r.timesFirst == 0 {
				r.timesFirst = times
			}
		}
	}
}
