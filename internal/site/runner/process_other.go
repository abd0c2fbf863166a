//go:build unix && !linux

package runner

import (
	"os"
	"os/exec"
	"syscall"
)

// Git and the command begin new sessions, so that they cannot ask for a password on a terminal,
// and one process group can be stopped. These systems lack a parent-death signal: both outlive
// us if we are killed. They also lack a way to find processes that a command started in another
// session, which are left running.

func supervise(cmd *exec.Cmd, _ *os.File, _ int64) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
}

// closeInherited is for Linux: only there does a jail make a promise.
func closeInherited() error { return nil }

// freeBytes and deletedFiles are for Linux alone.
func freeBytes(string) int64                     { return 0 }
func deletedFiles(int, string) (n int64, _ bool) { return 0, false }
