package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

// reading brings the pages of one window. Requests in flight are not cancelled
// because a page of the same window failed: they are paid for, and their pages
// are kept.
type reading struct {
	*window
	pages *pages
	seen  repeats
	// tolerant: the last reading goes through whatever it meets.
	tolerant bool
	// failed keeps the other goroutines from sending more.
	failed atomic.Bool
}

var (
	// errShorter: the window has no page where the prediction expected its last.
	errShorter = errors.New("the window is shorter than predicted")
	// errRepeats ends a reading that would go on for ever.
	errRepeats = errors.New("the service sends the same rows again at another offset")
)

// all brings every page that is not in the page log yet. The page after the
// last is never asked for; with a prediction at most one page is asked for that
// does not exist.
func (r *reading) all(ctx context.Context) error {
	if r.item.TotalsOnly {
		return r.totals(ctx)
	}
	if r.pages.drift != nil && !r.tolerant {
		return r.pages.drift
	}
	if end, known := r.pages.ended(); known {
		return r.ahead(ctx, r.pages.missing(end))
	}
	if n := r.predicted(); n > 1 {
		err := r.from(ctx, (n-1)*pageRows)
		if !errors.Is(err, errShorter) {
			return err
		}
		if err := r.mispredicted(ctx); err != nil {
			return err
		}
	}
	return r.from(ctx, r.pages.next())
}

// predicted returns how many pages to expect, 0 where nothing is to be built on
// it: a window is mispredicted once, not again when it is begun again.
func (r *reading) predicted() int {
	if !r.predictable || r.tolerant || r.pages.highest >= 0 {
		return 0
	}
	return r.Predict(r.item.Key)
}

func (r *reading) mispredicted(ctx context.Context) error {
	r.predictable = false
	r.tell(StepMispredicted, r.item.Key, 0)
	r.count(func(res *Result) { res.Mispredicted++ })
	return r.gauges.Count(ctx, "pages_mispredicted_total", 1, "project", r.item.Project)
}

// totals reads one row, because none cannot be asked for, and keeps the totals.
// The page says that rows follow, so that a reading of rows that finds it in
// the page log does not take the window for an empty one.
func (r *reading) totals(ctx context.Context) error {
	if r.pages.furthest >= 0 {
		return nil
	}
	page, err := r.source.VisitorsPage(ctx, r.query(0, 1))
	if err != nil {
		return err
	}
	page.Rows, page.HasMore = nil, true
	if _, err := r.store(page); err != nil {
		return err
	}
	r.tell(StepPage, r.item.Key, 0)
	return nil
}

func (r *reading) query(offset, limit int) docsapi.VisitorsQuery {
	return docsapi.VisitorsQuery{Project: r.item.Project, Window: r.item.Window, Offset: offset, Limit: limit}
}

// from reads pages one after the other from an offset until there are no more.
// Once the first of them has rows, every page before it exists and is full, and
// the missing ones among them are read at the same time.
func (r *reading) from(ctx context.Context, offset int) error {
	before := r.pages.missing(offset)
	guess := offset > 0 && r.pages.furthest < 0
	var group errgroup.Group
	group.Go(func() error {
		for page, err := range r.source.Visitors(ctx, r.query(offset, pageRows)) {
			if err == nil && guess && page.Offset == offset && len(page.Rows) == 0 && !page.HasMore {
				return r.shorter(page)
			}
			if err = r.take(page, err); err != nil {
				return err
			}
			if page.Offset == offset {
				group.Go(func() error { return r.ahead(ctx, before) })
			}
			if page.HasMore && r.halted() {
				return r.stopped()
			}
		}
		return nil
	})
	return group.Wait()
}

// shorter keeps a page that does not exist, so that it is not asked for again.
func (r *reading) shorter(page analytics.Page) error {
	if _, err := r.store(page); err != nil {
		return err
	}
	return errShorter
}

// halted reports whether no further request is to be sent for this reading.
func (r *reading) halted() bool { return r.failed.Load() || r.stopped() != nil }

// ahead reads pages that are known to exist, several at once.
func (r *reading) ahead(ctx context.Context, offsets []int) error {
	var group errgroup.Group
	group.SetLimit(r.cfg.Concurrency)
	for _, offset := range offsets {
		group.Go(func() error {
			if r.halted() {
				return r.stopped()
			}
			return r.take(r.source.VisitorsPage(ctx, r.query(offset, pageRows)))
		})
	}
	return group.Wait()
}

// take keeps a page that came; after an error no further request is sent.
func (r *reading) take(page analytics.Page, err error) error {
	if err == nil {
		err = r.keep(page)
	}
	if err != nil {
		r.failed.Store(true)
	}
	return err
}

// keep stores a page and ends a reading that has drifted, so that no request is
// spent on the rest of it.
func (r *reading) keep(page analytics.Page) error {
	drift, err := r.store(page)
	if err != nil {
		return err
	}
	r.tell(StepPage, r.item.Key, int64(len(page.Rows)))
	former, again := r.seen.before(page)
	switch {
	case again && r.tolerant:
		return fmt.Errorf("offsets %d and %d: %w", former, page.Offset, errRepeats)
	case again:
		return fmt.Errorf("%w: offsets %d and %d: %w", errDrift, former, page.Offset, errRepeats)
	case r.tolerant:
		return nil
	}
	return drift
}

// store puts a page into the page log, and says whether it fits the others.
func (r *reading) store(page analytics.Page) (drift, err error) {
	if err := r.fetch.Append(page); err != nil {
		return nil, err
	}
	return r.pages.add(page.Offset, spool.PageInfo{Rows: len(page.Rows), HasMore: page.HasMore, Totals: page.Totals}), nil
}
