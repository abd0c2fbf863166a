package warehouse

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// content is what a reader finds of a window: its totals, and its pages, added up. The
// sums count nobody; they differ if a row does.
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

// contents are what readers must find of h, by window.
func (h history) contents() map[string]content {
	all := map[string]content{}
	for _, w := range h.shown() {
		n := w.Totals
		r := content{Revision: int64(w.Number), Human: n.Human, AI: n.AI, Total: n.Total, PageCount: w.Revision.Rows, Pages: int64(len(w.rows)), Complete: true}
		for _, row := range w.rows {
			r.SumHuman += row.Human
			r.SumAI += row.AI
			r.SumTotal += row.Total
		}
		all[windowName(w.Project, string(w.Granularity), w.From.String(), w.To.String())] = r
	}
	return all
}

func windowName(parts ...string) string { return strings.Join(parts, " ") }

// before returns what was exported before that day.
func (h history) before(day analytics.Date) history {
	return slices.DeleteFunc(slices.Clone(h), func(w window) bool { return !w.ExportedAt.Before(day.Time()) })
}

// versionBefore returns the number of the last entry of a log that was committed before.
func versionBefore(t *testing.T, table string, day analytics.Date) (version int64) {
	t.Helper()
	version = -1
	entries, err := filepath.Glob(filepath.Join(table, "_delta_log", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		if committed(t, entry).Before(day.Time()) {
			n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(entry), ".json"), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			version = max(version, n)
		}
	}
	if version < 0 || int(version) == len(entries)-1 {
		t.Fatalf("%d of %d entries of %s are older than %s", version+1, len(entries), table, day)
	}
	return version
}

// beforeChanges is a day before which some windows had other numbers than they have now.
var beforeChanges = analytics.NewDate(2026, 10, 27)

// TestDeltaReadings: other programs count the rows that were exported, now and on an
// earlier day.
func TestDeltaReadings(t *testing.T) {
	h := exported(t)
	root := filepath.Join(deltaLake(t, h), "delta")
	for _, r := range []engines.DeltaReader{engines.Deltalake, engines.DuckDB} {
		for day, want := range map[analytics.Date]history{beforeChanges: h.before(beforeChanges), 0: h} {
			t.Run(fmt.Sprintf("%s/%s", r, day), func(t *testing.T) {
				if diff := cmp.Diff(want.contents(), readTables(t, r, root, day)); diff != "" {
					t.Errorf("-exported +read:\n%s", diff)
				}
			})
		}
	}
}

// readTables returns the windows of a root of Delta tables, as they are or as they were before day.
func readTables(t *testing.T, r engines.DeltaReader, root string, day analytics.Date) map[string]content {
	t.Helper()
	var tables []engines.DeltaTable
	for _, name := range []string{"visitors", "totals"} {
		table := engines.DeltaTable{Name: name, Path: filepath.Join(root, name)}
		if day != 0 {
			version := versionBefore(t, table.Path, day)
			table.Version = &version
		}
		tables = append(tables, table)
	}
	answers, err := r.Query(t.Context(), t.TempDir(), tables, `
		SELECT project, granularity, window_start, window_end, revision, human, ai, total, page_count FROM totals`, `
		SELECT project, granularity, window_start, window_end, revision, count(*) AS pages,
		       sum(human) AS sum_of_human, sum(ai) AS sum_of_ai, sum(total) AS sum_of_total
		FROM visitors GROUP BY project, granularity, window_start, window_end, revision`)
	engines.Need(t, err)
	all := map[string]content{}
	for _, row := range answers[0].Rows {
		n := numbers(t, row[4:])
		name := windowName(row[:4]...)
		if _, twice := all[name]; twice {
			t.Errorf("%s is in totals twice", name)
		}
		all[name] = content{Revision: n[0], Human: n[1], AI: n[2], Total: n[3], PageCount: n[4]}
	}
	for _, row := range answers[1].Rows {
		n, name := numbers(t, row[4:]), windowName(row[:4]...)
		w := all[name]
		if w.Revision != n[0] || w.Pages != 0 {
			t.Errorf("visitors has revision %d of %s beside %d", n[0], name, w.Revision)
		}
		w.Pages, w.SumHuman, w.SumAI, w.SumTotal = n[1], n[2], n[3], n[4]
		all[name] = w
	}
	for name, w := range all {
		w.Complete = w.Pages == max(w.PageCount, 0)
		all[name] = w
	}
	return all
}

func numbers(t *testing.T, cells []string) (all []int64) {
	t.Helper()
	for _, cell := range cells {
		n, err := strconv.ParseInt(cell, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, n)
	}
	return all
}

// TestSparkJob runs the job of the page as a cluster does: both executors read a part of
// the rows, and together they find what was exported, now and on an earlier day.
func TestSparkJob(t *testing.T) {
	h := exported(t)
	dir := deltaLake(t, h)
	root := filepath.Join(dir, "delta")
	job, err := filepath.Abs(filepath.Join(repository, "deploy", "spark", "windows.py"))
	if err != nil {
		t.Fatal(err)
	}
	var versions []string
	for _, name := range []string{"visitors", "totals"} {
		versions = append(versions, strconv.FormatInt(versionBefore(t, filepath.Join(root, name), beforeChanges), 10))
	}
	printed, rows, err := engines.SparkSubmit(t.Context(), dir, job, append([]string{root}, versions...)...)
	engines.Need(t, err)
	now, then := map[string]content{}, map[string]content{}
	for line := range strings.Lines(printed) {
		var w struct {
			Project     string
			Granularity string
			From        string `json:"window_start"`
			To          string `json:"window_end"`
			Now, Then   *content
		}
		if err := json.Unmarshal([]byte(line), &w); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		name := windowName(w.Project, w.Granularity, w.From, w.To)
		for found, r := range map[*map[string]content]*content{&now: w.Now, &then: w.Then} {
			if r != nil {
				(*found)[name] = *r
			}
		}
	}
	if diff := cmp.Diff(h.contents(), now); diff != "" {
		t.Errorf("now, -exported +printed:\n%s", diff)
	}
	if diff := cmp.Diff(h.before(beforeChanges).contents(), then); diff != "" {
		t.Errorf("then, -exported +printed:\n%s", diff)
	}
	if len(rows) != 2 {
		t.Errorf("the executors read %v rows", rows)
	}
}
