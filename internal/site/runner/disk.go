package runner

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// diskEvery is the time between two looks at the size of a job's files.
const diskEvery = 500 * time.Millisecond

// errDisk ends a command, and its job.
var errDisk = errors.New("was killed")

// watch stops a command whose workplace is larger than most.
func (w *workplace) watch(ctx context.Context, most int64, stop context.CancelCauseFunc) {
	pause := diskEvery
	for clock.Sleep(ctx, pause) == nil {
		began := time.Now()
		if w.size() > most {
			stop(fmt.Errorf("wrote more than %d MiB and %w", most>>20, errDisk))
		}
		pause = max(diskEvery, 20*time.Since(began)) // many files are no reason to keep a core busy
	}
}

// size returns the bytes that a workplace takes of the disk.
func (w *workplace) size() (n int64) {
	_ = filepath.WalkDir(w.dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				n += usage(info)
			}
		}
		return nil
	})
	return n
}
