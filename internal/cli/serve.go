package cli

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/docgauge/docgauge/internal/cli/console"
	"github.com/docgauge/docgauge/internal/cli/render"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/daemon"
)

func (a *Program) serveCommand() *cobra.Command {
	var o daemon.Options
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "export on a schedule and serve pages for people and metrics",
		Long: `serve stays up: it exports on DOCGAUGE_SCHEDULE (cron, UTC) as docgauge export
does, and serves on DOCGAUGE_LISTEN_ADDRESS

  /            the readers: people, AI, change, pages, agents; of any window:
               /?project=prj_a&window=week&at=2026-10-04&compare=year
  /report      the same page as one file, to keep or to send
  /page        all pages of a window; the readers of one path:
               /page?path=/quickstart
  /jobs        agent jobs, and the readers after their merges
  /status      how the exports are doing: coverage, budget, runs, sinks
  /metrics     for Prometheus; OpenMetrics where it is asked for
  /api/v1/     the numbers, as JSON or, with ?format=csv, CSV; lists what
               there is
  /mcp         for assistants, by POST: docgauge mcp --help
  /-/healthy   200 while the process answers; /healthz too
  /-/ready     200 while the state is open, the last run is not older than two
               firings of the schedule and the sinks answer, else 503 and why;
               /readyz too
  /-/reload    POST or PUT: reloads the settings, with --web.enable-lifecycle

Metrics are served from memory and rebuilt from the state after each commit: a
scrape never sends a request to the service, and after a restart everything is
there again at once. Unique visitors are not additive: do not sum them over days
or pages.

A firing is skipped while a run is under way; a run that takes longer than
DOCGAUGE_RUN_TIMEOUT is ended and the next one continues. SIGTERM ends the run
under way, finishes the current commit, and returns within 30 seconds.

SIGHUP reloads the settings: the file that --env-file names, files of secrets,
and everything that depends on them. Commits and requests in progress are
finished, and a run under way continues with the new settings. If one of them is
wrong, or cannot change while serve runs (state directory, addresses, web
configuration file, log format, proxies), the former ones all stay, and the log
and docgauge_config_last_reload_successful say so. The environment of the
process and its flags stay as they are. A key in a file (DOCGAUGE_API_KEY_FILE,
DOCGAUGE_WRITE_API_KEY_FILE) is read again by itself.

` + console.ExitCodes,
		Example: `  docgauge serve
  docgauge serve --once-at-start                        and export now, too
  DOCGAUGE_SCHEDULE='7 */2 * * *' docgauge serve        every two hours`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			const need = config.NeedProjects | config.NeedAPI | config.NeedServer
			c, err := a.Config(need)
			if err != nil {
				return err
			}
			o.Listening = func(url string) {
				if render.IsTerminal(a.Err) { // the log has it too
					a.Note("readers, status and metrics at %s/, %[1]s/status and %[1]s/metrics; stop with Ctrl-C", url)
				}
			}
			o.Reload = func(former config.Config) (config.Config, func() error, error) { return a.reload(need, former) }
			return a.serve(cmd.Context(), c, o)
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.OnceAtStart, "once-at-start", false, "export once at the start, then on the schedule")
	f.BoolVar(&o.Lifecycle, "web.enable-lifecycle", false, "let POST and PUT of /-/reload reload the settings")
	f.BoolVar(&o.SystemdSocket, "web.systemd-socket", false,
		"serve on the sockets that systemd passes, instead of the addresses")
	for name, flag := range settingFlags {
		f.Var(&settingFlag{kind: flag.kind}, name, flag.usage)
	}
	return cmd
}

func (a *Program) serve(ctx context.Context, c config.Config, o daemon.Options) error {
	console.SurviveClosedPipes()
	o.Version, o.Progress, o.Observe = c.Build.Version, a.Progress, a.observe
	return daemon.Serve(ctx, c, a.Logger(c), a.Now, o)
}

// reload reads the settings again; undo takes the former ones back.
func (a *Program) reload(need config.Need, former config.Config) (c config.Config, undo func() error, err error) {
	was, level := a.Source, a.Level.Level()
	undo = func() error {
		a.Source = was
		a.Level.Set(level)
		return was.Export()
	}
	next, c, err := was.Reload(need, a.Now(), former)
	if err != nil {
		return former, undo, err
	}
	if err := next.Export(); err != nil {
		return former, undo, errors.Join(err, undo())
	}
	a.Source = next
	a.Take(&c)
	return c, undo, nil
}
