// Package daemon is what docgauge serve does: it exports on the schedule, runs the prompt
// queue, and publishes snapshots of the state, from which the web server answers. Each
// goroutine belongs to [Daemon.Serve], which waits for all of them.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/api"
	"github.com/docgauge/docgauge/exporter/page"
	"github.com/docgauge/docgauge/exporter/server"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/mcp"
	"github.com/docgauge/docgauge/internal/report"
	"github.com/docgauge/docgauge/internal/snapshot"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// publishEvery is how old a snapshot becomes where nothing is committed: what is due
	// and what the budget has left change with time.
	publishEvery = time.Minute
	// publishPause is the least time between two snapshots; it is also at least
	// publishShare times as long as making one takes.
	publishPause = time.Second
	publishShare = 20
	// runGrace is how long a run may take to end: with the commits it finishes and the
	// requests being answered a stop takes less than half a minute.
	runGrace = 20 * time.Second
)

// Options are those of serve.
type Options struct {
	// OnceAtStart exports at the start, then on the schedule.
	OnceAtStart bool
	// SystemdSocket serves on the socket that systemd passes.
	SystemdSocket bool
	Progress      export.Progress
	// Observe, if not nil, is told each step of an export.
	Observe func(export.Event)
	// Listening is told the address, before the first run.
	Listening func(url string)
}

// Daemon is a running docgauge serve.
type Daemon struct {
	app      *app.App
	runner   *export.Runner
	snapshot *snapshot.Reader
	values   exporter.Values
	started  time.Time
	health   health
	queue    *queue // nil where none is configured
	news     *news
	report   *report.Live
	outcomes outcomes
	// changed asks for a new snapshot, recheck for a check of the sinks; renewed says
	// that there is a new one.
	changed, recheck, renewed chan struct{}
}

// New returns a daemon over what a has opened for an export.
func New(a *app.App, p export.Progress, observe func(export.Event)) *Daemon {
	d := &Daemon{
		app: a, snapshot: snapshot.New(a), started: a.Now(),
		changed: make(chan struct{}, 1), recheck: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
	}
	d.outcomes.stale = make(chan struct{}, 1)
	d.report = report.NewLive(d.values.Load, a.Config.Build.Version)
	d.runner = export.NewRunner(a, d.snapshot.Read, p, observe)
	d.runner.Committed = func() { requestOnce(d.changed) }
	return d
}

// requestOnce asks for something once, however often it is called.
func requestOnce(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Serve opens everything and serves until ctx ends.
func Serve(ctx context.Context, c config.Config, log *slog.Logger, now func() time.Time, o Options) (err error) {
	// All that answer a SIGHUP get it by a channel each, from before the address is
	// announced to the end of the process: a signal must never kill it.
	var hangups [5]chan os.Signal
	for i := range hangups {
		hangups[i] = make(chan os.Signal, 1)
		signal.Notify(hangups[i], syscall.SIGHUP)
	}
	lock, err := state.LockQueue(c.StateDir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	a, err := app.OpenExport(c, log, now)
	if err != nil {
		return err
	}
	defer func() {
		// While a run does not end nothing is closed: the process ends.
		if !errors.Is(err, schedule.ErrOverrun) {
			err = errors.Join(err, a.Close())
		}
	}()
	d := New(a, o.Progress, o.Observe)
	if err := d.openQueue(); err != nil {
		return err
	}
	if err := d.openNews(ctx); err != nil {
		return err
	}
	web := c.Server()
	web.SystemdSocket, web.Ready, web.Logger = o.SystemdSocket, d.problems, a.Log
	web.Handlers = d.handlers()
	s, err := server.Listen(web)
	if _, bad := errors.AsType[server.ConfigError](err); bad {
		return config.Problems(strings.Split(err.Error(), "\n"))
	}
	if err != nil {
		return err
	}
	d.logStart(s.URL())
	o.Listening(s.URL())

	// A client that asks from here on waits for values. An error is logged, and the loop
	// that publishes meets it again.
	_ = d.publish(ctx)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Serve(ctx) })
	group.Go(func() error {
		<-ctx.Done()
		a.Log.Info("serve stops", "reason", context.Cause(ctx).Error())
		return nil
	})
	show := func() { requestOnce(d.changed) }
	group.Go(func() error { a.API.Key.Watch(ctx, hangups[0], a.Log, show); return nil })
	if a.API.WriteKey != a.API.Key {
		group.Go(func() error { a.API.WriteKey.Watch(ctx, hangups[1], a.Log, show); return nil })
	}
	group.Go(func() error { app.WatchSecrets(ctx, c, hangups[2], log); return nil })
	if d.queue != nil {
		for i, token := range d.queue.pulls.Tokens {
			group.Go(func() error {
				token.Watch(ctx, hangups[3+i], a.Log, func() { requestOnce(d.queue.moved) })
				return nil
			})
		}
	}
	group.Go(func() error { d.watchSinks(ctx); return nil })
	group.Go(func() error { return d.publishLoop(ctx) })
	group.Go(func() error { d.reportLoop(ctx); return nil })
	group.Go(func() error { d.outcomesLoop(ctx); return nil })
	group.Go(func() error { return d.exportLoop(ctx, o.OnceAtStart) })
	group.Go(func() error { return d.queueLoop(ctx) })
	group.Go(func() error { return d.pullsLoop(ctx) })
	group.Go(func() error { return d.newsLoop(ctx) })
	err = group.Wait()
	a.Log.Info("serve stopped", "up_seconds", now().Sub(d.started).Round(time.Millisecond).Seconds())
	return err
}

// logStart says who begins, with what.
func (d *Daemon) logStart(url string) {
	c := d.app.Config
	var to []string
	for _, s := range d.app.Sinks {
		to = append(to, s.Name()+" "+s.Location())
	}
	d.app.Log.Info("serve started", "version", c.Build.Version, "projects", strings.Join(c.Projects, ","), "url", url,
		"schedule", c.Schedule.String(), "next_run", c.Schedule.Next(d.app.Now()).UTC().Format(time.RFC3339),
		"sinks", strings.Join(to, ", "), "state_dir", c.StateDir)
}

func (d *Daemon) handlers() map[string]http.Handler {
	all := api.New(d.values.Load)
	all["/metrics"], all["/report"] = d.values.Handler(), d.report
	all["/"] = page.New(d.values.Load, d.alert, d.app.Config.Build.Version)
	all["POST /mcp"] = d.assistants()
	return all
}

// assistants answers their questions from what is open.
func (d *Daemon) assistants() http.Handler {
	a := d.app
	return mcp.Handler(mcp.Options{Config: a.Config, Log: a.Log, Now: a.Now, State: a.State, Archive: a.Archive()}, a.Config.WebConfigFile != "")
}

// publishLoop makes a snapshot after each commit and every minute. It ends with an error
// if the state is lost, because nothing can be kept then.
func (d *Daemon) publishLoop(ctx context.Context) error {
	tick := time.NewTicker(publishEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-d.changed:
		}
		began := time.Now()
		if err := d.publish(ctx); errors.Is(err, state.ErrLost) {
			return err
		}
		if clock.Sleep(ctx, max(publishPause, publishShare*time.Since(began))) != nil {
			return nil
		}
	}
}

// publish shows what the state says now. After an error the former values stay.
func (d *Daemon) publish(ctx context.Context) error {
	a := d.app
	err := errors.Join(a.State.Present(), a.API.Meter.Flush(ctx, a.State))
	var values exporter.Snapshot
	if err == nil {
		values, err = d.snapshot.Read(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the stop cut it short
	}
	d.health.setState(err)
	if err != nil {
		a.Log.Error("metrics not renewed", "error", err)
		return err
	}
	values.NextRun, values.Outcomes = a.Config.Schedule.Next(a.Now()), d.outcomes.load()
	for i := range values.Sinks {
		values.Sinks[i].Problem = d.health.sink(values.Sinks[i].Name)
	}
	d.values.Publish(values)
	requestOnce(d.renewed)
	return nil
}

// reportTimeout bounds reading pages from the sinks for the report, once per snapshot.
const reportTimeout = 5 * time.Minute

// reportLoop keeps the pages that the report shows, so that no view reads them: those of
// the newest windows, when a reading of one is new.
func (d *Daemon) reportLoop(ctx context.Context) {
	var last string // an error is logged when it is new
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.renewed:
		}
		within, cancel := context.WithTimeout(ctx, reportTimeout)
		err := d.report.Refresh(within, d.values.Load(), d.app.Sinks)
		cancel()
		if ctx.Err() != nil {
			return
		}
		text := ""
		if err != nil {
			text = err.Error()
		}
		if text != "" && text != last {
			d.app.Log.Warn("pages of the report not read", "error", text)
		}
		last = text
	}
}

// logEnd says how a run ended, and until when the rest waits.
func logEnd(log *slog.Logger, s export.Summary) {
	if s.Left > 0 && s.BudgetSpent {
		log = log.With("next_request_at", s.Resume.UTC().Format(time.RFC3339), "finished_by", s.Finish.UTC().Format(time.RFC3339))
	}
	log.Info("export ended", "outcome", s.Outcome, "windows", s.Committed, "open_windows", s.Open, "rows", s.Rows,
		"requests", s.Requests, "windows_left", s.Left, "took_seconds", s.Took.Round(time.Millisecond).Seconds())
}

// exportLoop exports at each firing of the schedule until ctx ends. It returns when the
// last run has ended.
func (d *Daemon) exportLoop(ctx context.Context, once bool) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.app.Config.Schedule.Run(ctx, schedule.Runs{
		Do: d.export, AtStart: once, Deadline: time.Duration(d.app.Config.RunTimeout), Grace: runGrace, Logger: d.app.Log,
	})
}

// prepare makes sure that gauges are there before the first run.
func (d *Daemon) prepare(ctx context.Context) error {
	a := d.app
	err := coverage.RestoreEmpty(ctx, a.State, a.Sinks, a.Log)
	switch {
	case errors.Is(err, sinks.ErrNotListed):
		a.Log.Error("ledger not read back", "error", err) // each run tries again
	case err != nil && ctx.Err() == nil:
		return err
	}
	if err := d.runner.FillPages(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	requestOnce(d.changed)
	return nil
}

// export is one firing of the schedule.
func (d *Daemon) export(ctx context.Context) {
	a := d.app
	d.health.begin(a.Now())
	defer func() {
		d.health.end()
		requestOnce(d.changed)
		requestOnce(d.recheck)
	}()
	if err := a.State.Present(); err != nil {
		return // publishLoop ends the process
	}
	requestOnce(d.changed)
	a.API.Budget.Renew()
	s, err := d.runner.Run(ctx, export.Options{})
	export.LogProblems(a.Log, s)
	if err != nil {
		a.Log.Error("run not entered in the state", "error", err)
	}
	logEnd(a.Log, s)
	requestOnce(d.changed)
	d.outcomes.exported()
	d.news.runEnded()
	after := d.runner.Follow(ctx, s)
	if after != nil {
		a.Log.Error("after the export", "error", after)
	}
	// A run that a stop has cut short is neither good nor bad: the next one says.
	if s.Outcome != export.Interrupted {
		if err := app.Ping(ctx, a.Config, s.Good() && err == nil && after == nil); err != nil {
			a.Log.Warn("monitor not pinged", "error", err)
		}
	}
}
