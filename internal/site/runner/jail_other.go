//go:build !linux

package runner

import (
	"context"
	"errors"
	"os/exec"
)

// Jail confines commands; only on Linux.
type Jail struct{}

// NewJail returns an error: there is no jail on this system.
func NewJail(context.Context, JailOptions) (*Jail, error) {
	return nil, errors.New("needs Linux and bubblewrap")
}

func help([]string) int { return 2 }

func (*Jail) confine(*exec.Cmd, *workplace, step, []string) (refused func() []string, end func(), err error) {
	return nil, nil, errors.New("needs Linux")
}
