//go:build unix

package delta

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/deltalog"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// mount returns a small new file system.
func mount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	faults.Mount(t, dir, "1m")
	return dir
}

// TestDiskFull fills the file system, and frees a little at a time: a window that does
// not fit is an error that says so, and each table shows a whole revision.
func TestDiskFull(t *testing.T) {
	root := mount(t)
	s := open(t, root)
	former, next := seal(t, 1, 3), seal(t, 2, 20_000)
	replace(t, s, former)
	sinktest.DiskFull(t, root, func() error { return s.Replace(t.Context(), next) }, func(first bool) {
		sinktest.Whole(t, reader{root}, former.Revision(), next.Revision())
		if there := dataFiles(t, root); len(there) > 4 {
			t.Fatalf("there are %q: what is tried again keeps the disk full", there)
		}
		if first && s.Check(t.Context()) == nil {
			t.Error("Check of a full disk = nil")
		}
	})
	agreed(t, s, root, next.Revision())
}

// TestRootRemoved: a directory that is gone does not come back by itself.
func TestRootRemoved(t *testing.T) {
	for _, step := range []string{"", "before visitors file", "before visitors entry", "before totals entry"} {
		root := filepath.Join(t.TempDir(), "data")
		s := open(t, root)
		replace(t, s, seal(t, 1, 3))
		if step == "" {
			check(t, os.RemoveAll(root))
		}
		s = stepped(s, func(now string) {
			if now == step {
				check(t, os.RemoveAll(root))
			}
		})
		if err := s.Replace(t.Context(), seal(t, 2, 3)); !errors.Is(err, fs.ErrNotExist) ||
			!strings.Contains(err.Error(), root) {
			t.Errorf("gone %s: Replace = %v", step, err)
		}
		if err := s.Replace(t.Context(), seal(t, 2, 3)); err == nil ||
			!strings.Contains(err.Error(), "gone since it was first used") {
			t.Errorf("gone %s: the next Replace = %v", step, err)
		}
		if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("gone %s: the directory came back by itself: %v", step, err)
		}
	}
}

// TestTableEmptied: the directory of one table, or of both, is emptied under a sink. The
// next Replace says so, and the one after it makes the table.
func TestTableEmptied(t *testing.T) {
	root := t.TempDir()
	s := open(t, root)
	replace(t, s, sealDay(t, 1, 1, 5))
	replace(t, s, seal(t, 1, 3))
	check(t, os.RemoveAll(filepath.Join(root, visitorsTable)))
	if err := s.Replace(t.Context(), seal(t, 2, 3)); !errors.Is(err, deltalog.ErrGone) {
		t.Errorf("Replace = %v", err)
	}
	// Of the window that is only in totals now, visitors are lost.
	lost := 0
	replace(t, s, seal(t, 2, 3))
	for rev, err := range s.Revisions(t.Context()) {
		switch day := revOf(sealDay(t, 1, 1, 5)).Key; {
		case err != nil && strings.Contains(err.Error(), day.String()) &&
			strings.Contains(err.Error(), "export the window again"):
			lost++
		case err != nil || !rev.Same(revOf(seal(t, 2, 3))):
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
	if lost != 1 {
		t.Errorf("%d windows are lost, want 1", lost)
	}
	replace(t, s, sealDay(t, 1, 1, 5))
	for rev, err := range s.Revisions(t.Context()) {
		if err != nil {
			t.Errorf("Revisions yields %+v, %v", rev, err)
		}
	}
}

// TestOpenRefuses anything but a directory.
func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "data")
	check(t, os.WriteFile(file, nil, 0o600))
	for _, root := range []string{"", "gs://bucket/prefix", file} {
		if _, err := New(Options{URL: root}); err == nil {
			t.Errorf("New(%q) = nil", root)
		}
	}
	s := open(t, filepath.Join(t.TempDir(), "no", "data"))
	if err := s.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "parent does not exist") {
		t.Errorf("Check = %v", err)
	}
}
