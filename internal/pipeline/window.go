package pipeline

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
)

// maxReadings is how often a drifting window is read before it is committed
// unverified.
const maxReadings = 3

// window is one window under way.
type window struct {
	*run
	item     schedule.Item
	previous *analytics.Revision
	fetch    *spool.Fetch
	// predictable: no page that does not exist was asked for yet.
	predictable bool
}

// export takes one window through all steps. Its requests end with sending, the
// rest of it with ctx.
func (r *run) export(ctx, sending context.Context, item schedule.Item) error {
	if item.Reason == schedule.ReasonOpen {
		return r.readOpen(sending, item.Key)
	}
	w := &window{run: r, item: item}
	if rev, ok := r.Known(item.Key); ok {
		w.previous = &rev
	}
	fetch, err := r.spool.Begin(item.Key, nextNumber(w.previous), r.cfg.Now(), r.notBefore(item.Window))
	if err != nil {
		return err
	}
	w.fetch, w.predictable = fetch, fetch.Attempt() == 1
	sealed, err := w.read(ctx, sending)
	if err != nil {
		return w.giveUp(err)
	}
	return r.enter(ctx, fetch, sealed, item.Newest)
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

// notBefore is the earliest beginning of a page log worth going on with: a log
// from before a window could settle would only have to be read again.
func (r *run) notBefore(w analytics.Window) time.Time {
	ripe := w.To.Time().Add(r.cfg.Settle)
	if r.cfg.Now().Before(ripe) {
		return time.Time{}
	}
	return ripe
}

// giveUp leaves the page log to the next run; but a reading that took whatever
// came, and then met nonsense, is not one to go on with.
func (w *window) giveUp(err error) error {
	leave := w.fetch.Close
	if w.fetch.Attempt() >= maxReadings && nonsense(err) {
		leave = w.fetch.Discard
	}
	return joinClose(err, leave)
}

func joinClose(err error, leave func() error) error {
	if cerr := leave(); cerr != nil {
		return fmt.Errorf("%w; %w", err, cerr)
	}
	return err
}

// nonsense reports whether the service answered, but not as specified.
func nonsense(err error) bool {
	e, ok := errors.AsType[*docsapi.Error](err)
	return errors.Is(err, errRepeats) || ok && e.Status == http.StatusOK && e.Outcome == docsapi.Permanent
}

// read fetches, verifies and seals the window. On an error the page log stays
// for the next run.
func (w *window) read(ctx, sending context.Context) (*spool.Sealed, error) {
	for {
		sealed, err := w.attempt(ctx, sending, w.fetch.Attempt() >= maxReadings)
		if err == nil || !errors.Is(err, errDrift) {
			return sealed, err
		}
		if err := w.drifted(ctx, err); err != nil {
			return nil, err
		}
	}
}

// drifted begins the window again.
func (w *window) drifted(ctx context.Context, reason error) error {
	w.tell(StepDrift, w.item.Key, 0)
	w.log.Info("window drifted", "window", w.item.Key.String(), "reading", w.fetch.Attempt(), "reason", reason.Error())
	w.count(func(res *Result) { res.Drifted++ })
	if err := w.gauges.Count(ctx, "window_drift_total", 1, "project", w.item.Project); err != nil {
		return err
	}
	return w.fetch.Restart(w.cfg.Now())
}

// attempt is one reading: errDrift unless it is tolerant.
func (w *window) attempt(ctx, sending context.Context, tolerant bool) (*spool.Sealed, error) {
	r := &reading{window: w, pages: newPages(w.fetch), tolerant: tolerant}
	if err := r.all(sending); err != nil {
		return nil, err
	}
	w.tell(StepFetched, w.item.Key, 0)
	sealed, err := w.seal(ctx, r.pages, r.pages.drift == nil || w.item.TotalsOnly)
	if !errors.Is(err, spool.ErrDuplicate) {
		return sealed, err
	}
	if !tolerant {
		return nil, fmt.Errorf("%w: %w", errDrift, err)
	}
	return w.seal(ctx, r.pages, false)
}

// seal waits for its turn; a window that is not at it, or a large one that is in
// the middle of it, when ctx ends is left to the next run, which needs no request
// for it.
func (w *window) seal(ctx context.Context, p *pages, verified bool) (*spool.Sealed, error) {
	w.sealing.Lock()
	defer w.sealing.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return w.spool.Seal(ctx, w.fetch, w.revision(p, verified))
}

// revision describes the reading. Its totals are those of the page at the
// highest offset.
func (w *window) revision(p *pages, verified bool) analytics.Revision {
	rev := analytics.Revision{
		Key:        w.item.Key,
		Number:     nextNumber(w.previous),
		Verified:   verified,
		Totals:     p.newest,
		ExportedAt: w.fetch.Started(),
	}
	before := w.previous
	if w.item.TotalsOnly {
		rev.Rows = analytics.TotalsOnlyRows
	} else if before != nil && before.TotalsOnly() {
		before = nil
	}
	rev.Settled = schedule.Settles(rev.Window, w.cfg.Settle, rev.ExportedAt, verified, before)
	return rev
}

func nextNumber(previous *analytics.Revision) int32 {
	if previous == nil {
		return 1
	}
	return previous.Number + 1
}
