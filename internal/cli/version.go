package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/config"
)

func (a *Program) versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "print version, revision and Go version",
		RunE:  func(*cobra.Command, []string) error { return a.printVersion() },
	}
}

func (a *Program) printVersion() error {
	b := a.build()
	branch := ""
	if a.Branch != "" {
		branch = ", branch " + a.Branch
	}
	_, err := fmt.Fprintf(a.Out, "docgauge %s (revision %s, %s %s/%s%s)\n", b.Version, b.Revision, runtime.Version(),
		runtime.GOOS, runtime.GOARCH, branch)
	return err
}

// build says which build this is. The linker sets the commit where the build has no
// version control.
func (a *Program) build() config.Build {
	b := config.Build{Version: a.Version, Revision: a.Commit}
	info, ok := debug.ReadBuildInfo()
	if b.Revision == "" && ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				b.Revision = s.Value
			}
		}
	}
	b.Revision = cmp.Or(b.Revision, "unknown")
	return b
}
