package engines

import (
	"context"
	"os/exec"
)

// Systemd returns a command of systemd that works without systemd running, such
// as systemd-analyze or systemd-sysusers, and has not been started.
func Systemd(ctx context.Context, name string, args ...string) (*exec.Cmd, error) {
	binary, err := program(name)
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, binary, args...), nil
}
