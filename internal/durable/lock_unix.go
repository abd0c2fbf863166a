//go:build unix

package durable

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerFlags: a link in place of an owner's file is not followed, and a pipe not waited for.
const ownerFlags = unix.O_NOFOLLOW | unix.O_NONBLOCK

// TryLock locks a file until it is closed, or returns false if another process, or
// another opening of the file, holds the lock. An error means a file system without locks.
func TryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return false, nil
	}
	return err == nil, err
}

// IsMine reports whether a file belongs to the user of this process.
func IsMine(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// chownAs gives a file the owner and group of another.
func chownAs(file string, like fs.FileInfo) error {
	if stat, ok := like.Sys().(*syscall.Stat_t); ok {
		return os.Chown(file, int(stat.Uid), int(stat.Gid))
	}
	return nil
}
