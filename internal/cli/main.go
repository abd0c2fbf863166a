// Package cli is the command line: one file a command, which reads flags, makes one
// call, and prints what came of it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"github.com/docgauge/docgauge/internal/export"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/docgauge/docgauge/internal/state"
)

// Exit codes.
const (
	exitDone   = 0 // done, nothing due, or the rest deferred by the budget
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration; nothing was done
	exitLocked = 3 // another process holds the state
)

// Program is the command line.
type Program struct {
	// Version and Commit are those of the build.
	Version, Commit string
	Out, Err        io.Writer

	now func() time.Time
	// logTo is where log lines go: Err, or a progress bar in front of it.
	logTo *switchWriter
	// observe is told each step of an export; only tests set it.
	observe func(export.Event)
}

// Run runs a command and returns the exit code.
func (p Program) Run(ctx context.Context, args []string) int {
	version, commit = p.Version, p.Commit
	a := &p
	a.now, a.logTo = time.Now, &switchWriter{to: p.Err}
	root := a.root()
	root.SetArgs(args)
	root.SetOut(p.Out)
	root.SetErr(p.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	if !errors.Is(err, errSaid) {
		fmt.Fprintln(p.Err, "docgauge: "+err.Error())
	}
	return exitCode(err)
}

// errSaid is the error of a command that has told the user everything already.
var errSaid = errors.New("failed")

// usageError is a mistake in the command line.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

func exitCode(err error) int {
	_, bad := errors.AsType[problems](err)
	_, usage := errors.AsType[usageError](err)
	switch {
	case bad || usage:
		return exitUsage
	case errors.Is(err, state.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

func (a *Program) logger(c config) *slog.Logger {
	options := &slog.HandlerOptions{Level: c.LogLevel}
	if c.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(a.logTo, options))
	}
	return slog.New(slog.NewTextHandler(a.logTo, options))
}

// surviveClosedPipes is for commands that must not die of a line they print: the
// end of whoever read it, a pager or a log shipper, would otherwise kill them in the
// middle of a POST.
func surviveClosedPipes() { signal.Ignore(syscall.SIGPIPE) }

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
