package filestore

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/docgauge/docgauge/internal/durable"
)

// TestCreateInOneStep: also without hard links, a process that is killed leaves no empty file that keeps the name.
func TestCreateInOneStep(t *testing.T) {
	root := t.TempDir()
	d := open(t, root).(*directory)
	check(t, d.Prepare(t.Context()))
	d.link = func(_, _ string) error { return syscall.EPERM }
	log := filepath.Join(root, "log")
	check(t, os.Mkdir(log, dirMode))
	probe := filepath.Join(t.TempDir(), "probe")
	check(t, os.WriteFile(probe, nil, fileMode))
	if err := durable.RenameNew(probe, probe+"2"); errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this file system has no such rename: ", err)
	}
	fd, err := syscall.InotifyInit1(syscall.IN_NONBLOCK)
	check(t, err)
	defer syscall.Close(fd)
	_, err = syscall.InotifyAddWatch(fd, log, syscall.IN_CREATE)
	check(t, err)
	check(t, d.Create(t.Context(), "log/0", []byte("mine")))
	holds(t, d, "log/0")
	if n, err := syscall.Read(fd, make([]byte, 4096)); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("the name was made by another step before: %d bytes of events, %v", n, err)
	}
}
