package engines

import (
	"context"
	"os/exec"
)

// ComposeSpec returns a command, not started, that loads a compose file as the
// compose specification says, without a container engine, and prints what it
// means: compose-go's own, the loader of docker compose.
func ComposeSpec(ctx context.Context, args ...string) (*exec.Cmd, error) {
	binary, err := program("compose-spec")
	if err != nil {
		return nil, err
	}
	return exec.CommandContext(ctx, binary, args...), nil
}
