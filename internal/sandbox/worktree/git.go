package worktree

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// gitTimeout is for one git command, a push included.
const gitTimeout = 2 * time.Minute

// gitGrace is how long git has to remove its lock files when it is stopped.
const gitGrace = 5 * time.Second

// maxSaid is how much of what git said is in an error.
const maxSaid = 500

// settings go before the configuration of the repository and the user.
var settings = []string{
	"-c", "core.hooksPath=/dev/null",
	"-c", "core.fsmonitor=false",
	"-c", "core.askPass=",
	"-c", "core.editor=false",
	"-c", "commit.gpgSign=false",
	"-c", "commit.cleanup=whitespace",
	"-c", "push.gpgSign=false",
	"-c", "gc.auto=0",
	"-c", "maintenance.auto=false",
	"-c", "advice.addEmbeddedRepo=false",
	"--no-pager", "--literal-pathspecs",
}

// git runs git in dir.
type git struct {
	program, dir string
	env          []string
}

// with returns g with more environment.
func (g git) with(env ...string) git {
	g.env = append(g.env[:len(g.env):len(g.env)], env...)
	return g
}

// in returns g in another directory.
func (g git) in(dir string) git {
	g.dir = dir
	return g
}

// run returns what git printed, without the newline at its end.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	var out bytes.Buffer
	err := g.stream(ctx, &out, "", args...)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// stream runs git with stdin and writes what it prints to out.
func (g git) stream(ctx context.Context, out io.Writer, stdin string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, gitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, g.program, append(settings[:len(settings):len(settings)], args...)...)
	said := &tail{max: maxSaid}
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = g.dir, g.env, strings.NewReader(stdin), out, said
	cmd.SysProcAttr = gitAttributes()
	cmd.Cancel, cmd.WaitDelay = func() error { return terminate(cmd.Process) }, gitGrace
	err := cmd.Run()
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return gitError{err, redact(strings.TrimSpace(said.String())), args[0]}
}

// gitError is a git command that failed and what it said.
type gitError struct {
	error
	said, command string
}

func (e gitError) Error() string {
	return fmt.Sprintf("git %s: %v: %s", e.command, e.error, e.said)
}

func (e gitError) Unwrap() error { return e.error }

// exitCode returns the exit code git ended with, -1 where it did not get that far.
func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return -1
}

var userInfo = regexp.MustCompile(`://[^/@\s]+@`)

// redact hides what stands before the host of a URL: it may be a password.
func redact(s string) string { return userInfo.ReplaceAllString(s, "://[redacted]@") }
