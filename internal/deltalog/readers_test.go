package deltalog_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

const windows = 130

// reading is the output of testdata/deltalake.py for a table.
type reading struct {
	Version int64
	Files   []string
	Vacuum  []string // what a vacuum without retention would delete
	App     int64    // version of our application's transaction
}

// deltalake has deltalake do something with a table.
func deltalake(t *testing.T, dir, what string) (r reading) {
	t.Helper()
	program, err := os.ReadFile("testdata/deltalake.py")
	check(t, err)
	cmd, err := engines.Deltalake.Script(t.Context(), t.TempDir(), string(program), filepath.Join(dir, tableDir), what)
	engines.Need(t, err)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &r)
	}
	if err != nil {
		t.Fatalf("%s: %v, prints %q\n%s", what, err, out, stderr.String())
	}
	return r
}

// counts has a reader count rows of a table: all rows, the visits, the rows of window 49, and all rows at a former
// version.
func counts(t *testing.T, reader engines.DeltaReader, dir string, former int64) string {
	t.Helper()
	table := engines.DeltaTable{Name: "t", Path: filepath.Join(dir, tableDir)}
	before := engines.DeltaTable{Name: "former", Path: table.Path, Version: &former}
	answers, err := reader.Query(t.Context(), t.TempDir(), []engines.DeltaTable{table, before},
		"SELECT count(*) FROM t", "SELECT sum(human) FROM t", "SELECT count(*) FROM t WHERE window_start = DATE "+
			"'2024-11-22'", "SELECT count(*) FROM former")
	engines.Need(t, err)
	var all []string
	for _, a := range answers {
		all = append(all, a.Rows[0][0])
	}
	return strings.Join(all, " ")
}

// window is a data file of one window, i days after the first, with n rows.
func window(t *testing.T, files *memoryFiles, i, revision, n int) deltalog.Add {
	t.Helper()
	day := analytics.Date(20000 + i)
	rev := analytics.Revision{
		Key:    analytics.Key{Project: "prj_a", Granularity: "day", Window: analytics.Window{From: day, To: day + 1}},
		Number: int32(revision), ExportedAt: start,
	}
	sealed, err := archive.Encode(rev, analytics.Records(rows(n)))
	check(t, err)
	in, err := sealed.Open()
	check(t, err)
	var data bytes.Buffer
	if _, err := data.ReadFrom(in); err != nil {
		t.Fatal(err)
	}
	path := fmt.Sprintf("prj_a/day/%s r%d ü%%.parquet", day, revision) // as hard to escape as can be
	files.Put(tableDir+"/"+path, data.Bytes())
	values := fmt.Sprintf(`{"project":"prj_a","window_start":"%s"}`, day)
	return deltalog.Add{
		Path: path, Size: int64(data.Len()), Modified: start,
		Tags: map[string]string{"docgauge.window_start": day.String()},
		Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":%s,"maxValues":%s,`+
			`"nullCount":{"project":0,"window_start":0}}`, n, values, values),
	}
}

func rows(n int) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			if !yield(analytics.Row{Path: fmt.Sprintf("/docs/%03d", i), Totals: analytics.Totals{Human: 1, AI: 2, Total: 3}},
				nil) {
				return
			}
		}
	}
}

// makeTable writes windows of i+1 rows, one entry each; in the last ten entries, windows 0
// to 9 are replaced by ones with a row less. Entries before the checkpoint are deleted.
func makeTable(t *testing.T) (files *memoryFiles, table *deltalog.Table) {
	files = newFiles(t)
	table = open(files)
	put := func(i, revision, n int) {
		add := window(t, files, i, revision, n)
		_, err := table.Commit(t.Context(), func(s *deltalog.Snapshot) ([]deltalog.Add, []string, error) {
			var former []string
			for a := range s.Files() {
				if a.Tags["docgauge.window_start"] == add.Tags["docgauge.window_start"] {
					former = append(former, a.Path)
				}
			}
			return []deltalog.Add{add}, former, nil
		})
		check(t, err)
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
	const all, newest = windows * (windows + 1) / 2, windows + 9
	for _, reader := range []engines.DeltaReader{engines.Deltalake, engines.DuckDB, engines.Spark} {
		t.Run(string(reader), func(t *testing.T) {
			if reader == engines.Spark {
				engines.Long(t)
			}
			want := fmt.Sprintf("%d %d 50 %d", all-10, all-10, all)
			if got := counts(t, reader, dir, newest-10); got != want {
				t.Errorf("counts %s, want %s", got, want)
			}
		})
	}
	got := deltalake(t, dir, "read")
	if len(got.Vacuum) != 10 {
		t.Errorf("a vacuum would delete %q, want the 10 replaced files", got.Vacuum)
	}
	got.Vacuum = nil
	if d := cmp.Diff(reading{Version: newest, Files: read(t, table).paths(), App: newest}, got); d != "" {
		t.Error(d)
	}
}

// TestForeignCheckpoint: a checkpoint of deltalake says the same to us as our own.
func TestForeignCheckpoint(t *testing.T) {
	files, table := makeTable(t)
	want := read(t, table)
	dir := t.TempDir()
	dump(t, files, dir)
	deltalake(t, dir, "checkpoint")
	theirs := newFiles(t)
	take(t, theirs, dir)
	for v := range windows + 9 {
		theirs.Put(entryName(v), nil)
		theirs.Put(checkpointName(v), nil)
	}
	got := open(theirs)
	if d := cmp.Diff(want, read(t, got)); d != "" {
		t.Error(d)
	}
	// And ours, made of theirs, again to deltalake.
	for i := range 100 {
		commit(t, got, []string{fmt.Sprint("f", i)}, nil)
	}
	theirs.Put(checkpointName(windows+9), nil)
	if d := cmp.Diff(read(t, got), read(t, open(theirs))); d != "" {
		t.Error(d)
	}
}

// TestForeignWriter: deltalake appends, deletes rows and compacts; we see its files, can
// commit after it, and it reads the result.
func TestForeignWriter(t *testing.T) {
	files, _ := makeTable(t)
	dir := t.TempDir()
	dump(t, files, dir)
	theirs := deltalake(t, dir, "write")
	after := newFiles(t)
	take(t, after, dir)
	table := open(after)
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
	_, err := table.Commit(t.Context(), func(*deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		return []deltalog.Add{add}, removes, nil
	})
	check(t, err)
	dump(t, after, dir)
	// deltalake left ten rows at most of each window, and of its copy of one.
	const left = 9*10/2 + (windows-10)*10 + 10
	for _, reader := range []engines.DeltaReader{engines.Deltalake, engines.DuckDB} {
		if got, want := counts(t, reader, dir, theirs.Version), fmt.Sprint("50 50 50 ", left); got != want {
			t.Errorf("%s counts %s, want %s", reader, got, want)
		}
	}
}
