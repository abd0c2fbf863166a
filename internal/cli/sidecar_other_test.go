//go:build !linux

package cli

import "os/exec"

// dieWithUs does nothing: these systems lack a parent-death signal.
func dieWithUs(*exec.Cmd) {}
