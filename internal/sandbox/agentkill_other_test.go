//go:build unix && !linux

package sandbox

import "syscall"

var diesWithUs *syscall.SysProcAttr

func goneFrom(string) bool { return true }
