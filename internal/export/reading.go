package export

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
)

// freshPage is a page and when it was requested.
type freshPage struct {
	page      analytics.Page
	requested time.Time
}

// readPages is one reading: it brings every page that is not in the page log yet, up to
// Concurrency at a time. Requests in flight are not cancelled because a page of the same
// window failed: they are paid for, and their pages are kept.
func (w *window) readPages(ctx context.Context) error {
	w.pages, w.fresh = newPages(w.log, w.log.Reading() >= w.maxReadings()), nil
	if w.item.TotalsOnly {
		return w.readTotals(ctx)
	}
	if w.pages.drift != nil && !w.pages.tolerant {
		return w.pages.drift
	}
	if err := w.takeCarried(ctx); err != nil {
		return err
	}
	type answer struct {
		to  query
		got freshPage
		err error
	}
	ahead, answers := w.newAhead(ctx), make(chan answer)
	var failure error
	for {
		for failure == nil && len(ahead.inFlight) < w.e.concurrency() {
			q, ok := ahead.next()
			if !ok {
				break
			}
			go func() {
				page, err := w.ask(ctx, q.offset, q.limit)
				answers <- answer{q, page, err}
			}()
		}
		if len(ahead.inFlight) == 0 {
			return failure
		}
		a := <-answers
		if a.err == nil {
			a.err = w.record(ctx, a.got, a.to.guess)
		}
		ahead.answered(a.to)
		if failure == nil {
			failure = a.err
		}
	}
}

// readTotals requests one row, because the service does not accept 0, and keeps the totals.
// The page that it records announces more rows, so that a later reading of rows that finds it
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
		got, err := w.ask(ctx, 0, 1)
		if err != nil {
			return err
		}
		page = got.page
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
	first, err := w.ask(ctx, offset, analytics.PageRows)
	if err == nil {
		err = w.record(ctx, first, false)
	}
	if err != nil {
		return err
	}
	for _, c := range carried {
		if c.page.Totals != first.page.Totals || c.page.Offset == offset {
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

// ask sends a request when it is this window's turn.
func (w *window) ask(ctx context.Context, offset, limit int) (got freshPage, err error) {
	got.requested = w.e.app.Now()
	if err := w.run.order.wait(ctx, w.turn, w.run.ample); err != nil {
		return got, err
	}
	if ctx.Err() != nil {
		return got, context.Cause(ctx)
	}
	got.page, err = w.e.service.VisitorsPage(ctx, docsapi.VisitorsQuery{
		Project: w.item.Project, Window: w.item.Window, Offset: offset, Limit: limit,
	})
	if err == nil {
		w.run.noteAnswer(w.item.Project)
	}
	return got, err
}

// record puts a page into the page log and verifies it. Drift ends the reading, so that no
// request is spent on the rest of it; a tolerant reading ends only where it would never end by
// itself. A guess that found nothing is recorded too, so that it is not repeated.
func (w *window) record(ctx context.Context, got freshPage, guess bool) error {
	page, info := got.page, infoOf(got.page)
	if err := w.log.Append(page); err != nil {
		return err
	}
	drift := w.pages.add(page.Offset, info)
	if guess && isBeyond(page.Offset, info) {
		w.mispredicted++
		w.observe(StepMispredicted, 0)
		w.e.count(func(s *Summary) { s.Mispredicted++ })
		if err := w.e.ledger.Count(ctx, "pages_mispredicted_total", 1, "project", w.item.Project); err != nil {
			return err
		}
	} else {
		w.observe(StepPage, int64(len(page.Rows)))
	}
	repeats := w.pages.repeats(page)
	switch {
	case w.pages.tolerant:
		return repeats
	case repeats != nil:
		return fmt.Errorf("%w: %w", errDrift, repeats)
	}
	if errors.Is(drift, errMoved) && page.Totals != w.pages.totals {
		w.fresh = append(w.fresh, got)
	}
	return drift
}

func infoOf(page analytics.Page) spool.PageInfo {
	return spool.PageInfo{Rows: len(page.Rows), HasMore: page.HasMore, Totals: page.Totals}
}
