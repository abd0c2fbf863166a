//go:build unix

package secretfile

import (
	"io/fs"
	"os"
	"syscall"
)

// rights are the mode of a file, and whether it is this user's.
func rights(info fs.FileInfo) (mode fs.FileMode, mine bool) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return info.Mode().Perm(), ok && int(owner.Uid) == os.Geteuid()
}
