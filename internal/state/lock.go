package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"unicode"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/format"
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
func LockExport(dir string) (*Lock, error) {
	return lock(dir, exportLock, "one process exports at a time, and serve does it by itself on "+
		"DOCGAUGE_SCHEDULE: wait until it has ended, or stop it")
}

// LockQueue takes the queue's lock: one process runs the prompt queue at a time. It never waits;
// ErrLocked if another process holds it.
func LockQueue(dir string) (*Lock, error) {
	return lock(dir, queueLock, "one process runs the prompt queue at a time, and serve does it by itself if "+
		"DOCGAUGE_PROMPTS_DIR is set: wait until it has ended, or stop it")
}

// lock takes a lock. The remedy is for people, if another process holds it.
func lock(dir, name, remedy string) (*Lock, error) {
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
		pid, _, command := holder(file)
		err = fmt.Errorf("%w (process %d%s): %s", ErrLocked, pid, command, remedy)
	}
	if err == nil {
		// The process id and the command are for people, the schema for noneOlder; the lock itself is the kernel's.
		if err = file.Truncate(0); err == nil {
			_, err = file.WriteAt(fmt.Appendf(nil, "%d schema %d %s\n", os.Getpid(), newestSchema(), commandLine()), 0)
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("state lock %s: %w", path, err), file.Close())
	}
	ownLocks.Store(path, true)
	return &Lock{path, file}, nil
}

// Release gives the lock up, if there is one.
func (l *Lock) Release() error {
	if l == nil {
		return nil
	}
	ownLocks.Delete(l.path)
	return l.file.Close()
}

// maxCommand is the number of characters of a command line that a lock file has.
const maxCommand = 200

// commandLine is how this process was started, on one line. No flag has a secret.
func commandLine() string {
	line := strings.Join(append([]string{filepath.Base(os.Args[0])}, os.Args[1:]...), " ")
	return format.Cut(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, line), maxCommand)
}

// holder returns the process that wrote the lock file, the newest schema that it supports, and its command line after
// a colon, if the file has it.
func holder(file *os.File) (pid, schema int, command string) {
	text := make([]byte, 1024)
	n, _ := file.ReadAt(text, 0)
	line, _, _ := strings.Cut(string(text[:n]), "\n")
	_, _ = fmt.Sscanf(line, "%d schema %d", &pid, &schema)
	if parts := strings.SplitN(line, " ", 4); len(parts) == 4 {
		command = ": " + parts[3]
	}
	return pid, schema, command
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
		if pid, knows, command := holder(file); err == nil && !free && knows < newestSchema() {
			err = fmt.Errorf("%w (process %d%s): it uses schema %d, and this binary %d; stop that process, "+
				"or restart it with this binary, which migrates the state", ErrLocked, pid, command, have, newestSchema())
		}
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("state lock %s: %w", path, err)
		}
	}
	return nil
}
