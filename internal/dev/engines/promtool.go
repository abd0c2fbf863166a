package engines

import (
	"context"
	"os/exec"
)

// Promtool returns a promtool command that has not been started.
func Promtool(ctx context.Context, args ...string) (*exec.Cmd, error) {
	binary, err := program("promtool")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, binary, args...), nil
}
