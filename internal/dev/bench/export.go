package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

// benchKey is not secret: the bench's server accepts any key.
const benchKey = "bench_key"

// firstDay is so long ago that a thousand windows from it on are complete and settled.
var firstDay = time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC)

// largeBudget is more requests than any scenario needs.
const largeBudget = 100_000

// A second reading has the ledger of the first, which knows the number of pages.
const (
	firstReading  = "first reading"
	secondReading = "second reading"
)

// scenario is work that several clients do.
type scenario struct {
	name    string
	task    task
	clients []client
}

var exportScenarios = func() []scenario {
	plain := client{name: plainClient, inFlight: 1}
	parquet, parquet4 := client{name: goParquetClient, inFlight: 1}, client{name: goParquetClient, inFlight: 4}
	one, four := client{name: docgaugeClient, inFlight: 1}, client{name: docgaugeClient, inFlight: 4}
	many := client{name: docgaugeClient, inFlight: 16}
	budgeted := client{name: docgaugeClient, variant: "budget 100,000", inFlight: 4, budget: largeBudget}
	const usual = 50 * time.Millisecond
	return []scenario{
		{"small windows", task{workload{1_000, 10, 0}, 3}, []client{plain, parquet, four}},
		{"five large windows", task{workload{5, 100_000, 0}, 3}, []client{parquet4, four}},
		{"one large window", task{workload{1, 1_000_000, 0}, 3}, []client{four}},
		{"one large window", task{workload{1, 10_000_000, 0}, 1}, []client{four}},
		{firstReading, task{workload{1, 25_000, usual}, 1}, []client{plain, many}},
		{"with a budget", task{workload{120, 25_000, 0}, 3}, []client{four, budgeted}},
		{"many days", task{workload{40, 25_000, 0}, 3}, []client{plain, one, four, many}},
		{"many days", task{workload{40, 2_500, usual}, 1}, []client{plain, one, four, many}},
	}
}()

// exportAll lets the clients of s take turns, each in its own directory.
func (l *lab) exportAll(ctx context.Context, s scenario) ([]result, error) {
	return l.contest(exportTable, s.name, s.task, s.clients, func(c client, w workload) ([]result, error) {
		dir, err := l.newDir()
		if err != nil {
			return nil, err
		}
		o := order{Base: l.server, Work: w, InFlight: c.inFlight, Dir: dir, First: firstDay}
		first, err := l.export(ctx, c, o)
		if err != nil || s.name != firstReading || l.binaries[c.name] == "" {
			return []result{first}, err
		}
		o.Again = true
		second, err := l.export(ctx, c, o)
		second.scenario = secondReading
		return []result{first, second}, err
	})
}

// export lets c do o. It compares the requests that c reports with those that the server counted,
// and the rows that c wrote with those that the server sent.
func (l *lab) export(ctx context.Context, c client, o order) (r result, err error) {
	cmd, err := l.exportCommand(ctx, c, o)
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
	r.cost, r.requests = spent, after-before
	want, reported := tally{o.Work.totalRows(), r.requests}, tally{}
	if json.Unmarshal(bytes.TrimSpace(out), &reported) != nil && peerPrograms[c.name] != "" {
		reported = want // Python programs report nothing
	}
	found, err := findRows(ctx, o)
	if all := (findings{Rows: o.Work.totalRows()}); err == nil && (reported != want || found != all) {
		err = fmt.Errorf("it reports %+v, the server counted %+v; it wrote %+v, want %+v", reported, want, found, all)
	}
	return r, err
}

// exportCommand returns the command with which c does o.
func (l *lab) exportCommand(ctx context.Context, c client, o order) (*exec.Cmd, error) {
	first, end := o.First.Format(time.DateOnly), o.day(o.Work.Windows).Format(time.DateOnly)
	if peerPrograms[c.name] != "" {
		return pythonCommand(ctx, o.Dir, peerPrograms[c.name],
			o.Base, o.project(), strconv.Itoa(o.Work.Windows), strconv.Itoa(o.InFlight), o.Dir, first)
	}
	if l.binaries[c.name] == "" {
		return child(ctx, c.name, o)
	}
	cmd := exec.CommandContext(ctx, l.binaries[c.name], "export", "--json")
	cmd.Env = append(cleanEnv(),
		"DOCGAUGE_BASE_URL="+o.Base,
		"DOCGAUGE_API_KEY="+benchKey,
		"DOCGAUGE_PROJECTS="+o.project(),
		"DOCGAUGE_WINDOWS=day",
		"DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_BUDGET="+strconv.Itoa(c.budget),
		"DOCGAUGE_CONCURRENCY="+strconv.Itoa(o.InFlight),
		"DOCGAUGE_STATE_DIR="+filepath.Join(o.Dir, "state"),
		"DOCGAUGE_PARQUET_URL="+filepath.Join(o.Dir, "data"),
		"DOCGAUGE_LOG_LEVEL=error",
	)
	if o.Due {
		cmd.Env = append(cmd.Env, "DOCGAUGE_SINCE="+first)
	} else {
		cmd.Args = append(cmd.Args, "--from", first, "--to", end)
	}
	if o.Again {
		cmd.Args = append(cmd.Args, "--again")
	}
	return cmd, nil
}

// countRequests asks the server how many requests it has received.
func countRequests(base string) (int64, error) {
	text, err := get(base+"/requests", benchKey)
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(text), 10, 64)
}
