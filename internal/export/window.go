package export

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// commitTimeout bounds the time for one window after it was sealed.
	commitTimeout = 10 * time.Minute
	// commitUnits bounds the windows that are committed at once: one each, and one more for
	// each rowsPerUnit rows. Small ones share flushes, large ones take memory.
	commitUnits = 32
	rowsPerUnit = 10_000
	// grace is how long a commit that is under way may continue after SIGTERM.
	grace = 8 * time.Second
)

// window is one window on its way from the first request to the last sink.
type window struct {
	e *Exporter
	// run is the run that reads the window; nil where an earlier run left it.
	run  *run
	item schedule.Item
	turn int // in the order of requests
	// previous is the newest revision in the ledger; its Number is 0 without one.
	previous analytics.Revision
	log      *spool.PageLog
	// resumed: the page log had pages of an earlier run.
	resumed bool
	// moved: a reading started over in this run.
	moved bool
	// mispredicted counts the pages that were requested although they do not exist, in all
	// readings.
	mispredicted int

	// This is the state of one reading: pages verifies its pages.
	pages *pages
	// fresh are pages whose totals differ from the totals of the pages before, which ends the reading: they belong to
	// the moved window. carried are pages that the next reading may use.
	fresh, carried []freshPage

	// file is the window file, lacking the sinks that do not have it yet.
	file    *archive.File
	lacking []sinks.Sink
	// release gives the window's place among those that are read to another.
	release func()
}

// commit takes a window from its first request to the last sink, and reports whether every sink
// has it. An error comes from the service, the spool or the ledger.
//
// The page log is the only durable form of the window until every sink has it. A run enters
// without a window file; recover enters at step 4, with a file that it made from the log of a
// revision that the ledger knows.
//
// Requests end with sending, everything else with ctx.
func (w *window) commit(ctx, sending context.Context) (complete bool, err error) {
	e := w.e
	var units int64
	defer func() { e.commits.Release(units) }()
	for w.file == nil {
		// Step 1: each page is appended to the page log as it arrives, and verified against
		// the others, so that all of them are parts of one unchanged window.
		// CRASH: the next run continues the log and requests only what is missing.
		err := w.readPages(sending)
		if err == nil {
			err = w.keepsFormer()
		}
		if err == nil {
			w.run.order.set(w.turn, false) // the next window of the plan may send
			w.observe(stepFetched, 0)
			// Step 2: the rows become a window file, which is temporary: it is made from the log whenever a sink needs it.
			// Many small windows at once, or one large one, may be at this step or a later one. A window with a single page
			// takes longer to commit than to read, so it gives its place among the windows that are read to another.
			// CRASH: the log is complete; the next run requests nothing.
			if units == 0 {
				units = min(commitUnits, 1+w.log.Sum.Rows/rowsPerUnit)
				if e.commits.Acquire(ctx, units) != nil {
					units = 0
					return false, w.leave(context.Cause(ctx))
				}
				if len(w.log.Pages) == 1 {
					w.release()
				}
			}
			err = w.seal(ctx)
		}
		if errors.Is(err, errDrift) {
			err = w.startOver(ctx, err)
		}
		if err != nil {
			return false, w.leave(err)
		}
	}
	defer func() { err = errors.Join(err, w.file.Remove()) }()
	// A commit under way is finished rather than cut.
	ctx, cancel := clock.Outlive(ctx, grace, commitTimeout)
	defer cancel()
	rev := w.file.Revision()
	if w.run != nil {
		w.learn(ctx, rev)
		// The windows of the same days get the pages in separate logs, and are exported
		// like windows that an earlier run read.
		// CRASH: those without a log are requested.
		if err := w.share(rev); err != nil {
			return false, w.leave(err)
		}
		w.report(rev)
		w.observe(stepSealed, rev.Rows)
		// Step 3: from here on the ledger owes the revision to every sink. The log is flushed before, except the log of a
		// single page: to flush it each time costs more than to request the page again after a power cut.
		// CRASH: recover continues with step 4. If a power cut has taken the log and no sink has
		// the window, recover forgets the revision, and the window is due again.
		if len(w.log.Pages) > 1 {
			if err := w.log.Flush(); err != nil {
				return false, w.leave(err)
			}
		}
		var top []state.TopRows // what the gauges show
		if w.item.Newest && rev.HasRows() {
			rows, err := topOf(w.file)
			if err != nil {
				return false, w.leave(err)
			}
			top = append(top, rows)
		}
		if err := e.ledger.Record(ctx, rev, w.provenance(), e.sinkNames, top...); err != nil {
			return false, w.leave(err)
		}
		w.observe(StepRecorded, rev.Rows)
	}
	complete = true
	for _, sink := range w.lacking {
		name := sink.Name()
		if _, down := e.down.Load(name); down {
			complete = false
			continue
		}
		// Step 4: afterwards readers of the sink see this revision, whole.
		// CRASH: recover does not know whether it happened and does it again, which
		// changes nothing that readers see.
		if err := sink.Replace(ctx, w.file); err != nil {
			complete = false
			e.noteDown(ctx, name, fmt.Errorf("%s sink: %s revision %d: %w (it waits in the spool for the next run)",
				name, rev.Key, rev.Number, err))
			continue
		}
		e.observe(Event{Step: stepReplaced, Key: rev.Key, Rows: rev.Rows, Sink: name})
		// Step 5: the ledger no longer owes the revision to this sink.
		// CRASH: as in step 4 for the sinks that are left.
		if err := e.ledger.Committed(ctx, rev, name, e.app.Now()); err != nil {
			return false, w.leave(err)
		}
		e.observe(Event{Step: stepCommitted, Key: rev.Key, Rows: rev.Rows, Sink: name})
	}
	// Step 6: the log of a window that a sink lacks moves to those that wait, so that a later
	// reading of the window does not take its place. Any other log is not needed any more.
	// CRASH: recover finds the log of a revision that the ledger knows, and delivers or
	// removes it.
	if !complete {
		return false, w.log.Wait()
	}
	if err := w.log.Discard(); err != nil {
		return false, err
	}
	w.observe(stepDone, max(rev.Rows, 0))
	return true, nil
}

// share gives the pages to the windows of the same days that wait for them.
func (w *window) share(rev analytics.Revision) error {
	var items []schedule.Item
	w.run.locked(func() {
		if s := w.run.sharing[schedule.DaysOf(w.item.Key)]; s != nil {
			items = s.items
		}
	})
	for _, item := range items {
		if w.item.TotalsOnly && !item.TotalsOnly {
			continue
		}
		known, _ := w.run.work.Known(item.Key)
		if err := w.e.app.Spool.Share(w.log, rev, item.Key, known.Number+1, item.TotalsOnly); err != nil {
			return err
		}
		w.run.locked(func() { w.run.given[item.Key] = true })
	}
	w.run.endSharing(w.item)
	return nil
}

// topOf returns the first rows of a window: the pages with the most visitors, or the agents with the most readers.
func topOf(w sinks.Sealed) (top state.TopRows, err error) {
	rev, n := w.Revision(), view.MaxRows
	if rev.Report == analytics.VisitorsReport {
		n = config.MaxTopPages
	}
	top = state.TopRows{Key: rev.Key, Revision: rev.Number}
	top.Rows, top.More, err = rev.Report.Shape().Top(w.Rows(), n)
	return top, err
}

// noteDown reports and counts the first failure of a sink, which gets nothing more in this run.
func (e *Exporter) noteDown(ctx context.Context, sink string, failure error) {
	if _, known := e.down.LoadOrStore(sink, true); known {
		return
	}
	e.count(func(s *Summary) { s.AddErrors(failure) })
	if err := e.ledger.Count(ctx, "sink_failures_total", 1, "sink", sink); err != nil {
		e.app.Log.Error("sink failure not counted", "sink", sink, "error", err)
	}
}

// observe reports a step of a window that this run reads. Of windows that recover
// delivers, only the steps at the sinks are reported.
func (w *window) observe(step string, rows int64) {
	if w.run != nil {
		w.e.observe(Event{Step: step, Key: w.item.Key, Rows: rows})
	}
}

// open opens the page log of a window that is to be read.
func (w *window) open() (err error) {
	now := w.e.app.Now()
	// A log from before the window could settle, or before someone asked for it to be read
	// again, would only have to be read again.
	notBefore := w.item.NotBefore
	if ripe := w.item.To.Time().Add(w.e.settle()); !now.Before(ripe) && ripe.After(notBefore) {
		notBefore = ripe
	}
	if w.log, err = w.e.app.Spool.Begin(w.item.Key, w.previous.Number+1, now, notBefore); err != nil {
		return err
	}
	logged := w.log.Pages
	w.resumed = len(logged) > 0
	for offset, page := range logged {
		if isBeyond(offset, page) {
			w.mispredicted++
		}
	}
	if w.log.Reading() > 1 { // the requests of earlier readings are unknown
		w.mispredicted = math.MaxInt32
	}
	return nil
}

// keepsFormer returns an error if the reading must not replace the former one, which has rows: the service sent
// none, although its totals are not zero; or it sent totals of zero over rows, and the former are not. While the
// reading is not the last, that is drift.
func (w *window) keepsFormer() error {
	sum, site := w.log.Sum, w.pages.newest
	switch {
	case w.item.TotalsOnly || w.previous.Rows <= 0:
	case sum.Rows == 0 && !site.IsZero():
		return errNoRows
	case sum.Added != analytics.Totals{} && site.IsZero() && w.previous.Totals != analytics.Totals{}:
		return errNoTotals
	}
	return nil
}

// maxReadings is how often the window is started at most: the last reading accepts
// whatever comes. A window that drifted in all of them after it could settle is read
// once more by a later run, in a single reading, so that its requests stay bounded; so is
// one that brought no rows before.
func (w *window) maxReadings() int {
	if w.run.work.Asides[w.item.Key].Reason == analytics.AsideEmpty {
		return 1
	}
	unverified := w.item.Reason == schedule.ReasonUnverified && w.previous.Number > 0
	if unverified && w.run.work.Policy.Ripe(w.item.Window, w.previous.ExportedAt) {
		return 1
	}
	return schedule.MaxReadings
}

// seal makes the window file. The error is errDrift where a path came twice, unless the
// reading is tolerant.
func (w *window) seal(ctx context.Context) (err error) {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	w.file, err = w.log.Seal(ctx, w.revision(w.isUnmoved()))
	if errors.Is(err, spool.ErrDuplicate) {
		if !w.pages.tolerant {
			return fmt.Errorf("%w: %w", errDrift, err)
		}
		w.file, err = w.log.Seal(ctx, w.revision(false))
	}
	return err
}

// report adds the reading to the summary.
func (w *window) report(rev analytics.Revision) {
	from := w.provenance()
	sum, site := w.log.Sum, rev.Totals
	suspect := sum.Rows > 0 && !sum.Covers(site)
	if suspect {
		w.run.log.With(w.item.Key.Attrs()).Warn("window suspect: its pages add up to fewer visitors than the site has",
			"human", sum.Added.Human, "ai", sum.Added.AI, "total", sum.Added.Total,
			"site_human", site.Human, "site_ai", site.AI, "site_total", site.Total)
	}
	w.e.count(func(s *Summary) {
		s.Rows += max(rev.Rows, 0)
		s.addReading(rev)
		s.MovedRows += from.MovedRows
		s.RepeatedRows += from.RepeatedRows
		if !rev.Verified {
			s.Unverified++
		}
		if suspect {
			s.Suspect++
		}
	})
}

// provenance returns how the revision was read.
func (w *window) provenance() analytics.Provenance {
	from := analytics.Provenance{
		Requests: w.log.Requests(), RepeatedRows: int64(w.log.Repeated), Checksum: w.file.Checksum(),
	}
	if !w.isUnmoved() {
		for _, page := range w.log.Pages {
			if page.Site != w.pages.newest {
				from.MovedRows += int64(page.Rows)
			}
		}
	}
	return from
}

// isUnmoved reports whether all pages belong to one unchanged window. Totals alone always do.
func (w *window) isUnmoved() bool { return w.pages.drift == nil || w.item.TotalsOnly }

// revision describes the reading. Its totals come from the page at the highest offset.
func (w *window) revision(verified bool) analytics.Revision {
	rev := analytics.Revision{
		Key: w.item.Key, Number: w.previous.Number + 1, Verified: verified, Totals: w.pages.newest.Totals,
		Humans: w.pages.newest.Humans, ExportedAt: w.log.Started(),
	}
	before := w.previous.ExportedAt
	if w.item.TotalsOnly {
		rev.Rows = analytics.TotalsOnlyRows
	} else if w.previous.TotalsOnly() {
		before = time.Time{}
	}
	rev.Settled = schedule.Settles(rev.Window, w.e.settle(), rev.ExportedAt, verified, before)
	return rev
}

// leave keeps the page log for the next run. It discards the log if the last reading,
// which accepts every page, got an answer outside the specification.
func (w *window) leave(err error) error {
	if w.log == nil {
		return err
	}
	e, ok := errors.AsType[*docsapi.Error](err)
	outsideSpec := errors.Is(err, errRepeats) || errors.Is(err, errNoRows) || errors.Is(err, errNoTotals) ||
		ok && e.Status == http.StatusOK &&
			e.Outcome == docsapi.Permanent
	closeLog := w.log.Close
	if errors.Is(err, errEarly) || outsideSpec && w.log.Reading() >= w.maxReadings() {
		closeLog = w.log.Discard
	}
	if cerr := closeLog(); cerr != nil {
		return fmt.Errorf("%w; %w", err, cerr)
	}
	return err
}
