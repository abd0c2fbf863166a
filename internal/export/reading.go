package export

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

// reading brings the pages of one window. Requests in flight are not cancelled
// because a page of the same window failed: they are paid for, and their pages
// are kept.
type reading struct {
	w     *window
	pages *pages
	// tolerant: the last reading goes through whatever it meets.
	tolerant bool
	// failed keeps the other goroutines from sending more.
	failed atomic.Bool

	mu sync.Mutex
	// fresh are the pages that ended the reading because their totals were not
	// those of the pages before: they are of the window as it is now.
	fresh []carried
}

// carried is a page that is of use to the next reading.
type carried struct {
	page  analytics.Page
	asked time.Time // before its request
}

// all brings every page that is not in the page log yet. The page after the last
// is never asked for; with a prediction at most one page is asked for that does
// not exist.
//
// What surely exists is asked for at once: everything before the furthest page
// with rows. Behind that page one follows the other, each where the rows of the
// former end. What is missing after that, because pages had fewer rows than
// expected, is asked for one by one.
func (r *reading) all(ctx context.Context) error {
	if r.w.item.TotalsOnly {
		return r.totals(ctx)
	}
	if r.pages.drift != nil && !r.tolerant {
		return r.pages.drift
	}
	if err := r.takeCarried(ctx); err != nil {
		return err
	}
	size := r.w.run.work.Sizes.PerPage(r.w.item.Project)
	if r.pages.size > 0 {
		size = r.pages.size
	}
	if n := r.predicted(ctx); n > 1 {
		if err := r.last(ctx, (n-1)*size, size); err != nil {
			return err
		}
	}
	furthest, after, more := r.pages.state()
	var group errgroup.Group
	group.Go(func() error { return r.ahead(ctx, r.pages.missing(furthest, size), size) })
	group.Go(func() error {
		for more {
			page, err := r.take(ctx, after, pageRows)
			if err != nil {
				return err
			}
			after, more = after+span(infoOf(page)), page.HasMore
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	for {
		offset, limit, missing := r.pages.hole()
		if !missing {
			return nil
		}
		if _, err := r.take(ctx, offset, limit); err != nil {
			return err
		}
	}
}

// totals reads one row, because none cannot be asked for, and keeps the totals.
// The page says that rows follow, so that a reading of rows that finds it in
// the page log does not take the window for an empty one.
func (r *reading) totals(ctx context.Context) error {
	if r.pages.furthest >= 0 {
		return nil
	}
	var page analytics.Page
	if carried := r.w.carried; len(carried) > 0 {
		page = carried[len(carried)-1].page
		page.Offset = 0
	} else {
		var err error
		if page, err = r.ask(ctx, 0, 1); err != nil {
			return err
		}
	}
	page.Rows, page.HasMore = nil, true
	if _, err := r.store(page); err != nil {
		return err
	}
	r.w.run.p.tell(StepPage, r.w.item.Key, 0)
	return nil
}

// takeCarried begins with a page that is not among those that ended the former
// reading. If its totals are theirs, they are pages of this reading; else the
// window has moved on, and they are of no more use.
func (r *reading) takeCarried(ctx context.Context) error {
	pages := r.w.carried
	r.w.carried = nil
	if len(pages) == 0 || r.pages.highest >= 0 {
		return nil
	}
	offset := 0
	for _, c := range pages {
		if c.page.Offset == offset {
			if offset += len(c.page.Rows); !c.page.HasMore {
				offset = 0 // it is the whole window
			}
			break
		}
	}
	first, err := r.take(ctx, offset, pageRows)
	if err != nil {
		return err
	}
	for _, c := range pages {
		if c.page.Totals != first.Totals || c.page.Offset == offset {
			continue
		}
		if err := r.w.fetch.AppendAgain(c.page); err != nil {
			return err
		}
		if drift := r.pages.add(c.page.Offset, infoOf(c.page)); drift != nil && !r.tolerant {
			return drift
		}
	}
	return nil
}

// predicted returns how many pages to expect, 0 where nothing is to be built on
// it: a window is mispredicted once, not again when it is begun again.
func (r *reading) predicted(ctx context.Context) int {
	if !r.w.predictable || r.tolerant || r.pages.highest >= 0 {
		return 0
	}
	_, limited := r.w.run.free(ctx)
	return r.w.run.work.Sizes.Surely(r.w.item.Key, limited)
}

// last asks for the page that is expected to be the last one. Where it does not
// exist it is kept, so that it is not asked for again.
func (r *reading) last(ctx context.Context, offset, limit int) error {
	page, err := r.ask(ctx, offset, limit)
	switch {
	case err != nil:
		r.failed.Store(true)
		return err
	case len(page.Rows) > 0 || page.HasMore:
		return r.keep(page, r.w.run.p.cfg.Now())
	}
	if _, err := r.store(page); err != nil {
		return err
	}
	r.w.predictable = false
	r.w.run.p.tell(StepMispredicted, r.w.item.Key, 0)
	r.w.run.count(func(res *Result) { res.Mispredicted++ })
	return r.w.run.p.gauges.Count(ctx, "pages_mispredicted_total", 1, "project", r.w.item.Project)
}

// ahead reads pages that are known to exist, several at once.
func (r *reading) ahead(ctx context.Context, offsets []int, limit int) error {
	var group errgroup.Group
	group.SetLimit(r.w.run.p.cfg.Concurrency)
	for _, offset := range offsets {
		group.Go(func() error {
			if r.failed.Load() {
				return nil // another one says why
			}
			_, err := r.take(ctx, offset, limit)
			return err
		})
	}
	return group.Wait()
}

// take asks for a page and keeps it; after an error no further request is sent
// for this reading.
func (r *reading) take(ctx context.Context, offset, limit int) (analytics.Page, error) {
	asked := r.w.run.p.cfg.Now()
	page, err := r.ask(ctx, offset, limit)
	if err == nil {
		err = r.keep(page, asked)
	}
	if err != nil {
		r.failed.Store(true)
	}
	return page, err
}

// ask sends a request when it is this window's turn.
func (r *reading) ask(ctx context.Context, offset, limit int) (analytics.Page, error) {
	if err := r.w.run.order.wait(ctx, r.w.place, r.w.run.ample); err != nil {
		return analytics.Page{}, err
	}
	if err := r.w.run.stopped(); err != nil {
		return analytics.Page{}, err
	}
	page, err := r.w.run.p.source.VisitorsPage(ctx, docsapi.VisitorsQuery{
		Project: r.w.item.Project, Window: r.w.item.Window, Offset: offset, Limit: limit,
	})
	if err == nil {
		r.w.run.wentWell(r.w.item.Project)
	}
	return page, err
}

// keep stores a page and ends a reading that has drifted, so that no request is
// spent on the rest of it.
func (r *reading) keep(page analytics.Page, asked time.Time) error {
	drift, err := r.store(page)
	if err != nil {
		return err
	}
	r.w.run.p.tell(StepPage, r.w.item.Key, int64(len(page.Rows)))
	former, again := r.pages.repeats(page)
	switch {
	case again && r.tolerant:
		return fmt.Errorf("offsets %d and %d: %w", former, page.Offset, errRepeats)
	case again:
		return fmt.Errorf("%w: offsets %d and %d: %w", errDrift, former, page.Offset, errRepeats)
	case r.tolerant && r.pages.hollow > 1:
		return fmt.Errorf("offset %d: a second empty page that says that more follow: %w", page.Offset, errRepeats)
	case r.tolerant:
		return nil
	}
	if errors.Is(drift, errMoved) && page.Totals != r.pages.totals {
		r.mu.Lock()
		r.fresh = append(r.fresh, carried{page, asked})
		r.mu.Unlock()
	}
	return drift
}

// store puts a page into the page log, and says whether it fits the others.
func (r *reading) store(page analytics.Page) (drift, err error) {
	if err := r.w.fetch.Append(page); err != nil {
		return nil, err
	}
	return r.pages.add(page.Offset, infoOf(page)), nil
}

func infoOf(page analytics.Page) spool.PageInfo {
	return spool.PageInfo{Rows: len(page.Rows), HasMore: page.HasMore, Totals: page.Totals}
}
