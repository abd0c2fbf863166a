package prompts

import (
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// openFlags: a pipe among the files must not hold the scan up.
const openFlags = os.O_RDONLY | unix.O_NONBLOCK

// openToAll reports whether anybody may write what is opened.
func openToAll(handle *os.File, info fs.FileInfo) bool {
	return info.Mode().Perm()&0o002 != 0 && !readOnly(handle)
}

// readOnly reports whether the file system is mounted read-only.
func readOnly(handle *os.File) bool {
	conn, err := handle.SyscallConn()
	if err != nil {
		return false
	}
	var answer unix.Statfs_t
	var failure error
	err = conn.Control(func(fd uintptr) { failure = unix.Fstatfs(int(fd), &answer) })
	return err == nil && failure == nil && answer.Flags&unix.ST_RDONLY != 0
}
