package state

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Lock is a hold on the state that ends with Release or with the process.
type Lock struct{ file *os.File }

// LockExport takes the exporter's lock: one process exports at a time.
// It never waits; ErrLocked if another process holds it.
func LockExport(dir string) (*Lock, error) { return lock(dir, "export.lock") }

// LockQueue takes the queue's lock: one process runs the prompt queue at a time.
// It never waits; ErrLocked if another process holds it.
func LockQueue(dir string) (*Lock, error) { return lock(dir, "queue.lock") }

func lock(dir, name string) (*Lock, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state lock: %w", err)
	}
	err = unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%s: %w%s", path, ErrLocked, holder(file)), file.Close())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	// The process id is a hint for people; the lock itself is the kernel's.
	if err := errors.Join(file.Truncate(0), writePID(file)); err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	return &Lock{file}, nil
}

func writePID(file *os.File) error {
	_, err := file.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	return err
}

func holder(file *os.File) string {
	buf := make([]byte, 32)
	n, _ := file.ReadAt(buf, 0)
	if pid, err := strconv.Atoi(strings.TrimSpace(string(buf[:n]))); err == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// Release gives the lock up.
func (l *Lock) Release() error { return l.file.Close() }
