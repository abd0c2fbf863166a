package events

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// evaluateEvery is how often serve evaluates: time alone makes windows late, prompts expire and digests due.
	evaluateEvery = time.Minute
	// A single export delivers for deliverLimit, or stopGrace after a signal.
	deliverLimit = 15 * time.Second
	stopGrace    = 3 * time.Second
)

// Watcher derives the events of a pipeline and delivers them. A nil Watcher does nothing.
type Watcher struct {
	app *app.App
	// served is the time since which serve runs; zero for a single export.
	served   time.Time
	notifier *Notifier
	changed  clock.Signal
}

// Open returns the watcher of the pipeline of a: of a docgauge serve that runs since served,
// or of a single export if that is zero. It is nil if no notifications are wanted.
func Open(ctx context.Context, a *app.App, served time.Time) (*Watcher, error) {
	notifier, err := ForApp(a)
	if err != nil || notifier == nil {
		return nil, err
	}
	w := &Watcher{app: a, served: served, notifier: notifier, changed: clock.NewSignal()}
	if err := w.begin(ctx); err != nil {
		a.Log.Warn("some events cannot be derived", "error", err)
	}
	return w, nil
}

// Report evaluates after a single export, and delivers for a short time; the rest stays in
// the outbox for the next run. A failure does not fail the export.
func (w *Watcher) Report(ctx context.Context) {
	if w == nil {
		return
	}
	ctx, cancel := clock.Outlive(ctx, stopGrace, deliverLimit)
	defer cancel()
	if err := w.evaluateAll(ctx); err != nil {
		w.app.Log.Warn("some notifications could not be sent", "error", err)
	}
	if _, err := w.notifier.Deliver(ctx); err != nil {
		w.app.Log.Warn("notifications not delivered: the next run does it", "error", err)
	}
}

// Run evaluates every minute and when Changed is called, and delivers, until ctx ends. The
// rest is delivered after the next start.
func (w *Watcher) Run(ctx context.Context) error {
	if w == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { w.notifier.run(ctx); return nil })
	group.Go(func() error {
		tick := time.NewTicker(evaluateEvery)
		defer tick.Stop()
		var last clock.LastError
		for {
			err := w.evaluateAll(ctx)
			if ctx.Err() != nil {
				return nil //nolint:nilerr // the stop cut it short
			}
			if last.IsNew(err) {
				w.app.Log.Warn("some notifications could not be sent", "error", err)
			}
			w.Wake()
			select {
			case <-ctx.Done():
				return nil
			case <-tick.C:
			case <-w.changed:
			}
		}
	})
	return group.Wait()
}

// Wake makes Run deliver the outbox now.
func (w *Watcher) Wake() {
	if w != nil {
		w.notifier.wake.Send()
	}
}

// Changed makes Run evaluate now: a run has ended.
func (w *Watcher) Changed() {
	if w != nil {
		w.changed.Send()
	}
}

// begin enters the time from which things count, before the first run: foreign use of the
// quota, and firings of the digest.
func (w *Watcher) begin(ctx context.Context) error {
	return w.evaluate(ctx, func(ctx context.Context, e *evaluation) error {
		e.keepAll()
		w.firingsCount(e)
		if _, known := e.reported[quotaUse]; !known {
			return w.quota(ctx, e)
		}
		return nil
	})
}

// evaluateAll enters the events that are due.
func (w *Watcher) evaluateAll(ctx context.Context) error {
	return w.evaluate(ctx, func(ctx context.Context, e *evaluation) error {
		var errs []error
		for _, derive := range []func(context.Context, *evaluation) error{w.exports, w.keys, w.quota, w.asides,
			w.readers, w.digests} {
			errs = append(errs, derive(ctx, e)) // one that fails does not stop the others
		}
		return errors.Join(errs...)
	})
}

// evaluate lets derive fill an evaluation, and enters the result.
func (w *Watcher) evaluate(ctx context.Context, derive func(context.Context, *evaluation) error) error {
	reported, err := w.app.State.Reported(ctx)
	if err != nil {
		return err
	}
	e := &evaluation{w: w, now: w.app.Now().UTC().Truncate(time.Second), reported: reported, live: map[string]bool{}}
	err = derive(ctx, e)
	if err != nil {
		e.keepAll() // what could not be read may not be over
	}
	for condition := range reported {
		if !e.live[condition] {
			e.out.Over = append(e.out.Over, condition)
		}
	}
	if len(e.out.Reported)+len(e.out.Over)+len(e.out.Events) == 0 {
		return err
	}
	if entered := w.app.State.Report(ctx, e.out); !errors.Is(entered, state.ErrReported) {
		err = errors.Join(err, entered)
	}
	return err
}

// evaluation collects the events of one moment. A condition is an event and its subject; it
// is reported once, until it is over.
type evaluation struct {
	w        *Watcher
	now      time.Time
	reported map[string]state.Reported
	// live are the conditions that are not over.
	live map[string]bool
	out  state.Report
}

// keepAll keeps all conditions.
func (e *evaluation) keepAll() {
	for condition := range e.reported {
		e.live[condition] = true
	}
}

// knows reports whether a condition was reported.
func (e *evaluation) knows(condition string) bool {
	_, known := e.reported[condition]
	return known
}

// isNew marks a condition as not over, and reports whether it was not reported yet.
func (e *evaluation) isNew(condition string) bool {
	e.live[condition] = true
	return !e.knows(condition)
}

// over ends a condition, even if other things cannot be read.
func (e *evaluation) over(condition string) {
	e.live[condition] = true // it is not ended twice
	e.out.Over = append(e.out.Over, condition)
}

// remember enters a condition.
func (e *evaluation) remember(condition state.Reported) {
	e.live[condition.Condition] = true
	e.out.Reported = append(e.out.Reported, condition)
}

// report enters an event, and that its condition was reported.
func (e *evaluation) report(condition string, value int64, event view.Event) error {
	e.remember(state.Reported{Condition: condition, At: e.now, Value: value})
	return e.enter(event)
}

// enter enters an event.
func (e *evaluation) enter(event view.Event) error {
	note, err := noteOf(e.w.app, event, e.now)
	if err == nil {
		e.out.Events = append(e.out.Events, note)
	}
	return err
}

// noteOf is an event as it is delivered.
func noteOf(a *app.App, event view.Event, at time.Time) (journal.Event, error) {
	event.At = at
	name := a.Config.ProjectNames.Of(event.Project)
	if err := describe(&event, name); err != nil {
		return journal.Event{}, err
	}
	if name != event.Project {
		event.ProjectName = name
	}
	body, err := json.Marshal(event)
	return journal.Event{Kind: event.Event, At: at, Body: body}, err
}

// conditionOf names a condition.
func conditionOf(event string, about ...string) string {
	return strings.Join(append([]string{event}, about...), "/")
}

// moment is a time in the name of a condition.
func moment(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return strconv.FormatInt(t.UnixMicro(), 10)
}

// Test returns the message that tries a receiver. It needs no state.
func Test(a *app.App) ([]journal.Event, error) {
	note, err := noteOf(a, view.Event{Event: test}, a.Now().UTC().Truncate(time.Second))
	return []journal.Event{note}, err
}

// Digests returns the digest of the newest exported week of each project. What could be made comes
// with the error of what could not.
func Digests(ctx context.Context, a *app.App) (notes []journal.Event, err error) {
	now := a.Now().UTC().Truncate(time.Second)
	ledger, err := coverage.Read(ctx, a.State, now)
	if err != nil {
		return nil, err
	}
	w := &Watcher{app: a}
	outcomes := sync.OnceValue(func() view.Outcomes { return w.outcomes(ctx, now) })
	var errs []error
	for _, project := range a.Config.Projects {
		newest := ledger.NewestWeek(project, now)
		if newest == nil {
			errs = append(errs, fmt.Errorf("digest of %s: no complete week was exported yet: "+
				"add week to DOCGAUGE_WINDOWS if it is not there, then run docgauge export", project))
			continue
		}
		event, err := w.digestOf(ctx, ledger, *newest, outcomes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		note, err := noteOf(a, event, now)
		note.At = now.Add(time.Duration(len(notes)) * time.Microsecond) // each has its own delivery id
		errs = append(errs, err)
		notes = append(notes, note)
	}
	return notes, errors.Join(errs...)
}

// Send sends events to DOCGAUGE_NOTIFY_URL now, once each, past the outbox, and returns the host of
// the receiver. The error does not quote the URL.
func Send(ctx context.Context, a *app.App, notes []journal.Event) (host string, err error) {
	n, err := ForApp(a)
	if err != nil || n == nil {
		return "", err
	}
	for _, note := range notes {
		inDoubt, err := n.post(ctx, note)
		if err != nil {
			remedy := "check the URL and DOCGAUGE_NOTIFY_FORMAT (" + string(a.Config.NotifyFormat) + ")"
			if inDoubt {
				remedy = "the message may have arrived"
			}
			return n.target.Host, fmt.Errorf("DOCGAUGE_NOTIFY_URL: %s: %w; %s", n.target.Host, err, remedy)
		}
	}
	return n.target.Host, nil
}
