//go:build unix && !linux

package sandbox

import "syscall"

var diesWithUs *syscall.SysProcAttr
