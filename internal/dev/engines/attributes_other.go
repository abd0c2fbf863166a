//go:build unix && !linux

package engines

import "syscall"

// attributes put a child into its own process group. Without a parent-death signal
// it outlives us if we are killed.
func attributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
