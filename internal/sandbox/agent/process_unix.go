//go:build unix

package agent

import "syscall"

// killSession kills a command and all that it started; syscall.ESRCH if nothing is left.
func killSession(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
