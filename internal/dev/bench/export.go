package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

const (
	// benchKey is no secret: the bench's server accepts any key.
	benchKey = "bench_key"

	plainClient    = "plain"
	docgaugeClient = "docgauge"
)

// workload is the data that is read: day windows from firstDay on, all of one size.
type workload struct {
	windows int
	rows    int // of each window
	latency time.Duration
}

// firstDay is long past, so that every window is complete and settled.
var firstDay = time.Date(2025, time.January, 1, 0, 0, 0, 0, time.UTC)

// days returns the first day of window n, counted from 0, and the day after it.
func days(n int) (from, to string) {
	day := firstDay.AddDate(0, 0, n)
	return day.Format(time.DateOnly), day.AddDate(0, 0, 1).Format(time.DateOnly)
}

// project returns the project id that makes the server serve w. The server keeps
// no data: the id has it all.
func (w workload) project() string {
	return fmt.Sprintf("%drows_%dms", w.rows, w.latency.Milliseconds())
}

// parseProject reads a project id back; the number of windows is not in it.
func parseProject(project string) (w workload, err error) {
	var ms int
	if _, err := fmt.Sscanf(project, "%drows_%dms", &w.rows, &ms); err != nil {
		return w, fmt.Errorf("project %q: want an id like 250rows_50ms", project)
	}
	w.latency = time.Duration(ms) * time.Millisecond
	return w, nil
}

func (w workload) totalRows() int64 { return int64(w.windows) * int64(w.rows) }

// fewest returns the least number of requests that can return all rows.
func (w workload) fewest() int64 {
	return int64(w.windows) * int64(max(1, (w.rows+pageRows-1)/pageRows))
}

// most returns how many requests may be sent where no budget is set: a window's guesses
// that find nothing are at most the logarithm of its pages, to the base of 2.
func (w workload) most() int64 {
	pages := w.fewest() / int64(w.windows)
	return w.fewest() + int64(w.windows*bits.Len64(uint64(pages-1)))
}

// String is the workload as a table shows it: 40 × 25,000.
func (w workload) String() string {
	return humanize.Comma(int64(w.windows)) + " × " + humanize.Comma(int64(w.rows))
}

// The names of the scenarios.
const (
	daysScenario  = "many days"
	largeScenario = "one large window"
	firstReading  = "first reading"
	secondReading = "second reading"
	smallScenario = "small windows"
)

// The sizes that the aims are about.
const (
	manyInFlight = 16
	dayRows      = 25_000
	middleRows   = 1_000_000
	largeRows    = 10_000_000
	usualLatency = 50 * time.Millisecond
)

// scenario is one workload that several clients read.
type scenario struct {
	name     string
	work     workload
	inFlight []int // the values of DOCGAUGE_CONCURRENCY
	plain    bool  // the plain client reads it too
	again    bool  // docgauge reads it a second time, when its ledger knows the pages
	rounds   int   // 0 is one
}

// exportScenarios take about three minutes on two cores, the short ones a few
// seconds; both have every kind.
func exportScenarios(short bool) []scenario {
	if short {
		return []scenario{
			{name: daysScenario, work: workload{6, 1_000, 0}, inFlight: []int{1, 4}, plain: true},
			{name: daysScenario, work: workload{6, 750, 5 * time.Millisecond}, inFlight: []int{4}, plain: true},
			{name: largeScenario, work: workload{1, 20_001, 0}, inFlight: []int{4}},
			{name: firstReading, work: workload{1, 2_600, 5 * time.Millisecond}, inFlight: []int{manyInFlight}, again: true},
			{name: smallScenario, work: workload{12, 10, 0}, inFlight: []int{4}},
			{name: smallScenario, work: workload{3, 0, 0}, inFlight: []int{4}},
		}
	}
	return []scenario{
		{name: daysScenario, work: workload{40, dayRows, 0}, inFlight: []int{1, 4, manyInFlight}, plain: true, rounds: 3},
		{name: daysScenario, work: workload{40, 2_500, usualLatency}, inFlight: []int{1, 4, manyInFlight}, plain: true},
		{name: largeScenario, work: workload{1, 100_000, 0}, inFlight: []int{4}},
		{name: largeScenario, work: workload{1, middleRows, 0}, inFlight: []int{4}},
		{name: largeScenario, work: workload{1, largeRows, 0}, inFlight: []int{4}},
		{name: firstReading, work: workload{1, dayRows, usualLatency}, inFlight: []int{manyInFlight}, plain: true, again: true},
		{name: smallScenario, work: workload{300, 10, 0}, inFlight: []int{4}, plain: true},
	}
}

// contestant is a client in a scenario.
type contestant struct {
	scenario string
	client   string
	inFlight int
}

// exportResult is one row of the table; the package comment explains the numbers.
type exportResult struct {
	contestant
	work       workload
	cost       cost
	requests   int64
	timesPlain float64 // 0 where the plain client did not take part
}

func (r exportResult) ratio() float64         { return float64(r.requests) / float64(r.work.fewest()) }
func (r exportResult) rowsPerSecond() float64 { return float64(r.work.totalRows()) / r.cost.seconds }

func (r exportResult) cells() []string {
	cpu, timesPlain := "-", "-"
	if rows := r.work.totalRows(); rows >= 10_000 { // a few rows say little about it
		cpu = fmt.Sprintf("%.2f", r.cost.cpuSeconds/(float64(rows)/1e6))
	}
	if r.timesPlain > 0 {
		timesPlain = fmt.Sprintf("%.2f", r.timesPlain)
	}
	return []string{
		r.scenario, r.work.String(), fmt.Sprintf("%d ms", r.work.latency.Milliseconds()), r.client, strconv.Itoa(r.inFlight),
		fmt.Sprintf("%.2f", r.cost.seconds), humanize.Comma(int64(r.rowsPerSecond())),
		fmt.Sprintf("%.1f", float64(r.work.windows)/r.cost.seconds), cpu, mebibytes(r.cost.maxRSS),
		humanize.Comma(r.requests), fmt.Sprintf("%.2f", r.ratio()), timesPlain,
	}
}

// exportAll runs the scenarios one after the other. In each, the clients take
// turns, round after round, and the median of each counts.
func (l *lab) exportAll(ctx context.Context, scenarios []scenario, done func(cells []string)) (all []exportResult, err error) {
	for _, s := range scenarios {
		var contestants []contestant
		if s.plain {
			contestants = append(contestants, contestant{s.name, plainClient, 1})
		}
		for _, n := range s.inFlight {
			contestants = append(contestants, contestant{s.name, docgaugeClient, n})
		}
		runs := map[contestant][]exportResult{}
		for range max(s.rounds, 1) {
			for _, c := range contestants {
				err := l.inDir(func(dir string) error {
					r, err := l.export(ctx, c, s.work, dir)
					if err != nil {
						return err
					}
					runs[c] = append(runs[c], r)
					if !s.again || c.client != docgaugeClient {
						return nil
					}
					c.scenario = secondReading
					r, err = l.export(ctx, c, s.work, dir)
					runs[c] = append(runs[c], r)
					return err
				})
				if err != nil {
					return all, err
				}
			}
		}
		if s.again {
			contestants = append(contestants, contestant{secondReading, docgaugeClient, s.inFlight[0]})
		}
		plain := 0.0
		for _, c := range contestants {
			r := median(runs[c], func(r exportResult) float64 { return r.cost.seconds })
			if c.client == plainClient {
				plain = r.cost.seconds
			}
			r.timesPlain = plain / r.cost.seconds
			done(r.cells())
			all = append(all, r)
		}
	}
	return all, nil
}

// export lets c read w once, in a directory of its own, and compares what it says
// it did with what the server counted.
func (l *lab) export(ctx context.Context, c contestant, w workload, dir string) (r exportResult, err error) {
	from, _ := days(0)
	_, to := days(w.windows - 1)
	cmd := exec.CommandContext(ctx, l.binary, "export", "--json", "--from", from, "--to", to)
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_BASE_URL="+l.server,
		"DOCGAUGE_API_KEY="+benchKey,
		"DOCGAUGE_PROJECTS="+w.project(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_BUDGET=0",
		"DOCGAUGE_CONCURRENCY="+strconv.Itoa(c.inFlight),
		"DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"),
		"DOCGAUGE_LOG_LEVEL=error",
	)
	if c.client == plainClient {
		cmd, err = child(ctx, plainClient, l.server, w.project(), strconv.Itoa(w.windows), filepath.Join(dir, "rows.csv"))
		if err != nil {
			return r, err
		}
	}
	before, err := countRequests(l.server)
	if err != nil {
		return r, err
	}
	out, spent, err := measure(cmd)
	if err != nil {
		return r, err
	}
	after, err := countRequests(l.server)
	if err != nil {
		return r, err
	}
	var said tally
	if err := json.Unmarshal(out, &said); err != nil {
		return r, fmt.Errorf("%s: its summary: %w", c.client, err)
	}
	requests := after - before
	if want := (tally{w.totalRows(), requests}); said != want {
		return r, fmt.Errorf("%s reading %s rows: it reports %+v, the server counted %+v", c.client, w, said, want)
	}
	return exportResult{contestant: c, work: w, cost: spent, requests: requests}, nil
}

// countRequests asks the server how many requests it has received.
func countRequests(base string) (n int64, err error) {
	resp, err := http.Get(base + "/requests")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = fmt.Fscan(resp.Body, &n)
	return n, err
}

// exportAims judges the results; what was not measured is left out.
func exportAims(all []exportResult) (aims []aim) {
	// best returns the results of docgauge that are wanted, the largest value first.
	best := func(value func(exportResult) float64, wanted func(exportResult) bool) []exportResult {
		ours := slices.DeleteFunc(slices.Clone(all), func(r exportResult) bool { return r.client != docgaugeClient || !wanted(r) })
		slices.SortFunc(ours, func(a, b exportResult) int { return cmp.Compare(value(b), value(a)) })
		return ours
	}
	add := func(name, format string, value float64, met bool) {
		aims = append(aims, aim{name, fmt.Sprintf(format, value), met})
	}
	memory := func(r exportResult) float64 { return float64(r.cost.maxRSS) }
	if ours := best(exportResult.ratio, func(exportResult) bool { return true }); len(ours) > 0 {
		few := !slices.ContainsFunc(ours, func(r exportResult) bool { return r.requests < r.work.fewest() || r.requests > r.work.most() })
		add("without a budget, at most ⌈log₂ pages⌉ requests of a window find nothing", "ratio %.4g at worst", ours[0].ratio(), few)
	}
	fast := best(exportResult.rowsPerSecond, func(r exportResult) bool {
		return r.scenario == daysScenario && r.work.latency == 0 && r.work.rows == dayRows
	})
	if len(fast) > 0 {
		add("300,000 rows/s at 0 ms on two cores", "%.0f", fast[0].rowsPerSecond(), fast[0].rowsPerSecond() >= 300_000)
	}
	slow := best(exportResult.rowsPerSecond, func(r exportResult) bool {
		return r.scenario == daysScenario && r.work.latency == usualLatency && r.inFlight == manyInFlight
	})
	if len(slow) > 0 {
		add("10 times the plain client at 50 ms and 16 in flight", "%.1f times", slow[0].timesPlain, slow[0].timesPlain >= 10)
	}
	large := best(memory, func(r exportResult) bool { return r.work.rows == largeRows })
	middle := best(memory, func(r exportResult) bool { return r.work.rows == middleRows })
	if len(large) > 0 {
		add("peak RSS under 128 MiB at 10,000,000 rows", "%.0f MiB", memory(large[0])/(1<<20), memory(large[0]) < 128<<20)
	}
	if len(large) > 0 && len(middle) > 0 {
		growth := memory(large[0]) / memory(middle[0])
		add("peak RSS flat from 1,000,000 to 10,000,000 rows, within a tenth", "%.2f times", growth, growth <= 1.1)
	}
	return aims
}
