//go:build unix

package runner

import (
	"io/fs"
	"syscall"
)

// killSession kills the process group of a command; syscall.ESRCH if nothing is left of it.
func killSession(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }

// usage returns the bytes that a file takes of the disk: of one with holes, its blocks.
func usage(info fs.FileInfo) int64 {
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * 512
	}
	return info.Size()
}
