package schedule

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/robfig/cron/v3"
)

// ErrDeadline is the cause with which the context of a run ends at its deadline.
var ErrDeadline = errors.New("run reached its deadline")

// ErrOverrun is what Cron.Run returns when it gives up waiting for a run.
var ErrOverrun = errors.New("run goes on after its context ended")

// runGrace is the Grace of Runs that name none. It leaves room in the half
// minute that most supervisors give a process to stop.
const runGrace = 20 * time.Second

// Runs says what to run, and who hears of what went wrong. What is reported is
// logged too. The functions but Do may be nil; they are called from any
// goroutine and must neither block nor panic.
type Runs struct {
	// Do is one run. It returns soon after its context ends; context.Cause says
	// whether that was the deadline.
	Do func(ctx context.Context)
	// AtStart runs once at once, and then by schedule.
	AtStart bool
	// Deadline is what one run may take; 0: anything.
	Deadline time.Duration
	// Grace is how long a run may go on after its context ended; 0: 20 seconds.
	Grace time.Duration

	// Skipped hears of each firing that found the former run still going on.
	Skipped func()
	// Panicked hears of each run that panicked. The next firing runs again.
	Panicked func(error)
	// Overrun hears, once, of each run that goes on after Grace. As long as it
	// does, firings are skipped.
	Overrun func()
	// Logger may be nil.
	Logger *slog.Logger
}

// Run runs at every firing, one run at a time, until ctx ends. Then it waits for
// the run that goes on. Where that takes longer than Grace it returns ErrOverrun,
// and what the run uses must not be closed; the process should end.
func (c Cron) Run(ctx context.Context, r Runs) error {
	r = r.complete()
	events := cronEvents{r}
	// A panic must be recovered inside the job that is not to run twice: outside,
	// it would leave the job marked as running for ever.
	engine := cron.New(cron.WithLocation(time.UTC), cron.WithLogger(events),
		cron.WithChain(cron.SkipIfStillRunning(events), cron.Recover(events)))
	engine.Schedule(&firings{Cron: c, now: r.AtStart}, cron.FuncJob(func() { r.once(ctx) }))
	engine.Start()
	<-ctx.Done()
	select {
	case <-engine.Stop().Done():
		return nil
	case <-time.After(r.Grace):
		return ErrOverrun
	}
}

func (r Runs) complete() Runs {
	if r.Grace == 0 {
		r.Grace = runGrace
	}
	if r.Skipped == nil {
		r.Skipped = func() {}
	}
	if r.Panicked == nil {
		r.Panicked = func(error) {}
	}
	if r.Overrun == nil {
		r.Overrun = func() {}
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	return r
}

// once is one run, with somebody who watches whether it ends.
func (r Runs) once(ctx context.Context) {
	if ctx.Err() != nil {
		return // fired in the moment of the stop
	}
	if r.Deadline > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, r.Deadline, ErrDeadline)
		defer cancel()
	}
	ended := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() { r.watch(ctx, ended) })
	defer watcher.Wait()
	defer close(ended)
	r.Do(ctx)
}

func (r Runs) watch(ctx context.Context, ended <-chan struct{}) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	select {
	case <-ended:
	case <-time.After(r.Grace):
		r.Logger.Error("run goes on after its end", "cause", context.Cause(ctx), "grace", r.Grace)
		r.Overrun()
	}
}

// firings are those of a Cron, and before them one at once. Only the engine's
// own goroutine asks for the next.
type firings struct {
	Cron
	now bool
}

func (f *firings) Next(t time.Time) time.Time {
	if f.now {
		f.now = false
		return t
	}
	return f.Cron.Next(t)
}

// cronEvents hears what the engine would log.
type cronEvents struct{ Runs }

// Info passes on skipped firings; the rest is the engine's daily business.
func (e cronEvents) Info(msg string, _ ...any) {
	if msg == "skip" {
		e.Logger.Warn("firing skipped, the former run goes on")
		e.Skipped()
	}
}

// Error is about a run that panicked.
func (e cronEvents) Error(err error, _ string, keysAndValues ...any) {
	e.Logger.Error("run panicked", append([]any{"error", err}, keysAndValues...)...)
	e.Panicked(err)
}
