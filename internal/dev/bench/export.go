package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/docgauge/docgauge/internal/dev/must"
)

// benchKey is not secret: the bench's server accepts any key.
const benchKey = "bench_key"

// firstDay is so long ago that ten thousand windows from it on are complete and settled.
var firstDay = time.Date(1995, time.January, 1, 0, 0, 0, 0, time.UTC)

// largeBudget is more requests than any scenario needs.
const largeBudget = 100_000

// A second reading has the ledger of the first, which knows the number of pages.
const (
	firstReading  = "first reading"
	secondReading = "second reading"
)

var exportContests = func() []contest {
	plain := client{name: plainClient, inFlight: 1}
	parquet, parquet4 := client{name: goParquetClient, inFlight: 1}, client{name: goParquetClient, inFlight: 4}
	one, four := client{name: docgaugeClient, inFlight: 1}, client{name: docgaugeClient, inFlight: 4}
	many := client{name: docgaugeClient, inFlight: 16}
	budgeted := client{name: docgaugeClient, variant: "budget 100,000", inFlight: 4, budget: largeBudget}
	const usual = 50 * time.Millisecond
	return []contest{
		{exportTable, "small windows", workload{1_000, 10, 0}, 3, []client{plain, parquet, four}},
		{exportTable, "five large windows", workload{5, 100_000, 0}, 3, []client{parquet4, four}},
		{exportTable, "one large window", workload{1, 1_000_000, 0}, 3, []client{four}},
		{exportTable, "one large window", workload{1, 2_000_000, 0}, 1, []client{four}},
		{exportTable, "one large window", workload{1, 10_000_000, 0}, 1, []client{four}},
		{exportTable, firstReading, workload{1, 25_000, usual}, 1, []client{plain, many}},
		{exportTable, "with a budget", workload{120, 25_000, 0}, 3, []client{four, budgeted}},
		{exportTable, "many days", workload{40, 25_000, 0}, 3, []client{plain, one, four, many}},
		{exportTable, "many days", workload{40, 2_500, usual}, 1, []client{plain, one, four, many}},
	}
}()

// exportAll lets the clients of c take turns, each in its own directory.
func (l *lab) exportAll(ctx context.Context, c contest) []result {
	if l.short {
		c.work = c.work.shortened()
	}
	return l.compete(c, func(cl client, w workload) []values {
		o := order{Base: l.server, Work: w, InFlight: cl.inFlight, Dir: l.newDir(), First: firstDay}
		all := []values{l.export(ctx, cl, o)}
		if c.scenario == firstReading && l.binaries[cl.name] != "" {
			o.Again = true
			all = append(all, l.export(ctx, cl, o))
		}
		return all
	}, secondReading)
}

// export lets c do o. It compares the requests that c reports with those that the server counted,
// and the rows that c wrote with those that the server sent.
func (l *lab) export(ctx context.Context, c client, o order) values {
	before := l.countRequests()
	out, v := measure(l.exportCommand(ctx, c, o))
	requests, fewest, windows := l.countRequests()-before, o.Work.fewest(), int64(o.Work.Windows)
	want, reported := tally{o.Work.totalRows(), requests}, tally{}
	if json.Unmarshal(bytes.TrimSpace(out), &reported) != nil && peerTools[c.name].program != "" {
		reported = want // Python programs report nothing
	}
	if found := findRows(ctx, o); reported != want || found != (findings{Rows: want.Rows}) {
		must.Do(fmt.Errorf("%s, %s: it reports %+v, the server counted %+v; it wrote %+v", c.label(), o.Work, reported,
			want, found))
	}
	v["requests"], v["ratio"] = float64(requests), float64(requests)/float64(fewest)
	if c.budget == 0 {
		// Asking ahead in growing steps doubles what is known each time, so without a budget as many requests may
		// find no rows as the logarithm of the pages of each window.
		most := windows * int64(bits.Len64(uint64(fewest/windows-1)))
		v["empty share"] = float64(requests-fewest) / float64(max(most, 1))
	}
	return v
}

// exportCommand returns the command with which c does o.
func (l *lab) exportCommand(ctx context.Context, c client, o order) *exec.Cmd {
	first, end := o.First.Format(time.DateOnly), o.day(o.Work.Windows).Format(time.DateOnly)
	if program := peerTools[c.name].program; program != "" {
		path := filepath.Join(o.Dir, program)
		must.Do(os.WriteFile(path, must.Get(peerFiles.ReadFile("peers/"+program)), 0o600))
		return exec.CommandContext(ctx, must.Get(peerPython()), path, o.Base, o.project(),
			strconv.Itoa(o.Work.Windows), strconv.Itoa(o.InFlight), o.Dir, first)
	}
	if l.binaries[c.name] == "" {
		return child(ctx, c.name, o)
	}
	cmd := l.docgauge(ctx, c.name, o.Dir, "export", "--json")
	cmd.Env = append(cmd.Env, "DOCGAUGE_PROJECTS="+o.project(), "DOCGAUGE_BUDGET="+strconv.Itoa(c.budget),
		"DOCGAUGE_CONCURRENCY="+strconv.Itoa(o.InFlight))
	if o.Due {
		cmd.Env = append(cmd.Env, "DOCGAUGE_SINCE="+first)
	} else {
		cmd.Args = append(cmd.Args, "--from", first, "--to", end)
	}
	if o.Again {
		cmd.Args = append(cmd.Args, "--again")
	}
	return cmd
}

// countRequests asks the server how many requests it has received.
func (l *lab) countRequests() int64 {
	return must.Get(strconv.ParseInt(get(l.server+"/requests"), 10, 64))
}
