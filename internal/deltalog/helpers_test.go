package deltalog_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/filestore"
)

const tableDir = "visitors"

var (
	columns = []deltalog.Column{
		{Name: "project", Type: "string"}, {Name: "granularity", Type: "string"},
		{Name: "window_start", Type: "date"}, {Name: "window_end", Type: "date"},
		{Name: "path", Type: "string"},
		{Name: "human", Type: "long"}, {Name: "ai", Type: "long"}, {Name: "total", Type: "long"},
		{Name: "revision", Type: "integer"}, {Name: "settled", Type: "boolean"}, {Name: "verified", Type: "boolean"},
		{Name: "exported_at", Type: "timestamp", Nullable: true},
	}
	start = time.Now().UTC().Truncate(time.Millisecond) // other programs go by the real time
)

func config(files filestore.Store) deltalog.Options {
	return deltalog.Options{
		Files: files, Dir: tableDir, Columns: columns, Description: "visitors by path", Engine: "docgauge/test",
		Now: func() time.Time { return start },
	}
}

func newFiles(t testing.TB) *memoryFiles {
	t.Helper()
	return newMemoryFiles(t.TempDir())
}

// open returns a table that knows nothing yet.
func open(files filestore.Store) *deltalog.Table { return deltalog.New(config(files)) }

// file is a data file named by path, with all fields.
func file(path string) deltalog.Add {
	return deltalog.Add{
		Path: path, Size: int64(1000 + len(path)), Modified: start.Add(-time.Minute),
		Stats: fmt.Sprintf(`{"numRecords":%d,"minValues":{"project":"prj_a"},"nullCount":{"project":0}}`, len(path)),
		Tags:  map[string]string{"docgauge.path": path, "docgauge.empty": ""},
	}
}

// commit adds and removes these files.
func commit(t testing.TB, table *deltalog.Table, adds, removes []string) int64 {
	t.Helper()
	version, err := table.Commit(t.Context(), func(*deltalog.Snapshot) ([]deltalog.Add, []string, error) {
		var all []deltalog.Add
		for _, path := range adds {
			all = append(all, file(path))
		}
		return all, removes, nil
	})
	check(t, err)
	return version
}

// contents is all of a snapshot.
type contents struct {
	Version    int64
	Files      map[string]deltalog.Add
	Tombstones map[string]time.Time
}

// read reads all of a table.
func read(t testing.TB, table *deltalog.Table) contents {
	t.Helper()
	c, err := tryRead(t, table)
	check(t, err)
	return c
}

func tryRead(t testing.TB, table *deltalog.Table) (contents, error) {
	c := contents{Files: map[string]deltalog.Add{}, Tombstones: map[string]time.Time{}}
	err := table.Read(t.Context(), func(s *deltalog.Snapshot) error {
		c.Version = s.Version()
		for a := range s.Files() {
			c.Files[a.Path] = a
		}
		maps.Insert(c.Tombstones, s.Tombstones())
		return nil
	})
	return c, err
}

func (c contents) paths() []string { return slices.Sorted(maps.Keys(c.Files)) }

// dump writes all files below dir.
func dump(t testing.TB, files *memoryFiles, dir string) {
	t.Helper()
	for _, name := range files.Names() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		check(t, os.MkdirAll(filepath.Dir(path), 0o755))
		check(t, os.WriteFile(path, files.Get(name), 0o644))
	}
}

// take reads all files below dir.
func take(t testing.TB, files *memoryFiles, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		files.Put(filepath.ToSlash(name), data)
		return err
	})
	check(t, err)
}

var update = flag.Bool("update", false, "write the golden files")

// golden compares text with a file of testdata, or with -update writes it.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		check(t, os.WriteFile(path, []byte(got), 0o644))
	}
	want, err := os.ReadFile(path)
	check(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it): %s", path, diff)
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
