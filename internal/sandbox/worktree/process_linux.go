package worktree

import "syscall"

// Git and the command begin sessions of their own: no terminal to ask for a password on, and
// one process group to stop. Both end with us, git with time to remove its locks.

func gitAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}

func commandAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
}
