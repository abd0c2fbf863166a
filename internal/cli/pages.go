package cli

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// keptPages is how many pages of a newest window the state keeps, so that
// DOCGAUGE_TOP_PAGES can be raised up to it without reading anything again.
const keptPages = 1000

// The kinds of temporary directories in the state directory: for windows that are
// loaded, and for windows that are copied from one sink to another. Earlier versions
// also made tempPages.
const (
	tempLoad  = "load"
	tempCopy  = "copy"
	tempPages = "pages"
)

// fillPages keeps the pages of newest windows that the state does not have, after
// it was restored or its process killed: a sink has them, so that no request is
// needed. That a sink cannot tell is no failure: the metrics lack these pages.
func (r *runner) fillPages(ctx context.Context) error {
	l, err := readLedger(ctx, r.db)
	if err != nil {
		return err
	}
	in, err := (&selection{}).input(r.config, l, r.now(), 0)
	if err != nil {
		return err
	}
	lists, err := r.db.Pages(ctx, 0)
	if err != nil {
		return err
	}
	down := map[string]bool{}
	for _, p := range l.projects(in) {
		for _, g := range p.Grids {
			rev := newest(g)
			if rev == nil || rev.TotalsOnly() || hasPages(lists, *rev) {
				continue
			}
			if err := r.fillFrom(ctx, l.entries[rev.Key], down); err != nil {
				return err
			}
		}
	}
	return nil
}

func hasPages(lists []state.PageList, rev analytics.Revision) bool {
	return slices.ContainsFunc(lists, func(p state.PageList) bool { return p.Key == rev.Key && p.Revision == rev.Number })
}

// slowSink is how long a sink may take to say no before it is not asked again.
const slowSink = 5 * time.Second

// fillFrom asks the sinks that have the window, until one knows its pages. One that
// took long to fail is down, and not asked again.
func (r *runner) fillFrom(ctx context.Context, e state.Entry, down map[string]bool) error {
	for _, s := range r.stores {
		if e.Sinks[s.Name()].IsZero() || down[s.Name()] {
			continue
		}
		began := time.Now()
		pages, err := s.Top(ctx, e.Revision, keptPages)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			down[s.Name()] = time.Since(began) > slowSink
			r.log.Warn("pages not read from sink: their metrics are missing", "sink", s.Name(), "window", e.Key.String(), "error", err)
			continue
		}
		return r.db.SetPages(ctx, e.Revision, pages)
	}
	return nil
}
