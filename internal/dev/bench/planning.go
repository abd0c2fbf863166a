package main

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/delta"
)

// planningScenarios is the name for -only.
const planningScenarios = "planning"

//go:embed planning/planning.py
var planningPrograms embed.FS

// planner is a reader, and the root below which it finds the directories visitors and
// totals.
type planner struct {
	name, root string
	program    engines.DeltaReader
	reader     string // in planning.py; empty: ClickHouse
}

// planningResult is one row of the table: seconds of a query for one window.
type planningResult struct {
	reader  string
	windows int
	entries int // of the log; 0: no log
	First   float64
	Next    float64
	Rows    int
}

func (r planningResult) cells() []string {
	entries := "-"
	if r.entries > 0 {
		entries = strconv.Itoa(r.entries)
	}
	return []string{r.reader, humanize.Comma(int64(r.windows)), entries, fmt.Sprintf("%.2f", r.First), fmt.Sprintf("%.2f", r.Next)}
}

// planningAll measures how long readers need for the pages of one window of a table with
// many, the median of three: windows that were exported together, as load does, and one by
// one. The folder of Parquet files has the same windows.
func (l *lab) planningAll(ctx context.Context, short bool, done func(cells []string)) (all []planningResult, err error) {
	windows, rounds := 10_000, 3
	if short {
		windows, rounds = 20, 1
	}
	err = l.inDir(func(dir string) error {
		write, err := child(ctx, "archive", dir, strconv.Itoa(windows), strconv.Itoa(planningRows))
		if err == nil {
			_, _, err = measure(write)
		}
		if err != nil {
			return err
		}
		together, single := filepath.Join(dir, "together"), filepath.Join(dir, "single")
		if err := errors.Join(deltaTables(ctx, dir, together, manyInFlight), deltaTables(ctx, dir, single, 1)); err != nil {
			return err
		}
		for _, p := range []planner{
			{"deltalake", together, engines.Deltalake, "deltalake"},
			{"deltalake", single, engines.Deltalake, "deltalake"},
			{"DuckDB", together, engines.DuckDB, "duckdb"},
			{"DuckDB", single, engines.DuckDB, "duckdb"},
			{"Spark, on one machine", together, engines.Spark, "spark"},
			{"Spark, on one machine", single, engines.Spark, "spark"},
			{"ClickHouse", together, "", ""},
			{"ClickHouse", single, "", ""},
			{"DuckDB, Parquet files", filepath.Join(dir, "data"), engines.DuckDB, "files"},
		} {
			r, err := p.median(ctx, dir, rounds)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			r.windows = windows
			done(r.cells())
			all = append(all, r)
		}
		return nil
	})
	return all, err
}

// planningRows are few, so that what is measured is not their reading.
const planningRows = 10

// deltaTables fills a root with the windows below dir/data, that many at once.
func deltaTables(ctx context.Context, dir, root string, inFlight int) error {
	files, err := filepath.Glob(filepath.Join(dir, "data", "visitors", "v1", "*", "*", "*", "*.parquet"))
	if err != nil {
		return err
	}
	sink, err := delta.New(delta.Config{URL: root, Now: time.Now})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(inFlight)
	for _, file := range files {
		group.Go(func() error {
			w, err := archive.Open(file)
			if err != nil {
				return err
			}
			return sink.Replace(ctx, w)
		})
	}
	return errors.Join(group.Wait(), sink.Close())
}

// median measures a few times, each time in a new process.
func (p planner) median(ctx context.Context, dir string, rounds int) (r planningResult, err error) {
	logs, err := filepath.Glob(filepath.Join(p.root, "visitors", "_delta_log", "*.json"))
	if err != nil {
		return r, err
	}
	var runs []planningResult
	for range rounds {
		run, err := p.measure(ctx, dir)
		if err == nil && run.Rows != planningRows {
			err = fmt.Errorf("found %d rows, want %d", run.Rows, planningRows)
		}
		if err != nil {
			return r, err
		}
		runs = append(runs, run)
	}
	r = median(runs, func(r planningResult) float64 { return r.First })
	r.reader, r.entries = p.name, len(logs)
	return r, nil
}

// planningCondition chooses one window of those that the child "archive" writes.
var planningCondition = fmt.Sprintf("project = 'bench' AND granularity = 'day' AND window_start = '%s'", firstDay.Format(time.DateOnly))

func (p planner) measure(ctx context.Context, dir string) (r planningResult, err error) {
	visitors, totals := filepath.Join(p.root, "visitors"), filepath.Join(p.root, "totals")
	if p.reader == "" {
		return clickhousePlanning(ctx, dir, totals, visitors)
	}
	program, err := planningPrograms.ReadFile("planning/planning.py")
	if err != nil {
		return r, err
	}
	cmd, err := p.program.Script(ctx, dir, string(program), p.reader, totals, visitors, planningCondition)
	if err != nil {
		return r, err
	}
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, stderr.String())
	}
	return r, json.Unmarshal(out, &r)
}

// clickhousePlanning does in a server what planning.py does with the other readers. The
// tables are below dir, as the server reads nothing else.
func clickhousePlanning(ctx context.Context, dir, other, path string) (r planningResult, err error) {
	server, err := engines.StartEngine26(dir)
	if err != nil {
		return r, err
	}
	defer server.Kill()
	query := func(path string) (seconds float64, err error) {
		begin := time.Now()
		out, err := server.Exec(ctx, "SELECT count() FROM deltaLakeLocal('"+path+"') WHERE "+planningCondition)
		if err == nil {
			_, err = fmt.Sscan(out, &r.Rows)
		}
		return time.Since(begin).Seconds(), err
	}
	if _, err = query(other); err != nil {
		return r, err
	}
	if r.First, err = query(path); err != nil {
		return r, err
	}
	r.Next, err = query(path)
	return r, err
}

func planningTable(all []planningResult) table {
	t := table{{"reader", "windows", "log entries", "first query, seconds", "next query, seconds"}}
	for _, r := range all {
		t = append(t, r.cells())
	}
	return t
}
