package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// replaceTimeout bounds one sink's commit of one window.
	replaceTimeout = 10 * time.Minute
	// grace is how long a commit that is under way may go on after SIGTERM.
	grace = 8 * time.Second
)

// export takes one window through all steps.
func (r *run) export(ctx context.Context, item schedule.Item) error {
	if item.Reason == schedule.ReasonOpen {
		return r.readOpen(ctx, item.Key)
	}
	w := &window{run: r, item: item}
	if rev, ok := r.Known(item.Key); ok {
		w.previous = &rev
	}
	fetch, err := r.spool.Begin(item.Key, nextNumber(w.previous), r.cfg.Now(), r.notBefore(item.Window))
	if err != nil {
		return err
	}
	w.fetch = fetch
	sealed, requests, err := w.read(ctx)
	r.count(func(res *Result) { res.Drifted += fetch.Attempt() - 1; res.Mispredicted += w.wasted })
	if err != nil {
		return joinClose(err, fetch)
	}
	return r.enter(ctx, fetch, sealed, requests)
}

func joinClose(err error, fetch *spool.Fetch) error {
	if cerr := fetch.Close(); cerr != nil {
		return fmt.Errorf("%w; %w", err, cerr)
	}
	return err
}

// notBefore is the earliest beginning of a page log worth going on with: a log
// from before a window could settle would only have to be read again.
func (r *run) notBefore(w analytics.Window) time.Time {
	ripe := w.To.Time().Add(r.cfg.Settle)
	if r.cfg.Now().Before(ripe) {
		return time.Time{}
	}
	return ripe
}

// enter records a sealed window and delivers it.
func (r *run) enter(ctx context.Context, fetch *spool.Fetch, sealed *spool.Sealed, requests int) error {
	ctx, cancel := lingering(ctx)
	defer cancel()
	rev := sealed.Revision()
	r.tell(StepSealed, rev.Key, rev.Rows)
	if err := r.ledger.Record(ctx, rev, requests, r.sinkNames()); err != nil {
		return joinClose(err, fetch)
	}
	r.tell(StepRecorded, rev.Key, rev.Rows)
	if err := fetch.Discard(); err != nil {
		return err
	}
	failures := r.deliver(ctx, sealed, r.sinks)
	r.count(func(res *Result) {
		res.Rows += max(rev.Rows, 0)
		res.Errors = append(res.Errors, failures...)
	})
	return r.settleSpool(sealed, len(failures) == 0 && !r.anyDown())
}

// settleSpool takes a window out of the spool when every sink has it.
func (r *run) settleSpool(sealed *spool.Sealed, everywhere bool) error {
	if !everywhere {
		r.count(func(res *Result) { res.Waiting++ })
		return nil
	}
	if err := r.spool.Remove(sealed); err != nil {
		return err
	}
	r.tell(StepDone, sealed.Revision().Key, max(sealed.Revision().Rows, 0))
	r.count(func(res *Result) { res.Committed++ })
	return nil
}

// lingering returns a context that outlives ctx's end by the grace time, so
// that a commit under way is finished rather than cut.
func lingering(ctx context.Context) (context.Context, context.CancelFunc) {
	long, cancel := context.WithTimeout(context.WithoutCancel(ctx), replaceTimeout)
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return long, func() { stop(); cancel() }
}

// deliver hands the window to each of the sinks that is not down. A sink that
// fails is down for the rest of the run; the window waits for it in the spool.
func (p *Pipeline) deliver(ctx context.Context, w *spool.Sealed, to []sinks.Sink) []error {
	var failures []error
	rev := w.Revision()
	for _, sink := range to {
		if p.isDown(sink.Name()) {
			continue
		}
		if err := p.commit(ctx, w, sink); err != nil {
			failures = append(failures, fmt.Errorf("%s sink: %s revision %d: %w (it waits in the spool for the next run)", sink.Name(), rev.Key, rev.Number, err))
			p.markDown(ctx, sink.Name(), err)
		}
	}
	return failures
}

func (p *Pipeline) commit(ctx context.Context, w *spool.Sealed, sink sinks.Sink) error {
	rev := w.Revision()
	if err := sink.Replace(ctx, w); err != nil {
		return err
	}
	p.cfg.Observe(Event{Step: StepReplaced, Key: rev.Key, Rows: rev.Rows, Sink: sink.Name()})
	if err := p.ledger.Committed(ctx, rev, sink.Name(), p.cfg.Now()); err != nil {
		return err
	}
	p.cfg.Observe(Event{Step: StepCommitted, Key: rev.Key, Rows: rev.Rows, Sink: sink.Name()})
	return nil
}

func (p *Pipeline) isDown(sink string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.down[sink] != nil
}

func (p *Pipeline) anyDown() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.down) > 0
}

func (p *Pipeline) markDown(ctx context.Context, sink string, cause error) {
	p.mu.Lock()
	p.down[sink] = cause
	p.mu.Unlock()
	if err := p.gauges.Count(ctx, "sink_failures_total", 1, "sink", sink); err != nil {
		p.cfg.Logger.Error("sink failure not counted", "sink", sink, "error", err)
	}
}

// readOpen reads the totals of a running window, for the gauges alone.
func (r *run) readOpen(ctx context.Context, k analytics.Key) error {
	at := r.cfg.Now()
	page, err := r.source.VisitorsPage(ctx, docsapi.VisitorsQuery{Project: k.Project, Window: k.Window, Limit: 1})
	if err != nil {
		return err
	}
	if err := r.gauges.SetOpen(ctx, k, page.Totals, at); err != nil {
		return err
	}
	r.tell(StepOpen, k, 0)
	r.count(func(res *Result) { res.Open++ })
	return nil
}
