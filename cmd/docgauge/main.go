// Command docgauge exports visitor analytics of a documentation platform:
// verified, whole date windows, inside an hourly request budget.
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/prometheus/common/version"

	"github.com/docgauge/docgauge/internal/cli"
	"github.com/docgauge/docgauge/internal/site/runner"
)

// stopLimit is how long after a signal the process ends, even if a call to the file
// system never returns. Every command ends earlier by itself.
const stopLimit = 40 * time.Second

func main() {
	if code, ok := runner.Helper(os.Args[1:]); ok {
		os.Exit(code)
	}
	log.SetOutput(io.Discard) // net/http quotes there what a service sent, past our log and its redaction
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	go watch(signals, func(why string) {
		fmt.Fprintln(os.Stderr, "docgauge: ended before it was done: "+why)
		os.Exit(1)
	})
	// They are set by the linker, by the names that builds of exporters use.
	program := cli.New(cmp.Or(version.Version, "dev"), version.Revision, version.Branch, os.Stdout, os.Stderr)
	code := program.Run(ctx, os.Args[1:])
	stop()
	os.Exit(code)
}

// watch calls end at the second signal, or stopLimit after the first.
func watch(signals <-chan os.Signal, end func(why string)) {
	<-signals
	select {
	case <-signals:
		end("a second signal came")
	case <-time.After(stopLimit):
		end(fmt.Sprintf("it had not stopped %v after the signal", stopLimit))
	}
}
