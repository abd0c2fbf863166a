package cli

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/durable"
	"github.com/docgauge/docgauge/internal/verify"
)

const (
	// compareDuty is the name of the daily comparison in the state.
	compareDuty = "compare"
	// compareEvery is how often an export compares.
	compareEvery = 24 * time.Hour
	// compareTimeout bounds it, with the windows that it copies; the comparison of
	// the next day goes on.
	compareTimeout = 15 * time.Minute
)

// compare holds the sinks' listings against the ledger once a day, so that what a
// sink has lost is filled from another sink, or read again by the next run. What
// is wrong with a sink is no failure of the export.
func (r *runner) compare(ctx context.Context) error {
	last, err := r.db.LastDone(ctx, compareDuty)
	if err != nil {
		return err
	}
	// A time in the future is that of a clock that was wrong.
	if age := r.now().Sub(last); age >= 0 && age < compareEvery {
		return nil
	}
	within, cancel := context.WithTimeout(ctx, compareTimeout)
	defer cancel()
	done, err := r.compared(within)
	for name, lost := range done.Lost {
		err = errors.Join(err, r.db.Count(ctx, "sink_windows_lost_total", int64(lost), "sink", name))
	}
	for _, problem := range done.Errors {
		r.log.Warn("sinks and ledger differ", "error", problem)
	}
	if len(done.Lost) > 0 {
		r.log.Warn("sinks had lost windows", "filled_from_another_sink", done.Filled, "read_again", done.Due)
	}
	switch {
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		r.log.Warn("sinks compared in part: tomorrow's comparison goes on", "error", err)
	case err != nil || len(done.Errors) > 0:
		return err // the next export compares again
	}
	return r.db.SetDone(ctx, compareDuty, r.now())
}

func (r *runner) compared(ctx context.Context) (done verify.Compared, err error) {
	held, err := heldBy(ctx, r.spool)
	if err != nil {
		return done, err
	}
	temp, err := durable.NewTemp(r.StateDir, tempCopy)
	if err != nil {
		return done, err
	}
	defer func() { err = errors.Join(err, temp.Remove()) }()
	c := verify.Comparison{Book: bookOf{r.db}, Sinks: r.stores, Held: held, Dir: temp.Path, Now: r.now, Log: r.log}
	return c.Run(ctx)
}
