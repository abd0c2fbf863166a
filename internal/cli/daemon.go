package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// publishEvery is how old a snapshot becomes where nothing is committed: what
	// is due and what the budget has left change by themselves.
	publishEvery = time.Minute
	// publishRest is the least time between two snapshots, and publishShare how
	// many times as long as making one the rest lasts at least.
	publishRest  = time.Second
	publishShare = 20
	// runGrace is how long a run may take to end: with the commits it finishes and
	// the requests being answered a stop takes less than half a minute.
	runGrace = 20 * time.Second
)

// publishing makes a snapshot after each commit and every minute. It ends with
// an error where the state is lost, for nothing can be kept then.
func (d *daemon) publishing(ctx context.Context) error {
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
		if sleep(ctx, max(publishRest, publishShare*time.Since(began))) != nil {
			return nil
		}
	}
}

// publish shows what the state says now. After an error the former values stay.
func (d *daemon) publish(ctx context.Context) error {
	err := errors.Join(d.db.Present(), d.api.meter.flush(ctx, d.db))
	if err == nil {
		err = d.show(ctx)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the stop cut it short
	}
	d.health.setState(err)
	if err != nil {
		d.log.Error("metrics not renewed", "error", err)
	}
	return err
}

func (d *daemon) show(ctx context.Context) error {
	from := d.snapshots()
	if d.queue != nil {
		from.prompts = d.queue.standing
	}
	snapshot, err := from.read(ctx)
	if err != nil {
		return err
	}
	snapshot.NextRun = d.Schedule.Next(d.now())
	for i := range snapshot.Sinks {
		snapshot.Sinks[i].Problem = d.health.sink(snapshot.Sinks[i].Name)
	}
	d.values.Publish(snapshot)
	return nil
}

// keyChanged shows that the key is not refused: nobody has asked with the new one.
func (d *daemon) keyChanged() { poke(d.changed) }

// schedule fills a new ledger from the sinks, and exports at each firing until
// ctx ends. It returns when the last run has ended.
func (d *daemon) schedule(ctx context.Context, once bool) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	return d.Schedule.Run(ctx, schedule.Runs{
		Do: d.export, AtStart: once, Deadline: time.Duration(d.RunTimeout), Grace: runGrace, Logger: d.log,
	})
}

// prepare makes sure that gauges are there before the first run.
func (d *daemon) prepare(ctx context.Context) error {
	_, err := restoreNew(ctx, d.db, d.stores, d.log)
	switch {
	case errors.Is(err, sinks.ErrNotListed):
		d.log.Error("ledger not read back", "error", err) // each run tries again
	case err != nil && ctx.Err() == nil:
		return err
	}
	if err := d.fillPages(ctx); err != nil && ctx.Err() == nil {
		return err
	}
	poke(d.changed)
	return nil
}

// export is one firing of the schedule.
func (d *daemon) export(ctx context.Context) {
	d.health.begin(d.now())
	defer func() {
		d.health.end()
		poke(d.changed)
		poke(d.recheck)
	}()
	d.progress.reset()
	if err := d.db.Present(); err != nil {
		return // publishing ends the process
	}
	poke(d.changed)
	d.api.budget.Renew()
	s, err := d.run(ctx, &selection{}, runOptions{})
	for _, text := range s.Errors {
		d.log.Error("export", "error", text)
	}
	for _, text := range s.Warnings {
		d.log.Warn("window set aside", "error", text)
	}
	if err != nil {
		d.log.Error("run not entered in the state", "error", err)
	}
	d.log.Info("export ended", "outcome", s.Outcome, "windows", s.Committed, "rows", s.Rows, "requests", s.Requests,
		"windows_left", s.Left, "took", fmt.Sprintf("%.1fs", s.seconds))
	poke(d.changed)
	if err := d.follow(ctx, s); err != nil {
		d.log.Error("after the export", "error", err)
	}
}
