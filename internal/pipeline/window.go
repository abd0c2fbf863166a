package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
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
	// wasted counts pages asked for that do not exist.
	wasted int
}

// read fetches, verifies and seals the window, and returns the requests it
// took. On an error the page log stays for the next run.
func (w *window) read(ctx context.Context) (*spool.Sealed, int, error) {
	for {
		sealed, err := w.attempt(ctx, w.fetch.Attempt() >= maxReadings)
		if err == nil || !errors.Is(err, errDrift) {
			return sealed, w.fetch.Requests() + w.wasted, err
		}
		w.tell(StepDrift, w.item.Key, 0)
		w.log.Info("window drifted", "window", w.item.Key.String(), "reading", w.fetch.Attempt(), "reason", err.Error())
		if err := w.gauges.Count(ctx, "window_drift_total", 1, "project", w.item.Project); err != nil {
			return nil, 0, err
		}
		if err := w.fetch.Restart(w.cfg.Now()); err != nil {
			return nil, 0, err
		}
	}
}

// attempt is one reading: errDrift unless it is tolerant.
func (w *window) attempt(ctx context.Context, tolerant bool) (*spool.Sealed, error) {
	r := &reading{window: w, pages: newPages(w.fetch.Pages()), tolerant: tolerant}
	if err := r.all(ctx); err != nil {
		return nil, err
	}
	w.tell(StepFetched, w.item.Key, 0)
	sealed, err := w.seal(r.pages, r.pages.drift == nil)
	if !errors.Is(err, spool.ErrDuplicate) {
		return sealed, err
	}
	if !tolerant {
		return nil, fmt.Errorf("%w: %w", errDrift, err)
	}
	return w.seal(r.pages, false)
}

func (w *window) seal(p *pages, verified bool) (*spool.Sealed, error) {
	w.sealing.Lock()
	defer w.sealing.Unlock()
	return w.spool.Seal(w.fetch, w.revision(p, verified))
}

// revision describes the reading. Its totals are those of the furthest page.
func (w *window) revision(p *pages, verified bool) analytics.Revision {
	rev := analytics.Revision{
		Key:        w.item.Key,
		Number:     nextNumber(w.previous),
		Verified:   verified,
		Totals:     p.furthestTotals,
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
