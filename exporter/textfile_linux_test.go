package exporter_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

// mount mounts a tmpfs at a new directory, or skips the test.
func mount(t *testing.T, options string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, options); err != nil {
		t.Skipf("SKIPPED: needs root to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// On a full disk the former file stays.
func TestTextfileFullDisk(t *testing.T) {
	dir := mount(t, "size=64k")
	path := filepath.Join(dir, "docgauge.prom")
	must(t, exporter.WriteTextfile(path, rich()))
	before, err := os.ReadFile(path)
	must(t, err)
	err = exporter.WriteTextfile(path, large(10, 50))
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) ||
		!strings.Contains(err.Error(), "free some") {
		t.Error(err)
	}
	after, err := os.ReadFile(path)
	if err != nil || string(after) != string(before) {
		t.Errorf("%d bytes, were %d, %v", len(after), len(before), err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("left %v", files)
	}
}

func TestTextfileReadOnly(t *testing.T) {
	path := filepath.Join(mount(t, "ro"), "docgauge.prom")
	err := exporter.WriteTextfile(path, rich())
	if !errors.Is(err, syscall.EROFS) || !strings.Contains(err.Error(), "must be writable") {
		t.Error(err)
	}
}
