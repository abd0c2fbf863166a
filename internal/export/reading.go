package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

// freshPage is a page that is of use to the next reading.
type freshPage struct {
	page      analytics.Page
	requested time.Time // before its request
}

// readPages is one reading: it brings every page that is not in the page log yet. The
// page after the last is never requested; with a prediction at most one page is requested
// that does not exist. Requests in flight are not cancelled because a page of the same
// window failed: they are paid for, and their pages are kept.
func (w *window) readPages(ctx context.Context) error {
	w.pages, w.fresh = newPages(w.log, w.log.Reading() >= w.maxReadings()), nil
	w.failed.Store(false)
	w.inFlight = make(chan struct{}, w.p.cfg.Concurrency)
	if w.item.TotalsOnly {
		return w.readTotals(ctx)
	}
	if w.pages.drift != nil && !w.pages.tolerant {
		return w.pages.drift
	}
	if err := w.takeCarried(ctx); err != nil {
		return err
	}
	size := w.run.work.Sizes.PerPage(w.item.Project)
	if w.pages.size > 0 {
		size = w.pages.size
	}
	// A window is mispredicted once, not again when it is started over.
	if w.predictable && !w.pages.tolerant && w.pages.highest < 0 {
		_, limited := w.run.free(ctx)
		if n := w.run.work.Sizes.Surely(w.item.Key, limited); n > 1 {
			if err := w.readLast(ctx, (n-1)*size, size); err != nil {
				return err
			}
		}
	}
	// What surely exists is requested at once: everything before the furthest page with
	// rows. Behind that page one follows the other, each where the rows of the page
	// before it end.
	furthest, next, more := w.pages.end()
	var group, before errgroup.Group
	before.SetLimit(w.p.cfg.Concurrency)
	group.Go(func() error {
		for _, offset := range w.pages.missing(furthest, size) {
			before.Go(func() error {
				_, err := w.fetch(ctx, offset, size)
				return unlessEnded(err)
			})
		}
		return before.Wait()
	})
	group.Go(func() error {
		for more {
			page, err := w.fetch(ctx, next, analytics.PageRows)
			if err != nil {
				return unlessEnded(err)
			}
			next, more = next+covers(infoOf(page)), page.HasMore
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		return err
	}
	// What is missing now, because pages had fewer rows than expected, comes one by one.
	for {
		offset, limit, missing := w.pages.firstMissing()
		if !missing {
			return nil
		}
		if _, err := w.fetch(ctx, offset, limit); err != nil {
			return err
		}
	}
}

// readTotals requests one row, because none cannot be requested, and keeps the totals.
// The page it records says that rows follow, so that a later reading of rows that finds it
// in the page log does not take the window for an empty one.
func (w *window) readTotals(ctx context.Context) error {
	if w.pages.furthest >= 0 {
		return nil
	}
	var page analytics.Page
	if n := len(w.carried); n > 0 {
		page = w.carried[n-1].page
		page.Offset = 0
	} else {
		var err error
		if page, err = w.ask(ctx, 0, 1); err != nil {
			return err
		}
	}
	page.Rows, page.HasMore = nil, true
	if err := w.log.Append(page); err != nil {
		return err
	}
	_ = w.pages.add(page.Offset, infoOf(page)) // totals alone cannot drift
	w.observe(StepPage, 0)
	return nil
}

// takeCarried requests first a page that is not among those that ended the former
// reading. If it has their totals, they are pages of this reading too; otherwise the
// window has moved on, and they are useless.
func (w *window) takeCarried(ctx context.Context) error {
	carried := w.carried
	w.carried = nil
	if len(carried) == 0 || w.pages.highest >= 0 {
		return nil
	}
	offset := 0
	for _, c := range carried {
		if c.page.Offset == offset {
			if offset += len(c.page.Rows); !c.page.HasMore {
				offset = 0 // it is the whole window
			}
			break
		}
	}
	first, err := w.fetch(ctx, offset, analytics.PageRows)
	if err != nil {
		return err
	}
	for _, c := range carried {
		if c.page.Totals != first.Totals || c.page.Offset == offset {
			continue
		}
		if err := w.log.AppendAgain(c.page); err != nil {
			return err
		}
		if drift := w.pages.add(c.page.Offset, infoOf(c.page)); drift != nil && !w.pages.tolerant {
			return drift
		}
	}
	return nil
}

// readLast requests the page that is expected to be the last one. If it does not exist,
// that is recorded, so that it is not requested again.
func (w *window) readLast(ctx context.Context, offset, limit int) error {
	page, err := w.ask(ctx, offset, limit)
	if err != nil {
		return err
	}
	if len(page.Rows) > 0 || page.HasMore {
		return w.record(page, w.p.cfg.Now())
	}
	if err := w.log.Append(page); err != nil {
		return err
	}
	_ = w.pages.add(page.Offset, infoOf(page)) // an only page cannot drift
	w.predictable = false
	w.observe(StepMispredicted, 0)
	w.run.locked(func() { w.run.result.Mispredicted++ })
	return w.p.gauges.Count(ctx, "pages_mispredicted_total", 1, "project", w.item.Project)
}

// errEnded means that another request of the reading failed, so that this one was not
// sent.
var errEnded = errors.New("another request of the reading failed")

// unlessEnded returns err, or nil if another goroutine has the error.
func unlessEnded(err error) error {
	if errors.Is(err, errEnded) {
		return nil
	}
	return err
}

// fetch requests a page and records it, as one of at most Concurrency of its window.
// After an error this reading sends no further request: the error is errEnded.
func (w *window) fetch(ctx context.Context, offset, limit int) (analytics.Page, error) {
	w.inFlight <- struct{}{}
	defer func() { <-w.inFlight }()
	if w.failed.Load() {
		return analytics.Page{}, errEnded
	}
	requested := w.p.cfg.Now()
	page, err := w.ask(ctx, offset, limit)
	if err == nil {
		err = w.record(page, requested)
	}
	if err != nil {
		w.failed.Store(true)
	}
	return page, err
}

// ask sends a request when it is this window's turn.
func (w *window) ask(ctx context.Context, offset, limit int) (analytics.Page, error) {
	if err := w.run.order.wait(ctx, w.turn, w.run.ample); err != nil {
		return analytics.Page{}, err
	}
	if ctx.Err() != nil {
		return analytics.Page{}, context.Cause(ctx)
	}
	page, err := w.p.source.VisitorsPage(ctx, docsapi.VisitorsQuery{
		Project: w.item.Project, Window: w.item.Window, Offset: offset, Limit: limit,
	})
	if err == nil {
		w.run.noteAnswer(w.item.Project)
	}
	return page, err
}

// record puts a page into the page log and verifies it. Drift ends the reading, so that no
// request is spent on the rest of it; a tolerant reading ends only where it would go on for
// ever.
func (w *window) record(page analytics.Page, requested time.Time) error {
	if err := w.log.Append(page); err != nil {
		return err
	}
	drift := w.pages.add(page.Offset, infoOf(page))
	w.observe(StepPage, int64(len(page.Rows)))
	repeats := w.pages.repeats(page)
	switch {
	case w.pages.tolerant:
		return repeats
	case repeats != nil:
		return fmt.Errorf("%w: %w", errDrift, repeats)
	}
	if errors.Is(drift, errMoved) && page.Totals != w.pages.totals {
		w.mu.Lock()
		w.fresh = append(w.fresh, freshPage{page, requested})
		w.mu.Unlock()
	}
	return drift
}

func infoOf(page analytics.Page) spool.PageInfo {
	return spool.PageInfo{Rows: len(page.Rows), HasMore: page.HasMore, Totals: page.Totals}
}
