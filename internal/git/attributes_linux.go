package git

import "syscall"

// attributes begin a new session: git has no terminal to ask for a password on. It ends with us, with time to remove
// its locks.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
}
