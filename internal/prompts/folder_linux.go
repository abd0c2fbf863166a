package prompts

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags: a scan must not block on a named pipe.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK

// openToAll reports whether anyone can write to the opened file or folder: its mode allows that,
// and its file system is not mounted read-only.
func openToAll(handle *os.File, info fs.FileInfo) bool {
	if info.Mode().Perm()&0o002 == 0 {
		return false
	}
	conn, err := handle.SyscallConn()
	if err != nil {
		return true
	}
	var mount unix.Statfs_t
	var failure error
	err = conn.Control(func(fd uintptr) { failure = unix.Fstatfs(int(fd), &mount) })
	return err != nil || failure != nil || mount.Flags&unix.ST_RDONLY == 0
}
