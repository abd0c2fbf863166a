//go:build !linux

package cli

import "os/exec"

// dieWithUs does nothing where there is no parent-death signal.
func dieWithUs(*exec.Cmd) {}
