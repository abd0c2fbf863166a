package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"
)

// benchKey is no secret: the bench's server accepts any key.
const benchKey = "bench_key"

// The clients. formerClient is a docgauge that was built from an earlier commit.
const (
	plainClient     = "plain"
	goParquetClient = "go-parquet"
	docgaugeClient  = "docgauge"
	formerClient    = "docgauge before"
)

// workload is the data that is read: day windows from firstDay on, all of one size.
type workload struct {
	windows int
	rows    int // of each window
	latency time.Duration
}

// firstDay is so long past that a thousand windows from it on are complete and settled.
var firstDay = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// days returns the day of window n, counted from 0 on the first day, and the day after it.
func days(first time.Time, n int) (from, to string) {
	day := first.AddDate(0, 0, n)
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

// String is the workload as a table shows it: 40 × 25,000.
func (w workload) String() string {
	return humanize.Comma(int64(w.windows)) + " × " + humanize.Comma(int64(w.rows))
}

// The names of the scenarios.
const (
	daysScenario   = "many days"
	fiveScenario   = "five large windows"
	largeScenario  = "one large window"
	firstReading   = "first reading"
	secondReading  = "second reading"
	smallScenario  = "small windows"
	budgetScenario = "with a budget"
)

// The sizes that the aims are about.
const (
	usualInFlight = 4
	manyInFlight  = 16
	dayRows       = 25_000
	middleRows    = 1_000_000
	largeRows     = 10_000_000
	usualLatency  = 50 * time.Millisecond
	largeBudget   = 100_000
)

// contestant is a client in a scenario.
type contestant struct {
	scenario string
	client   string
	inFlight int // requests of docgauge, windows of go-parquet, 1 of the plain client
	budget   int // DOCGAUGE_BUDGET; 0 is unlimited
}

// scenario is one workload that several clients read.
type scenario struct {
	name    string
	work    workload
	clients []contestant // their scenario is filled in
	again   bool         // docgauge reads it a second time, when its ledger knows the pages
	rounds  int          // 0 is one
}

var plain1 = contestant{client: plainClient, inFlight: 1}

func goParquet(inFlight int) contestant {
	return contestant{client: goParquetClient, inFlight: inFlight}
}
func docgauge(inFlight int) contestant { return contestant{client: docgaugeClient, inFlight: inFlight} }

// exportScenarios take about five minutes on two cores, the short ones a few
// seconds; both have every kind.
func exportScenarios(short bool) []scenario {
	one, four, many := docgauge(1), docgauge(usualInFlight), docgauge(manyInFlight)
	budgeted := contestant{client: docgaugeClient, inFlight: usualInFlight, budget: largeBudget}
	if short {
		return []scenario{
			{name: daysScenario, work: workload{6, 1_000, 0}, clients: []contestant{plain1, one, four}},
			{name: daysScenario, work: workload{6, 750, 5 * time.Millisecond}, clients: []contestant{plain1, four}},
			{name: fiveScenario, work: workload{5, 1_001, 0}, clients: []contestant{goParquet(usualInFlight), four}},
			{name: largeScenario, work: workload{1, 20_001, 0}, clients: []contestant{four}},
			{name: firstReading, work: workload{1, 2_600, 5 * time.Millisecond}, clients: []contestant{many}, again: true},
			{name: smallScenario, work: workload{12, 10, 0}, clients: []contestant{goParquet(1), four}},
			{name: smallScenario, work: workload{3, 0, 0}, clients: []contestant{goParquet(1), four}},
			{name: budgetScenario, work: workload{4, 750, 0}, clients: []contestant{four, budgeted}},
		}
	}
	return []scenario{
		{name: smallScenario, work: workload{1_000, 10, 0}, clients: []contestant{plain1, goParquet(1), four}, rounds: 3},
		{name: fiveScenario, work: workload{5, 100_000, 0}, clients: []contestant{goParquet(usualInFlight), four}, rounds: 3},
		{name: largeScenario, work: workload{1, middleRows, 0}, clients: []contestant{four}, rounds: 3},
		{name: largeScenario, work: workload{1, largeRows, 0}, clients: []contestant{four}},
		{name: firstReading, work: workload{1, dayRows, usualLatency}, clients: []contestant{plain1, many}, again: true},
		{name: budgetScenario, work: workload{120, dayRows, 0}, clients: []contestant{four, budgeted}, rounds: 3},
		{name: daysScenario, work: workload{40, dayRows, 0}, clients: []contestant{plain1, one, four, many}, rounds: 3},
		{name: daysScenario, work: workload{40, 2_500, usualLatency}, clients: []contestant{plain1, one, four, many}},
	}
}

// exportResult is one row of the table; the package comment explains the numbers.
type exportResult struct {
	contestant
	work     workload
	cost     cost
	requests int64
	times    map[string]float64 // the speed divided by that of another client, by its name
}

func (r exportResult) ratio() float64         { return float64(r.requests) / float64(r.work.fewest()) }
func (r exportResult) rowsPerSecond() float64 { return float64(r.work.totalRows()) / r.cost.seconds }

func (r exportResult) cells() []string {
	client, cpu := r.client, "-"
	if r.budget > 0 {
		client += ", budget " + humanize.Comma(int64(r.budget))
	}
	if rows := r.work.totalRows(); rows >= 10_000 { // a few rows say little about it
		cpu = fmt.Sprintf("%.2f", r.cost.cpuSeconds/(float64(rows)/1e6))
	}
	cells := []string{
		r.scenario, r.work.String(), fmt.Sprintf("%d ms", r.work.latency.Milliseconds()), client, strconv.Itoa(r.inFlight),
		fmt.Sprintf("%.2f", r.cost.seconds), humanize.Comma(int64(r.rowsPerSecond())),
		fmt.Sprintf("%.1f", float64(r.work.windows)/r.cost.seconds), cpu, mebibytes(r.cost.maxRSS),
		humanize.Comma(r.requests), fmt.Sprintf("%.2f", r.ratio()),
	}
	for _, other := range []string{plainClient, goParquetClient, formerClient} {
		times := "-"
		if r.times[other] > 0 {
			times = fmt.Sprintf("%.2f", r.times[other])
		}
		cells = append(cells, times)
	}
	return cells
}

// compare fills in times: against the one plain client and the one go-parquet
// client of the scenario, and against the former docgauge with the same settings.
func compare(results []exportResult) {
	for i, r := range results {
		results[i].times = map[string]float64{}
		for _, other := range results {
			twin := r.contestant
			twin.client = formerClient
			if other.client != docgaugeClient && (other.client != formerClient || other.contestant == twin) {
				results[i].times[other.client] = other.cost.seconds / r.cost.seconds
			}
		}
	}
}

// exportAll runs the scenarios one after the other. In each, the clients take
// turns, round after round, and the median of each counts.
func (l *lab) exportAll(ctx context.Context, scenarios []scenario, done func(cells []string)) (all []exportResult, err error) {
	for _, s := range scenarios {
		var order []contestant
		runs := map[contestant][]exportResult{}
		add := func(r exportResult) {
			if runs[r.contestant] == nil {
				order = append(order, r.contestant)
			}
			runs[r.contestant] = append(runs[r.contestant], r)
		}
		for range max(s.rounds, 1) {
			for _, c := range l.contestants(s) {
				if err := l.turn(ctx, c, s, add); err != nil {
					return all, err
				}
			}
		}
		var results []exportResult
		for _, c := range order {
			results = append(results, median(runs[c], func(r exportResult) float64 { return r.cost.seconds }))
		}
		compare(results)
		for _, r := range results {
			done(r.cells())
		}
		all = append(all, results...)
	}
	return all, nil
}

// contestants are the clients of s, and before each docgauge the former one.
func (l *lab) contestants(s scenario) (all []contestant) {
	for _, c := range s.clients {
		c.scenario = s.name
		if c.client == docgaugeClient && l.former != "" {
			twin := c
			twin.client = formerClient
			all = append(all, twin)
		}
		all = append(all, c)
	}
	return all
}

// turn lets c read s in a directory of its own, a second time if s wants that.
func (l *lab) turn(ctx context.Context, c contestant, s scenario, add func(exportResult)) error {
	return l.inDir(func(dir string) error {
		r, err := l.export(ctx, c, s.work, dir)
		if err != nil {
			return err
		}
		add(r)
		if !s.again || l.binaryOf(c.client) == "" {
			return nil
		}
		c.scenario = secondReading
		r, err = l.export(ctx, c, s.work, dir)
		add(r)
		return err
	})
}

// binaryOf returns the docgauge that a client is, if it is one.
func (l *lab) binaryOf(client string) string {
	return map[string]string{docgaugeClient: l.binary, formerClient: l.former}[client]
}

// export lets c read w in dir, and compares what it says it did with what the
// server counted, and what it wrote with what the server sent.
func (l *lab) export(ctx context.Context, c contestant, w workload, dir string) (r exportResult, err error) {
	cmd, err := l.exportCommand(ctx, c, w, dir)
	if err != nil {
		return r, err
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
	found, err := findRows(ctx, dir, w, firstDay)
	if want := (findings{Rows: w.totalRows()}); err == nil && found != want {
		err = fmt.Errorf("%s reading %s rows: it wrote %+v, want %+v", c.client, w, found, want)
	}
	return exportResult{contestant: c, work: w, cost: spent, requests: requests}, err
}

// exportCommand returns the command with which c reads w into dir.
func (l *lab) exportCommand(ctx context.Context, c contestant, w workload, dir string) (*exec.Cmd, error) {
	if l.binaryOf(c.client) == "" {
		return child(ctx, c.client, orderArgs(l.server, w, c.inFlight, dir, firstDay)...)
	}
	from, _ := days(firstDay, 0)
	_, to := days(firstDay, w.windows-1)
	return l.docgaugeCommand(ctx, c, w, dir, "--from", from, "--to", to), nil
}

// docgaugeCommand returns an export of w into dir.
func (l *lab) docgaugeCommand(ctx context.Context, c contestant, w workload, dir string, flags ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, l.binaryOf(c.client), append([]string{"export", "--json"}, flags...)...)
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_BASE_URL="+l.server,
		"DOCGAUGE_API_KEY="+benchKey,
		"DOCGAUGE_PROJECTS="+w.project(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_BUDGET="+strconv.Itoa(c.budget),
		"DOCGAUGE_CONCURRENCY="+strconv.Itoa(c.inFlight),
		"DOCGAUGE_STATE_DIR="+filepath.Join(dir, "state"),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"),
		"DOCGAUGE_LOG_LEVEL=error",
	)
	return cmd
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
