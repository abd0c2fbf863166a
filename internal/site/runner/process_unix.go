//go:build unix

package runner

import "syscall"

// killSession kills the process group of a command; syscall.ESRCH if nothing is left of it.
func killSession(pid int) error { return syscall.Kill(-pid, syscall.SIGKILL) }
