package export

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/verify"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// The names of the daily duties in the state.
	collectDuty = "collect"
	compareDuty = "compare"
	dutyEvery   = 24 * time.Hour

	// collectTimeout bounds a collection: ClickHouse deletes in the background.
	collectTimeout = 5 * time.Minute
	// compareTimeout bounds a comparison with the windows that it copies; the comparison of the next day continues.
	compareTimeout = 15 * time.Minute
	// slowSink is how long a sink may take to fail and still be asked again.
	slowSink = 5 * time.Second
)

// Follow does the work after a run, which is already in the state: it fills in pages, delivers the
// metrics, and once a day compares the sinks with the ledger and collects superseded rows. After a
// stop, the next run does the rest.
func (e *Exporter) Follow(ctx context.Context, s Summary) error {
	later := func(err error) error {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the next run does it
		}
		return err
	}
	var errs []error
	if s.Good() {
		errs = append(errs, later(e.FillPages(ctx)))
	}
	errs = append(errs, e.deliver(ctx))
	if s.Good() && ctx.Err() == nil {
		errs = append(errs, later(e.compare(ctx)), later(e.collect(ctx)))
	}
	return errors.Join(errs...)
}

// deliver writes the metrics to the textfile and the Pushgateway, for a process that ends before
// Prometheus scrapes it. It does this after a failed or interrupted run too.
func (e *Exporter) deliver(ctx context.Context) error {
	c := e.app.Config
	if c.Textfile == "" && c.PushgatewayURL == "" {
		return nil
	}
	// A Pushgateway that does not answer must not hold up a stop.
	ctx, cancel := clock.Outlive(ctx, stopGrace, noteTimeout)
	defer cancel()
	values, err := e.metrics(ctx)
	if err != nil {
		return err
	}
	var errs []error
	if c.Textfile != "" {
		errs = append(errs, exporter.WriteTextfile(c.Textfile, values))
	}
	if c.PushgatewayURL != "" {
		errs = append(errs, exporter.Push(ctx, string(c.PushgatewayURL), values))
	}
	return errors.Join(errs...)
}

// FillPages keeps the pages of newest windows that the state lacks after it was restored
// or its process killed. The sinks have them, so no request is needed. A sink that
// cannot answer is not a failure: the metrics lack these pages.
func (e *Exporter) FillPages(ctx context.Context) error {
	a := e.app
	l, err := coverage.Read(ctx, a.State, a.Now())
	if err != nil {
		return err
	}
	kept := map[analytics.Key]int32{}
	top, err := a.State.Top(ctx, 0)
	if err != nil {
		return err
	}
	for _, l := range top {
		kept[l.Key] = l.Revision
	}
	down := map[string]bool{}
	for _, project := range a.Config.Projects {
		for _, report := range analytics.Reports {
			for _, spec := range a.Config.Windows {
				series := schedule.Series{Source: schedule.Source{Project: project, Report: report}, Granularity: spec.Granularity}
				entry := l.Newest(series, a.Now())
				if entry == nil || !entry.HasRows() || kept[entry.Key] == entry.Number {
					continue
				}
				if err := e.fillFrom(ctx, *entry, down); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// fillFrom asks the sinks that have the window until one answers. A sink that took long
// to fail is down, and not asked again.
func (e *Exporter) fillFrom(ctx context.Context, entry state.Entry, down map[string]bool) error {
	for _, s := range e.app.Sinks {
		if entry.Sinks[s.Name()].IsZero() || down[s.Name()] {
			continue
		}
		began := time.Now()
		err := e.app.WithCopies(func(dir string) error {
			return sinks.Read(ctx, s, entry.Revision, dir, func(w sinks.Sealed) error {
				top, err := topOf(w)
				if err != nil {
					return err
				}
				return e.ledger.SetTop(ctx, top)
			})
		})
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			down[s.Name()] = time.Since(began) > slowSink
			e.app.Log.With(entry.Key.Attrs()).Warn("pages not read from sink: their metrics are missing", "sink",
				s.Name(), "error", err)
			continue
		}
		return nil
	}
	return nil
}

// due reports whether a duty was not done within a day. A time in the future comes from a wrong
// clock.
func (e *Exporter) due(ctx context.Context, duty string) (bool, error) {
	last, err := e.app.State.LastDone(ctx, duty)
	age := e.app.Now().Sub(last)
	return age < 0 || age >= dutyEvery, err
}

// compare compares the sinks' listings with the ledger once a day: windows that a sink has lost
// are copied from another sink, or read again by the next run. A problem of a sink does not
// count as a failure of the export.
func (e *Exporter) compare(ctx context.Context) error {
	a := e.app
	if due, err := e.due(ctx, compareDuty); err != nil || !due {
		return err
	}
	within, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	done, err := e.compareSinks(within)
	for name, lost := range done.Lost {
		err = errors.Join(err, a.State.Count(ctx, "sink_windows_lost_total", int64(lost), "sink", name))
	}
	for _, problem := range done.Errors {
		a.Log.Warn("sinks and ledger differ", "error", problem)
	}
	if len(done.Lost) > 0 {
		a.Log.Warn("sinks had lost windows", "filled_from_another_sink", done.Filled, "read_again", done.Due)
	}
	switch {
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		a.Log.Warn("sinks compared in part: tomorrow's comparison continues", "error", err)
	case err != nil || len(done.Errors) > 0:
		return err // the next export compares again
	}
	return a.State.SetDone(ctx, compareDuty, a.Now())
}

func (e *Exporter) compareSinks(ctx context.Context) (done verify.Compared, err error) {
	a := e.app
	err = a.WithCopies(func(dir string) (err error) {
		v := verify.Verifier{Ledger: a.State, Sinks: a.Sinks, InSpool: a.InSpool, Dir: dir, Now: a.Now, Log: a.Log}
		done, err = v.Compare(ctx)
		return err
	})
	return done, err
}

// collect deletes superseded rows and files once a day. Readers do not see them, so a
// collection that fails does not fail the export.
func (e *Exporter) collect(ctx context.Context) error {
	a := e.app
	if due, err := e.due(ctx, collectDuty); err != nil || !due {
		return err
	}
	within, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	for _, s := range a.Sinks {
		found, err := sinks.Collect(within, s, false)
		if ctx.Err() != nil {
			return nil // a stop: the next run collects
		}
		if len(found) > 0 {
			a.Log.Info("superseded rows collected", "sink", s.Name(), "attempts", len(found))
		}
		if err != nil {
			a.Log.Warn("superseded rows not collected", "sink", s.Name(), "error", err)
			if within.Err() == nil {
				return nil // the next run tries again
			}
		}
	}
	// A collection that took too long is repeated tomorrow, not by each run.
	return a.State.SetDone(ctx, collectDuty, a.Now())
}
