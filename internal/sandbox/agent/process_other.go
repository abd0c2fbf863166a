//go:build unix && !linux

package agent

import (
	"os/exec"
	"syscall"
)

// Git and the command begin new sessions: no terminal to ask for a password on, and
// one process group to stop. There is no parent-death signal: they outlive us if we are
// killed. Nor is there a way to find processes that a command started in another session: they
// are left running.

func gitAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

func supervise(cmd *exec.Cmd) { cmd.SysProcAttr = gitAttributes() }
