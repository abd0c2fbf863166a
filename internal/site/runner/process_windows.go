package runner

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

func supervise(cmd *exec.Cmd, _ *os.File, _ int64) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killSession kills a command and all its descendants; syscall.ESRCH if none is left.
func killSession(pid int) error {
	if exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(pid)).Run() != nil {
		return syscall.ESRCH
	}
	return nil
}

// usage returns the bytes that a file takes of the disk.
func usage(info fs.FileInfo) int64 { return info.Size() }

// closeInherited is for Linux: only there does a jail make a promise.
func closeInherited() error { return nil }

// freeBytes and deletedFiles are for Linux alone.
func freeBytes(string) int64                     { return 0 }
func deletedFiles(int, string) (n int64, _ bool) { return 0, false }
