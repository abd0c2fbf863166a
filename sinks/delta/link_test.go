//go:build unix

package delta

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// beside returns a Parquet sink in a directory, and a sink that links to its files.
func beside(t *testing.T, dir, root string) (*parquet.Sink, *Sink) {
	t.Helper()
	files, err := parquet.New(dir)
	check(t, err)
	return files, newSink(Options{Now: time.Now, Published: files.Published}, faults.FileStore(t, root))
}

// linked reports of both tables whether the only file is that which the Parquet sink has
// published.
func linked(t *testing.T, files *parquet.Sink, root string, rev analytics.Revision) (visitors, totals bool) {
	t.Helper()
	same := func(published, table string) bool {
		_, there, err := replay(root, table)
		check(t, err)
		for path := range there {
			mine, err := os.Stat(path)
			check(t, err)
			theirs, err := os.Stat(published)
			return err == nil && os.SameFile(mine, theirs)
		}
		return false
	}
	v, to := files.Published(rev)
	return same(v, visitorsTable), same(to, totalsTable)
}

// TestHardLinks: beside the Parquet sink a window takes its space once, and each sink
// keeps its own when the other replaces it.
func TestHardLinks(t *testing.T) {
	dir := t.TempDir()
	root := filepath.Join(dir, "delta")
	files, s := beside(t, filepath.Join(dir, "parquet"), root)
	first, second := seal(t, 1, 300), seal(t, 2, 200)
	check(t, files.Replace(t.Context(), first))
	replace(t, s, first)
	if v, to := linked(t, files, root, first.Revision()); !v || !to {
		t.Errorf("visitors linked %t, totals %t", v, to)
	}
	check(t, files.Replace(t.Context(), second))
	agreed(t, s, root, first.Revision())
	replace(t, s, second)
	if v, to := linked(t, files, root, second.Revision()); !v || !to {
		t.Errorf("after a second revision: visitors linked %t, totals %t", v, to)
	}
	replace(t, s, sealTotals(t, 3)) // whose visitors the Parquet sink still shows
	agreed(t, s, root, sealTotals(t, 3).Revision())
	for rev, err := range files.Revisions(t.Context()) {
		if err != nil || !rev.Same(second.Revision()) {
			t.Errorf("the Parquet sink yields %+v, %v", rev, err)
		}
	}
}

// TestNoLink: if the published file is not the window, or on another file system, the data
// files are copies.
func TestNoLink(t *testing.T) {
	w := seal(t, 2, 300)
	for name, tc := range map[string]struct {
		before  func(t *testing.T, files *parquet.Sink)
		another bool // file system
	}{
		"another file system": {func(t *testing.T,
			files *parquet.Sink) {
			check(t, files.Replace(t.Context(), w))
		}, true},
		"nothing published": {func(*testing.T, *parquet.Sink) {}, false},
		"another revision": {func(t *testing.T,
			files *parquet.Sink) {
			check(t, files.Replace(t.Context(), seal(t, 1, 300)))
		}, false},
		"same number, other numbers": {func(t *testing.T, files *parquet.Sink) {
			rev := w.Revision()
			rev.Totals.Human++
			check(t, files.Replace(t.Context(), sinktest.Seal(t, rev, sinktest.Pages(300))))
		}, false},
		"symbolic link": {func(t *testing.T, files *parquet.Sink) {
			check(t, files.Replace(t.Context(), w))
			visitors, totals := files.Published(w.Revision())
			for _, path := range []string{visitors, totals} {
				check(t, errors.Join(os.Rename(path, path+".away"), os.Symlink(path+".away", path)))
			}
		}, false},
		"totals only": {func(t *testing.T,
			files *parquet.Sink) {
			check(t, files.Replace(t.Context(), sealTotals(t, 2)))
		}, false},
		"damaged": {func(t *testing.T, files *parquet.Sink) {
			check(t, files.Replace(t.Context(), w))
			visitors, totals := files.Published(w.Revision())
			for _, path := range []string{visitors, totals} {
				flip(t, path)
			}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir, root := t.TempDir(), ""
			if tc.another {
				root = faults.MountSmall(t)
			} else {
				root = filepath.Join(dir, "delta")
			}
			files, s := beside(t, filepath.Join(dir, "parquet"), root)
			tc.before(t, files)
			replace(t, s, w)
			agreed(t, s, root, w.Revision())
			if v, to := linked(t, files, root, w.Revision()); v || to {
				t.Errorf("visitors linked %t, totals %t", v, to)
			}
			for shown, err := range s.Inspect(t.Context(), everything) {
				if err != nil || !shown.Whole() {
					t.Errorf("Inspect yields %+v, %v", shown, err)
				}
			}
		})
	}
}

// flip damages a byte in the middle of a file's data.
func flip(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	data[40] ^= 2
	check(t, os.WriteFile(path, data, 0o644))
}

// TestLinksLookNew: VACUUM of other engines takes a file for an orphan by its age.
func TestLinksLookNew(t *testing.T) {
	dir := t.TempDir()
	files, s := beside(t, filepath.Join(dir, "parquet"), filepath.Join(dir, "delta"))
	w := seal(t, 1, 3)
	check(t, files.Replace(t.Context(), w))
	visitors, totals := files.Published(w.Revision())
	long := time.Now().Add(-30 * 24 * time.Hour)
	check(t, errors.Join(os.Chtimes(visitors, long, long), os.Chtimes(totals, long, long)))
	replace(t, s, w)
	if v, to := linked(t, files, filepath.Join(dir, "delta"), w.Revision()); !v || !to {
		t.Errorf("visitors linked %t, totals %t", v, to)
	}
	for _, path := range []string{visitors, totals} {
		if info, err := os.Stat(path); err != nil || time.Since(info.ModTime()) > time.Hour {
			t.Errorf("%s is of %v, %v", path, info.ModTime(), err)
		}
	}
}
