package durable

import (
	"errors"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

const ownerFlags = 0

// TryLock locks a file until it is closed, or returns false if another process, or
// another opening of the file, holds the lock. Locks are mandatory here: the one that
// is taken is on a byte far behind the end, so that the file can still be read.
func TryLock(f *os.File) (bool, error) {
	far := windows.Overlapped{OffsetHigh: 1 << 30}
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &far)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return false, nil
	}
	return err == nil, err
}

// IsMine returns true: modes and owners do not say here who can read a file, and each user has a
// separate temporary directory.
func IsMine(fs.FileInfo) bool { return true }

// chownAs does nothing: a file has the rights of its directory here.
func chownAs(string, fs.FileInfo) error { return nil }
