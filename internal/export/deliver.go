package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// commitTimeout bounds what is done with one window after it was sealed.
	commitTimeout = 10 * time.Minute
	// grace is how long a commit that is under way may go on after SIGTERM.
	grace = 8 * time.Second
)

// enter records a sealed window and delivers it.
func (r *run) enter(ctx context.Context, fetch *spool.Fetch, sealed *spool.Sealed, prov analytics.Provenance, newest bool) error {
	ctx, cancel := clock.Outlive(ctx, grace, commitTimeout)
	defer cancel()
	rev := sealed.Revision()
	r.p.tell(StepSealed, rev.Key, rev.Rows)
	if err := fetch.Discard(); err != nil {
		return err
	}
	prov.Checksum = sealed.Checksum()
	if err := r.p.ledger.Record(ctx, rev, prov, r.p.sinkNames()); err != nil {
		return err
	}
	r.p.tell(StepRecorded, rev.Key, rev.Rows)
	if newest {
		if err := r.p.keepPages(ctx, sealed); err != nil {
			return err
		}
	}
	everywhere, failures, err := r.p.deliver(ctx, sealed, r.p.sinks)
	r.count(func(res *Result) {
		res.Rows += max(rev.Rows, 0)
		if !rev.Verified {
			res.Unverified++
		}
		res.MovedRows += prov.MovedRows
		res.RepeatedRows += prov.RepeatedRows
		res.Errors = append(res.Errors, failures...)
	})
	if err != nil {
		return err
	}
	return r.settleSpool(sealed, everywhere)
}

// keepPages keeps the largest pages of a window for the gauges. A crash before
// it leaves them to whoever shows them: the sinks have them too.
func (p *Pipeline) keepPages(ctx context.Context, sealed *spool.Sealed) error {
	if sealed.Revision().TotalsOnly() {
		return nil
	}
	pages, err := analytics.Top(sealed.Rows(), p.cfg.TopPages)
	if err != nil {
		return err
	}
	return p.gauges.SetPages(ctx, sealed.Revision(), pages)
}

// settleSpool takes a window out of the spool when every sink has it.
func (r *run) settleSpool(sealed *spool.Sealed, everywhere bool) error {
	if !everywhere {
		r.count(func(res *Result) { res.Waiting++ })
		return nil
	}
	if err := r.p.spool.Remove(sealed); err != nil {
		return err
	}
	r.p.tell(StepDone, sealed.Revision().Key, max(sealed.Revision().Rows, 0))
	r.count(func(res *Result) { res.Committed++ })
	return nil
}

// deliver hands the window to each of the sinks that is not down, and reports
// whether all of them have it. A sink that fails is down for the rest of the
// run; the window waits for it in the spool. Another error is of the ledger.
func (p *Pipeline) deliver(ctx context.Context, w *spool.Sealed, to []sinks.Sink) (everywhere bool, failures []error, err error) {
	everywhere = true
	rev := w.Revision()
	for _, sink := range to {
		if p.isDown(sink.Name()) {
			everywhere = false
			continue
		}
		err := sink.Replace(ctx, w)
		if errors.Is(err, spool.ErrDamaged) {
			// No fault of the sink: nobody is given this file, and its window is due again.
			failures = append(failures, fmt.Errorf("%s revision %d: %w (it is put aside, and the window is read again unless a sink has it)", rev.Key, rev.Number, err))
			return false, failures, p.spool.PutAside(w)
		}
		if err != nil {
			everywhere = false
			failures = append(failures, fmt.Errorf("%s sink: %s revision %d: %w (it waits in the spool for the next run)", sink.Name(), rev.Key, rev.Number, err))
			p.markDown(ctx, sink.Name())
			continue
		}
		if err := p.note(ctx, w, sink.Name()); err != nil {
			return false, failures, err
		}
	}
	return everywhere, failures, nil
}

// note enters a sink's commit in the ledger.
func (p *Pipeline) note(ctx context.Context, w *spool.Sealed, sink string) error {
	rev := w.Revision()
	p.cfg.Observe(Event{Step: StepReplaced, Key: rev.Key, Rows: rev.Rows, Sink: sink})
	if err := p.ledger.Committed(ctx, rev, sink, p.cfg.Now()); err != nil {
		return err
	}
	p.cfg.Observe(Event{Step: StepCommitted, Key: rev.Key, Rows: rev.Rows, Sink: sink})
	return nil
}

func (p *Pipeline) isDown(sink string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down[sink]
}

func (p *Pipeline) markDown(ctx context.Context, sink string) {
	p.mu.Lock()
	p.down[sink] = true
	p.mu.Unlock()
	if err := p.gauges.Count(ctx, "sink_failures_total", 1, "sink", sink); err != nil {
		p.cfg.Logger.Error("sink failure not counted", "sink", sink, "error", err)
	}
}
