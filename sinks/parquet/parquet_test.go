package parquet

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestContract(t *testing.T) {
	sinktest.Run(t, func(t *testing.T, reports ...analytics.Report) (sinks.Sink, sinktest.Reader) {
		s := open(t, filepath.Join(t.TempDir(), "data"), reports...)
		return s, reader{t, s}
	})
}

const (
	visitorsTable = "visitors"
	totalsTable   = "totals"
	agentsTable   = "agents"
)

func open(t *testing.T, url string, reports ...analytics.Report) *Sink {
	t.Helper()
	return &Sink{store: faults.FileStore(t, url), reports: reports}
}

var (
	seal       = faults.Window
	sealTotals = faults.Totals
	published  = faults.Published
	revOf      = sinktest.RevisionOf
	replace    = sinktest.Replace
	check      = sinktest.Check
)

// reader reads the files of a table like a query, whatever their names: it opens each once,
// and reads it to its end. It skips a file that is gone by then.
type reader struct {
	t *testing.T
	s *Sink
}

func (r reader) each(table string, key analytics.Key, f func(path string, rev analytics.Revision) error) error {
	var names []string
	if err := r.s.store.List(r.t.Context(), table, "", func(name string) { names = append(names, name) }); err != nil {
		return err
	}
	for _, name := range names {
		if named, ours := keyOf(name); !strings.HasSuffix(name, suffix) || ours && named != key {
			continue
		}
		path, done, err := r.s.store.Fetch(r.t.Context(), name, r.t.TempDir())
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		rev, err := revisionIn(path)
		if err == nil && rev.Key == key {
			err = f(path, rev)
		}
		if err = errors.Join(err, done()); err != nil {
			return err
		}
	}
	return nil
}

// revisionIn reads the footer of a file of either table.
func revisionIn(path string) (analytics.Revision, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return analytics.Revision{}, err
	}
	foot, err := archive.ReadFooter(bytes.NewReader(data), int64(len(data)))
	return foot.Revision, err
}

func (r reader) Rows(key analytics.Key) ([]analytics.Record, []analytics.Revision, error) {
	return sinktest.FileRows(func(f func(string, analytics.Revision) error) error {
		return r.each(key.Report.String(), key, f)
	})
}

func (r reader) Totals(key analytics.Key) (revs []analytics.Revision, err error) {
	err = r.each(key.Report.Shape().TotalsTable, key, func(_ string, rev analytics.Revision) error {
		revs = append(revs, rev)
		return nil
	})
	return revs, err
}

func TestLayout(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := open(t, root)
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
	if left, err := os.ReadDir(filepath.Join(root, filestore.StagingDir)); len(left) != 0 || err != nil {
		t.Errorf("staging holds %v, %v", left, err)
	}
}

func TestVisitorsOnly(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	both := open(t, root, analytics.AgentsReport)
	agents := sinktest.Seal(t, sinktest.Revision(sinktest.Of(analytics.AgentsReport, sinktest.Key("prj_a", 0)), 1),
		sinktest.Pages(3))
	sinktest.VisitorsOnly(t, open(t, root), both, reader{t, both}, seal(t, 1, 3), agents, func() bool {
		_, err := os.Stat(filepath.Join(root, agentsTable))
		return err == nil
	})
	const rest = "v1/p=prj_a/g=day/ym=2026-10/2026-10-01_2026-10-02.parquet"
	got, err := os.ReadFile(filepath.Join(root, "agents", rest))
	check(t, err)
	sealed, err := os.ReadFile(agents.Path())
	check(t, err)
	if !slices.Equal(sealed, got) {
		t.Error("the agents file is not the sealed file")
	}
}

func TestNewRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, root := range []string{"", "gs://bucket/prefix", file} {
		if _, err := New(root); err == nil {
			t.Errorf("New(%q) = nil", root)
		}
	}
}

func TestPlace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := analytics.Key{
			Report:  rapid.SampledFrom(analytics.Reports).Draw(t, "report"),
			Project: rapid.StringMatching(`[A-Za-z0-9_-]{1,128}`).Draw(t, "project"),
			Granularity: rapid.SampledFrom([]analytics.Granularity{"day", "week", "month", "28d"}).Draw(t,
				"granularity"),
		}
		key.From = analytics.Date(rapid.Int32Range(0, 100_000).Draw(t, "from"))
		key.To = key.From + analytics.Date(rapid.Int32Range(1, 400).Draw(t, "days"))
		name, err := nameOf(key.Report.String(), key)
		check(t, err)
		if got, ok := keyOf(name); !ok || got != key {
			t.Errorf("%s reads as %v, %t", name, got, ok)
		}
	})
	for _, project := range []string{"", "..", "a/b", "a\x00", "p=a b", strings.Repeat("x", 129)} {
		key := sinktest.Key(project, 0)
		if name, err := nameOf(visitorsTable, key); err == nil {
			t.Errorf("project %q has the place %s", project, name)
		}
	}
}

func TestRevisionsAmongForeignAndDamagedFiles(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	for day := range 3 {
		replace(t, s, sinktest.Seal(t, sinktest.Revision(sinktest.Key("prj_a", day), 1), sinktest.Pages(2)))
	}
	path := func(table string, day int) string {
		p, err := s.path(table, sinktest.Key("prj_a", day))
		check(t, err)
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
	check(t, err)
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
			s := open(t, t.TempDir())
			if tc.totals != nil {
				replace(t, s, tc.totals)
				check(t, s.store.Remove(t.Context(), placed(t, visitorsTable, tc.totals.Revision().Key)))
			}
			if tc.visitors != nil {
				data, err := os.ReadFile(tc.visitors.Path())
				check(t, err)
				publish(t, s, placed(t, visitorsTable, tc.visitors.Revision().Key), data)
			}
			before := contents(t, s.Location())
			var listed []analytics.Revision
			for rev, err := range sinks.List(t.Context(), s) {
				if (err != nil) != (tc.want == 0) {
					t.Errorf("List yields %+v, %v", rev, err)
				}
				listed = append(listed, rev)
			}
			if diff := cmp.Diff(before, contents(t, s.Location())); diff != "" {
				t.Errorf("List changed the tree:\n%s", diff)
			}
			if tc.want == 0 {
				for rev, err := range s.Revisions(t.Context()) {
					if err == nil {
						t.Errorf("Revisions yields %+v", rev)
					}
				}
				return
			}
			if len(listed) != 1 || listed[0].Number != tc.want {
				t.Errorf("List yields %+v, want revision %d", listed, tc.want)
			}
			agreed(t, s, listed...)
		})
	}
}

func agreed(t *testing.T, s *Sink, revs ...analytics.Revision) {
	t.Helper()
	sinktest.Agreed(t, s, reader{t, s}, revs...)
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

// placed is place of a good key.
func placed(t *testing.T, table string, key analytics.Key) string {
	t.Helper()
	name, err := nameOf(table, key)
	check(t, err)
	return name
}

// path returns the full name of key's file in table.
func (s *Sink) path(table string, key analytics.Key) (string, error) {
	name, err := nameOf(table, key)
	return filepath.Join(s.Location(), filepath.FromSlash(name)), err
}
