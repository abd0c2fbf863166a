//go:build !linux

package prompts

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// openFlags: a pipe among the files must not hold the scan up.
const openFlags = os.O_RDONLY | syscall.O_NONBLOCK

// openToAll reports whether anybody may write what is opened. Modes say nothing
// of it on Windows.
func openToAll(_ *os.File, info fs.FileInfo) bool {
	return runtime.GOOS != "windows" && info.Mode().Perm()&0o002 != 0
}
