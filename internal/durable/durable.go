// Package durable writes files that survive a crash: after a power cut a replaced file
// is the former one or the new one, whole, and the effects of a function here are durable when it
// returns. It also makes temporary directories, which a later process
// removes if the one that made them died.
//
// It trusts a disk that reports data as written.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// flushes has a group for each directory that was flushed: calls for one directory share
// flushes.
var flushes sync.Map

// SyncDir makes the entries of dir durable. Some file systems, such as CIFS and some of
// FUSE, refuse to flush directories; this is not an error, since they need no more after a
// rename, or offer no more.
func SyncDir(dir string) error {
	group, _ := flushes.LoadOrStore(dir, new(Group[struct{}]))
	return group.(*Group[struct{}]).Do(struct{}{}, func([]struct{}) error {
		d, err := os.Open(dir)
		return syncOpened(d, err)
	})
}

// SyncDirIn is SyncDir for dir below root; "." is root itself.
func SyncDirIn(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	return syncOpened(d, err)
}

func syncOpened(d *os.File, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil // a directory that may be written, but not read, cannot be flushed
	}
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return d.Close() // it flushes no directories
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // the file system does not flush directories
	}
	return errors.Join(err, d.Close())
}

// Rename durably puts a file, which is whole and flushed, in the place of path. Both
// are on one file system.
func Rename(file, path string) error {
	if err := os.Rename(file, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteFile replaces path, or makes it, with this mode, regardless of the umask. It first
// writes a file beside path whose name begins with a dot and ends in .tmp.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	return writeFile(path, data, mode, os.Rename)
}

// RewriteFile replaces the file at path and keeps its mode and owner.
func RewriteFile(path string, data []byte) error {
	former, err := os.Stat(path)
	if err != nil {
		return err
	}
	return writeFile(path, data, former.Mode().Perm(), func(file, path string) error {
		if err := chownAs(file, former); err != nil {
			return err
		}
		return os.Rename(file, path)
	})
}

// CreateFile is WriteFile for a path that does not exist. Otherwise the file stays unchanged,
// and the error is fs.ErrExist.
func CreateFile(path string, data []byte, mode fs.FileMode) error {
	return writeFile(path, data, mode, os.Link)
}

// writeFile writes and flushes a file beside path, which publish puts there.
func writeFile(path string, data []byte, mode fs.FileMode, publish func(file, path string) error) error {
	const most = 100 // bytes of the name, so that there is room for the rest
	base := filepath.Base(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+base[:min(len(base), most)]+".*.tmp")
	if err != nil {
		return about(path, err)
	}
	defer func() { _ = os.Remove(f.Name()) }() // not there once it was renamed
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return about(path, err)
	}
	if err := publish(f.Name(), path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// about lets an error of the file beside path name path, which people know.
func about(path string, err error) error {
	if of, ok := errors.AsType[*fs.PathError](err); ok {
		of.Path = path
	}
	return err
}

// LockPatience is the time that a process waits for a lock that it needs.
const LockPatience = 3 * time.Second

// Lock is TryLock for the lock of a process that starts programs: one that was killed while it did leaves its
// locks to the child until that runs the program. So Lock waits for the time of patience before it returns false.
func Lock(f *os.File, patience time.Duration) (bool, error) {
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		if held, err := TryLock(f); held || err != nil || !time.Now().Before(deadline) {
			return held, err
		}
	}
}
