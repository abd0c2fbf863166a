package export

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

// heldStillAfter is how long ago, in another run, a reading must have begun for its
// window to be said to hold still if it has not moved since.
const heldStillAfter = 30 * time.Minute

// startOver drops what was read and begins the next reading. Pages that belong to the
// window as it is now, which came last, are carried over. The rows of the window are given
// up where they are better read when it has settled: its totals are those of a page that
// came already, and cost no request.
func (w *window) startOver(ctx context.Context, reason error) error {
	r := w.run
	r.order.set(w.turn, true)
	w.observe(StepDrift, 0)
	r.log.With(w.item.Key.Attrs()).Info("window drifted", "reading", w.log.Reading(), "reason", reason.Error())
	r.locked(func() { r.result.Drifted++ })
	if err := w.p.gauges.Count(ctx, "window_drift_total", 1, "project", w.item.Project); err != nil {
		return err
	}
	now := w.p.cfg.Now()
	began := now
	if n := len(w.fresh); n > 0 {
		totals := w.fresh[n-1].page.Totals
		for _, f := range w.fresh {
			if f.page.Totals != totals {
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
	least := w.pages.atLeast()
	if r.totalsFirst(&w.item, least) && basis == schedule.BasisUnknown {
		r.setMovement(ctx, schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: schedule.AtLeast}, least)
	}
	return nil
}

// learn notes what a reading says about windows to come: how many rows the service puts
// on a page, that the window held still, and its size.
func (w *window) learn(ctx context.Context, rev analytics.Revision) {
	r, project, now := w.run, w.item.Project, w.p.cfg.Now()
	if size := w.pages.size; w.isUnmoved() && size > 0 && size != r.work.Sizes.PerPage(project) {
		r.work.Sizes.SetPerPage(project, size)
		if err := w.p.ledger.SetPageRows(ctx, project, size); err != nil && ctx.Err() == nil {
			// The next windows take longer, and cost no request more.
			r.log.Warn("size of pages not noted", "project", project, "error", err)
		}
	}
	// That it held still means something where it was read over two runs, or where such
	// windows moved while they were read.
	if !w.moved && rev.Verified && !rev.TotalsOnly() {
		if w.resumed && now.Sub(w.log.Started()) >= heldStillAfter {
			w.noteMovement(ctx, r.work.Policy.BetweenRuns(w.item.Window, now), false)
		}
		m, seen := r.movement(schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: schedule.MovedWithin})
		if !r.work.Policy.Ripe(w.item.Window, now) && seen && m.Times > 0 && w.pages.highest > 0 {
			w.noteMovement(ctx, schedule.MovedWithin, false)
		}
	}
	if r.work.Sizes.Learn(rev.Key, rev.Rows) {
		r.estimate()
	}
}

// noteMovement counts a movement of the window's series, or ends the count.
func (w *window) noteMovement(ctx context.Context, kind schedule.MovementKind, moved bool) {
	key := schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: kind}
	m, _ := w.run.movement(key)
	if m.Times++; !moved {
		m.Times = 0
	}
	w.run.setMovement(ctx, key, m.Times)
}

// totalsFirst changes an item of a window that has least pages or more to one of totals
// alone, where that is better now.
func (r *run) totalsFirst(item *schedule.Item, least int) bool {
	if item.Reason != schedule.ReasonMissing || item.TotalsOnly {
		return false
	}
	pages, _ := r.work.Sizes.Pages(*item)
	why, totals := r.work.Policy.TotalsFirst(item.Key, max(pages, least), r.p.cfg.Now())
	if totals {
		item.TotalsOnly, item.Why = true, why
		r.log.With(item.Key.Attrs()).Info("window is read for its totals", "reason", why)
	}
	return totals
}

// holdBack notes that a window waits for an hour's budget, and for the first such window
// of the plan since when.
func (r *run) holdBack(ctx context.Context, item schedule.Item, requests int) {
	first := false
	r.locked(func() {
		r.result.BudgetSpent = true
		if first = r.result.Wanted == 0; first {
			r.result.Wanted = requests
		}
	})
	if key, held := r.isHeldBack(item.Key); first && !held {
		r.setMovement(ctx, key, int(item.From))
	}
}

// isHeldBack reports whether it is this window of its series that waits.
func (r *run) isHeldBack(k analytics.Key) (schedule.MovementKey, bool) {
	key := schedule.MovementKey{Series: schedule.SeriesOf(k), Kind: schedule.HeldBack}
	m, _ := r.movement(key)
	return key, m.Times == int(k.From)
}

func (r *run) movement(key schedule.MovementKey) (schedule.Movement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.work.Movements[key]
	return m, ok
}

// setMovement keeps how often in a row a series moved. A failure to do so is no failure of
// the window: the next run decides with what is known by then.
func (r *run) setMovement(ctx context.Context, key schedule.MovementKey, times int) {
	at := r.p.cfg.Now()
	r.locked(func() { r.work.Movements[key] = schedule.Movement{Times: times, At: at} })
	err := r.p.ledger.SetMovement(ctx, key.Project, key.Granularity, string(key.Kind), times, at)
	if err != nil && ctx.Err() == nil {
		r.log.Warn("movement not noted", "project", key.Project, "granularity", string(key.Granularity), "error", err)
	}
}
