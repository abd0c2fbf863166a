package delta

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestCollect: files go 7 days after readers stopped seeing them or after they were
// published for nothing, never sooner; others stay.
func TestCollect(t *testing.T) {
	for where, at := range map[string]func(t *testing.T) (url, root string){
		"directory": directory, "bucket": faults.Bucket,
	} {
		t.Run(where, func(t *testing.T) {
			url, root := at(t)
			begin := time.Date(2026, 11, 20, 10, 11, 12, 345_678_000, time.UTC)
			now := begin
			s := newSink(Options{Now: func() time.Time { return now }}, faults.FileStore(t, url))
			replace(t, s, seal(t, 1, 30))
			first := relative(t, root)
			now = begin.Add(time.Hour)
			replace(t, s, seal(t, 2, 20))
			second := slices.DeleteFunc(relative(t, root), func(path string) bool {
				return slices.Contains(first, path)
			})

			// Published two hours after the beginning, by a process that died then.
			orphan, err := newName(sinktest.Revision(sinktest.Key("prj_b", 3), 1), begin.Add(2*time.Hour))
			check(t, err)
			orphan = visitorsTable + "/" + orphan
			foreign := []string{
				"visitors/part-0.parquet", "visitors/prj_a/day/mine.parquet", "totals/prj_a/day/readme.txt",
				"mine.parquet", "visitors/_delta_log/00000000000000000009.checkpoint.parquet.tmp",
			}
			for _, name := range append(foreign, orphan) {
				check(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o755))
				check(t, os.WriteFile(filepath.Join(root, name), []byte("text"), 0o644))
			}
			const week = 7 * 24 * time.Hour
			for _, step := range []struct {
				at   time.Time
				want []string
			}{
				{begin.Add(24 * time.Hour), nil},
				{begin.Add(week + 59*time.Minute), nil}, // older than a week, but seen until an hour later
				{begin.Add(week + time.Hour + time.Minute), first},
				{begin.Add(week + 2*time.Hour - time.Minute), nil},
				{begin.Add(week + 2*time.Hour + time.Minute), []string{orphan}},
				{begin.Add(100 * week), nil},
			} {
				now = step.at
				for _, dryRun := range []bool{true, false} {
					before := relative(t, root)
					got, err := s.Collect(t.Context(), dryRun)
					check(t, err)
					var names []string
					for _, c := range got {
						names = append(names, c.File)
						if age := now.Sub(c.Since); age < week || age > week+2*time.Hour || c.Project == "" {
							t.Errorf("collected %+v at %s", c, now)
						}
					}
					slices.Sort(names)
					if !slices.Equal(names, step.want) {
						t.Errorf("at %s, dry run %t: %q, want %q", now, dryRun, names, step.want)
					}
					gone := slices.DeleteFunc(before, func(path string) bool {
						return slices.Contains(relative(t, root), path)
					})
					if dryRun && len(gone) > 0 || !dryRun && !slices.Equal(gone, step.want) {
						t.Errorf("at %s, dry run %t: %q are gone", now, dryRun, gone)
					}
				}
			}
			for _, name := range append(foreign, second...) {
				if _, err := os.Stat(filepath.Join(root, name)); err != nil {
					t.Error(err)
				}
			}
			agreed(t, s, root, seal(t, 2, 20).Revision())
		})
	}
}

// relative are the data files below root, relative to it.
func relative(t *testing.T, root string) (names []string) {
	t.Helper()
	for _, path := range dataFiles(root) {
		name, err := filepath.Rel(root, path)
		check(t, err)
		names = append(names, filepath.ToSlash(name))
	}
	slices.Sort(names)
	return names
}
