package durable

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

const (
	// ownerFile is locked in a temporary directory as long as its process lives.
	ownerFile = ".owner"
	// makeTries is more than the sweeps that can come in a row between two steps of making a directory. On a busy
	// machine ten came.
	makeTries = 1000
)

// Temp is a temporary directory that only this user can read. It belongs to this
// process until Remove. If the process dies before that, [SweepTemp], or the next
// NewTemp of the same kind, removes it.
type Temp struct {
	Path  string
	owner *os.File
}

// NewTemp makes a directory below parent, or below the system's directory if parent is
// empty. Its name begins with kind and a dash.
func NewTemp(parent, kind string) (*Temp, error) {
	remedy := ""
	if parent == "" {
		parent, remedy = os.TempDir(), ": TMPDIR must name a directory for temporary files that can be written"
	}
	// A directory that cannot be swept takes room and does no other harm.
	_ = SweepTemp(parent, kind)
	for range makeTries {
		path, err := os.MkdirTemp(parent, kind+"-")
		if err != nil {
			return nil, fmt.Errorf("%w%s", err, remedy)
		}
		owner, err := lockNew(path)
		if err != nil {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
		if owner != nil {
			return &Temp{path, owner}, nil
		}
	}
	return nil, fmt.Errorf("%s-* in %s: another process removes each new directory", kind, parent)
}

// lockNew locks a directory that was just made. It returns nil if a sweep of another
// process has removed the directory, or is about to.
func lockNew(path string) (*os.File, error) {
	name := filepath.Join(path, ownerFile)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	// On a file system without locks nothing is swept.
	if taken, err := TryLock(f); !taken && err == nil {
		return nil, f.Close()
	}
	mine, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if there, err := os.Stat(name); err != nil || !os.SameFile(there, mine) {
		return nil, f.Close()
	}
	return f, nil
}

// Remove removes the directory and all in it.
func (t *Temp) Remove() error { return removeOwned(t.Path, t.owner) }

// removeOwned removes a directory under its lock, except on
// Windows, which does not remove open files.
func removeOwned(path string, owner *os.File) error {
	if runtime.GOOS == "windows" {
		return errors.Join(owner.Close(), os.RemoveAll(path))
	}
	return errors.Join(os.RemoveAll(path), owner.Close())
}

// SweepTemp removes directories of the kinds below parent whose processes are dead. Directories of other users stay.
func SweepTemp(parent string, kinds ...string) error {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		for _, kind := range kinds {
			if !strings.HasPrefix(e.Name(), kind+"-") {
				continue // without asking for its owner: the system's directory may have thousands of entries
			}
			// Neither other users' directories, nor links.
			if info, err := e.Info(); err == nil && info.IsDir() && IsMine(info) {
				errs = append(errs, sweep(filepath.Join(parent, e.Name())))
			}
		}
	}
	return errors.Join(errs...)
}

func sweep(path string) error {
	f, err := os.OpenFile(filepath.Join(path, ownerFile), os.O_RDWR|ownerFlags, 0)
	if errors.Is(err, fs.ErrNotExist) {
		// Its process died between two steps of making it, or is between them and will
		// make another. A directory that is not empty is not one of ours, and stays.
		_ = os.Remove(path)
		return nil
	}
	if err != nil {
		return err
	}
	if taken, _ := TryLock(f); !taken {
		return f.Close()
	}
	return removeOwned(path, f)
}
