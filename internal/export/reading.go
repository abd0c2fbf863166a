package export

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
)

// freshPage is a page and when it was requested.
type freshPage struct {
	page      page
	requested time.Time
}

// page is a page of a report, as the service sent it.
type page struct {
	analytics.Page
	shape *analytics.Shape
}

func (p page) info() spool.PageInfo { return spool.InfoOf(p.shape, p.Page) }

// alone is a page of the same totals, at the first offset, without the rows that it announces.
func (p page) alone() page {
	return page{analytics.Page{Totals: p.Totals, Site: p.Site, Humans: p.Humans, HasMore: true}, p.shape}
}

// names writes what tells each row from the others of its window.
func (p page) names(to *maphash.Hash) {
	var row analytics.Record
	fields := p.shape.Fields(&row)
	for _, row = range p.Rows {
		for _, text := range fields.Texts {
			to.WriteString(*text)
			to.WriteByte(0)
		}
		for _, truth := range fields.Truths {
			maphash.WriteComparable(to, *truth)
		}
	}
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
		switch e, ok := errors.AsType[*docsapi.Error](a.err); {
		case a.err == nil:
			a.err = w.record(ctx, a.got, a.to.guess)
		case a.to.guess && w.pages.highest >= 0 && ok && e.Status >= http.StatusBadRequest && e.Outcome == docsapi.Permanent &&
			!docsapi.IsUnauthorized(a.err):
			// Some services refuse an offset beyond the end. Of a window without a page they may refuse all.
			w.pages.beyond = min(w.pages.beyond, a.to.offset)
			w.log.Also()
			a.err = w.foundNothing(ctx)
		case errors.Is(a.err, errNoPage) && !a.to.guess && !w.pages.tolerant:
			a.err = fmt.Errorf("%w: %w", errDrift, a.err)
		}
		delete(ahead.inFlight, a.to.offset)
		ahead.guessing = ahead.guessing && !a.to.guess
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
	var got freshPage
	if n := len(w.carried); n > 0 {
		got = w.carried[n-1]
	} else {
		var err error
		if got, err = w.ask(ctx, 0, 1); err != nil {
			return err
		}
	}
	totals := got.page.alone()
	if err := w.log.Append(totals.Page); err != nil {
		return err
	}
	_ = w.pages.add(totals.Offset, totals.info()) // totals alone cannot drift
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
		if info := c.page.info(); c.page.Offset == offset {
			if offset += info.Rows; !info.HasMore {
				offset = 0 // it is the whole window
			}
			break
		}
	}
	first, err := w.ask(ctx, offset, w.run.work.Sizes.PerPage(schedule.SourceOf(w.item.Key)))
	if err == nil {
		err = w.record(ctx, first, false)
	}
	if err != nil {
		return err
	}
	for _, c := range carried {
		if c.page.info().Site != first.page.info().Site || c.page.Offset == offset {
			continue
		}
		if err := w.log.Append(c.page.Page); err != nil {
			return err
		}
		w.log.Again()
		if drift := w.pages.add(c.page.Offset, c.page.info()); drift != nil && !w.pages.tolerant {
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
	got.page.shape = w.item.Report.Shape()
	got.page.Page, err = w.e.service.Page(ctx, docsapi.PageQuery{
		Report: w.item.Report, Project: w.item.Project, Window: w.item.Window, Offset: offset, Limit: limit,
	})
	if e, ok := errors.AsType[*docsapi.Error](err); ok && e.Status == http.StatusNotFound && offset > 0 {
		err = fmt.Errorf("%w: %w", errNoPage, err)
	}
	if err != nil {
		return got, err
	}
	from := got.page.DataFrom
	w.run.noteDataFrom(ctx, w.item.Project, from)
	w.run.noteAnswer(ctx, schedule.SourceOf(w.item.Key))
	if from != nil && w.item.IsEarly(*from) {
		return got, errEarly
	}
	if offset == 0 && w.maybeCut(got.page.info(), limit) {
		got.page.HasMore = true
	}
	return got, nil
}

// maybeCut reports whether a first page that says it is the last may be one that the service cut to its own maximum,
// and computed hasMore from what was requested: it has as many rows as pages of the source were cut to before. The
// page after it tells, once.
func (w *window) maybeCut(first spool.PageInfo, limit int) bool {
	series := schedule.Series{Source: schedule.SourceOf(w.item.Key)}
	return !first.HasMore && first.Rows > 0 && first.Rows < limit &&
		first.Rows == w.run.learned(series, schedule.PageSize).N && first.Rows != w.run.learned(series, schedule.WholePage).N
}

// record puts a page into the page log and verifies it. Drift ends the reading, so that no
// request is spent on the rest of it; a tolerant reading ends only where it would never end by
// itself. A guess that found nothing is recorded too, so that it is not repeated.
func (w *window) record(ctx context.Context, got freshPage, guess bool) error {
	page, info := got.page, got.page.info()
	if announced := w.pages.more && page.Offset == w.pages.next; announced && !guess && isBeyond(page.Offset, info) {
		series := schedule.Series{Source: schedule.SourceOf(w.item.Key)}
		if page.Offset == w.run.learned(series, schedule.PageSize).N {
			w.run.setLearned(ctx, series, schedule.WholePage, page.Offset) // maybeCut doubted it, not the service
		} else if !w.pages.tolerant {
			// hasMore was wrong on the page before if this one is empty the second time, too.
			again, err := w.ask(ctx, page.Offset, w.pages.size)
			if err != nil {
				return err
			}
			w.log.Also()
			got, page, info = again, again.page, again.page.info()
		}
		w.pages.end = page.Offset
	}
	if err := w.log.Append(page.Page); err != nil {
		return err
	}
	drift := w.pages.add(page.Offset, info)
	if guess && isBeyond(page.Offset, info) {
		if err := w.foundNothing(ctx); err != nil {
			return err
		}
	} else {
		w.observe(StepPage, int64(info.Rows))
	}
	repeats := w.pages.repeats(page)
	switch {
	case w.pages.tolerant:
		if err := w.keepsFormer(); errors.Is(err, errNoTotals) {
			return err // without this page the others are not needed
		}
		return repeats
	case repeats != nil:
		return fmt.Errorf("%w: %w", errDrift, repeats)
	}
	if errors.Is(drift, errMoved) && info.Site != w.pages.site {
		w.fresh = append(w.fresh, got)
	}
	return drift
}

// foundNothing counts a guess at a page that does not exist.
func (w *window) foundNothing(ctx context.Context) error {
	w.mispredicted++
	w.observe(StepMispredicted, 0)
	w.e.count(func(s *Summary) { s.Mispredicted++ })
	return w.e.ledger.Count(ctx, "pages_mispredicted_total", 1, "project", w.item.Project)
}
