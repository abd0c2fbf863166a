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
	"github.com/docgauge/docgauge/sinks"
)

// Options are the options of serve.
type Options struct {
	// Version is the program's, for the pages.
	Version string
	// OnceAtStart exports at the start, then on the schedule.
	OnceAtStart bool
	// SystemdSocket serves on the sockets that systemd passes.
	SystemdSocket bool
	// Lifecycle lets POST and PUT of /-/reload reload the settings, as SIGHUP does.
	Lifecycle bool
	// Reload reads the settings again, while former are in effect. After an error nothing has changed;
	// undo reverts what it has changed beside the settings. Nil: they cannot be read again.
	Reload   func(former config.Config) (c config.Config, undo func() error, err error)
	Progress export.Progress
	// Observe, if not nil, is called at each step of an export.
	Observe func(export.Event)
	// Listening is called with the address before the first run.
	Listening func(url string)
}

// service is the part that outlives reloads: the locks of the state, the addresses and the values
// that are served there.
type service struct {
	log     *slog.Logger
	now     func() time.Time
	options Options
	values  exporter.Values
	site    *web.Site
	// current is the daemon that runs, or that ran until its successor is open.
	current atomic.Pointer[daemon]
	// queueLock is held while the present daemon, or its successor that is being opened, has a queue.
	queueLock *state.Lock
	// credentials reports whether a request has valid credentials, by the web configuration.
	credentials func(*http.Request) bool
	// asked has the requests for a reload by HTTP. Each gets its result.
	asked chan chan<- error
	// stopping is closed when the process is to end.
	stopping <-chan struct{}
}

// Serve opens everything and serves until ctx ends.
func Serve(ctx context.Context, c config.Config, log *slog.Logger, now func() time.Time, o Options) (err error) {
	// From before the address is announced to the end of the process a SIGHUP must never kill it.
	// Those that come while one waits ask for the same.
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	started := now()
	// The lock of the export is held over every reload, and the queue's over those from a queue to a queue.
	exportLock, err := state.LockExport(c.StateDir)
	if err != nil {
		return err
	}
	s := &service{log: log, now: now, options: o, asked: make(chan chan<- error)}
	release := func() error { return errors.Join(exportLock.Release(), s.queueLock.Release()) }
	s.site = &web.Site{Current: s.values.Load, Archive: s.archive, Version: o.Version,
		Alert: func() web.Alert { return s.current.Load().alert() }}
	options := c.Server()
	if s.credentials, err = server.Credentials(options.WebConfigFile); err != nil {
		return errors.Join(problems(err), release())
	}
	d, err := s.open(ctx, c)
	if err != nil {
		return errors.Join(err, release())
	}
	d.firings, d.owed = schedule.NewFirings(c.Schedule, c.Schedule.Next(now()), o.OnceAtStart), o.OnceAtStart
	s.current.Store(d)
	defer func() {
		// While a run does not end nothing is closed: the process ends.
		if !errors.Is(err, schedule.ErrOverrun) {
			err = errors.Join(err, s.current.Load().app.Close(), release())
		}
	}()
	group, ctx := errgroup.WithContext(ctx)
	s.stopping = ctx.Done()
	options.SystemdSocket, options.Handlers, options.Logger = o.SystemdSocket, s.handlers(), log
	options.Ready = func() []string { return s.current.Load().problems() }
	if o.Lifecycle {
		options.Reload = s.reload
	}
	listener, err := server.Listen(options)
	if err != nil {
		return problems(err)
	}
	d.log("serve started", "version", o.Version, "url", listener.URL(), "state_dir", c.StateDir)
	o.Listening(listener.URL())

	// A client that asks from here on waits for values. An error is logged, and publishLoop meets it again.
	s.values.Reloaded(true, started)
	_ = d.publish(ctx)
	group.Go(func() error { return listener.Serve(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		log.Info("serve stops", "reason", context.Cause(ctx).Error())
		return nil
	})
	group.Go(func() error { return s.daemons(ctx, hangup) })
	err = group.Wait()
	log.Info("serve stopped", "up_seconds", clock.Seconds(now().Sub(started)))
	return err
}

// problems turns an error of package server into the type that errors of settings have.
func problems(err error) error {
	if _, bad := errors.AsType[server.ConfigError](err); bad {
		return config.Problems(strings.Split(err.Error(), "\n"))
	}
	return err
}

// open opens a daemon. Nothing runs yet.
func (s *service) open(ctx context.Context, c config.Config) (_ *daemon, err error) {
	if c.PromptsDir != "" && s.queueLock == nil {
		if s.queueLock, err = state.LockQueue(c.StateDir); err != nil {
			return nil, err
		}
	}
	a, err := app.OpenHeld(c, s.log, s.now)
	if err != nil {
		return nil, err
	}
	d := newDaemon(a, &s.values, s.site, s.options.Progress, s.options.Observe)
	// It opens what it reads for each question: a reload closes nothing that it uses.
	d.assistants = mcp.Handler(mcp.Options{Config: c, Log: s.log, Now: s.now}, s.credentials)
	if err = d.openQueue(); err == nil {
		d.events, err = events.Open(ctx, a, d.started)
	}
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return d, nil
}

// archive opens the archive for each question: a reload closes nothing that it uses.
func (s *service) archive(ask func(sinks.Sink) error) error {
	from, err := app.NewArchive(s.current.Load().app.Config)
	if err != nil {
		return err
	}
	return errors.Join(ask(from), from.Close())
}

// handlers answer from the daemon of the moment.
func (s *service) handlers() map[string]http.Handler {
	all := s.site.Handlers()
	all["/metrics"] = s.values.Handler()
	all["POST /mcp"] = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.current.Load().assistants.ServeHTTP(w, r)
	})
	return all
}

// log says with which settings the daemon works.
func (d *daemon) log(message string, more ...any) {
	var to []string
	for _, s := range d.app.Sinks {
		to = append(to, s.Name()+" "+s.Location())
	}
	d.app.Log.Info(message, append([]any{
		"projects", strings.Join(d.app.Config.Projects, ","), "schedule", d.app.Config.Schedule.String(),
		"next_run", d.firings.Coming().UTC().Format(time.RFC3339), "sinks", strings.Join(to, ", "),
	}, more...)...)
}
