package warehouse

import (
	"encoding/json"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/delta"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// deltalake runs Python code with the variables visitors and totals, two tables, and
// returns what it prints.
func deltalake(t *testing.T, root, code string) string {
	t.Helper()
	program, err := engines.DeltaPython()
	engines.Need(t, err)
	return shell(t, exec.CommandContext(t.Context(), program, "-c", fmt.Sprintf(`
import os, sys
from deltalake import DeltaTable
root = %q
visitors, totals = DeltaTable(root + "/visitors"), DeltaTable(root + "/totals")
%s
sys.stdout.flush()
os._exit(0)`, root, code)))
}

func openDelta(t *testing.T, root string) *delta.Sink {
	t.Helper()
	sink, err := delta.New(delta.Options{URL: root, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := sink.Close(); err != nil {
			t.Error(err)
		}
	})
	return sink
}

// replaceLast writes the newest window again.
func replaceLast(t *testing.T, h history, sink sinks.Sink) error {
	t.Helper()
	w := h[len(h)-1]
	return sink.Replace(t.Context(), sinktest.Seal(t, w.Revision, each(w.rows)))
}

// TestDeltaSkipping: the log says which file holds a window. Files without a row have no
// bounds, as their smallest values would be those of no row: readers open them, too.
func TestDeltaSkipping(t *testing.T) {
	h, empty := exported(t), 0
	for _, w := range h.shown() {
		if w.Revision.Rows == 0 {
			empty++
		}
	}
	printed := deltalake(t, filepath.Join(deltaLake(t, h), "delta"), `
from datetime import date
import pyarrow.dataset as ds
for table in visitors, totals:
    for window_start in date(2026, 10, 26), date(2026, 11, 2):
        print(len(list(table.to_pyarrow_dataset().get_fragments(filter=(ds.field("project") == "docs")
            & (ds.field("granularity") == "week") & (ds.field("window_start") == window_start)))))`)
	if want := fmt.Sprintf("%d\n%d\n1\n0\n", 1+empty, empty); printed != want {
		t.Errorf("files of a window that is there, and of one that is not: %q, want %q", printed, want)
	}
}

// TestDeltaVacuum: VACUUM deletes what no version of its time needs, and nothing else.
func TestDeltaVacuum(t *testing.T) {
	h := exported(t)
	root := filepath.Join(deltaLake(t, h), "delta")
	deleted := func(hours int) (all []string) {
		text := deltalake(t, root, fmt.Sprintf(`
import json
print(json.dumps([f for t in (visitors, totals) for f in
    t.vacuum(retention_hours=%d, dry_run=False, enforce_retention_duration=False)]))`, hours))
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	if files := deleted(0); len(files) == 0 {
		t.Error("no replaced file was deleted")
	}
	if diff := cmp.Diff(h.contents(), readTables(t, engines.DuckDB, root, 0)); diff != "" {
		t.Errorf("after VACUUM, -exported +read:\n%s", diff)
	}
	if err := replaceLast(t, h, openDelta(t, root)); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(h.contents(), readTables(t, engines.DuckDB, root, 0)); diff != "" {
		t.Errorf("after another export, -exported +read:\n%s", diff)
	}
}

// extremes are the number of rows, their first and last date, and the smallest and the
// largest number of visitors.
func extremes(h history) []string {
	count, first, last, least, most := 0, analytics.Date(math.MaxInt32), analytics.Date(0), int64(math.MaxInt64), int64(0)
	for _, w := range h.shown() {
		for _, row := range w.rows {
			count++
			first, last, least, most = min(first, w.From), max(last, w.To), min(least, row.Human), max(most, row.Total)
		}
	}
	return strings.Fields(fmt.Sprintln(count, first, last, least, most))
}

// TestDeltaOptimize: after OPTIMIZE nothing is written until the version before is
// restored, by whichever engine. Spark then cleans up, too.
func TestDeltaOptimize(t *testing.T) {
	h := exported(t)
	h = h[len(h)-20:] // Spark restores a short log sooner
	dir := deltaLake(t, h)
	root := filepath.Join(dir, "delta")
	for name, restore := range map[string]func(t *testing.T, version string){
		"deltalake": func(t *testing.T, version string) { deltalake(t, root, "visitors.restore("+version+")") },
		"Spark": func(t *testing.T, version string) {
			table := "delta.`" + root + "/visitors`"
			answers, err := engines.Spark.Query(t.Context(), dir, nil, "RESTORE TABLE "+table+" TO VERSION AS OF "+version,
				"VACUUM "+table, "SELECT count(*), min(window_start), max(window_end), min(human), max(total) FROM "+table)
			engines.Need(t, err)
			// The last it answers from the log alone, without a data file.
			if diff := cmp.Diff([][]string{extremes(h)}, answers[2].Rows); diff != "" {
				t.Errorf("count and extremes, -exported +read:\n%s", diff)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			version := strings.TrimSpace(deltalake(t, root, "print(visitors.version())\nvisitors.optimize.compact()"))
			err := replaceLast(t, h, openDelta(t, root))
			if err == nil {
				t.Fatal("a compacted table was written to")
			}
			if diff := cmp.Diff(h.contents(), readTables(t, engines.DuckDB, root, 0)); diff != "" {
				t.Errorf("after OPTIMIZE, -exported +read:\n%s", diff)
			}
			restore(t, version)
			if err := replaceLast(t, h, openDelta(t, root)); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(h.contents(), readTables(t, engines.DuckDB, root, 0)); diff != "" {
				t.Errorf("after RESTORE, -exported +read:\n%s", diff)
			}
		})
	}
}
