package engines

import (
	"context"
	"os"
	"path/filepath"
)

// Command is a program that is no engine of this package, kept as one: a child
// in a process group of its own that does not outlive this process.
type Command struct{ process }

// StartCommand runs argv in dir, which is made if it is not there, and waits
// until ready says that it answers; nil: it is not waited for. What it writes
// goes to <name>.out in dir. The entries of env are added to our environment
// and go before it.
func StartCommand(dir, name string, argv, env []string, ready func(context.Context) bool) (*Command, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if ready == nil {
		ready = func(context.Context) bool { return true }
	}
	c := &Command{process{name: name, argv: argv, env: env, dir: dir, ready: ready}}
	return c, c.Restart()
}

// Output is the file that has what the program wrote.
func (c *Command) Output() string { return c.output() }

// Ended is closed when the program has ended.
func (c *Command) Ended() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.done
}
