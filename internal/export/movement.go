package export

import (
	"context"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/schedule"
)

// steadyAfter is how long ago, in another run, a reading must have begun for its
// window to count as steady if it has not moved since.
const steadyAfter = 30 * time.Minute

// startOver drops the pages read so far and begins the next reading. The last pages, which
// belong to the moved window, are carried over. The rows of the window are given up if they
// are better read after it has settled: its totals come from a page that was already read, and
// cost no request.
func (w *window) startOver(ctx context.Context, reason error) error {
	r := w.run
	r.order.set(w.turn, true)
	w.observe(stepDrift, 0)
	r.log.With(w.item.Key.Attrs()).Info("window drifted", "reading", w.log.Reading(), "reason", reason.Error())
	w.e.count(func(s *Summary) { s.Drifted++ })
	if err := w.e.ledger.Count(ctx, "window_drift_total", 1, "project", w.item.Project); err != nil {
		return err
	}
	now := w.e.app.Now()
	began := now
	if n := len(w.fresh); n > 0 {
		site := w.fresh[n-1].page.info().Site
		for _, f := range w.fresh {
			if f.page.info().Site != site {
				continue
			}
			w.carried = append(w.carried, f)
			if f.requested.Before(began) {
				began = f.requested
			}
		}
	}
	if w.resumed && !w.moved {
		w.noteMovement(ctx, r.work.Policy.BetweenRuns(w.item.Window, now), true)
	} else if !r.work.Policy.Ripe(w.item.Window, now) {
		w.noteMovement(ctx, schedule.MovedWithin, true)
	}
	w.moved = true
	if err := w.log.Restart(began); err != nil {
		return err
	}
	_, basis := r.work.Sizes.Pages(w.item)
	least := w.pages.promised/max(w.pages.size, 1) + 1 // the window has at least this many pages
	if r.totalsFirst(&w.item, least) && basis == schedule.BasisUnknown {
		r.setLearned(ctx, schedule.SeriesOf(w.item.Key), schedule.LeastPages, least)
	}
	return nil
}

// learn notes facts for later windows: how many rows the service puts on a page, whether the
// window moved, and its size.
func (w *window) learn(ctx context.Context, rev analytics.Revision) {
	r, source, now := w.run, schedule.SourceOf(w.item.Key), w.e.app.Now()
	if size := w.pages.size; w.isUnmoved() && size > 0 && size != r.work.Sizes.PerPage(source) {
		r.work.Sizes.SetPerPage(source, size)
		r.setLearned(ctx, schedule.Series{Source: source}, schedule.PageSize, size)
		err := w.e.ledger.SetPageSize(ctx, state.PageSize{Project: source.Project, Report: source.Report, Rows: size})
		if err != nil && ctx.Err() == nil {
			// The next windows take longer, and cost no request more.
			r.log.Warn("size of pages not noted", "project", source.Project, "error", err)
		}
	}
	// That the window did not move is evidence if it was read over two runs, or if such
	// windows moved while they were read.
	if !w.moved && rev.Verified && !rev.TotalsOnly() {
		if w.resumed && now.Sub(w.log.Started()) >= steadyAfter {
			w.noteMovement(ctx, r.work.Policy.BetweenRuns(w.item.Window, now), false)
		}
		within := r.learned(schedule.SeriesOf(w.item.Key), schedule.MovedWithin)
		if !r.work.Policy.Ripe(w.item.Window, now) && within.N > 0 && w.pages.highest > 0 {
			w.noteMovement(ctx, schedule.MovedWithin, false)
		}
	}
	if r.work.Sizes.Learn(rev.Key, rev.Rows) {
		r.estimate()
	}
}

// noteMovement counts a movement of the window's series, or ends the count.
func (w *window) noteMovement(ctx context.Context, how schedule.Fact, moved bool) {
	series := schedule.SeriesOf(w.item.Key)
	times := 0
	if moved {
		times = w.run.learned(series, how).N + 1
	}
	w.run.setLearned(ctx, series, how, times)
}

// totalsFirst changes an item of a window that has least pages or more to read totals
// alone, where that is better now.
func (r *run) totalsFirst(item *schedule.Item, least int) bool {
	if item.Reason != schedule.ReasonMissing || item.TotalsOnly {
		return false
	}
	pages, _ := r.work.Sizes.Pages(*item)
	why, totals := r.work.Policy.TotalsFirst(item.Key, max(pages, least), r.e.app.Now())
	if totals {
		item.TotalsOnly, item.Why = true, why
		r.log.With(item.Key.Attrs()).Info("window is read for its totals", "reason", why)
	}
	return totals
}

// deferWindow notes that a window waits for an hour's budget, and for the first such window
// of the plan since when.
func (r *run) deferWindow(ctx context.Context, item schedule.Item, requests int) {
	first := false
	r.e.count(func(s *Summary) {
		s.BudgetSpent = true
		if first = s.wanted == 0; first {
			s.wanted = requests
		}
	})
	if first && r.work.Policy.HeldBackSince(item.Key).IsZero() {
		r.setLearned(ctx, schedule.SeriesOf(item.Key), schedule.HeldBack, int(item.From))
	}
}

// noteDataFrom keeps from which day on the service has data of a project, as an answer says. If that is earlier than
// was known, windows are due that are not in the plan.
func (r *run) noteDataFrom(ctx context.Context, project string, day *analytics.Date) {
	series, n := schedule.DataSeries(project), schedule.DataNumber(day)
	former := r.learned(series, schedule.DataFrom)
	wasKnown := !former.At.IsZero()
	if !wasKnown && day == nil {
		return
	}
	if !wasKnown || n != former.N {
		r.setLearned(ctx, series, schedule.DataFrom, n)
	}
	if wasKnown && n < former.N {
		r.e.count(func(s *Summary) { s.replan = true })
	}
	if !wasKnown || n != former.N || n == int(analytics.NoData) {
		r.locked(func() { r.hasEarly = true })
	}
}

// dropEarly removes the windows that begin before the service has data from those that are pending.
func (r *run) dropEarly() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.hasEarly {
		return
	}
	r.hasEarly = false
	dropped := map[string]int{}
	r.pending = slices.DeleteFunc(r.pending, func(item schedule.Item) bool {
		from, known := r.work.Learned.DataFrom(item.Project)
		if !known || !item.IsEarly(from) {
			return false
		}
		r.forgetEstimate(item)
		dropped[item.Project]++
		return true
	})
	for project, n := range dropped {
		r.e.count(func(s *Summary) { s.Early += n })
		r.log.Info("windows not exported: they begin before the service has data", "project", project, "windows", n)
	}
}

func (r *run) learned(s schedule.Series, f schedule.Fact) schedule.Noted {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.work.Learned.Of(s, f)
}

// setLearned keeps a fact about a series. If that fails, the next run decides without it.
func (r *run) setLearned(ctx context.Context, s schedule.Series, f schedule.Fact, n int) {
	at := r.e.app.Now()
	r.locked(func() { r.work.Learned.Set(s, f, n, at) })
	err := r.e.ledger.SetMovement(ctx, state.Movement{
		Project: s.Project, Granularity: s.Granularity, Report: s.Report, Kind: string(f), Times: n, At: at,
	})
	if err != nil && ctx.Err() == nil {
		r.log.Warn("movement not noted", "project", s.Project, "granularity", string(s.Granularity), "error", err)
	}
}
