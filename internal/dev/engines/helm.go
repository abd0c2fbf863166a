package engines

import (
	"context"
	"os/exec"
)

// Helm returns a helm command that has not been started. It talks to no cluster
// unless its arguments make it.
func Helm(ctx context.Context, args ...string) (*exec.Cmd, error) {
	binary, err := program("helm")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, binary, args...), nil
}
