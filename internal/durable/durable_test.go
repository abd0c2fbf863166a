package durable_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
)

// TestSyncDirWhereItIsRefused: proc answers EINVAL, as file systems do that cannot
// flush directories.
func TestSyncDirWhereItIsRefused(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("NOT TESTED: needs /proc")
	}
	d, err := os.Open("/proc")
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Sync(); err == nil {
		t.Skip("NOT TESTED: this /proc flushes directories")
	}
	if err := durable.SyncDir("/proc"); err != nil {
		t.Error(err)
	}
	root, err := os.OpenRoot("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{".", "self"} {
		if err := durable.SyncDirIn(root, dir); err != nil {
			t.Error(err)
		}
	}
	if err := errors.Join(d.Close(), root.Close()); err != nil {
		t.Error(err)
	}
}

func TestSyncDir(t *testing.T) {
	dir := t.TempDir()
	if err := durable.SyncDir(dir); err != nil {
		t.Error(err)
	}
	if err := durable.SyncDir(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestDropBox: a file can be put into a directory that may be written but not read.
func TestDropBox(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("NOT TESTED: root may read everything")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o300); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(filepath.Join(dir, "a"), []byte("text"), 0o644); err != nil {
		t.Error(err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
}

func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	name := strings.Repeat("long", 60) + ".txt"
	path := filepath.Join(dir, name)
	for _, tc := range []struct {
		text string
		mode fs.FileMode
	}{{"first", 0o600}, {"second", 0o644}, {"", 0o666}} {
		if err := durable.WriteFile(path, []byte(tc.text), tc.mode); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err := errors.Join(err, serr); err != nil || string(text) != tc.text || info.Mode() != tc.mode {
			t.Errorf("%q, %v, want %q, %v: %v", text, info.Mode(), tc.text, tc.mode, err)
		}
	}
	alone(t, dir, name)
}

// TestRewriteFile: mode and owner stay.
func TestRewriteFile(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a file has the rights of its directory there")
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	owner := os.Geteuid()
	if owner == 0 {
		owner = 1234
	}
	if err := errors.Join(os.Chmod(path, 0o640), os.Lchown(path, owner, -1)); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err := errors.Join(err, durable.RewriteFile(path, []byte("after"))); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	after, serr := os.Stat(path)
	if err = errors.Join(err, serr); err != nil || string(text) != "after" || after.Mode() != before.Mode() {
		t.Fatalf("%q, %v, %v", text, after, err)
	}
	if durable.IsMine(after) != durable.IsMine(before) {
		t.Error("the owner changed")
	}
	alone(t, filepath.Dir(path), "file")
	if err := durable.RewriteFile(path+"2", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestCreateFile: an existing file stays, so does a link that leads nowhere, and nothing is left
// beside it.
func TestCreateFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := durable.CreateFile(path, []byte("first"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nowhere", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	for _, taken := range []string{path, filepath.Join(dir, "link")} {
		if err := durable.CreateFile(taken, []byte("second"), 0o644); !errors.Is(err, fs.ErrExist) {
			t.Errorf("%s: %v", taken, err)
		}
	}
	text, err := os.ReadFile(path)
	info, serr := os.Stat(path)
	if err := errors.Join(err, serr); err != nil || string(text) != "first" || info.Mode() != 0o600 {
		t.Errorf("%q, %v: %v", text, info.Mode(), err)
	}
	alone(t, dir, "a.txt", "link")
}

// TestWriteFileFails: an obstacle stays, and nothing is left beside it.
func TestWriteFileFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := os.MkdirAll(filepath.Join(path, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := durable.WriteFile(path, []byte("text"), 0o644); err == nil || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	path = filepath.Join(dir, "none", "a.txt")
	if err := durable.WriteFile(path, nil, 0o644); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), path) {
		t.Error(err)
	}
	alone(t, dir, "a.txt")
}

// sorted returns the names of paths in order.
func sorted(paths ...string) (names []string) {
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	slices.Sort(names)
	return names
}

// alone checks that a directory holds these, and nothing else.
func alone(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %v, want %v", dir, got, want)
	}
}

// TestLockOfAChild: a lock that a killed process left to its child is free a moment later; the lock of a process at
// work is not.
func TestLockOfAChild(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for after, want := range map[time.Duration]bool{0: true, time.Second: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			theirs, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			ours, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer ours.Close()
			if held, err := durable.TryLock(theirs); err != nil || !held {
				t.Fatal(held, err)
			}
			time.AfterFunc(after, func() { theirs.Close() })
			if held, err := durable.Lock(ours, durable.LockPatience); err != nil || held != want {
				t.Errorf("free after %s: %t %v", after, held, err)
			}
			time.Sleep(after)
		})
	}
}
