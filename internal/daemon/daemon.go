// Package daemon is docgauge serve: it exports on the schedule, runs the prompt queue, and publishes
// snapshots of the state, from which the web server answers. Each goroutine belongs to [Serve], which
// waits for all of them.
package daemon

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/outcomes"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/internal/redirects"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// publishEvery is the maximum age of a snapshot when nothing is committed: the due windows and
	// the budget change with time.
	publishEvery = time.Minute
	// publishPause is the minimum time between two snapshots, and publishShare the time as a multiple of how long the
	// last one took, up to publishEvery.
	publishPause = time.Second
	publishShare = 20
	// pagesTimeout limits reading pages of the newest windows from the sinks, once per snapshot.
	pagesTimeout = 5 * time.Minute
)

// daemon does the work of docgauge serve with one set of settings.
type daemon struct {
	app      *app.App
	runner   *export.Exporter
	snapshot *coverage.SnapshotReader
	values   *exporter.Values
	started  time.Time
	firings  *schedule.Firings // set before run
	// owed means that the last run was cut short, or that one at once has not begun: another reload
	// may come first. Only runs change it.
	owed     bool
	health   guarded[health]
	queue    *queue // nil if none is configured
	events   *events.Watcher
	site     *web.Site
	outcomes guarded[view.Outcomes]
	missed   guarded[[]view.MissedPath]
	// assistants answers MCP requests.
	assistants http.Handler
	// changed asks for a new snapshot, recheck for a check of the sinks, outcomesDue for the outcomes of
	// merges; shown follows a snapshot, exported a run.
	changed, recheck, exported, outcomesDue, shown clock.Signal
}

// newDaemon returns a daemon over what a has opened for an export. It publishes to values, which
// site shows.
func newDaemon(
	a *app.App, values *exporter.Values, site *web.Site, p export.Progress, observe func(export.Event),
) *daemon {
	d := &daemon{
		app: a, snapshot: a.SnapshotReader(), started: a.Now(), values: values, site: site,
		changed: clock.NewSignal(), recheck: clock.NewSignal(), exported: clock.NewSignal(),
		outcomesDue: clock.NewSignal(), shown: clock.NewSignal(),
	}
	d.runner = export.New(a, d.snapshot.Read, p, observe)
	d.runner.Committed = d.changed.Send
	return d
}

// guarded is a value that several goroutines use.
type guarded[T any] struct {
	mu    sync.Mutex
	value T
}

func (g *guarded[T]) get() T {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.value
}

func (g *guarded[T]) change(change func(*T)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	change(&g.value)
}

// run does everything until ctx ends, and then waits for all of it. It can be called again after that.
func (d *daemon) run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	beside := func(f func(context.Context)) { group.Go(func() error { f(ctx); return nil }) }
	for key := range d.app.API.Keys() {
		beside(func(ctx context.Context) { key.Watch(ctx, d.app.Log, d.changed.Send) })
	}
	beside(d.app.WatchSecrets)
	beside(d.watchSinks)
	// The pages of new readings of the newest windows are read once, so that no request reads them.
	beside(func(ctx context.Context) {
		d.whenever(ctx, d.shown, pagesTimeout, "pages of the newest windows not read", func(ctx context.Context) error {
			return d.site.Refresh(ctx, d.values.Load(), d.app.Sinks)
		})
	})
	beside(d.outcomesLoop)
	for _, loop := range []func(context.Context) error{d.publishLoop, d.exportLoop, d.events.Run} {
		group.Go(func() error { return loop(ctx) })
	}
	if q := d.queue; q != nil {
		for _, token := range q.pulls.Tokens {
			beside(func(ctx context.Context) { token.Watch(ctx, d.app.Log, q.moved.Send) })
		}
		beside(d.pullsLoop)
		group.Go(func() error { return d.queueLoop(ctx) })
	}
	return group.Wait()
}

// publishLoop makes a snapshot after each commit and every minute. It ends with an error if the state
// is lost, because nothing can be stored then.
func (d *daemon) publishLoop(ctx context.Context) error {
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
		if clock.Sleep(ctx, pauseAfter(time.Since(began))) != nil {
			return nil
		}
	}
}

// pauseAfter is the time from a snapshot to the next one: after a stall of minutes the gauges are not old for hours.
func pauseAfter(took time.Duration) time.Duration {
	return min(max(publishPause, publishShare*took), publishEvery)
}

// publish shows the present state. After an error the former values stay.
func (d *daemon) publish(ctx context.Context) error {
	a := d.app
	err := errors.Join(a.State.Present(), a.API.Meter.Flush(ctx, a.State))
	var values view.Snapshot
	if err == nil {
		values, err = d.snapshot.Read(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the stop cut it short
	}
	d.health.change(func(h *health) {
		h.state = err
		for i, s := range values.Sinks {
			values.Sinks[i].Problem = h.sinks[s.Name]
		}
	})
	if err != nil {
		a.Log.Error("metrics not renewed", "error", err)
		return err
	}
	values.NextRun, values.Outcomes, values.Missed = d.firings.Coming(), d.outcomes.get(), d.missed.get()
	d.values.Publish(values)
	d.shown.Send()
	return nil
}

// whenever does work at each signal until ctx ends, and logs an error once as long as it stays the same.
func (d *daemon) whenever(
	ctx context.Context, s clock.Signal, timeout time.Duration, failure string, work func(context.Context) error,
) {
	var last clock.LastError
	for {
		select {
		case <-ctx.Done():
			return
		case <-s:
		}
		within, cancel := context.WithTimeout(ctx, timeout)
		err := work(within)
		cancel()
		if ctx.Err() == nil && last.IsNew(err) {
			d.app.Log.Warn(failure, "error", err)
		}
	}
}

// exportLoop exports at each firing of the schedule until ctx ends, and returns when the last run
// has ended. Before the first run it loads the values for the gauges.
func (d *daemon) exportLoop(ctx context.Context) error {
	a := d.app
	err := coverage.RestoreEmpty(ctx, a.State, a.Sinks, a.Log)
	if errors.Is(err, sinks.ErrNotListed) {
		a.Log.Error("ledger not read back", "error", err) // each run tries again
		err = nil
	}
	if err == nil {
		err = d.runner.FillPages(ctx)
	}
	if err != nil && ctx.Err() == nil {
		return err
	}
	d.changed.Send()
	return d.firings.Run(ctx, time.Duration(a.Config.RunTimeout), a.Log, d.export)
}

// export is one run.
func (d *daemon) export(ctx context.Context) {
	a := d.app
	d.health.change(func(h *health) { h.running = a.Now() })
	defer func() {
		d.health.change(func(h *health) { h.running = time.Time{} })
		d.changed.Send()
		d.recheck.Send()
	}()
	if err := a.State.Present(); err != nil {
		return // publishLoop ends the process
	}
	d.changed.Send()
	a.API.Budget.Renew()
	s, err := d.runner.Run(ctx, export.Options{})
	export.LogProblems(a.Log, s)
	if err != nil {
		a.Log.Error("run not entered in the state", "error", err)
	}
	log := a.Log
	if s.Left > 0 && s.BudgetSpent {
		log = log.With("next_request_at", s.Resume.UTC().Format(time.RFC3339),
			"finished_by", s.Finish.UTC().Format(time.RFC3339))
	}
	log.Info("export ended", "outcome", s.Outcome, "windows", s.Committed, "open_windows", s.Open, "rows", s.Rows,
		"requests", s.Requests, "windows_left", s.Left, "took_seconds", clock.Seconds(s.Took))
	d.owed = s.Outcome == export.Interrupted
	d.changed.Send()
	d.exported.Send()
	d.outcomesDue.Send()
	d.events.Changed()
	after := d.runner.Follow(ctx, s)
	if after != nil {
		a.Log.Error("after the export", "error", after)
	}
	if d.owed {
		return // neither good nor bad: the next run decides
	}
	if err := events.Ping(ctx, a.Config, s.Good() && err == nil && after == nil); err != nil {
		a.Log.Warn("monitor not pinged", "error", err)
	}
}

// findMissed finds the path of each project that agents missed most on the newest day, of those with a sure redirect.
func (d *daemon) findMissed(ctx context.Context) error {
	if !slices.Contains(d.app.Config.Reports, analytics.AgentsReport) {
		return nil
	}
	all, err := query.Missed(ctx, d.app.Archive(), query.Selection{Granularity: analytics.Day}, 1)
	if _, none := errors.AsType[query.NoAnswerError](err); none {
		err = nil
	}
	var worst []view.MissedPath
	for _, missed := range all {
		proposals := redirects.Propose(missed.Misses, redirects.Site{Pages: missed.Pages})
		path := view.MissedPath{Project: missed.Project}
		if i := slices.IndexFunc(proposals, func(p redirects.Proposal) bool { return p.Grade == redirects.Sure }); i >= 0 {
			path = proposals[i].MissedPath
		}
		if slices.Contains(d.app.Config.Projects, path.Project) {
			worst = append(worst, path)
		}
	}
	d.missed.change(func(m *[]view.MissedPath) { *m = worst })
	d.changed.Send()
	return err
}

// outcomesTimeout limits reading the archive for outcomes.
const outcomesTimeout = 15 * time.Minute

// outcomesLoop estimates the outcomes of merges after each run and when there are other merges, until
// ctx ends. They stay in memory, so that no page or scrape reads the archive.
func (d *daemon) outcomesLoop(ctx context.Context) {
	d.outcomesDue.Send() // earlier processes may have exported
	first := true
	var known []view.Merge
	work := func(ctx context.Context) error {
		select {
		case <-d.exported:
			first = true
		default:
		}
		var unread error // the outcomes do not need what agents missed
		if first {
			unread = d.findMissed(ctx)
		}
		s := outcomes.Selection{Projects: d.app.Config.Projects, Since: d.app.Now().Add(-outcomes.Recent)}
		list, err := outcomes.Merges(ctx, d.app.State, s)
		if err != nil || !first && reflect.DeepEqual(list, known) {
			return errors.Join(unread, err)
		}
		first, known = false, list
		all, err := outcomes.Estimate(ctx, d.app.State, d.app.Archive(), s)
		if all.Merges != nil {
			d.outcomes.change(func(o *view.Outcomes) { *o = all })
			d.changed.Send()
		}
		return errors.Join(unread, err)
	}
	d.whenever(ctx, d.outcomesDue, outcomesTimeout, "outcomes of merges not estimated from all windows", work)
}
