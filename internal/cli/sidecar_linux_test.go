package cli

import (
	"os/exec"
	"syscall"
)

// dieWithUs lets the process die with this one.
func dieWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
