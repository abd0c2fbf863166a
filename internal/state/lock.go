package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/docgauge/docgauge/internal/durable"
)

// Lock is a hold on the state that ends with Release or with the process.
type Lock struct {
	path string
	file *os.File
}

const (
	exportLock = "export.lock"
	queueLock  = "queue.lock"
)

// ownLocks has the paths of the locks that this process holds.
var ownLocks sync.Map

// LockExport takes the exporter's lock: one process exports at a time. It never waits; ErrLocked if
// another process holds it.
func LockExport(dir string) (*Lock, error) { return lock(dir, exportLock) }

// LockQueue takes the queue's lock: one process runs the prompt queue at a time. It never waits;
// ErrLocked if another process holds it.
func LockQueue(dir string) (*Lock, error) { return lock(dir, queueLock) }

func lock(dir, name string) (*Lock, error) {
	if err := makeDir(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state lock: %w", err)
	}
	taken, err := durable.TryLock(file)
	if err == nil && !taken {
		pid, _ := holder(file)
		err = fmt.Errorf("%w (process %d)", ErrLocked, pid)
	}
	if err == nil {
		// The process id is for people, the schema for noneOlder; the lock itself is the kernel's.
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt(fmt.Appendf(nil, "%d schema %d\n", os.Getpid(), newestSchema()), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	ownLocks.Store(path, true)
	return &Lock{path, file}, nil
}

// Release gives the lock up.
func (l *Lock) Release() error {
	ownLocks.Delete(l.path)
	return l.file.Close()
}

// holder returns the process that wrote the lock file, and the newest schema that it supports.
func holder(file *os.File) (pid, schema int) {
	text := make([]byte, 64)
	n, _ := file.ReadAt(text, 0)
	_, _ = fmt.Sscanf(string(text[:n]), "%d schema %d", &pid, &schema)
	return pid, schema
}

// noneOlder returns ErrLocked if a process of an older docgauge holds the state: it could not write
// to a database that is migrated from its schema.
func noneOlder(dir string, have int) error {
	for _, name := range []string{exportLock, queueLock} {
		path := filepath.Join(dir, name)
		if _, own := ownLocks.Load(path); own {
			continue
		}
		file, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("state lock: %w", err)
		}
		free, err := durable.TryLock(file)
		if pid, knows := holder(file); err == nil && !free && knows < newestSchema() {
			err = fmt.Errorf("%w (process %d): it uses schema %d, and this binary %d; stop that process, "+
				"or restart it with this binary, which migrates the state", ErrLocked, pid, have, newestSchema())
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("state lock %s: %w", path, err)
		}
	}
	return nil
}
