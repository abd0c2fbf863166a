// Package durable writes what survives a crash: a file that is replaced is the
// former one or the new one, whole, and what a function here has returned from is
// there after a power cut. Temporary directories of processes that died are swept by
// those that come later.
//
// It does not know what the files hold. That the disk keeps what it says it has
// written is for the disk.
package durable

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// SyncDir makes the entries of dir durable. File systems that cannot do so for
// directories refuse it, some of CIFS and FUSE among them; after a rename they need
// no more, or offer no more.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	return syncOpened(d, err)
}

// SyncDirIn is SyncDir for dir below root; "." is root itself.
func SyncDirIn(root *os.Root, dir string) error {
	d, err := root.Open(dir)
	return syncOpened(d, err)
}

func syncOpened(d *os.File, err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return nil // one that may be written, not read, cannot be flushed
	}
	if err != nil {
		return err
	}
	if err = d.Sync(); refused(err) {
		err = nil
	}
	return errors.Join(err, d.Close())
}

// refused reports whether the file system does not flush directories.
func refused(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported)
}

// Rename puts a file, whole and flushed, in the place of path, for good. Both are on
// one file system.
func Rename(file, path string) error {
	if err := os.Rename(file, path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// WriteFile replaces path, or makes it, with the mode whatever the umask is. It is
// written beside path, under a name that begins with a dot and ends in .tmp.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	const most = 100 // bytes of the name, so that there is room for the rest
	base := filepath.Base(path)
	f, err := os.CreateTemp(filepath.Dir(path), "."+base[:min(len(base), most)]+".*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // not there once it was renamed
	}
	return err
}
