package export

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

// spanning is how long ago a reading must have begun in another run for its window
// to be said to hold still, when it did not move since.
const spanning = 30 * time.Minute

// window is one window under way.
type window struct {
	run      *run
	item     schedule.Item
	place    int // in the order of requests
	previous *analytics.Revision
	fetch    *spool.Fetch
	// resumed: pages of an earlier run were at hand.
	resumed bool
	// predictable: no page that does not exist was asked for yet.
	predictable bool
	// carried are pages of the former reading that this one may use.
	carried []carried
	// moved: a reading was begun again in this run.
	moved bool
}

// export takes one window through all steps. Its requests end with sending, the
// rest of it with ctx.
func (r *run) export(ctx, sending context.Context, item schedule.Item, place int) error {
	if item.Reason == schedule.ReasonOpen {
		return r.readOpen(sending, item.Key, place)
	}
	w := &window{run: r, item: item, place: place}
	if rev, ok := r.work.Known(item.Key); ok {
		w.previous = &rev
	}
	var err error
	w.fetch, err = r.p.spool.Begin(item.Key, nextNumber(w.previous), r.p.cfg.Now(), r.notBefore(item.Window))
	if err != nil {
		return err
	}
	w.predictable, w.resumed = w.fetch.Attempt() == 1, len(w.fetch.Pages()) > 0
	sealed, prov, err := w.read(ctx, sending)
	if err != nil {
		return w.giveUp(err)
	}
	if rev := sealed.Revision(); r.work.Sizes.Learn(rev.Key, rev.Rows) {
		r.recount()
	}
	return r.enter(ctx, w.fetch, sealed, prov, item.Newest)
}

// readOpen reads the totals of a running window, for the gauges alone.
func (r *run) readOpen(ctx context.Context, k analytics.Key, place int) error {
	if err := r.order.wait(ctx, place, r.ample); err != nil {
		return err
	}
	at := r.p.cfg.Now()
	page, err := r.p.source.VisitorsPage(ctx, docsapi.VisitorsQuery{Project: k.Project, Window: k.Window, Limit: 1})
	if err != nil {
		return err
	}
	r.wentWell(k.Project)
	if err := r.p.gauges.SetOpen(ctx, k, page.Totals, at); err != nil {
		return err
	}
	r.p.tell(StepOpen, k, 0)
	r.count(func(res *Result) { res.Open++ })
	return nil
}

// notBefore is the earliest beginning of a page log worth going on with: a log
// from before a window could settle would only have to be read again.
func (r *run) notBefore(w analytics.Window) time.Time {
	ripe := w.To.Time().Add(r.p.cfg.Settle)
	if r.p.cfg.Now().Before(ripe) {
		return time.Time{}
	}
	return ripe
}

// giveUp leaves the page log to the next run; but a reading that took whatever
// came, and then met nonsense, is not one to go on with.
func (w *window) giveUp(err error) error {
	leave := w.fetch.Close
	if w.fetch.Attempt() >= w.readings() && nonsense(err) {
		leave = w.fetch.Discard
	}
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

// readings is how often the window is begun at most: the last reading takes what
// comes. A window that drifted in all of them after it could settle is given one
// more, so that its requests stay bounded whatever the service does.
func (w *window) readings() int {
	if w.item.Reason == schedule.ReasonUnverified && w.previous != nil && w.run.work.Policy.Ripe(w.item.Window, w.previous.ExportedAt) {
		return 1
	}
	return schedule.MaxReadings
}

// read fetches, verifies and seals the window. On an error the page log stays
// for the next run.
func (w *window) read(ctx, sending context.Context) (*spool.Sealed, analytics.Provenance, error) {
	for {
		r := &reading{w: w, pages: newPages(w.fetch), tolerant: w.fetch.Attempt() >= w.readings()}
		err := r.all(sending)
		if err == nil {
			w.run.order.set(w.place, false)
			w.run.p.tell(StepFetched, w.item.Key, 0)
			var sealed *spool.Sealed
			var prov analytics.Provenance
			if sealed, prov, err = w.seal(ctx, r); err == nil {
				w.heldStill(ctx, r, sealed.Revision())
				return sealed, prov, nil
			}
		}
		if !errors.Is(err, errDrift) {
			return nil, analytics.Provenance{}, err
		}
		w.run.order.set(w.place, true)
		if err := w.again(ctx, r, err); err != nil {
			return nil, analytics.Provenance{}, err
		}
		w.decide(ctx, r)
	}
}

// again drops what was read and begins the next reading. Pages that are of the
// window as it is now are carried over: they were the last to come.
func (w *window) again(ctx context.Context, r *reading, reason error) error {
	w.run.p.tell(StepDrift, w.item.Key, 0)
	w.run.log.Info("window drifted", "window", w.item.Key.String(), "reading", w.fetch.Attempt(), "reason", reason.Error())
	w.run.count(func(res *Result) { res.Drifted++ })
	if err := w.run.p.gauges.Count(ctx, "window_drift_total", 1, "project", w.item.Project); err != nil {
		return err
	}
	began := w.run.p.cfg.Now()
	if n := len(r.fresh); n > 0 {
		now := r.fresh[n-1].page.Totals
		for _, c := range r.fresh {
			if c.page.Totals != now {
				continue
			}
			w.carried = append(w.carried, c)
			if c.asked.Before(began) {
				began = c.asked
			}
		}
	}
	ripe := w.run.work.Policy.Ripe(w.item.Window, w.run.p.cfg.Now())
	switch {
	case w.resumed && !w.moved && ripe:
		w.note(ctx, schedule.MovedBetweenRipe, true)
	case w.resumed && !w.moved:
		w.note(ctx, schedule.MovedBetween, true)
	case !ripe:
		w.note(ctx, schedule.MovedWithin, true)
	}
	w.moved = true
	return w.fetch.Restart(began)
}

// decide gives up the rows of a window that moved, where they are better read when
// it has settled. Its totals are those of a page that came, without a request.
func (w *window) decide(ctx context.Context, r *reading) {
	_, basis := w.run.work.Sizes.Pages(w.item)
	least := r.pages.least()
	if w.run.totalsFirst(&w.item, least) && basis == schedule.BasisUnknown {
		w.run.setMovement(ctx, schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: schedule.AtLeast}, least)
	}
}

// totalsFirst makes an item of a window that has least pages or more one of totals
// alone, where that is better now.
func (r *run) totalsFirst(item *schedule.Item, least int) bool {
	if item.Reason != schedule.ReasonMissing || item.TotalsOnly {
		return false
	}
	pages, _ := r.work.Sizes.Pages(*item)
	why, totals := r.work.Policy.TotalsFirst(item.Key, max(pages, least), r.p.cfg.Now())
	if totals {
		item.TotalsOnly, item.Why = true, why
		r.log.Info("window is read for its totals", "window", item.Key.String(), "reason", why)
	}
	return totals
}

// heldStill notes that the window did not move, where that says anything: it was
// read over two runs, or it was one that moves while it is read.
func (w *window) heldStill(ctx context.Context, r *reading, rev analytics.Revision) {
	if w.moved || !rev.Verified || rev.TotalsOnly() {
		return
	}
	ripe := w.run.work.Policy.Ripe(w.item.Window, w.run.p.cfg.Now())
	if w.resumed && w.run.p.cfg.Now().Sub(w.fetch.Started()) >= spanning {
		kind := schedule.MovedBetween
		if ripe {
			kind = schedule.MovedBetweenRipe
		}
		w.note(ctx, kind, false)
	}
	within := schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: schedule.MovedWithin}
	if m, seen := w.run.moved(within); !ripe && seen && m.Times > 0 && r.pages.highest > 0 {
		w.note(ctx, schedule.MovedWithin, false)
	}
}

// note counts a movement of the window's series, or ends the count.
func (w *window) note(ctx context.Context, kind schedule.MovementKind, moved bool) {
	key := schedule.MovementKey{Series: schedule.SeriesOf(w.item.Key), Kind: kind}
	m, _ := w.run.moved(key)
	if m.Times++; !moved {
		m.Times = 0
	}
	w.run.setMovement(ctx, key, m.Times)
}

// seal makes the window file, one window at a time: that is what takes memory. A
// window that is not at its turn, or a large one in the middle of it, when ctx
// ends is left to the next run, which needs no request for it. errDrift where
// a path came twice, unless the reading is tolerant.
func (w *window) seal(ctx context.Context, r *reading) (*spool.Sealed, analytics.Provenance, error) {
	p := w.run.p
	p.sealing.Lock()
	defer p.sealing.Unlock()
	if ctx.Err() != nil {
		return nil, analytics.Provenance{}, context.Cause(ctx)
	}
	verified := r.pages.drift == nil || w.item.TotalsOnly
	sealed, err := p.spool.Seal(ctx, w.fetch, w.revision(r.pages, verified))
	switch {
	case errors.Is(err, spool.ErrDuplicate) && !r.tolerant:
		return nil, analytics.Provenance{}, fmt.Errorf("%w: %w", errDrift, err)
	case errors.Is(err, spool.ErrDuplicate):
		sealed, err = p.spool.Seal(ctx, w.fetch, w.revision(r.pages, false))
	}
	if err != nil {
		return nil, analytics.Provenance{}, err
	}
	prov := analytics.Provenance{Requests: w.fetch.Requests(), RepeatedRows: int64(w.fetch.Repeated())}
	if !verified {
		prov.MovedRows = r.pages.suspect()
	}
	if size := r.pages.size; verified && size > 0 {
		w.setPageRows(ctx, size)
	}
	return sealed, prov, nil
}

// setPageRows remembers how many rows the service puts on a page. That it cannot
// costs the next windows time, and no request.
func (w *window) setPageRows(ctx context.Context, size int) {
	project := w.item.Project
	if size == w.run.work.Sizes.PerPage(project) {
		return
	}
	w.run.work.Sizes.SetPerPage(project, size)
	if err := w.run.p.ledger.SetPageRows(ctx, project, size); err != nil && ctx.Err() == nil {
		w.run.log.Warn("size of pages not noted", "project", project, "error", err)
	}
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
	rev.Settled = schedule.Settles(rev.Window, w.run.p.cfg.Settle, rev.ExportedAt, verified, before)
	return rev
}

func nextNumber(previous *analytics.Revision) int32 {
	if previous == nil {
		return 1
	}
	return previous.Number + 1
}
