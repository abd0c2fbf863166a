//go:build unix

package logs

import (
	"io/fs"
	"syscall"
)

// openFlags: a named pipe that took the place of a file is not waited for.
const openFlags = syscall.O_RDONLY | syscall.O_NONBLOCK

// identify returns what tells a file from others as long as it exists, and its owner.
func identify(info fs.FileInfo) (id inode, owner int) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return inode{}, -1
	}
	return inode{uint64(stat.Dev), stat.Ino}, int(stat.Uid) //nolint:unconvert // not 64 bits on every system
}
