package worktree

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// maxOutput is how much of what a command printed is kept: the end.
const maxOutput = 16 << 10

// closeDelay is how long a command that has ended may keep its output open
// through processes it started.
const closeDelay = 2 * time.Second

// command runs the command in dir with prompt on standard input, and ends with
// it everything it started in its session. Output is standard output and error.
func (r *Repo) command(ctx context.Context, dir, prompt string) (output string, err error) {
	limited, cancel := context.WithTimeout(ctx, r.config.Timeout)
	defer cancel()
	out := &tail{max: maxOutput}
	cmd := exec.CommandContext(limited, "sh", "-c", r.config.Command)
	cmd.Dir, cmd.Env = dir, append(environment(ordinary, r.config.Env), "PWD="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(prompt), out, out
	cmd.SysProcAttr = commandAttributes()
	cmd.Cancel, cmd.WaitDelay = func() error { return killGroup(cmd.Process) }, closeDelay
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("agent command: %w", err)
	}
	err = cmd.Wait()
	_ = killGroup(cmd.Process) // what it left running must not write on
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay):
		return out.String(), nil
	case ctx.Err() == nil && limited.Err() != nil:
		err = fmt.Errorf("took longer than %s and was killed", r.config.Timeout)
	}
	return out.String(), fmt.Errorf("agent command: %w", err)
}
