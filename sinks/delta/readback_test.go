package delta

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestReaders: other programs read the tables, with filters by which they leave files out: texts longer than
// statistics are, times finer than they are, and a project with the name of the log.
func TestReaders(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root)
	replace(t, s, seal(t, 1, 30))
	replace(t, s, seal(t, 2, 1500))
	replace(t, s, sealDay(t, 1, 1, 0))
	replace(t, s, sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("_delta_log", 2), 1)), nil))
	long := []string{strings.Repeat("a", 40), strings.Repeat("é", 40) + "x", "🦊" + strings.Repeat("z", 40)}
	replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("_delta_log", 3), 1),
		func(yield func(analytics.Row, error) bool) {
			for _, path := range long {
				if !yield(analytics.Row{Path: path, Totals: analytics.Totals{Total: 5}}, nil) {
					return
				}
			}
		}))
	queries := []string{
		"SELECT project, count(*), sum(human), max(revision) FROM visitors GROUP BY project ORDER BY project",
		"SELECT project, count(*), sum(total), sum(page_count) FROM totals GROUP BY project ORDER BY project",
		"SELECT count(*) FROM visitors WHERE exported_at = TIMESTAMP '2026-11-01 00:00:02.123456+00:00'",
	}
	want := [][][]string{
		{{"_delta_log", "3", "0", "1"}, {"prj_a", "1500", "1501124250", "2"}},
		{{"_delta_log", "2", "2100", "2"}, {"prj_a", "2", "3150", "1500"}},
		{{"1500"}},
	}
	for _, path := range long {
		queries = append(queries, fmt.Sprintf("SELECT count(*) FROM visitors WHERE path = '%s'", path))
		want = append(want, [][]string{{"1"}})
	}
	tables := []engines.DeltaTable{{Name: "visitors", Path: filepath.Join(root, visitorsTable)},
		{Name: "totals", Path: filepath.Join(root, totalsTable)}}
	for _, program := range []engines.DeltaReader{engines.Deltalake, engines.DuckDB} {
		t.Run(string(program), func(t *testing.T) {
			answers, err := program.Query(t.Context(), t.TempDir(), tables, queries...)
			engines.Need(t, err)
			var got [][][]string
			for _, answer := range answers {
				got = append(got, answer.Rows)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
