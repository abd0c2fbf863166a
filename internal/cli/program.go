// Package cli is the command line: one file a command, which reads flags, makes one
// call, and prints the result.
package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/input"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/cli/site"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/state"
)

// Exit codes.
const (
	exitDone   = 0 // done, nothing due, or the rest deferred by the budget
	exitFailed = 1
	exitUsage  = 2 // bad usage or configuration; nothing was done
	exitLocked = 3 // another process holds the state
)

// Program is the command line. Its methods are the commands.
type Program struct {
	console.Console
	branch string
	// observe is called for each step of an export; only tests set it.
	observe func(export.Event)
}

// New returns the program of a build: its version, revision and branch, which the linker sets. A
// revision that is empty is the one that Go recorded.
func New(version, revision, branch string, out, err io.Writer) *Program {
	info, ok := debug.ReadBuildInfo()
	if revision == "" && ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				revision = s.Value
			}
		}
	}
	build := config.Build{Version: version, Revision: cmp.Or(revision, "unknown")}
	return &Program{Console: console.New(build, out, err, time.Now), branch: branch}
}

// Run runs a command and returns the exit code.
func (a *Program) Run(ctx context.Context, args []string) int {
	if earlyFormat(args) == "json" { // for messages before there is a configuration
		a.SpeakJSON()
	}
	cobra.EnableCommandSorting = false // people need them in our order
	root := a.root()
	root.SetArgs(args)
	help := &firstErrorWriter{Writer: a.Out}
	root.SetOut(help)
	root.SetErr(a.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, render.ErrReported):
	case a.SpeaksJSON():
		a.Logger(config.Config{}).Error("command failed", "error", err.Error())
	default:
		fmt.Fprintln(a.Err, "docgauge: "+err.Error())
	}
	return exitCode(err)
}

// firstErrorWriter keeps the first error of a writer: cobra drops those of its help.
type firstErrorWriter struct {
	io.Writer
	err error
}

func (k *firstErrorWriter) Write(p []byte) (int, error) {
	n, err := k.Writer.Write(p)
	if k.err == nil {
		k.err = err
	}
	return n, err
}

// earlyFormat is the log format as far as it is known before flags are read. It is used for
// errors about the flags.
func earlyFormat(args []string) string {
	const flag = "--log.format"
	format := os.Getenv("DOCGAUGE_LOG_FORMAT")
	for i, arg := range args {
		if value, ok := strings.CutPrefix(arg, flag+"="); ok {
			format = value
		} else if arg == flag && i+1 < len(args) {
			format = args[i+1]
		}
	}
	return format
}

func exitCode(err error) int {
	_, bad := errors.AsType[config.Problems](err)
	_, usage := errors.AsType[input.UsageError](err)
	_, selection := errors.AsType[coverage.SelectionError](err)
	switch {
	case bad || usage || selection:
		return exitUsage
	case errors.Is(err, state.ErrLocked), errors.Is(err, site.ErrLocked):
		return exitLocked
	}
	return exitFailed
}

func (a *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print version, revision and Go version",
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *Program) printVersion() error {
	branch := ""
	if a.branch != "" {
		branch = ", branch " + a.branch
	}
	_, err := fmt.Fprintf(a.Out, "docgauge %s (revision %s, %s %s/%s%s)\n", a.Build.Version, a.Build.Revision,
		runtime.Version(), runtime.GOOS, runtime.GOARCH, branch)
	return err
}
