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

// TestForeignCheckpoint: a checkpoint of deltalake says the same to us as our own.
func TestForeignCheckpoint(t *testing.T) {
	files, table := makeTable(t)
	want := read(t, table)
	dir := t.TempDir()
	dump(t, files, dir)
	script(t, dir, "checkpoint")
	theirs := newFiles(t)
	take(t, theirs, dir)
	for v := range windows + 9 {
		theirs.Put(entryName(v), nil)
		theirs.Put(checkpointName(v), nil)
	}
	got := open(t, theirs)
	if d := cmp.Diff(want, read(t, got)); d != "" {
		t.Error(d)
	}
	// And ours, made of theirs, again to deltalake.
	for i := range 100 {
		commit(t, got, []string{fmt.Sprint("f", i)}, nil)
	}
	theirs.Put(checkpointName(windows+9), nil)
	if d := cmp.Diff(read(t, got), read(t, open(t, theirs))); d != "" {
		t.Error(d)
	}
}

// TestForeignWriter: deltalake appends, deletes rows and compacts; we see its files, can
// commit after it, and it reads the result.
func TestForeignWriter(t *testing.T) {
	files, _ := makeTable(t)
	dir := t.TempDir()
	dump(t, files, dir)
	theirs := script(t, dir, "write")
	after := newFiles(t)
	take(t, after, dir)
	table := open(t, after)
	got := read(t, table)
	if got.Version != theirs.Version || got.Version < windows+10 {
		t.Errorf("version %d, deltalake is at %d", got.Version, theirs.Version)
	}
	removes, foreign := got.paths(), 0
	for _, a := range got.Files {
		if a.Tags["docgauge.window_start"] == "" {
			foreign++
		}
	}
	if foreign == 0 {
		t.Error("no file of deltalake")
	}
	add := window(t, after, 49, 3, 50)
	version, err := table.Commit(t.Context(), "WRITE", func(*deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		return []deltalog.Add{add}, removes, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	dump(t, after, dir)
	for _, engine := range []string{"deltalake", "duckdb"} {
		r := script(t, dir, engine)
		if r.Version != version || r.Rows != 50 || len(r.Files) != 1 {
			t.Errorf("%s reads %+v", engine, r)
		}
	}
}
