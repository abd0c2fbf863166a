// Package cli is the command line: one file a command, which reads flags, makes one
// call, and prints the result.
package cli

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/export"
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
