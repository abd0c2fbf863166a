//go:build !linux

package prompts

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// openFlags: a scan must not block on a named pipe.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// openToAll reports whether anyone can write to the opened file or folder. On Windows it is always
// false, because the mode does not show that.
func openToAll(_ *os.File, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}
