package cli

import (
	"context"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/daemon"
)

func (a *Program) serveCommand() *cobra.Command {
	var o daemon.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "export on a schedule and serve metrics and a status page",
		Long: `serve stays up: it exports on DOCGAUGE_SCHEDULE (cron, UTC) as docgauge export does,
and serves on DOCGAUGE_LISTEN_ADDRESS

  /          a status page: newest windows, coverage, budget, runs, sinks
  /metrics   for Prometheus; OpenMetrics where it is asked for
  /api/v1/windows, /api/v1/pages, /api/v1/jobs
             the numbers, as JSON or, with ?format=csv, CSV
  /mcp       for assistants, by POST: docgauge mcp --help
  /healthz   200 while the process answers
  /readyz    200 while the state is open, the last run is not older than two
             firings of the schedule and the sinks answer, else 503 and why

Metrics are served from memory and rebuilt from the state after each commit: a scrape
never sends a request to the service, and after a restart everything is there again
at once. Unique visitors are not additive: do not sum them over days or pages.

A firing is skipped while a run is under way; a run that takes longer than
DOCGAUGE_RUN_TIMEOUT is ended and the next one continues. SIGTERM ends the run under
way, finishes what is being committed, and returns within 30 seconds. A key in a file
(DOCGAUGE_API_KEY_FILE, DOCGAUGE_WRITE_API_KEY_FILE) is read again when the file
changes and at SIGHUP.

` + exitCodes,
		Example: `  docgauge serve
  docgauge serve --once-at-start                        and export now, too
  DOCGAUGE_SCHEDULE='7 */2 * * *' docgauge serve        every two hours`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.config(config.NeedProjects | config.NeedAPI | config.NeedServer)
			if err != nil {
				return err
			}
			o.Listening = func(url string) {
				if render.IsTerminal(a.Err) { // the log has it too
					a.note("status page and metrics at %s/ and %s/metrics; stop with Ctrl-C", url, url)
				}
			}
			return a.serve(cmd.Context(), c, o)
		},
	}
	cmd.Flags().BoolVar(&o.OnceAtStart, "once-at-start", false, "export once at the start, then on the schedule")
	cmd.Flags().BoolVar(&o.SystemdSocket, "systemd-socket", false, "serve on the socket that systemd passes, instead of DOCGAUGE_LISTEN_ADDRESS")
	return cmd
}

func (a *Program) serve(ctx context.Context, c config.Config, o daemon.Options) error {
	surviveClosedPipes()
	o.Progress, o.Observe = a.progress, a.observe
	return daemon.Serve(ctx, c, a.logger(c), a.now, o)
}

// surviveClosedPipes is for commands that must not die of a line they print: if its
// reader ends, a pager or a log shipper, SIGPIPE would kill them in the middle of a
// POST.
func surviveClosedPipes() { signal.Ignore(syscall.SIGPIPE) }
