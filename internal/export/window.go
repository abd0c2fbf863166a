package export

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/spool"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// commitTimeout bounds the time for one window after it was sealed.
	commitTimeout = 10 * time.Minute
	// grace is how long a commit that is under way may continue after SIGTERM.
	grace = 8 * time.Second
)

// window is one window on its way from the first request to the last sink.
type window struct {
	p *Pipeline
	// run is the run that reads the window; nil where an earlier process sealed it.
	run  *run
	item schedule.Item
	turn int // in the order of requests
	// previous is the newest revision in the ledger, nil if there is none.
	previous *analytics.Revision
	log      *spool.PageLog
	// resumed: the page log had pages of an earlier run.
	resumed bool
	// moved: a reading started over in this run.
	moved bool
	// inVain counts the pages that were requested although they do not exist, in all
	// readings.
	inVain int

	// This is the state of one reading: pages verifies its pages.
	pages *pages
	mu    sync.Mutex
	// fresh are pages whose totals differ from those of the pages before, which ends the
	// reading: they belong to the window as it is now. carried are those that the next
	// reading may use.
	fresh, carried []freshPage

	// sealed is the window file. recorded: the ledger knows it. lacking: the sinks that do
	// not have it yet.
	sealed     *spool.Sealed
	provenance analytics.Provenance
	// suspect is 1 where the pages add up to less than the site.
	suspect  int
	recorded bool
	lacking  []sinks.Sink
	// release gives the window's place among those that are read to another.
	release func()
}

// commit takes a window through the steps of the package comment and returns what to add
// to the result of the run, the failures of single sinks among it. An error comes from
// the service, the spool or the ledger.
//
// Run enters it without a window file, Recover with the file that an earlier process
// sealed. Requests end with sending, everything else with ctx.
func (w *window) commit(ctx, sending context.Context) (done Result, err error) {
	p := w.p
	for w.sealed == nil {
		// Step 1: each page is written to the page log as it comes, and verified against
		// the others, so that all of them are parts of one unchanged window.
		// CRASH: the next run continues the log and requests only what is missing.
		err := w.readPages(sending)
		if err == nil && w.mustKeepRows() {
			err = errNoRows
		}
		if err == nil {
			w.run.order.set(w.turn, false) // the next window of the plan may send
			w.observe(StepFetched, 0)
			// Step 2: the rows become one file, which gets its name when it is whole and
			// on disk. The file of a window of one page stays in memory.
			// CRASH before it has its name: the log is complete, so the next run seals it
			// without a request. CRASH after that: Recover continues with step 3.
			err = w.seal(ctx)
		}
		if errors.Is(err, errDrift) {
			err = w.startOver(ctx, err)
		}
		if err != nil {
			return done, w.leave(err)
		}
	}
	rev := w.sealed.Revision()
	if w.run != nil {
		w.learn(ctx, rev)
		// The windows of the same days get the pages in logs of their own, and are exported
		// like windows that an earlier run read.
		// CRASH: those without a log are requested.
		if err := w.share(rev); err != nil {
			return done, w.leave(err)
		}
	}
	done = Result{Rows: max(rev.Rows, 0), Suspect: w.suspect, MovedRows: w.provenance.MovedRows, RepeatedRows: w.provenance.RepeatedRows}
	if !rev.Verified {
		done.Unverified = 1
	}
	// A commit under way is finished rather than cut.
	ctx, cancel := clock.Outlive(ctx, grace, commitTimeout)
	defer cancel()
	held := w.sealed.IsHeld()
	if held {
		// Another window may be read meanwhile.
		w.run.commits <- struct{}{}
		defer func() { <-w.run.commits }()
		w.release()
	}
	if !w.recorded {
		w.observe(StepSealed, rev.Rows)
		// Step 3: from here on the ledger owes the revision to every sink.
		// CRASH: Recover continues with step 4, from the file or, of a window in memory, from
		// the page log. If that is lost before any sink has the window, as in a power cut,
		// Recover forgets the revision, and the window is due again.
		if err := p.ledger.Record(ctx, rev, w.provenance, p.sinkNames); err != nil {
			return done, w.leave(err)
		}
		w.observe(StepRecorded, rev.Rows)
	}
	if !held {
		// Step 4: ledger and file have all that the log had.
		// CRASH: Recover removes the log.
		if err := w.discardLog(); err != nil {
			return done, err
		}
	}
	// CRASH: the gauges lack these pages until they are read from a sink.
	if err := w.setPages(ctx); err != nil {
		return done, w.leave(err)
	}
	// Steps 5 and 6, for each sink.
	if err := w.deliver(ctx, &done); err != nil {
		return done, w.leave(err)
	}
	if held {
		// Step 4 of a window in memory. It gets a file where a sink still lacks it.
		// CRASH: Recover removes the log, or continues from it with the sinks that are left.
		if done.Waiting > 0 {
			if w.sealed, err = p.spool.Seal(ctx, w.log, rev); err != nil {
				return done, w.leave(err)
			}
		}
		if err := w.discardLog(); err != nil {
			return done, err
		}
	}
	if done.Waiting > 0 {
		return done, nil
	}
	// Step 7: nobody needs the file any more.
	// CRASH: Recover finds that no sink lacks it, and removes it.
	if !held {
		if err := p.spool.Remove(w.sealed); err != nil {
			return done, err
		}
	}
	w.observe(StepDone, max(rev.Rows, 0))
	done.Committed = 1
	return done, nil
}

// share gives the pages to the windows of the same days that wait for them.
func (w *window) share(rev analytics.Revision) error {
	for _, item := range w.run.sharesWith(w.item) {
		if w.item.TotalsOnly && !item.TotalsOnly {
			continue
		}
		number := int32(1)
		if known, ok := w.run.work.Known(item.Key); ok {
			number = known.Number + 1
		}
		if err := w.p.spool.Share(w.log, item.Key, number, item.TotalsOnly, rev.Totals); err != nil {
			return err
		}
		w.run.locked(func() { w.run.given[item.Key] = true })
	}
	w.run.endSharing(w.item)
	return nil
}

// setPages keeps the pages with the most visitors, where the window is its series' newest.
func (w *window) setPages(ctx context.Context) error {
	rev := w.sealed.Revision()
	if !w.item.Newest || rev.TotalsOnly() {
		return nil
	}
	top, err := analytics.Top(w.sealed.Rows(), w.p.cfg.TopPages)
	if err != nil {
		return err
	}
	return w.p.gauges.SetPages(ctx, rev, top)
}

// deliver gives the window to each sink that lacks it. A sink that fails gets nothing more in
// this run; the window waits for it in the spool.
func (w *window) deliver(ctx context.Context, done *Result) error {
	p, rev := w.p, w.sealed.Revision()
	for _, sink := range w.lacking {
		name := sink.Name()
		if _, down := p.down.Load(name); down {
			done.Waiting = 1
			continue
		}
		// Step 5: afterwards readers of the sink see this revision, whole.
		// CRASH: Recover does not know whether it happened and does it again, which
		// changes nothing that readers see.
		err := sink.Replace(ctx, w.sealed)
		if errors.Is(err, spool.ErrDamaged) {
			// The sink is not at fault. No other sink gets this file.
			done.Waiting, done.Errors = 1, append(done.Errors, fmt.Errorf("%s revision %d: %w "+
				"(the file is put aside, and the window is read again unless a sink has it)", rev.Key, rev.Number, err))
			return p.spool.PutAside(w.sealed)
		}
		if err != nil {
			done.Waiting = 1
			if p.noteDown(ctx, name) {
				done.Errors = append(done.Errors, fmt.Errorf("%s sink: %s revision %d: %w "+
					"(it waits in the spool for the next run)", name, rev.Key, rev.Number, err))
			}
			continue
		}
		p.cfg.Observe(Event{Step: StepReplaced, Key: rev.Key, Rows: rev.Rows, Sink: name})
		// Step 6: the ledger no longer owes the revision to this sink.
		// CRASH: as in step 5 for the sinks that are left.
		if err := p.ledger.Committed(ctx, rev, name, p.cfg.Now()); err != nil {
			return err
		}
		p.cfg.Observe(Event{Step: StepCommitted, Key: rev.Key, Rows: rev.Rows, Sink: name})
	}
	return nil
}

// discardLog removes the page log, if there still is one.
func (w *window) discardLog() error {
	if w.log == nil {
		return nil
	}
	log := w.log
	w.log = nil
	return log.Discard()
}

// noteDown counts the first failure of a sink, which gets nothing more in this run.
func (p *Pipeline) noteDown(ctx context.Context, sink string) (first bool) {
	if _, known := p.down.LoadOrStore(sink, true); known {
		return false
	}
	if err := p.gauges.Count(ctx, "sink_failures_total", 1, "sink", sink); err != nil {
		p.cfg.Logger.Error("sink failure not counted", "sink", sink, "error", err)
	}
	return true
}

// observe reports a step of a window that this run reads. Of windows that Recover
// delivers, only the steps at the sinks are reported.
func (w *window) observe(step Step, rows int64) {
	if w.run != nil {
		w.p.cfg.Observe(Event{Step: step, Key: w.item.Key, Rows: rows})
	}
}

// add adds the result of one window.
func (r *Result) add(done Result) {
	r.Committed += done.Committed
	r.Waiting += done.Waiting
	r.Rows += done.Rows
	r.Unverified += done.Unverified
	r.MovedRows += done.MovedRows
	r.RepeatedRows += done.RepeatedRows
	r.Suspect += done.Suspect
	r.Errors = append(r.Errors, done.Errors...)
}

// open opens the page log of a window that is to be read.
func (w *window) open() (err error) {
	now := w.p.cfg.Now()
	// A log from before the window could settle, or before someone asked for it to be read
	// again, would only have to be read again.
	notBefore := w.item.NotBefore
	if ripe := w.item.To.Time().Add(w.p.cfg.Settle); !now.Before(ripe) && ripe.After(notBefore) {
		notBefore = ripe
	}
	if w.log, err = w.p.spool.Begin(w.item.Key, w.number(), now, notBefore); err != nil {
		return err
	}
	logged := w.log.Pages()
	w.resumed = len(logged) > 0
	for offset, page := range logged {
		if isBeyond(offset, page) {
			w.inVain++
		}
	}
	if w.log.Reading() > 1 { // what earlier readings requested is not known any more
		w.inVain = math.MaxInt32
	}
	return nil
}

// mustKeepRows reports whether the reading must not replace the former one, which has rows:
// the service sent none, although its totals are not zero. While the reading is not the
// last, that is drift.
func (w *window) mustKeepRows() bool {
	return !w.item.TotalsOnly && w.previous != nil && w.previous.Rows > 0 &&
		w.log.Sum().Rows == 0 && w.pages.newest != analytics.Totals{}
}

// number is that of the revision to read.
func (w *window) number() int32 {
	if w.previous == nil {
		return 1
	}
	return w.previous.Number + 1
}

// maxReadings is how often the window is started at most: the last reading accepts
// whatever comes. A window that drifted in all of them after it could settle is read
// once more by a later run, in a single reading, so that its requests stay bounded; so is
// one that brought no rows before.
func (w *window) maxReadings() int {
	if w.run.work.Asides[w.item.Key].Reason == analytics.AsideEmpty {
		return 1
	}
	unverified := w.item.Reason == schedule.ReasonUnverified && w.previous != nil
	if unverified && w.run.work.Policy.Ripe(w.item.Window, w.previous.ExportedAt) {
		return 1
	}
	return schedule.MaxReadings
}

// seal makes the window file, one large window at a time. If ctx ends before it is this
// window's turn, or while a large one is sealed, the window is left to the next run, which
// needs no request for it. The error is errDrift where a path came twice, unless the
// reading is tolerant.
func (w *window) seal(ctx context.Context) error {
	seal := w.p.spool.Seal
	if w.log.IsOnePage() {
		seal = w.p.spool.Hold
	} else {
		w.p.sealing.Lock()
		defer w.p.sealing.Unlock()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	sealed, err := seal(ctx, w.log, w.revision(w.isUnmoved()))
	switch {
	case errors.Is(err, spool.ErrDuplicate) && !w.pages.tolerant:
		return fmt.Errorf("%w: %w", errDrift, err)
	case errors.Is(err, spool.ErrDuplicate):
		sealed, err = seal(ctx, w.log, w.revision(false))
	}
	if err != nil {
		return err
	}
	w.sealed = sealed
	if sum, site := w.log.Sum(), w.sealed.Revision().Totals; sum.Rows > 0 && !sum.Covers(site) {
		w.suspect = 1
		w.run.log.With(w.item.Key.Attrs()).Warn("window suspect: its pages add up to fewer visitors than the site has",
			"human", sum.Added.Human, "ai", sum.Added.AI, "total", sum.Added.Total,
			"site_human", site.Human, "site_ai", site.AI, "site_total", site.Total)
	}
	w.provenance = analytics.Provenance{
		Requests: w.log.Requests(), RepeatedRows: int64(w.log.Repeated()), Checksum: sealed.Checksum(),
	}
	if !w.isUnmoved() {
		w.provenance.MovedRows = w.pages.movedRows()
	}
	return nil
}

// isUnmoved reports whether what was read belongs to one unchanged window. Totals alone do.
func (w *window) isUnmoved() bool { return w.pages.drift == nil || w.item.TotalsOnly }

// revision describes the reading. Its totals are those of the page at the highest offset.
func (w *window) revision(verified bool) analytics.Revision {
	rev := analytics.Revision{
		Key: w.item.Key, Number: w.number(), Verified: verified, Totals: w.pages.newest, ExportedAt: w.log.Started(),
	}
	before := w.previous
	if w.item.TotalsOnly {
		rev.Rows = analytics.TotalsOnlyRows
	} else if before != nil && before.TotalsOnly() {
		before = nil
	}
	rev.Settled = schedule.Settles(rev.Window, w.p.cfg.Settle, rev.ExportedAt, verified, before)
	return rev
}

// leave keeps the page log for the next run. It discards the log if the last reading,
// which accepts what comes, met an answer outside the specification.
func (w *window) leave(err error) error {
	if w.log == nil {
		return err
	}
	e, ok := errors.AsType[*docsapi.Error](err)
	outsideSpec := errors.Is(err, errRepeats) || errors.Is(err, errNoRows) || ok && e.Status == http.StatusOK && e.Outcome == docsapi.Permanent
	closeLog := w.log.Close
	if outsideSpec && w.log.Reading() >= w.maxReadings() {
		closeLog = w.log.Discard
	}
	if cerr := closeLog(); cerr != nil {
		return fmt.Errorf("%w; %w", err, cerr)
	}
	return err
}
