package filestore

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestIrregular: a pipe, directory, socket or device is refused at once, by its kind.
func TestIrregular(t *testing.T) {
	root := t.TempDir()
	d := open(t, root)
	check(t, publish(t, d, "whole", "text"))
	check(t, errors.Join(syscall.Mkfifo(filepath.Join(root, "named pipe"), 0o600),
		os.Mkdir(filepath.Join(root, "directory"), 0o700),
		os.Symlink("named pipe", filepath.Join(root, "link to a named pipe")),
		os.Symlink("/dev/null", filepath.Join(root, "device"))))
	t.Chdir(root) // the name of a socket must be short
	socket, err := net.Listen("unix", "socket")
	check(t, err)
	defer socket.Close()
	for name, kind := range map[string]string{
		"named pipe": "", "directory": "", "link to a named pipe": "named pipe", "device": "", "socket": "",
	} {
		_, opened := d.Open(t.Context(), name)
		_, whole := d.OpenWhole(t.Context(), name)
		_, _, fetched := d.Fetch(t.Context(), name, t.TempDir())
		if kind == "" {
			kind = name
		}
		for _, err := range []error{opened, whole, fetched} {
			if err == nil || !strings.Contains(err.Error(),
				filepath.Join(root, name)+" is a "+kind+", must be a file: ") || Unavailable(err) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if err := publish(t, d, "directory", "text"); err == nil ||
		!strings.Contains(err.Error(), "is a directory, must be a file: ") {
		t.Errorf("published over a directory: %v", err)
	}
	check(t, publish(t, d, "named pipe", "text"))
	if got := contents(t, d, "named pipe"); got != "text" {
		t.Errorf("published over a named pipe: %q", got)
	}
}

// TestFetch gives a file that stays although another takes its place: a second name, a copy on another file system,
// or a copy of an object.
func TestFetch(t *testing.T) {
	for where, s := range map[string]Store{
		"directory": open(t, t.TempDir()), "another file system": open(t, mount(t)), "bucket": newBucket(t, ""),
	} {
		check(t, publish(t, s, "x", long))
		dir := t.TempDir()
		path, done, err := s.Fetch(t.Context(), "x", dir)
		check(t, err)
		check(t, publish(t, s, "x", "other"))
		if got, err := os.ReadFile(path); err != nil || string(got) != long {
			t.Errorf("%s: %d bytes of %d, %v", where, len(got), len(long), err)
		}
		check(t, done())
		if _, _, err := s.Fetch(t.Context(), "none", dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: Fetch of nothing = %v", where, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: left behind: %v", where, left)
		}
	}
}

// mount returns a new small file system, or skips the test.
func mount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=4m"); err != nil {
		t.Skipf("NOT TESTED: mounting a small file system: %v (needs root)", err)
	}
	t.Cleanup(func() { check(t, syscall.Unmount(dir, syscall.MNT_DETACH)) })
	return dir
}
