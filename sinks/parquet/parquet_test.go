package parquet

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T) (sinks.Sink, sinktest.Reader) {
		root := filepath.Join(t.TempDir(), "data")
		return newSink(t, root), reader{root: root, scratch: t.TempDir()}
	})
}

func newSink(t *testing.T, root string) *Sink {
	t.Helper()
	s, err := New(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// reader sees what a glob over the root sees, however files are named.
type reader struct{ root, scratch string }

func (r reader) Visitors(key analytics.Key) (rows []analytics.Row, revs []analytics.Revision, err error) {
	for _, path := range published(r.root) {
		if !strings.HasPrefix(path, filepath.Join(r.root, visitorsTable)) {
			continue
		}
		f, err := r.snapshot(path)
		if err != nil {
			return nil, nil, err
		}
		if f != nil && f.Revision().Key == key {
			revs = append(revs, f.Revision())
			for row, err := range f.Rows() {
				if err != nil {
					return nil, nil, err
				}
				rows = append(rows, row)
			}
		}
	}
	return rows, revs, nil
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	for _, path := range published(r.root) {
		if !strings.HasPrefix(path, filepath.Join(r.root, totalsTable)) {
			continue
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		rev, err := archive.ReadRevision(strings.NewReader(string(data)), int64(len(data)))
		if err != nil {
			return nil, err
		}
		if rev.Key == key {
			revs = append(revs, rev)
		}
	}
	return revs, nil
}

// snapshot opens path once, as a query does, and keeps what it then holds.
// A file that is gone by then was not seen.
func (r reader) snapshot(path string) (*archive.File, error) {
	in, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer in.Close()
	out, err := os.CreateTemp(r.scratch, "")
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if _, err := io.Copy(out, in); err != nil {
		return nil, err
	}
	return archive.Open(out.Name())
}

// published lists every file below root whose name ends in .parquet.
func published(root string) (paths []string) {
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".parquet") {
			paths = append(paths, path)
		}
		return nil
	})
	return paths
}

func seal(t *testing.T, number int32, n int) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", 0), number), sinktest.Pages(n))
}

func sealTotals(t *testing.T, number int32) *archive.File {
	t.Helper()
	return sinktest.Seal(t, sinktest.TotalsOnly(sinktest.Revision(sinktest.Key("prj_a", 0), number)), nil)
}

func replace(t *testing.T, s *Sink, w sinks.Sealed) {
	t.Helper()
	if err := s.Replace(t.Context(), w); err != nil {
		t.Fatal(err)
	}
}

func TestLayout(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := newSink(t, root)
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("New made the directory: %v", err)
	}
	w := seal(t, 1, 3)
	replace(t, s, w)
	const rest = "v1/p=prj_a/g=day/ym=2026-10/2026-10-01_2026-10-02.parquet"
	want := []string{filepath.Join(root, "totals", rest), filepath.Join(root, "visitors", rest)}
	if diff := cmp.Diff(want, published(root)); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	sealed, _ := os.ReadFile(w.Path())
	got, _ := os.ReadFile(want[1])
	if !slices.Equal(sealed, got) {
		t.Error("the visitors file is not the sealed file")
	}
	if left, err := os.ReadDir(filepath.Join(root, stagingName)); len(left) != 0 || err != nil {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := analytics.Key{
			Project:     rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`).Draw(t, "project"),
			Granularity: rapid.SampledFrom([]analytics.Granularity{"day", "week", "month", "28d"}).Draw(t, "granularity"),
		}
		key.From = analytics.Date(rapid.Int32Range(0, 100_000).Draw(t, "from"))
		key.To = key.From + analytics.Date(rapid.Int32Range(1, 400).Draw(t, "days"))
		name, err := place(visitorsTable, key)
		if err != nil {
			t.Fatal(err)
		}
		if got, ok := keyOf(name); !ok || got != key {
			t.Errorf("%s reads as %v, %t", name, got, ok)
		}
	})
	for _, project := range []string{"", "..", "a/b", "a\x00", "p=a b", strings.Repeat("x", 129)} {
		key := sinktest.Key(project, 0)
		if name, err := place(visitorsTable, key); err == nil {
			t.Errorf("project %q has the place %s", project, name)
		}
	}
}

func TestLeftovers(t *testing.T) {
	root := t.TempDir()
	staging := filepath.Join(root, stagingName)
	if err := os.Mkdir(staging, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, age := range map[string]time.Duration{"old.tmp": 2 * leftoverAge, "young.tmp": leftoverAge / 2, "old.txt": 2 * leftoverAge} {
		path := filepath.Join(staging, name)
		then := time.Now().Add(-age)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chtimes(path, then, then)); err != nil {
			t.Fatal(err)
		}
	}
	replace(t, newSink(t, root), seal(t, 1, 1))
	var left []string
	entries, _ := os.ReadDir(staging)
	for _, e := range entries {
		left = append(left, e.Name())
	}
	if diff := cmp.Diff([]string{"old.txt", "young.tmp"}, left); diff != "" {
		t.Errorf("left in staging (-want +got):\n%s", diff)
	}
}

func TestRevisionsAmongForeignAndDamagedFiles(t *testing.T) {
	root := t.TempDir()
	s := newSink(t, root)
	for day := range 3 {
		replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(2)))
	}
	path := func(table string, day int) string {
		p, err := s.path(table, sinktest.Key("prj_a", day))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	foreign := filepath.Join(filepath.Dir(path(visitorsTable, 0)), "mine.parquet")
	damaged, moved := path(visitorsTable, 1), path(totalsTable, 2)
	err := errors.Join(
		os.WriteFile(foreign, []byte("not ours"), 0o600),
		os.Truncate(damaged, 100),
		os.Rename(path(totalsTable, 0), moved),
		os.Rename(path(visitorsTable, 0), filepath.Join(root, "kept.parquet")),
	)
	if err != nil {
		t.Fatal(err)
	}
	var errs []string
	for rev, err := range s.Revisions(t.Context()) {
		if err == nil {
			t.Errorf("yields %s", rev.Key)
			continue
		}
		errs = append(errs, err.Error())
	}
	all := strings.Join(errs, "\n")
	if len(errs) != 2 || !strings.Contains(all, damaged) || !strings.Contains(all, moved) {
		t.Errorf("errors:\n%s\nwant one with %s and one with %s", all, damaged, moved)
	}
}

// TestHalfWindows lays every pair of files that a crash, a lost state or a
// deletion can leave, and expects both tables to agree afterwards.
func TestHalfWindows(t *testing.T) {
	for name, tc := range map[string]struct {
		visitors, totals *archive.File
		want             int32 // the revision, 0 for an error
	}{
		"no totals":                 {seal(t, 1, 3), nil, 1},
		"older totals":              {seal(t, 2, 3), seal(t, 1, 9), 2},
		"older totals only":         {seal(t, 2, 3), sealTotals(t, 1), 2},
		"newer totals only":         {seal(t, 1, 3), sealTotals(t, 2), 2},
		"count restarted":           {seal(t, 1, 3), seal(t, 5, 9), 1},
		"totals only":               {nil, sealTotals(t, 4), 4},
		"no visitors":               {nil, seal(t, 4, 4), 0},
		"same number, newer totals": {seal(t, 1, 3), seal(t, 1, 4), 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSink(t, t.TempDir())
			if tc.totals != nil {
				replace(t, s, tc.totals)
				if err := s.tree.remove(t.Context(), placed(t, visitorsTable, tc.totals.Revision().Key)); err != nil {
					t.Fatal(err)
				}
			}
			if tc.visitors != nil {
				staged := s.tree.stagingFile()
				err := errors.Join(s.tree.prepare(t.Context()), stage(t.Context(), staged, tc.visitors),
					s.tree.publish(t.Context(), staged, placed(t, visitorsTable, tc.visitors.Revision().Key)))
				if err != nil {
					t.Fatal(err)
				}
			}
			agrees(t, s, tc.want)
		})
	}
}

// agrees fails unless Revisions yields revision want alone, and both tables
// then show it; with want 0, unless Revisions yields an error alone. List must
// have yielded the same before, and changed nothing.
func agrees(t *testing.T, s *Sink, want int32) {
	t.Helper()
	before := contents(t, s.Location())
	var looked, got []analytics.Revision
	for rev, err := range sinks.List(t.Context(), s) {
		if (err != nil) != (want == 0) {
			t.Errorf("List yields the error %v", err)
		}
		if err == nil {
			looked = append(looked, rev)
		}
	}
	if diff := cmp.Diff(before, contents(t, s.Location())); diff != "" {
		t.Errorf("List changed the tree:\n%s", diff)
	}
	defer func() {
		if diff := cmp.Diff(got, looked); diff != "" {
			t.Errorf("List (+) differs from Revisions (-):\n%s", diff)
		}
	}()
	for rev, err := range s.Revisions(t.Context()) {
		if (err != nil) != (want == 0) {
			t.Errorf("Revisions yields the error %v", err)
		}
		if err == nil {
			got = append(got, rev)
		}
	}
	if want == 0 {
		return
	}
	if len(got) != 1 || got[0].Number != want {
		t.Fatalf("Revisions yields %+v, want revision %d", got, want)
	}
	r := reader{root: s.Location(), scratch: t.TempDir()}
	rows, carried, err := r.Visitors(got[0].Key)
	if err != nil || len(rows) != int(max(0, got[0].Rows)) {
		t.Errorf("readers see %d rows, %v; want %d", len(rows), err, got[0].Rows)
	}
	if got[0].TotalsOnly() != (len(carried) == 0) {
		t.Errorf("readers see visitors files %v of %+v", carried, got[0])
	}
	if totals, err := r.Totals(got[0].Key); err != nil || !cmp.Equal(totals, got) {
		t.Errorf("totals show %+v, %v; want %+v", totals, err, got)
	}
}

// contents are the files below root.
func contents(t *testing.T, root string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return files
}

// other is a sealed window whose file is that of another revision.
type other struct {
	sinks.Sealed
	rev analytics.Revision
}

func (o other) Revision() analytics.Revision { return o.rev }

func TestSealedFileOfAnotherRevision(t *testing.T) {
	s := newSink(t, t.TempDir())
	replace(t, s, seal(t, 1, 3))
	w := other{seal(t, 2, 3), seal(t, 3, 3).Revision()}
	if err := s.Replace(t.Context(), w); err == nil || !strings.Contains(err.Error(), "revision 2") {
		t.Errorf("Replace = %v", err)
	}
	agrees(t, s, 1)
}

// placed is place of a good key.
func placed(t *testing.T, table string, key analytics.Key) string {
	t.Helper()
	name, err := place(table, key)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// tableOf returns the table that the file called name is in.
func tableOf(name string) string {
	table, _, _ := strings.Cut(name, "/")
	return table
}

// path returns the full name of key's file in table.
func (s *Sink) path(table string, key analytics.Key) (string, error) {
	name, err := place(table, key)
	return filepath.Join(s.Location(), filepath.FromSlash(name)), err
}
