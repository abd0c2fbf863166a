package runner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// diskEvery is the time between two looks at the size of a job's files.
const diskEvery = 500 * time.Millisecond

// errDisk ends a command, and its job.
var errDisk = errors.New("was killed: DOCGAUGE_SITE_JOB_DISK limits the files of a job")

// leastFile is what each file and directory counts at least, so that the limit bounds their number too.
const leastFile = 4 << 10

// watch stops a command whose workplace is larger than most, with what its processes, pid and those below, keep open.
func (w *workplace) watch(ctx context.Context, most int64, pid int, jailed bool, stop context.CancelCauseFunc) {
	pause, free := diskEvery, int64(0)
	if jailed { // outside, some agents hide their memory, and with it their files, for good reasons
		free = freeBytes(w.dir)
	}
	for clock.Sleep(ctx, pause) == nil {
		began := time.Now()
		if err := w.exceeds(most, pid, free); err != nil {
			stop(err)
		}
		pause = max(diskEvery, 20*time.Since(began)) // many files are no reason to keep a core busy
	}
}

// exceeds returns an error if a workplace is larger than most, or cannot be counted; pid is 0 without processes. What
// these hide is taken for all that the disk has lost since so many bytes were free.
func (w *workplace) exceeds(most int64, pid int, free int64) error {
	n, err := w.size(".")
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("left a directory that cannot be counted (%w) and %w", failed.Err, errDisk)
	}
	if pid > 0 {
		deleted, hidden := deletedFiles(pid, w.dir)
		if n += deleted; hidden {
			n = max(n, free-freeBytes(w.dir))
		}
	}
	if err == nil && n > most+w.free {
		err = fmt.Errorf("wrote more than %d MiB and %w", most>>20, errDisk)
	}
	return err
}

// size returns the bytes that a directory of a workplace takes of the disk. Directories that the command made
// unreadable are made readable again, for git too, which has no rights over them if docgauge is root.
func (w *workplace) size(dir string) (n int64, err error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, dir))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // it has just been removed
		return 0, nil
	}
	var below []string
	for _, entry := range entries {
		info, infoErr := entry.Info()
		if infoErr != nil {
			if !errors.Is(infoErr, fs.ErrNotExist) {
				err = infoErr
			}
			continue
		}
		bytes := max(usage(info), leastFile)
		if strings.HasPrefix(dir, filepath.Base(w.tree())) && info.Mode().IsRegular() {
			bytes = max(bytes, info.Size()) // git reads holes too, which takes long
		}
		n += bytes
		if info.IsDir() {
			path := filepath.Join(dir, entry.Name())
			below = append(below, path)
			if info.Mode().Perm()&0o500 != 0o500 {
				err = cmp.Or(err, w.open(path))
			}
		}
	}
	for _, dir := range below {
		more, failed := w.size(dir)
		n += more
		err = cmp.Or(err, failed)
	}
	return n, err
}

// open makes a directory readable, unless it has just been removed. The command may put a link in its place.
func (w *workplace) open(dir string) error {
	root, err := os.OpenRoot(w.dir)
	if err != nil {
		return err
	}
	defer root.Close() //nolint:errcheck // nothing was written
	if err = root.Chmod(dir, 0o700); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// claim keeps the home of a job, whose work begins. After release has been called it is one of those that trimHomes
// may remove.
func (r *Repo) claim(job string) (release func() error) {
	r.homes.Lock()
	defer r.homes.Unlock()
	r.atWork[r.place(job).dir] = true
	return func() error {
		r.homes.Lock()
		delete(r.atWork, r.place(job).dir)
		r.homes.Unlock()
		return r.trimHomes()
	}
}

// trimHomes removes homes of jobs that are not at work until they take at most MaxDisk together: those whose last
// instruction ended first, and those that cannot be counted.
func (r *Repo) trimHomes() error {
	r.homes.Lock()
	defer r.homes.Unlock()
	entries, err := os.ReadDir(r.dir)
	type home struct {
		workplace
		ended time.Time // when the other parts of the workplace were removed
	}
	var homes []home
	for _, entry := range entries {
		w := r.place(entry.Name())
		if info, gone := entry.Info(); gone == nil && info.IsDir() && !r.atWork[w.dir] {
			homes = append(homes, home{*w, info.ModTime()})
		}
	}
	slices.SortFunc(homes, func(a, b home) int { return b.ended.Compare(a.ended) })
	var sum int64
	for _, h := range homes {
		var n int64
		var unknown error
		if sum <= r.options.MaxDisk {
			n, unknown = h.size(".")
		}
		if unknown == nil {
			sum += n
		}
		if unknown != nil || sum > r.options.MaxDisk {
			err = errors.Join(err, removeAll(h.dir))
		}
	}
	return err
}
