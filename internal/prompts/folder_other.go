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

// openToAll reports whether anyone can write to what is opened. On Windows, modes do
// not tell.
func openToAll(_ *os.File, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}
