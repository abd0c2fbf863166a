package deltalog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/deltalog/memfiles"
)

const (
	python         = "../../.tools/delta/bin/python"
	installReaders = "sh sinks/delta/testdata/install-readers.sh"
	windows        = 130
)

// reading is what testdata/delta.py prints of a table.
type reading struct {
	Version int64
	Files   []string
	Tags    map[string]string // the first of each file, of deltalake
	Rows    int64
	Human   int64
	Pruned  int64 // rows of one window
	Before  int64 // rows 10 versions ago
	Vacuum  []string
	Apps    map[string]int64
}

// script runs testdata/delta.py, which needs the Python packages of the readers.
func script(t *testing.T, dir string, args ...string) (r reading) {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal("deltalake and DuckDB are not installed: " + installReaders)
		}
		t.Skip("SKIPPED: deltalake and DuckDB are not installed: " + installReaders)
	}
	cmd := exec.Command(python, append([]string{"testdata/delta.py", filepath.Join(dir, tableDir)}, args...)...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%q: %v, prints %q\n%s", args, err, out, stderr.String())
	}
	return r
}

// window is a data file of one window, i days after the first, with n rows.
func window(t *testing.T, files *memfiles.Files, i, revision, n int) deltalog.Add {
	t.Helper()
	day := analytics.Date(20000 + i)
	rev := analytics.Revision{
		Key:    analytics.Key{Project: "prj_a", Granularity: "day", Window: analytics.Window{From: day, To: day + 1}},
		Number: int32(revision), ExportedAt: start,
	}
	sealed, err := archive.Encode(rev, rows(n))
	if err != nil {
		t.Fatal(err)
	}
	in, err := sealed.Open()
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	if _, err := data.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("prj_a/day/%s r%d ü%%.parquet", day, revision) // as hard to escape as can be
	files.Put(tableDir+"/"+path, data.Bytes())
	values := fmt.Sprintf(`{"project":"prj_a","window_start":"%s"}`, day)
	return deltalog.Add{
		Path: path, Size: int64(data.Len()), Modified: start, Tags: map[string]string{"docgauge.window_start": day.String()},
		Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":%s,"maxValues":%s,"nullCount":{"project":0,"window_start":0}}`, n, values, values),
	}
}

func rows(n int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			if !yield(analytics.Row{Path: fmt.Sprintf("/docs/%03d", i), Human: 1, AI: 2, Total: 3}, nil) {
				return
			}
		}
	}
}

// makeTable writes windows of i+1 rows, one entry each; in the last ten entries, windows 0
// to 9 are replaced by ones with a row less. Entries before the checkpoint are deleted.
func makeTable(t *testing.T) (files *memfiles.Files, table *deltalog.Table) {
	files = newFiles(t)
	table = open(t, files)
	put := func(i, revision, n int) {
		add := window(t, files, i, revision, n)
		_, err := table.Commit(t.Context(), "WRITE", func(s *deltalog.Snapshot) ([]deltalog.Add, []string, error) {
			var former []string
			for a := range s.Files() {
				if a.Tags["docgauge.window_start"] == add.Tags["docgauge.window_start"] {
					former = append(former, a.Path)
				}
			}
			return []deltalog.Add{add}, former, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range windows {
		put(i, 1, i+1)
	}
	for i := range 10 {
		put(i, 2, i)
	}
	for v := range 100 {
		files.Put(fmt.Sprintf("visitors/_delta_log/%020d.json", v), nil)
	}
	return files, table
}

// TestReaders: other programs read our checkpoint and our entries.
func TestReaders(t *testing.T) {
	files, table := makeTable(t)
	dir := t.TempDir()
	dump(t, files, dir)
	const all = windows * (windows + 1) / 2
	want := reading{Version: windows + 9, Files: read(t, table).paths(), Rows: all - 10, Human: all - 10, Pruned: 50, Before: all}
	for _, engine := range []string{"deltalake", "duckdb"} {
		t.Run(engine, func(t *testing.T) {
			got := script(t, dir, engine)
			if engine == "deltalake" {
				var id string
				for app, version := range got.Apps {
					id = app
					if !strings.HasPrefix(app, "docgauge/") || version != want.Version {
						t.Errorf("transaction %s is at %d, want %d", app, version, want.Version)
					}
				}
				if len(got.Apps) != 1 {
					t.Errorf("applications %v, want one, last %s", got.Apps, id)
				}
				if len(got.Vacuum) != 10 {
					t.Errorf("a vacuum without retention would delete %q, want the 10 replaced files", got.Vacuum)
				}
			}
			got.Apps, got.Vacuum = nil, nil
			if d := cmp.Diff(want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
