package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/page"
	"github.com/docgauge/docgauge/exporter/server"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// serving are the flags of serve.
type serving struct {
	onceAtStart, systemdSocket bool
}

func (a *Program) serveCommand() *cobra.Command {
	var o serving
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "export on a schedule and serve metrics and a status page",
		Long: `serve stays up: it exports on DOCGAUGE_SCHEDULE (cron, UTC) as docgauge export does,
and serves on DOCGAUGE_LISTEN_ADDRESS

  /          a status page: newest windows, coverage, budget, runs, sinks
  /metrics   for Prometheus; OpenMetrics where it is asked for
  /healthz   200 while the process answers
  /readyz    200 while the state is open, a run is not older than two firings of the
             schedule and the sinks are reachable, else 503 and why not

What it serves comes from memory, filled from the state after each commit: a scrape
never sends a request to the service, and after a restart everything is there again
at once. Unique visitors are not additive: do not sum them over days or pages.

A firing is skipped while a run goes on; a run that takes longer than
DOCGAUGE_RUN_TIMEOUT is ended and the next goes on. SIGTERM ends the run under way,
finishes what is being committed, and returns within 30 seconds. A key in a file
(DOCGAUGE_API_KEY_FILE, DOCGAUGE_WRITE_API_KEY_FILE) is read again when the file
changes and at SIGHUP.

` + exitCodes,
		Example: `  docgauge serve
  docgauge serve --once-at-start                        and export now, too
  DOCGAUGE_SCHEDULE='7 */2 * * *' docgauge serve        every two hours`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.serve(cmd.Context(), o) },
	}
	cmd.Flags().BoolVar(&o.onceAtStart, "once-at-start", false, "export once at the start, then on the schedule")
	cmd.Flags().BoolVar(&o.systemdSocket, "systemd-socket", false, "serve on the socket that systemd passes, instead of DOCGAUGE_LISTEN_ADDRESS")
	return cmd
}

func (a *Program) serve(ctx context.Context, o serving) error {
	surviveClosedPipes()
	c, err := loadConfig(needProjects|needAPI|needServer, a.now())
	if err != nil {
		return err
	}
	return a.serveWith(ctx, c, o, func(url string) {
		fmt.Fprintf(a.Err, "docgauge: status page and metrics at %s/ and %s/metrics; stop with Ctrl-C\n", url, url)
	})
}

// server is what to listen with; the handlers are not in it yet.
func (c config) server() server.Config {
	return server.Config{Address: c.ListenAddress, WebConfigFile: c.WebConfigFile}
}

// serveWith serves until ctx ends. said is told where, before the first run.
func (a *Program) serveWith(ctx context.Context, c config, o serving, said func(url string)) (err error) {
	queue, err := state.LockQueue(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, queue.Release()) }()
	r, err := a.openRunner(c)
	if err != nil {
		return err
	}
	defer func() {
		// Under a run that does not end nothing is closed: the process ends.
		if !errors.Is(err, schedule.ErrOverrun) {
			err = errors.Join(err, r.Close())
		}
	}()
	d := newDaemon(r)
	if err := d.openQueue(); err != nil {
		return err
	}
	web := c.server()
	web.SystemdSocket, web.Ready, web.Logger = o.systemdSocket, d.reasons, r.log
	web.Handlers = map[string]http.Handler{"/metrics": d.values.Handler(), "/": page.New(d.values.Load, version)}
	s, err := server.Listen(web)
	if _, bad := errors.AsType[server.ConfigError](err); bad {
		return problems(strings.Split(err.Error(), "\n"))
	}
	if err != nil {
		return err
	}
	said(s.URL())
	return d.serve(ctx, s, o.onceAtStart)
}

// serve runs all that a daemon does until ctx ends or one of it fails.
func (d *daemon) serve(ctx context.Context, s *server.Server, once bool) error {
	// Each of three that answer a SIGHUP gets it by a channel of its own, to the end of
	// the process: one that comes while it ends must not kill it.
	var hangups [3]chan os.Signal
	for i := range hangups {
		hangups[i] = make(chan os.Signal, 1)
		signal.Notify(hangups[i], syscall.SIGHUP)
	}
	// Who asks from here on waits rather than see a process without values. What
	// goes wrong is logged, and publishing meets it again.
	_ = d.publish(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Serve(ctx) })
	group.Go(func() error {
		d.api.key.watch(ctx, hangups[0], d.log, d.keyChanged)
		return nil
	})
	if d.api.writeKey != d.api.key {
		group.Go(func() error {
			d.api.writeKey.watch(ctx, hangups[1], d.log, d.keyChanged)
			return nil
		})
	}
	group.Go(func() error { watchSecrets(ctx, d.heldSecrets(), hangups[2], d.log); return nil })
	group.Go(func() error { d.watchSinks(ctx); return nil })
	group.Go(func() error { return d.publishing(ctx) })
	group.Go(func() error { return d.schedule(ctx, once) })
	group.Go(func() error { return d.runQueue(ctx) })
	return group.Wait()
}

// daemon is a runner that stays up, and what is shown of it.
type daemon struct {
	*runner
	values  exporter.Values
	started time.Time
	health  health
	queue   *queueDaemon // nil where none is configured
	// changed asks for a new snapshot, recheck for a look at the sinks.
	changed, recheck chan struct{}
}

func newDaemon(r *runner) *daemon {
	d := &daemon{runner: r, started: r.now(), changed: make(chan struct{}, 1), recheck: make(chan struct{}, 1)}
	r.committed = func() { poke(d.changed) }
	return d
}

// poke asks for something once, however often.
func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
