//go:build unix && !linux

package worktree

import "syscall"

// Git and the command begin sessions of their own: no terminal to ask for a password on, and
// one process group to stop. Where there is no parent-death signal they outlive
// us if we are killed.

func gitAttributes() *syscall.SysProcAttr     { return &syscall.SysProcAttr{Setsid: true} }
func commandAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }
