//go:build unix

package parquet

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/filestore"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// fails expects Replace of w and Check to fail with words in the error, and no
// new file under root.
func fails(t *testing.T, s *Sink, words ...string) {
	t.Helper()
	before := published(s.Location())
	for call, err := range map[string]error{"Replace": s.Replace(t.Context(), seal(t, 9, 3)),
		"Check": s.Check(t.Context())} {
		if err == nil {
			t.Errorf("%s = nil", call)
			continue
		}
		for _, word := range words {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s = %q, want %q in it", call, err, word)
			}
		}
	}
	if after := published(s.Location()); len(after) != len(before) {
		t.Errorf("files before %q and after %q", before, after)
	}
}

func TestCheck(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	check(t, newSink(t, root).Check(t.Context()))
	if left, err := os.ReadDir(filepath.Join(root, filestore.StagingDir)); len(left) > 0 || err != nil {
		t.Errorf("Check leaves %v, %v", left, err)
	}
}

func TestRootIsAFile(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := newSink(t, root)
	check(t, os.WriteFile(root, nil, 0o600))
	if _, err := New(root); err == nil || !strings.Contains(err.Error(), "is a file") {
		t.Errorf("New = %v", err)
	}
	fails(t, s, root, "is a file")
}

func TestNewRefuses(t *testing.T) {
	for _, root := range []string{"", "gs://bucket/prefix"} {
		if _, err := New(root); err == nil {
			t.Errorf("New(%q) = nil", root)
		}
	}
}

func TestParentMissing(t *testing.T) {
	root := filepath.Join(t.TempDir(), "no", "data")
	fails(t, newSink(t, root), root, "parent does not exist")
}

func TestRootRemoved(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := newSink(t, root)
	replace(t, s, seal(t, 1, 3))
	check(t, os.RemoveAll(root))
	fails(t, s, root, "gone")
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory came back by itself: %v", err)
	}
}

// TestRootRemovedInTheMiddle takes the directory away between staging and
// publishing.
func TestRootRemovedInTheMiddle(t *testing.T) {
	root := filepath.Join(t.TempDir(), "data")
	s := newSink(t, root)
	s.store = stepping{s.store, func(step string) {
		if step == "before visitors" {
			if err := os.RemoveAll(root); err != nil {
				t.Error(err)
			}
		}
	}}
	if err := s.Replace(t.Context(), seal(t, 1, 3)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Replace = %v", err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory came back by itself: %v", err)
	}
}

// TestReadOnly mounts the directory read-only, since permissions do not bind root.
func TestReadOnly(t *testing.T) {
	root := mount(t)
	s := newSink(t, root)
	replace(t, s, seal(t, 1, 3))
	remount(t, root)
	fails(t, s, "read-only")
	fails(t, newSink(t, root), "read-only")
	agreed(t, s, revOf(seal(t, 1, 3)))
}

func TestNotPermitted(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("permissions do not bind root; TestReadOnly stands in")
	}
	root := t.TempDir()
	check(t, os.Chmod(root, 0o500))
	fails(t, newSink(t, root), root, "permission denied")
}

// TestDiskFull fills the file system at every size up to what a window takes.
func TestDiskFull(t *testing.T) {
	root := mount(t)
	s := newSink(t, root)
	replace(t, s, seal(t, 1, 3))
	big := seal(t, 2, 20_000)
	sinktest.DiskFull(t, root, func() error { return s.Replace(t.Context(), big) }, func(first bool) {
		agreed(t, s, revOf(seal(t, 1, 3)))
		if first && s.Check(t.Context()) == nil {
			t.Error("Check of a full disk = nil")
		}
	})
	agreed(t, s, revOf(big))
}

// mount returns a small new file system.
func mount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	faults.Mount(t, dir, "1m")
	return dir
}

func remount(t *testing.T, dir string) {
	t.Helper()
	if out, err := exec.Command("mount", "-o", "remount,ro", dir).CombinedOutput(); err != nil {
		t.Fatalf("remount: %v: %s", err, out)
	}
}
