// Package daemon is what docgauge serve does: it exports on the schedule, runs the prompt
// queue, and publishes snapshots of the state, from which the web server answers. Each
// goroutine belongs to [Daemon.Serve], which waits for all of them.
package daemon

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
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

// Daemon is what docgauge serve does with one set of settings.
type Daemon struct {
	app      *app.App
	runner   *export.Exporter
	snapshot *coverage.SnapshotReader
	values   *exporter.Values
	started  time.Time
	health   health
	// owed: a run is still to be made. due is when the schedule fires next. Only the runs
	// change them.
	owed     bool
	due      time.Time
	queue    *queue // nil where none is configured
	events   *events.Watcher
	report   *web.LiveReport
	outcomes outcomes
	// assistants answers them, over HTTP.
	assistants http.Handler
	// changed asks for a new snapshot, recheck for a check of the sinks; renewed says
	// that there is a new one.
	changed, recheck, renewed chan struct{}
}

// New returns a daemon over what a has opened for an export. It publishes to values, which
// the report shows.
func New(a *app.App, values *exporter.Values, live *web.LiveReport, p export.Progress, observe func(export.Event)) *Daemon {
	d := &Daemon{
		app: a, snapshot: a.SnapshotReader(), started: a.Now(), values: values, report: live,
		changed: make(chan struct{}, 1), recheck: make(chan struct{}, 1), renewed: make(chan struct{}, 1),
	}
	d.outcomes.stale = make(chan struct{}, 1)
	d.runner = export.New(a, d.snapshot.Read, p, observe)
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

// run does everything until ctx ends, and then waits for the end of all of it. It can be
// called again after that.
func (d *Daemon) run(ctx context.Context, first firing) error {
	a := d.app
	group, ctx := errgroup.WithContext(ctx)
	show := func() { requestOnce(d.changed) }
	group.Go(func() error { a.API.Key.Watch(ctx, a.Log, show); return nil })
	if a.API.WriteKey != a.API.Key {
		group.Go(func() error { a.API.WriteKey.Watch(ctx, a.Log, show); return nil })
	}
	group.Go(func() error { app.WatchSecrets(ctx, a.Config, a.Log); return nil })
	if d.queue != nil {
		for _, token := range d.queue.pulls.Tokens {
			group.Go(func() error {
				token.Watch(ctx, a.Log, func() { requestOnce(d.queue.moved) })
				return nil
			})
		}
	}
	group.Go(func() error { d.watchSinks(ctx); return nil })
	group.Go(func() error { return d.publishLoop(ctx) })
	group.Go(func() error { d.reportLoop(ctx); return nil })
	group.Go(func() error { d.outcomesLoop(ctx); return nil })
	group.Go(func() error { return d.exportLoop(ctx, first) })
	group.Go(func() error { return d.queueLoop(ctx) })
	group.Go(func() error { return d.pullsLoop(ctx) })
	group.Go(func() error { return d.events.Run(ctx) })
	return group.Wait()
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
	var values view.Snapshot
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
	var problem recurring
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
		if problem.isNew(err) {
			d.app.Log.Warn("pages of the report not read", "error", err)
		}
	}
}

// recurring is what went wrong last, in a loop that logs an error once, as long as it
// stays the same.
type recurring string

func (r *recurring) isNew(err error) bool {
	former := *r
	*r = ""
	if err != nil {
		*r = recurring(err.Error())
	}
	return *r != "" && *r != former
}

// logEnd says how a run ended, and until when the rest waits.
func logEnd(log *slog.Logger, s export.Summary) {
	if s.Left > 0 && s.BudgetSpent {
		log = log.With("next_request_at", s.Resume.UTC().Format(time.RFC3339), "finished_by", s.Finish.UTC().Format(time.RFC3339))
	}
	log.Info("export ended", "outcome", s.Outcome, "windows", s.Committed, "open_windows", s.Open, "rows", s.Rows,
		"requests", s.Requests, "windows_left", s.Left, "took_seconds", clock.Seconds(s.Took))
}

// exportLoop exports at each firing of the schedule until ctx ends. It returns when the
// last run has ended.
func (d *Daemon) exportLoop(ctx context.Context, first firing) error {
	d.owed, d.due = first.now, first.at
	if d.due.IsZero() {
		d.due = d.app.Config.Schedule.Next(d.app.Now())
	}
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.app.Config.Schedule.Run(ctx, schedule.Runs{
		Do: d.export, AtStart: first.now, First: first.at,
		Deadline: time.Duration(d.app.Config.RunTimeout), Grace: runGrace, Logger: d.app.Log,
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
	a, began := d.app, d.app.Now()
	d.health.begin(began)
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
	d.owed, d.due = s.Outcome == export.Interrupted, d.firingAfter(began, s.Ended)
	requestOnce(d.changed)
	d.outcomes.exported()
	d.events.Changed()
	after := d.runner.Follow(ctx, s)
	if after != nil {
		a.Log.Error("after the export", "error", after)
	}
	// A run that a stop has cut short is neither good nor bad: the next one says.
	if s.Outcome != export.Interrupted {
		if err := events.Ping(ctx, a.Config, s.Good() && err == nil && after == nil); err != nil {
			a.Log.Warn("monitor not pinged", "error", err)
		}
	}
}

// firingAfter returns the first firing after a run that began and ended then. Those during
// the run are skipped.
func (d *Daemon) firingAfter(began, ended time.Time) time.Time {
	next := d.app.Config.Schedule.Next(began)
	for !next.IsZero() && !next.After(ended) {
		next = d.app.Config.Schedule.Next(next)
	}
	return next
}
