package warehouse

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/delta"
)

// committed returns the time in an entry of a log.
func committed(t *testing.T, entry string) time.Time {
	t.Helper()
	text, err := os.ReadFile(entry)
	for line := range strings.Lines(string(text)) {
		var action struct {
			CommitInfo struct{ Timestamp int64 }
		}
		err = errors.Join(err, json.Unmarshal([]byte(line), &action))
		if at := action.CommitInfo.Timestamp; at != 0 {
			return time.UnixMilli(at)
		}
	}
	t.Fatalf("%s has no time: %v", entry, err)
	return time.Time{}
}

// content is the content of a window: its totals, and its pages, added up. The sums have no
// meaning; they differ if a row does.
type content struct {
	Revision         int64
	Human, AI, Total int64
	PageCount        int64 `json:"page_count"`
	Pages            int64
	SumHuman         int64 `json:"sum_of_human"`
	SumAI            int64 `json:"sum_of_ai"`
	SumTotal         int64 `json:"sum_of_total"`
	Complete         bool
}

// contents are the rows that readers must find in h, by window.
func (h history) contents() map[string]content {
	all := map[string]content{}
	for _, w := range h.shown() {
		n := w.Totals
		r := content{
			Revision: int64(w.Number), Human: n.Human, AI: n.AI, Total: n.Total,
			PageCount: w.Revision.Rows, Pages: int64(len(w.rows)), Complete: true,
		}
		for _, row := range w.rows {
			r.SumHuman += row.Human
			r.SumAI += row.AI
			r.SumTotal += row.Total
		}
		all[fmt.Sprint(w.Project, " ", w.Granularity, " ", w.From, " ", w.To)] = r
	}
	return all
}

// same compares the rows that readers find with the exported ones.
func (h history) same(t *testing.T, when string, got map[string]content) {
	t.Helper()
	if diff := cmp.Diff(h.contents(), got); diff != "" {
		t.Errorf("%s, -exported +read:\n%s", when, diff)
	}
}

// Before beforeChanges some windows had other numbers than they have now.
var beforeChanges = analytics.NewDate(2026, 10, 27)

// before returns the rows that were exported before beforeChanges.
func (h history) before() history {
	return slices.DeleteFunc(slices.Clone(h), func(w window) bool { return !w.ExportedAt.Before(beforeChanges.Time()) })
}

// versionBefore returns the number of the last entry of a log that was committed before
// beforeChanges.
func versionBefore(t *testing.T, table string) (version int64) {
	t.Helper()
	entries, err := filepath.Glob(filepath.Join(table, "_delta_log", "*.json"))
	for _, entry := range entries {
		if err == nil && committed(t, entry).Before(beforeChanges.Time()) {
			version, err = strconv.ParseInt(strings.TrimSuffix(filepath.Base(entry), ".json"), 10, 64)
		}
	}
	if err != nil || version == 0 || int(version) == len(entries)-1 {
		t.Fatalf("version %d of %d entries of %s: %v", version, len(entries), table, err)
	}
	return version
}

// readTables returns the windows of a root of Delta tables.
func readTables(t *testing.T, root string) map[string]content {
	t.Helper()
	answers, err := engines.DuckDB.Query(t.Context(), t.TempDir(), []engines.DeltaTable{
		{Name: "visitors", Path: filepath.Join(root, "visitors")}, {Name: "totals", Path: filepath.Join(root, "totals")},
	}, `
		SELECT project, granularity, window_start, window_end, revision, human, ai, total, page_count FROM totals`, `
		SELECT project, granularity, window_start, window_end, revision, count(*) AS pages,
		       sum(human) AS sum_of_human, sum(ai) AS sum_of_ai, sum(total) AS sum_of_total
		FROM visitors GROUP BY project, granularity, window_start, window_end, revision`)
	engines.Need(t, err)
	all := map[string]content{}
	for i, answer := range answers {
		for _, row := range answer.Rows {
			name, n := strings.Join(row[:4], " "), make([]int64, 5)
			for i := range row[4:] {
				n[i] = number(t, row[4+i])
			}
			w, known := all[name]
			if known != (i == 1) || known && w.Revision != n[0] || w.Pages != 0 {
				t.Errorf("%s: revision %d is beside %d, or there twice", name, n[0], w.Revision)
			}
			if i == 0 {
				w = content{Revision: n[0], Human: n[1], AI: n[2], Total: n[3], PageCount: n[4]}
			} else {
				w.Pages, w.SumHuman, w.SumAI, w.SumTotal = n[1], n[2], n[3], n[4]
			}
			w.Complete = w.Pages == max(w.PageCount, 0)
			all[name] = w
		}
	}
	return all
}

// testTimeTravel: ClickHouse reads the version that the page names. The readers of deltalog's tests read earlier
// versions, too.
func (s store) testTimeTravel(t *testing.T, clickHouse server) {
	totals := filepath.Join(s.dir, "delta", "totals")
	then := query(t, clickHouse, fmt.Sprintf("SELECT count() FROM deltaLakeLocal('%s') "+
		"SETTINGS delta_lake_snapshot_version = %d", totals, versionBefore(t, totals)))
	if want := fmt.Sprintln(len(exported(t).before().shown())); then != want {
		t.Errorf("%q windows, want %q", then, want)
	}
}

// testSpark asks one Spark, a driver and two executors as a cluster has, for the recipes, to run the job of the page,
// and to restore a compacted table.
func (s store) testSpark(t *testing.T) {
	engines.Long(t)
	setup, all := s.recipes(t, "spark", "spark")
	delta := filepath.Join(s.dir, "delta")
	job, err := filepath.Abs(filepath.Join(repository, "deploy", "spark", "windows.py"))
	if err != nil {
		t.Fatal(err)
	}
	run := fmt.Sprintf("%%run %s %s %d %d", job, delta, versionBefore(t, filepath.Join(delta, "visitors")),
		versionBefore(t, filepath.Join(delta, "totals")))
	h := newest(t)
	root := filepath.Join(t.TempDir(), "delta")
	version := h.compacted(t, root)
	visitors := "delta.`" + root + "/visitors`"
	cmd, err := engines.Spark.Command(t.Context(), t.TempDir())
	engines.Need(t, err)
	cmd.Env = append(cmd.Env, "PYSPARK_SUBMIT_ARGS=--master local-cluster[2,1,1024] pyspark-shell")
	got := answers(t, s.dir, cmd, s.here(t, setup, "/srv/docgauge"), append(all, block{body: run},
		block{body: "RESTORE TABLE " + visitors + " TO VERSION AS OF " + version}, block{body: "VACUUM " + visitors},
		block{body: "SELECT count(*), min(window_start), max(window_end), min(human), max(total) FROM " + visitors})...)
	for i := range all {
		check(t, all[i], got[i])
	}
	t.Run("job", func(t *testing.T) { checkJob(t, got[len(all)]) })
	t.Run("restored", func(t *testing.T) {
		// Spark answers it from the log alone, without a data file.
		if diff := cmp.Diff([][]string{extremes(h)}, got[len(got)-1].Rows); diff != "" {
			t.Errorf("count and extremes, -exported +read:\n%s", diff)
		}
		h.writable(t, root)
	})
}

// checkJob: both executors read a part of the rows, and together they find all exported ones, now and on an earlier
// day.
func checkJob(t *testing.T, printed table) {
	now, then := map[string]content{}, map[string]content{}
	for _, line := range printed.Rows {
		var w struct {
			Project     string
			Granularity string
			From        string `json:"window_start"`
			To          string `json:"window_end"`
			Now, Then   *content
		}
		if err := json.Unmarshal([]byte(line[0]), &w); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		name := strings.Join([]string{w.Project, w.Granularity, w.From, w.To}, " ")
		if w.Now != nil {
			now[name] = *w.Now
		}
		if w.Then != nil {
			then[name] = *w.Then
		}
	}
	exported(t).same(t, "now", now)
	exported(t).before().same(t, "then", then)
	if len(printed.Executors) != 2 {
		t.Errorf("the executors %v read rows", printed.Executors)
	}
}

// deltalake runs Python code with the variables visitors and totals, two tables, and
// returns its output.
func deltalake(t *testing.T, root, code string) string {
	t.Helper()
	program, err := engines.DeltaPython()
	engines.Need(t, err)
	return shell(t, exec.CommandContext(t.Context(), program, "-c", fmt.Sprintf(`
import json, os, sys
from deltalake import DeltaTable
root = %q
visitors, totals = DeltaTable(root + "/visitors"), DeltaTable(root + "/totals")
%s
sys.stdout.flush()
os._exit(0)`, root, code)))
}

// replaceLast writes the newest window again.
func (h history) replaceLast(t *testing.T, root string) error {
	t.Helper()
	sink, err := delta.New(delta.Options{URL: root, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer sink.Close()
	return sink.Replace(t.Context(), h[len(h)-1].seal(t))
}

// newest is the end of the history: a short log is restored sooner.
func newest(t *testing.T) history {
	h := exported(t)
	return h[len(h)-20:]
}

// compacted exports h to root. VACUUM deletes what no version of its time needs, and nothing else; after OPTIMIZE
// nothing is written. It returns the version before that.
func (h history) compacted(t *testing.T, root string) (version string) {
	t.Helper()
	h.asDelta(t, root)
	files := deltalake(t, root, `print([f for t in (visitors, totals) for f in
    t.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)])`)
	if !strings.Contains(files, ".parquet") {
		t.Error("no replaced file was deleted")
	}
	h.same(t, "after VACUUM", readTables(t, root))
	version = strings.TrimSpace(deltalake(t, root, "print(visitors.version())\nvisitors.optimize.compact()"))
	if err := h.replaceLast(t, root); err == nil {
		t.Fatal("a compacted table was written to")
	}
	h.same(t, "after OPTIMIZE", readTables(t, root))
	return version
}

// writable: once the version before OPTIMIZE was restored, tables are written to again.
func (h history) writable(t *testing.T, root string) {
	t.Helper()
	if err := h.replaceLast(t, root); err != nil {
		t.Error(err)
	}
	h.same(t, "after RESTORE and another export", readTables(t, root))
}

// TestMaintenance is done by deltalake; Spark restores in testSpark.
func TestMaintenance(t *testing.T) {
	h, root := newest(t), filepath.Join(t.TempDir(), "delta")
	deltalake(t, root, "visitors.restore("+h.compacted(t, root)+")")
	h.writable(t, root)
}

// extremes are the number of rows, their first and last date, and the smallest and the
// largest number of visitors.
func extremes(h history) []string {
	count, first, last := 0, analytics.Date(math.MaxInt32), analytics.Date(0)
	least, most := int64(math.MaxInt64), int64(0)
	for _, w := range h.shown() {
		for _, row := range w.rows {
			count++
			first, last, least, most = min(first, w.From), max(last, w.To), min(least, row.Human), max(most, row.Total)
		}
	}
	return strings.Fields(fmt.Sprintln(count, first, last, least, most))
}
