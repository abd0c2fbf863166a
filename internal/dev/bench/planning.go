package main

import (
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/internal/dev/engines"
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
// many, the median of three. The folder of Parquet files has the same windows.
func planningAll(ctx context.Context, dir, root, files string, windows, windowRows int, done func(cells []string)) (all []planningResult, err error) {
	logs, err := filepath.Glob(filepath.Join(root, "visitors", "_delta_log", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, p := range []planner{
		{"deltalake", root, engines.Deltalake, "deltalake"},
		{"DuckDB", root, engines.DuckDB, "duckdb"},
		{"Spark, on one machine", root, engines.Spark, "spark"},
		{"ClickHouse", root, "", ""},
		{"DuckDB, Parquet files", files, engines.DuckDB, "files"},
	} {
		var runs []planningResult
		for range 3 {
			r, err := p.measure(ctx, dir)
			if err == nil && r.Rows != windowRows {
				err = fmt.Errorf("found %d rows, want %d", r.Rows, windowRows)
			}
			if err != nil {
				return all, fmt.Errorf("%s: %w", p.name, err)
			}
			runs = append(runs, r)
		}
		r := median(runs, func(r planningResult) float64 { return r.First })
		r.reader, r.windows = p.name, windows
		if p.root == root {
			r.entries = len(logs)
		}
		done(r.cells())
		all = append(all, r)
	}
	return all, nil
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
	out, err := cmd.Output()
	if err != nil {
		return r, fmt.Errorf("%w\n%s", err, stderrOf(err))
	}
	return r, json.Unmarshal(out, &r)
}

func stderrOf(err error) []byte {
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Output returns it bare
		return exit.Stderr
	}
	return nil
}

// clickhousePlanning does in a server what planning.py does with the other readers.
func clickhousePlanning(ctx context.Context, dir, other, path string) (r planningResult, err error) {
	if dir, err = os.MkdirTemp(dir, "clickhouse-"); err != nil {
		return r, err
	}
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
