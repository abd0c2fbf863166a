package export

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
)

const (
	// noteTimeout bounds recording a run in the state, and delivering the metrics.
	noteTimeout = 40 * time.Second
	// stopGrace bounds the same once the run was interrupted.
	stopGrace = 5 * time.Second
)

// Options select the windows and the duration of a run.
type Options struct {
	Selection coverage.Selection
	// Wait makes the run continue across budget pauses until nothing is due.
	Wait bool
	// KeepEmpty leaves an empty ledger empty, whatever the sinks hold.
	KeepEmpty bool
}

// Run is one run. It is entered in the state before Run returns; an error means that it
// could not be entered, everything else is in the summary.
func (e *Exporter) Run(ctx context.Context, o Options) (Summary, error) {
	a, started := e.app, e.app.Now()
	e.progress.Reset()
	e.mu.Lock()
	e.summary, e.done, e.said = Summary{}, map[analytics.Key]bool{}, started
	e.mu.Unlock()
	// A run that is stopped before it begins is entered too.
	entering, cancel := clock.Outlive(ctx, stopGrace, noteTimeout)
	id, err := a.State.BeginRun(entering, started)
	cancel()
	if err != nil {
		return Summary{Outcome: Failed}, err
	}
	sent, throttled := a.API.Budget.Sent()

	err = e.passes(ctx, o, int(id))
	if now, _ := a.API.Budget.Sent(); now > sent && a.API.Client.ClockAgrees() {
		err = errors.Join(err, e.disbelieve(ctx))
	}
	s := &e.summary
	if err != nil && ctx.Err() == nil {
		s.AddErrors(err)
	}
	s.Outcome = s.outcome(ctx)
	if errors.Is(context.Cause(ctx), schedule.ErrDeadline) {
		s.Outcome = Failed
		s.AddErrors(fmt.Errorf("the run took longer than DOCGAUGE_RUN_TIMEOUT (%v) and was ended; the next run "+
			"continues",
			time.Duration(a.Config.RunTimeout)))
	}
	for _, project := range s.SameNumbers {
		a.Log.Warn("all windows that were read have the same totals, whatever their length: does the service, or a cache "+
			"in front of it, ignore the dates?", "project", project, "remedy", "docgauge check")
	}
	for _, c := range s.OtherModes {
		a.Log.With(c.Attrs()).Info("people are counted by another mode: windows of the two modes are not compared",
			"humans", c.Now.Said(), "humans_before", c.Before.Said())
	}
	s.Ended = a.Now()
	s.Took = s.Ended.Sub(started)

	// The run is over, interrupted or not. Its results must still be recorded.
	ctx, cancel = clock.Outlive(ctx, stopGrace, noteTimeout)
	defer cancel()
	s.Requests, s.Throttled = a.API.Budget.Sent()
	s.Requests, s.Throttled = s.Requests-sent, s.Throttled-throttled
	run := analytics.Run{
		ID: id, Finished: a.Now(), Outcome: s.Outcome, Message: s.message(),
		Windows: s.Committed + s.Waiting, Requests: s.Requests,
	}
	duration := state.Observation{
		Name: "export_duration_seconds", Bucket: view.Bucket(s.Took), Count: 1, Sum: s.Took,
	}
	return *s, cmp.Or(a.API.Flush(ctx), a.State.EndRun(ctx, run, s.Good(), duration))
}

// passes delivers what earlier runs left, plans and reads, once or, with Wait, until nothing is
// due. The ledger, which can have millions of windows, is read again only where it changed.
func (e *Exporter) passes(ctx context.Context, o Options, id int) error {
	a, s := e.app, &e.summary
	ledger, err := e.ledgerNow(ctx)
	if err == nil && ledger.IsEmpty() && !o.KeepEmpty {
		if err = coverage.RestoreEmpty(ctx, a.State, a.Sinks, a.Log); err == nil {
			ledger, err = e.ledgerNow(ctx)
		}
	}
	if err != nil {
		return err
	}
	s.modes = lastModes(ledger)
	// Check that the sinks have not moved and that the state is as new as their content. A sink
	// that is not in its place gets nothing, and the run fails. The ledger of a state from an
	// older backup is rebuilt from the sinks.
	traces, err := a.FindTraces(ctx, int64(id), ledger.All())
	if err != nil {
		return err
	}
	e.misplaced = traces.Misplaced
	for _, sink := range a.Sinks {
		s.AddErrors(traces.Misplaced[sink.Name()])
	}
	if traces.Older && len(traces.Misplaced) == 0 {
		done, err := coverage.Rebuild(ctx, a.State, a.Sinks, a.InSpool, a.Log)
		if err == nil {
			a.Log.Warn("ledger read back from the sinks", "windows", done.Windows, "forgotten", done.Forgotten)
			ledger, err = e.ledgerNow(ctx)
		}
		if err != nil {
			return err
		}
	}
	a.MarkRun(ctx, int64(id), traces)
	if ledger, err = e.forgetRefusals(ctx, ledger); err != nil {
		return err
	}
	if err := o.Selection.Begin(ctx, a.State, a.Now()); err != nil {
		return err
	}
	o.Selection.Again = false
	replanned := false
	for {
		// What earlier runs, or an earlier pass whose sink was down, left in the spool
		// is delivered first.
		changed, err := e.recover(ctx, ledger.All())
		if err == nil && changed {
			ledger, err = e.ledgerNow(ctx)
		}
		if err == nil {
			err = e.pass(ctx, ledger, o.Selection, id)
		}
		if err != nil {
			return err
		}
		if s.replan && !replanned && len(s.Errors) == 0 && ctx.Err() == nil {
			replanned = true // once: a service that says now this, now that must not keep the run going
			if ledger, err = e.ledgerNow(ctx); err != nil {
				return err
			}
			continue
		}
		if !o.Wait || !s.BudgetSpent || s.Left == 0 || ctx.Err() != nil {
			break
		}
		a.Log.Info("waiting for the budget", "windows_left", s.Left,
			"next_request_at", s.Resume.Format(time.RFC3339), "finished_by", s.Finish.Format(time.RFC3339))
		e.progress.Pause(s.Resume, s.Left)
		if clock.Sleep(ctx, max(time.Second, s.Resume.Sub(a.Now()))) != nil {
			break
		}
		a.API.Budget.Renew()
		if ledger, err = e.ledgerNow(ctx); err != nil {
			return err
		}
	}
	return e.endNamed(context.WithoutCancel(ctx), o.Selection)
}

// forgetRefusals lets the projects and reports that the service refused with a former key be asked for at once.
func (e *Exporter) forgetRefusals(ctx context.Context, l coverage.Ledger) (coverage.Ledger, error) {
	if answered, err := e.app.API.LastAnswer(ctx); err != nil || !answered.IsZero() {
		return l, err
	}
	for series, facts := range l.Learned {
		if facts[schedule.Refused].N > 0 {
			l.Learned.Set(series, schedule.Refused, 0, e.app.Now())
			err := e.ledger.SetMovement(ctx, state.Movement{
				Project: series.Project, Report: series.Report, Kind: string(schedule.Refused), At: e.app.Now(),
			})
			if err != nil {
				return l, err
			}
		}
	}
	return l, nil
}

func (e *Exporter) ledgerNow(ctx context.Context) (coverage.Ledger, error) {
	return coverage.Read(ctx, e.app.State, e.app.Now())
}

// disbelieve makes durable what [coverage.Read] concludes, now that the service agrees with the
// clock: a reading made while the clock was ahead stays unbelieved when its time has come.
func (e *Exporter) disbelieve(ctx context.Context) error {
	n, err := e.app.State.Disbelieve(ctx, e.app.Now().Add(clock.Tolerance))
	if n > 0 {
		e.app.Log.Warn("windows were read while the clock was ahead: they are read again when their day has come",
			"windows", n)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next run does it
	}
	return err
}

// endNamed keeps that all of the named windows are read, once they are.
func (e *Exporter) endNamed(ctx context.Context, sel coverage.Selection) error {
	if !sel.IsNamed() {
		return nil
	}
	now := e.app.Now()
	p, err := sel.Plan(ctx, e.app.State, e.app.Config, now)
	if err != nil {
		return err
	}
	s := &e.summary
	s.Named = p.Named
	if s.Named.Left > 0 || !s.Named.Done.IsZero() {
		return nil
	}
	s.Named.Done = now.UTC().Truncate(time.Microsecond)
	return e.app.State.SetReading(ctx, s.Named.Reading)
}

// pass plans and reads once.
func (e *Exporter) pass(ctx context.Context, ledger coverage.Ledger, sel coverage.Selection, id int) error {
	p, err := e.plan(ctx, ledger, sel, id)
	if err != nil {
		return err
	}
	finish := p.Budget.Finish(p.Ledger.Cost(p.Due))
	for _, item := range p.Due {
		if _, basis := p.Ledger.Sizes.Pages(item); basis == schedule.BasisUnknown {
			finish = time.Time{} // nothing of its project was read yet
		}
	}
	e.progress.Begin(len(p.Due), finish)
	e.count(func(*Summary) { e.left = len(p.Due) })
	work := work{
		Items: p.Due, Known: p.Ledger.Known, Sizes: p.Ledger.Sizes, Free: e.app.API.Budget.Available,
		Policy: p.Input.Policy, Learned: p.Ledger.Learned, Asides: p.Ledger.Asides,
	}
	if work.KeyRefused, err = e.app.API.KeyRejected(ctx, docsapi.KeyAdmin); err != nil {
		return err
	}
	e.count(func(s *Summary) { s.StillAside = p.StillAside() - s.SetAside })
	e.read(ctx, work)
	e.progress.End()
	s := &e.summary
	if s.Left == 0 {
		return nil
	}
	ctx = context.WithoutCancel(ctx)
	if ledger, err = e.ledgerNow(ctx); err == nil {
		p, err = e.plan(ctx, ledger, sel, id)
	}
	if err != nil {
		return err
	}
	// Count like `docgauge plan`: running windows do not belong to the backlog, and skipped
	// windows are not due before their time.
	left := slices.DeleteFunc(p.Due, func(i schedule.Item) bool { return i.Reason == schedule.ReasonOpen })
	s.Left, s.LeftRequests = len(left), p.Ledger.Cost(left)
	s.Resume, s.Finish = p.Budget.Opens(s.wanted), p.Budget.Finish(s.LeftRequests)
	return nil
}

// plan plans, without the windows that are read once in a run, selected by their dates
// or running, and that this run has read.
func (e *Exporter) plan(
	ctx context.Context, ledger coverage.Ledger, sel coverage.Selection, id int,
) (coverage.Plan, error) {
	p, err := sel.PlanOver(ctx, ledger, e.app.State, e.app.Config, e.app.Now(), id)
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Due = slices.DeleteFunc(p.Due, func(i schedule.Item) bool {
		return (i.Reason == schedule.ReasonAsked || i.Reason == schedule.ReasonOpen) && e.done[i.Key]
	})
	return p, err
}
