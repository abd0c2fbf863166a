package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/mcp"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/internal/web/server"
	"github.com/docgauge/docgauge/schedule"
)

// Options are those of serve.
type Options struct {
	// OnceAtStart exports at the start, then on the schedule.
	OnceAtStart bool
	// SystemdSocket serves on the sockets that systemd passes.
	SystemdSocket bool
	// Lifecycle lets POST and PUT of /-/reload reload the settings, as SIGHUP does.
	Lifecycle bool
	// Reload reads the settings again, while former are in effect. After an error nothing
	// has changed; undo takes back what it has changed beside the settings. Nil: they cannot
	// be read again.
	Reload   func(former config.Config) (c config.Config, undo func() error, err error)
	Progress export.Progress
	// Observe, if not nil, is told each step of an export.
	Observe func(export.Event)
	// Listening is told the address, before the first run.
	Listening func(url string)
}

// service is what a reload leaves as it is: the hold on the state, the addresses, and what
// is shown there.
type service struct {
	log     *slog.Logger
	now     func() time.Time
	options Options
	values  exporter.Values
	report  *web.LiveReport
	// current is the daemon that runs, or that ran until its successor is open.
	current atomic.Pointer[Daemon]
	// asked is for those who ask for a reload by HTTP. Each gets its result.
	asked chan chan<- error
	// stopping is closed when the process is to end.
	stopping <-chan struct{}
}

// Serve opens everything and serves until ctx ends.
func Serve(ctx context.Context, c config.Config, log *slog.Logger, now func() time.Time, o Options) (err error) {
	// From before the address is announced to the end of the process: a signal must never
	// kill it. Those that come while one waits ask for the same.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	started := now()
	release, err := hold(c.StateDir)
	if err != nil {
		return err
	}
	s := &service{log: log, now: now, options: o, asked: make(chan chan<- error)}
	s.report = web.NewLiveReport(s.values.Load, c.Build.Version)
	d, err := s.open(ctx, c)
	if err != nil {
		return errors.Join(err, release())
	}
	s.current.Store(d)
	defer func() {
		// While a run does not end nothing is closed: the process ends.
		if !errors.Is(err, schedule.ErrOverrun) {
			err = errors.Join(err, s.current.Load().app.Close(), release())
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	s.stopping = ctx.Done()
	web, err := s.listen(c)
	if err != nil {
		return err
	}
	d.log("serve started", "version", c.Build.Version, "url", web.URL(), "state_dir", c.StateDir)
	o.Listening(web.URL())

	// A client that asks from here on waits for values. An error is logged, and the loop
	// that publishes meets it again.
	s.values.Reloaded(true, started)
	_ = d.publish(ctx)
	group.Go(func() error { return web.Serve(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		log.Info("serve stops", "reason", context.Cause(ctx).Error())
		return nil
	})
	group.Go(func() error { return s.daemons(ctx, hangup, firing{now: o.OnceAtStart}) })
	err = group.Wait()
	log.Info("serve stopped", "up_seconds", clock.Seconds(now().Sub(started)))
	return err
}

// hold takes both locks of the state: they are kept over every reload.
func hold(dir string) (release func() error, err error) {
	queue, err := state.LockQueue(dir)
	if err != nil {
		return nil, err
	}
	export, err := state.LockExport(dir)
	if err != nil {
		return nil, errors.Join(err, queue.Release())
	}
	return func() error { return errors.Join(export.Release(), queue.Release()) }, nil
}

// open opens a daemon. Nothing runs yet.
func (s *service) open(ctx context.Context, c config.Config) (_ *Daemon, err error) {
	a, err := app.OpenHeld(c, s.log, s.now)
	if err != nil {
		return nil, err
	}
	d := New(a, &s.values, s.report, s.options.Progress, s.options.Observe)
	// They open what they read for each question: a reload closes nothing below them.
	d.assistants = mcp.Handler(mcp.Options{Config: c, Log: s.log, Now: s.now}, c.WebConfigFile != "")
	if err = d.openQueue(); err == nil {
		d.events, err = events.Open(ctx, a, d.started)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return d, nil
}

// listen binds the addresses. What they answer comes from the daemon of the moment.
func (s *service) listen(c config.Config) (*server.Server, error) {
	options := c.Server()
	options.SystemdSocket, options.Handlers, options.Logger = s.options.SystemdSocket, s.handlers(c.Build.Version), s.log
	options.Ready = func() []string { return s.current.Load().problems() }
	if s.options.Lifecycle {
		options.Reload = s.reload
	}
	l, err := server.Listen(options)
	if _, bad := errors.AsType[server.ConfigError](err); bad {
		return nil, config.Problems(strings.Split(err.Error(), "\n"))
	}
	return l, err
}

func (s *service) handlers(version string) map[string]http.Handler {
	all := web.NewAPI(s.values.Load)
	all["/metrics"], all["/report"] = s.values.Handler(), s.report
	all["/"] = web.NewStatusPage(s.values.Load, func() web.Alert { return s.current.Load().alert() }, version)
	all["POST /mcp"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.current.Load().assistants.ServeHTTP(w, r)
	})
	return all
}

// log says with which settings the daemon works.
func (d *Daemon) log(message string, more ...any) {
	c := d.app.Config
	var to []string
	for _, s := range d.app.Sinks {
		to = append(to, s.Name()+" "+s.Location())
	}
	d.app.Log.Info(message, append([]any{
		"projects", strings.Join(c.Projects, ","), "schedule", c.Schedule.String(),
		"next_run", c.Schedule.Next(d.app.Now()).UTC().Format(time.RFC3339), "sinks", strings.Join(to, ", "),
	}, more...)...)
}
