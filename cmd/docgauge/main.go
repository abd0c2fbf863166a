// Command docgauge exports visitor analytics of a documentation platform:
// verified, whole date windows, inside an hourly request budget.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/docgauge/docgauge/internal/cli"
)

// version and commit are set by the linker in releases.
var (
	version = "dev"
	commit  = ""
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	program := cli.Program{Version: version, Commit: commit, Out: os.Stdout, Err: os.Stderr}
	code := program.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}
