// Command docgauge exports visitor analytics of a documentation platform:
// verified, whole date windows, inside an hourly request budget.
package main

import (
	"cmp"
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/prometheus/common/version"

	"github.com/docgauge/docgauge/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// They are set by the linker, by the names that builds of exporters use.
	program := cli.Program{
		Version: cmp.Or(version.Version, "dev"), Commit: version.Revision, Branch: version.Branch,
		Out: os.Stdout, Err: os.Stderr,
	}
	code := program.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
