package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// diskEvery is the time between two looks at the size of a job's files.
const diskEvery = 500 * time.Millisecond

// errDisk ends a command, and its job.
var errDisk = errors.New("was killed")

// leastFile is what each file and directory counts at least, so that the limit bounds their number too.
const leastFile = 4 << 10

// watch stops a command whose workplace is larger than most, with what its processes, pid and those below, keep open.
func (w *workplace) watch(ctx context.Context, most int64, pid int, stop context.CancelCauseFunc) {
	pause := diskEvery
	for clock.Sleep(ctx, pause) == nil {
		began := time.Now()
		if err := w.exceeds(most, pid); err != nil {
			stop(err)
		}
		pause = max(diskEvery, 20*time.Since(began)) // many files are no reason to keep a core busy
	}
}

// exceeds returns an error if a workplace is larger than most, or cannot be counted; pid is 0 without processes.
func (w *workplace) exceeds(most int64, pid int) error {
	n, err := w.size(".", true)
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("left a directory that cannot be counted (%w) and %w", failed.Err, errDisk)
	}
	if pid > 0 {
		n += deletedFiles(pid, w.dir)
	}
	if err == nil && n > most+w.free {
		err = fmt.Errorf("wrote more than %d MiB and %w", most>>20, errDisk)
	}
	return err
}

// size returns the bytes that a directory of a workplace takes of the disk. One that the command made unreadable is
// made readable again.
func (w *workplace) size(dir string, again bool) (n int64, err error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, dir))
	var below []string
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil {
			if !errors.Is(infoErr, fs.ErrNotExist) {
				err = infoErr
			}
			continue
		}
		n += max(usage(info), leastFile)
		if info.IsDir() {
			below = append(below, filepath.Join(dir, entry.Name()))
		}
	}
	switch {
	case errors.Is(err, fs.ErrPermission) && again:
		root, err := os.OpenRoot(w.dir) // the command may put a link in the place of the directory
		if err != nil {
			return n, err
		}
		defer root.Close() //nolint:errcheck // nothing was written
		if err := root.Chmod(dir, 0o700); err != nil {
			return n, err
		}
		return w.size(dir, false)
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // it has just been removed
		return n, nil
	}
	for _, dir := range below {
		more, failed := w.size(dir, true)
		n += more
		err = cmp.Or(err, failed)
	}
	return n, err
}
