package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
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

// Options say what a run does.
type Options struct {
	Selection coverage.Selection
	// Wait makes the run continue across budget pauses until nothing is due.
	Wait bool
	// KeepEmpty leaves an empty ledger as it is, whatever the sinks hold.
	KeepEmpty bool
}

// Progress shows how a run proceeds. Nothing depends on it.
type Progress interface {
	// Reset begins another run.
	Reset()
	// Begin announces so many windows; the budget lets the last of them be read by
	// finish, the zero time if that is not known.
	Begin(windows int, finish time.Time)
	// Pause announces that nothing is sent until a time, with so many windows left.
	Pause(until time.Time, windows int)
	// Observe is told each step, from many goroutines.
	Observe(Event)
	End()
}

// Runner runs exports: everything that is due, or as much of it as the budget lets
// through, and what follows a run.
type Runner struct {
	// Committed, if not nil, is called when the state has something new to show.
	Committed func()
	Progress  Progress

	app      *app.App
	pipeline *Pipeline
	metrics  func(context.Context) (view.Snapshot, error)

	mu sync.Mutex
	// done are the windows that the present run has read so far.
	done map[analytics.Key]bool
}

// NewRunner returns a runner over what a has opened for an export. The metrics are
// those it delivers to the textfile and the Pushgateway. Observe, if not nil, is told
// each step too.
func NewRunner(a *app.App, metrics func(context.Context) (view.Snapshot, error), p Progress, observe func(Event)) *Runner {
	r := &Runner{app: a, metrics: metrics, Progress: p}
	r.pipeline = New(Config{
		Concurrency: int(a.Config.Concurrency), Settle: time.Duration(a.Config.Settle), SpoolMax: int64(a.Config.SpoolMax),
		TopPages: config.MaxTopPages, Now: a.Now, Logger: a.Log,
		Observe: func(ev Event) {
			r.observe(ev)
			if observe != nil {
				observe(ev)
			}
		},
	}, a.API.Client, a.State, a.State, a.Spool, a.Sinks)
	return r
}

// observe is told each step, from many goroutines. Now and then it writes to the state
// what requests were answered.
func (r *Runner) observe(ev Event) {
	if ev.Step == StepOpen || ev.Step == StepRecorded {
		r.mu.Lock()
		r.done[ev.Key] = true
		r.mu.Unlock()
	}
	r.Progress.Observe(ev)
	switch ev.Step {
	case StepRecorded, StepOpen, StepCommitted:
	default:
		return
	}
	if r.Committed != nil {
		r.Committed()
		return
	}
	if !r.app.API.Meter.Due() {
		return
	}
	if err := r.app.API.Meter.Flush(context.Background(), r.app.State); err != nil {
		r.app.Log.Error("requests not counted", "error", err)
	}
}

// Run is one run. It is entered in the state before Run returns; an error is one of
// entering it, everything else is in the summary.
func (r *Runner) Run(ctx context.Context, o Options) (Summary, error) {
	a, started := r.app, r.app.Now()
	r.Progress.Reset()
	r.mu.Lock()
	r.done = map[analytics.Key]bool{}
	r.mu.Unlock()
	// A run that is stopped before it begins is entered too.
	entering, cancel := clock.Outlive(ctx, stopGrace, noteTimeout)
	id, err := a.State.BeginRun(entering, started)
	cancel()
	if err != nil {
		return Summary{Outcome: Failed}, err
	}
	sent, throttled := a.API.Budget.Sent()

	var s Summary
	err = r.passes(ctx, o, int(id), &s)
	if now, _ := a.API.Budget.Sent(); now > sent && a.API.Client.ClockAgrees() {
		err = errors.Join(err, r.disbelieve(ctx))
	}
	s.Outcome = s.outcome(ctx, err)
	switch {
	case errors.Is(context.Cause(ctx), schedule.ErrDeadline):
		s.Outcome = Failed
		s.Errors = append(s.Errors, fmt.Sprintf("the run took longer than DOCGAUGE_RUN_TIMEOUT (%v) and was ended; the next one goes on", time.Duration(a.Config.RunTimeout)))
	case err != nil && ctx.Err() == nil:
		s.Errors = append(s.Errors, err.Error())
	}
	s.Ended = a.Now()
	took := s.Ended.Sub(started)
	s.Took = took

	// The run is over, interrupted or not: what it did must still be recorded.
	ctx, cancel = clock.Outlive(ctx, stopGrace, noteTimeout)
	defer cancel()
	s.Requests, s.Throttled = a.API.Budget.Sent()
	s.Requests, s.Throttled = s.Requests-sent, s.Throttled-throttled
	return s, errors.Join(a.API.Flush(ctx), a.State.EndRun(ctx, state.Run{
		ID: id, Finished: a.Now(), Outcome: s.Outcome, Message: strings.Join(s.Errors, "; "),
		Windows: s.Committed + s.Waiting, Requests: s.Requests,
	}, s.Good(), state.Observation{Name: "export_duration_seconds", Bucket: view.Bucket(took), Count: 1, Sum: took}))
}

// takePlace finds out whether the sinks are where they were, and whether the state is as new as
// they are. A sink that is not in its place is given nothing, and the run has failed. The ledger
// of a state from an older backup becomes what the sinks show.
func (r *Runner) takePlace(ctx context.Context, run int64, s *Summary) error {
	a := r.app
	traces, err := a.FindTraces(ctx, run)
	if err != nil {
		return err
	}
	r.pipeline.withheld = traces.Misplaced
	for _, sink := range a.Sinks {
		s.AddErrors(traces.Misplaced[sink.Name()])
	}
	if traces.Older && len(traces.Misplaced) == 0 {
		done, err := coverage.Rebuild(ctx, a.State, a.Sinks, a.InSpool, a.Log)
		if err != nil {
			return err
		}
		a.Log.Warn("ledger read back from the sinks", "windows", done.Windows, "forgotten", done.Forgotten)
	}
	a.MarkRun(ctx, run, traces)
	return nil
}

// disbelieve makes durable what [coverage.Read] concludes, now that the service agrees with the
// clock: what was read by a clock that was ahead stays unbelieved when its time has come.
func (r *Runner) disbelieve(ctx context.Context) error {
	n, err := r.app.State.Disbelieve(ctx, r.app.Now().Add(clock.Tolerance))
	if n > 0 {
		r.app.Log.Warn("windows were read while the clock was ahead: they are read again when their day has come", "windows", n)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next run does it
	}
	return err
}

// passes recovers and reads, once or, with Wait, until nothing is due.
func (r *Runner) passes(ctx context.Context, o Options, id int, s *Summary) error {
	a := r.app
	if !o.KeepEmpty {
		if err := coverage.RestoreEmpty(ctx, a.State, a.Sinks, a.Log); err != nil {
			return err
		}
	}
	if err := r.takePlace(ctx, int64(id), s); err != nil {
		return err
	}
	if err := o.Selection.Begin(ctx, a.State, a.Now()); err != nil {
		return err
	}
	o.Selection.Again = false
	for {
		// What earlier runs, or an earlier pass whose sink was down, left in the spool
		// is delivered first.
		if err := r.recover(ctx, s); err != nil {
			return err
		}
		if err := r.pass(ctx, o.Selection, id, s); err != nil {
			return err
		}
		if !o.Wait || !s.BudgetSpent || s.Left == 0 || ctx.Err() != nil {
			return r.endNamed(context.WithoutCancel(ctx), o.Selection, s)
		}
		a.Log.Info("waiting for the budget", "windows_left", s.Left,
			"next_request_at", s.Resume.Format(time.RFC3339), "finished_by", s.Finish.Format(time.RFC3339))
		r.Progress.Pause(s.Resume, s.Left)
		if clock.Sleep(ctx, max(time.Second, s.Resume.Sub(a.Now()))) != nil {
			return r.endNamed(context.WithoutCancel(ctx), o.Selection, s)
		}
	}
}

// endNamed keeps that all of the named windows are read, once they are.
func (r *Runner) endNamed(ctx context.Context, sel coverage.Selection, s *Summary) error {
	if !sel.IsNamed() {
		return nil
	}
	now := r.app.Now()
	p, err := sel.Plan(ctx, r.app.State, r.app.Config, now, 0)
	if err != nil {
		return err
	}
	s.Named = p.Named
	if s.Named.Left > 0 || !s.Named.Done.IsZero() {
		return nil
	}
	s.Named.Done = now.UTC().Truncate(time.Microsecond)
	return r.app.State.SetReading(ctx, s.Named.Reading)
}

func (r *Runner) recover(ctx context.Context, s *Summary) error {
	delivered, failures, err := r.pipeline.Recover(ctx, func(do func(Owed)) error {
		return r.app.State.EachEntry(ctx, func(e state.Entry) {
			if e.Lost() {
				return // it is owed to no sink, and read again
			}
			o := Owed{Revision: e.Revision}
			for sink, at := range e.Sinks {
				if !at.IsZero() {
					o.Has = append(o.Has, sink)
				}
			}
			do(o)
		})
	})
	s.Recovered += delivered
	s.AddErrors(failures...)
	return err
}

// pass plans and reads once.
func (r *Runner) pass(ctx context.Context, sel coverage.Selection, id int, s *Summary) error {
	p, err := r.plan(ctx, sel, id)
	if err != nil {
		return err
	}
	finish := p.Budget.Finish(p.Ledger.Cost(p.Due))
	if slices.ContainsFunc(p.Due, func(i schedule.Item) bool { return p.Ledger.Sizes.IsUnknown(i) }) {
		finish = time.Time{}
	}
	r.Progress.Begin(len(p.Due), finish)
	result := r.pipeline.Run(ctx, Work{
		Items: p.Due, Known: p.Ledger.Known, Sizes: p.Ledger.Sizes, Room: r.app.API.Budget.Available,
		Policy: p.Input.Policy, Movements: p.Ledger.Movements, Asides: p.Ledger.Asides,
	})
	r.Progress.End()
	s.add(result)
	if s.Left == 0 {
		return nil
	}
	if p, err = r.plan(context.WithoutCancel(ctx), sel, id); err != nil {
		return err
	}
	// What `docgauge plan` counts: running windows are no backlog, and windows that are
	// set aside are not due before their time.
	left := slices.DeleteFunc(p.Due, func(i schedule.Item) bool { return i.Reason == schedule.ReasonOpen })
	s.Left, s.LeftRequests = len(left), p.Ledger.Cost(left)
	s.Resume, s.Finish = p.Budget.Opens(result.Wanted), p.Budget.Finish(s.LeftRequests)
	return nil
}

// plan plans, without the windows that are read once in a run, selected by their dates
// or running, and that this run has read.
func (r *Runner) plan(ctx context.Context, sel coverage.Selection, id int) (coverage.Plan, error) {
	p, err := sel.Plan(ctx, r.app.State, r.app.Config, r.app.Now(), id)
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Due = slices.DeleteFunc(p.Due, func(i schedule.Item) bool {
		return (i.Reason == schedule.ReasonAsked || i.Reason == schedule.ReasonOpen) && r.done[i.Key]
	})
	return p, err
}
