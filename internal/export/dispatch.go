package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// run is one call of read.
type run struct {
	e    *Exporter
	work work
	log  *slog.Logger
	// cut ends every request, those in flight and those that wait to be sent.
	cut   context.CancelCauseFunc
	order *order

	// pending are the windows that are not started, in order; only dispatch uses it.
	pending []schedule.Item
	// freeAtStart is how many requests were free before the first was sent.
	freeAtStart int

	mu sync.Mutex
	// draining: no further window is started. aborted: nothing further is sent either.
	draining, aborted bool
	// underWay counts the windows that are started and have not ended.
	underWay map[schedule.Source]int
	// estimates are the probable costs of the windows that are not done. need is their
	// sum, unknown counts those about which nothing is known.
	estimates     map[analytics.Key]cost
	need, unknown int
	health        health
	// sources has an entry for each source of which a window was started.
	sources map[schedule.Source]sourceContext
	// hasEarly: pending windows may begin before the service has data, as an answer has said.
	hasEarly bool
	// sharing has the windows that wait for the pages of another window of the same days, given
	// the windows that have got them.
	sharing map[schedule.Days]*sharing
	given   map[analytics.Key]bool
}

type sharing struct {
	items []schedule.Item
	// isRead: the window whose pages they get is in this run; underWay: it is being read.
	isRead, underWay bool
}

type cost struct {
	item     *schedule.Item // as planned
	requests int
	known    bool
}

// errAborted is why the requests of an aborted run end.
var errAborted = errors.New("the run has stopped")

// read reads the windows of work. It returns when all are done, refused by the budget or
// failed, or soon after ctx ended; pages fetched by then are kept.
//
// Unless the budget is certainly enough for everything, each request goes to the
// first window of the plan that can use it, so that when the budget ends at
// most one window of a project is started and not complete. Otherwise up to Concurrency
// windows are read at the same time.
func (e *Exporter) read(ctx context.Context, work work) {
	e.count(func(s *Summary) { s.Left, s.BudgetSpent, s.wanted = 0, false, 0 })
	sending, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	r := &run{
		e: e, work: work, log: e.app.Log, cut: cut, order: &order{open: map[int]bool{}, changed: make(chan struct{})},
		estimates: make(map[analytics.Key]cost, len(work.Items)), underWay: map[schedule.Source]int{},
		health: health{
			barred: map[schedule.Source]bool{}, gave: map[schedule.Source]bool{}, refused: map[schedule.Source][]failure{},
		},
		sources: map[schedule.Source]sourceContext{},
		sharing: map[schedule.Days]*sharing{}, given: map[analytics.Key]bool{},
	}
	r.work.Policy.Learned = r.learned
	r.freeAtStart, _ = r.free(ctx)
	r.prepareSharing()
	r.pending = slices.Clone(work.Items)
	for i, item := range work.Items {
		r.estimates[item.Key] = cost{item: &work.Items[i]}
	}
	r.estimate()
	r.dispatch(ctx, sending)
	r.keepFailures(ctx)
	e.count(func(s *Summary) { s.Left += len(r.pending) })
}

func (e *Exporter) concurrency() int      { return max(1, int(e.app.Config.Concurrency)) }
func (e *Exporter) settle() time.Duration { return time.Duration(e.app.Config.Settle) }

// locked calls f with mu held.
func (r *run) locked(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
}

// dispatch starts one window after the other and returns when all have ended.
func (r *run) dispatch(ctx, sending context.Context) {
	var windows sync.WaitGroup
	defer windows.Wait()
	places := make(chan struct{}, r.e.concurrency())
	for turn := 0; ; turn++ {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		item, ok := r.next(ctx, turn)
		if !ok {
			return
		}
		r.order.set(turn, true)
		r.locked(func() {
			r.underWay[schedule.SourceOf(item.Key)]++
			if s := r.sharing[schedule.DaysOf(item.Key)]; s != nil {
				s.underWay = true
			}
		})
		release := sync.OnceFunc(func() { <-places })
		windows.Go(func() {
			r.export(ctx, sending, item, turn, release)
			r.endSharing(item)
			r.locked(func() {
				source := schedule.SourceOf(item.Key)
				if r.underWay[source]--; r.underWay[source] == 0 {
					delete(r.underWay, source)
				}
			})
			r.order.set(turn, false)
			release()
			r.order.notify()
		})
	}
}

// next takes the next window to start out of the plan, and waits until it may
// start. It returns false if no other may.
func (r *run) next(ctx context.Context, turn int) (schedule.Item, bool) {
	for r.mayStart(ctx) {
		earlier, changed := r.order.isOpenBefore(turn)
		at, wait := r.choose(ctx, earlier)
		if at >= 0 {
			item := r.pending[at]
			copy(r.pending[1:], r.pending[:at]) // mostly it is the first
			r.pending = r.pending[1:]
			return item, true
		}
		if !wait {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	return schedule.Item{}, false
}

// mayStart reports whether another window may start. If the spool is full none may,
// and the run ends.
func (r *run) mayStart(ctx context.Context) bool {
	r.mu.Lock()
	may := ctx.Err() == nil && !r.draining && !r.aborted && len(r.pending) > 0
	r.mu.Unlock()
	most := int64(r.e.app.Config.SpoolMax)
	if !may || most == 0 {
		return may
	}
	size, err := r.e.app.Spool.Size()
	switch {
	case err != nil:
		r.abort(err)
	case size >= most:
		r.drain(fmt.Errorf("the spool holds %d bytes of windows that a sink still lacks, DOCGAUGE_SPOOL_MAX is %d: "+
			"exporting pauses until the sink takes them", size, most))
	default:
		return true
	}
	return false
}

// choose returns the index in r.pending of the window to start now, or -1. wait means that a
// window may become ready when one under way has advanced. earlier means that an earlier window
// may still have to send.
//
// Until the service has answered once, only one request at a time is sent, to limit the cost of a
// refused key or a service that is down. The same holds for a project without earlier readings,
// whose id may be wrong.
//
// A window that failed before is tried once something went well: when the service is
// down that is not the window's fault, and a window that fails must not make the service
// look down.
func (r *run) choose(ctx context.Context, earlier bool) (at int, wait bool) {
	ample := r.ample(ctx)
	if !ample && earlier {
		return -1, true
	}
	r.dropBarred()
	r.dropEarly()
	r.mu.Lock()
	answered, underWay := r.health.answered, len(r.underWay) > 0
	r.mu.Unlock()
	if !answered && underWay {
		return -1, true
	}
	suspect, asking := -1, false
	for i, item := range r.pending {
		if item.Shared {
			r.mu.Lock()
			s := r.sharing[schedule.DaysOf(item.Key)]
			asking = asking || s != nil && s.underWay
			item.Shared = r.given[item.Key]
			r.mu.Unlock()
			if s != nil {
				continue // it waits for the pages of another one
			}
			r.pending[i] = item
		}
		r.mu.Lock()
		source := schedule.SourceOf(item.Key)
		first := r.isAsking(source) || r.isAsking(schedule.Source{Project: item.Project})
		r.mu.Unlock()
		if first { // the project's id may be wrong, or the service may lack the report
			asking = true
			continue
		}
		if aside, failed := r.work.Asides[item.Key]; failed && !answered {
			if suspect < 0 {
				suspect = i
				continue
			}
			best, sizes := r.pending[suspect].Key, r.work.Sizes
			if schedule.TriedBefore(aside, r.work.Asides[best], sizes.Begun(item.Key), sizes.Begun(best)) {
				suspect = i
			}
			continue
		}
		if ample {
			return i, false
		}
		r.totalsFirst(&r.pending[i], 0) // by what is known now, not when the plan was made
		at, deferred, passable := r.weigh(ctx, i)
		switch {
		case !deferred:
			return at, false
		case !passable:
			return -1, false
		}
	}
	if suspect >= 0 && !underWay {
		return suspect, false
	}
	return -1, suspect >= 0 || asking
}

// isAsking reports whether a source of which nothing is known is being asked. The caller holds mu.
func (r *run) isAsking(source schedule.Source) bool {
	return r.underWay[source] > 0 && !r.health.gave[source] && !r.work.Sizes.Knows(source)
}

// prepareSharing makes windows wait that get their pages from another window of this run.
func (r *run) prepareSharing() {
	for _, item := range r.work.Items {
		if item.Shared {
			r.sharing[schedule.DaysOf(item.Key)] = &sharing{}
		}
	}
	for i, item := range r.work.Items {
		switch s := r.sharing[schedule.DaysOf(item.Key)]; {
		case s == nil:
		case !item.Shared:
			s.isRead = true
		case s.isRead:
			s.items = append(s.items, item)
		default: // the other window is not in this run
			r.work.Items[i].Shared = false
		}
	}
	maps.DeleteFunc(r.sharing, func(_ schedule.Days, s *sharing) bool { return len(s.items) == 0 })
}

// endSharing lets the windows that wait for the pages of item wait no longer: those that have
// not got them are read by themselves.
func (r *run) endSharing(item schedule.Item) {
	r.locked(func() { delete(r.sharing, schedule.DaysOf(item.Key)) })
	r.order.notify()
}

// weigh decides, while the budget is scarce, whether the window at index i of r.pending is
// deferred. If not, at is the index of the window to start: i, or, unless the budget is certainly
// enough for that one, another window of its project that was begun earlier. If it is deferred,
// passable means that the windows behind it may use the free requests: they were enough for it when
// the run began, and so they will be when the next run begins.
func (r *run) weigh(ctx context.Context, i int) (at int, deferred, passable bool) {
	item, sizes := r.pending[i], r.work.Sizes
	free, _ := r.free(ctx)
	need, basis := sizes.Requests(item)
	if basis == schedule.BasisLedger && need <= free {
		return i, false, false
	}
	if sizes.Begun(item.Key) == 0 {
		for j, other := range r.pending {
			if j != i && other.Project == item.Project && sizes.Begun(other.Key) > 0 {
				return j, false, false
			}
		}
	}
	whole, _ := sizes.Pages(item) // the pages read of a window that moves are lost
	if need <= free || basis == schedule.BasisUnknown || !r.work.Policy.Defers(item.Key, whole, free, r.e.app.Now()) {
		return i, false, false
	}
	r.deferWindow(ctx, item, whole)
	return -1, true, r.freeAtStart >= whole
}

// free returns how many requests the budget allows now.
func (r *run) free(ctx context.Context) (free int, limited bool) {
	if r.work.Free == nil {
		return math.MaxInt, false
	}
	free, limited, err := r.work.Free(ctx)
	switch {
	case err != nil:
		return 0, true // the next request meets the error
	case !limited:
		return math.MaxInt, false
	}
	return free, true
}

// ample reports whether the budget is certainly enough for the rest of the run: for twice the
// estimated cost.
func (r *run) ample(ctx context.Context) bool {
	free, limited := r.free(ctx)
	if !limited {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown == 0 && 2*r.need <= free
}

// estimate estimates the windows that are not done and about which nothing was known.
func (r *run) estimate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.need, r.unknown = 0, 0
	for k, c := range r.estimates {
		if !c.known {
			c.requests, c.known = r.work.Sizes.Most(*c.item)
			r.estimates[k] = c
		}
		r.need += c.requests
		if !c.known {
			r.unknown++
		}
	}
}

// export reads one window, and decides the consequences of its failure for the others. It may call
// release before it returns, after which another window may be read.
func (r *run) export(ctx, sending context.Context, item schedule.Item, turn int, release func()) {
	sending = r.sendingOf(sending, schedule.SourceOf(item.Key))
	r.e.observe(Event{Step: stepStarted, Key: item.Key})
	if !r.work.Policy.HeldBackSince(item.Key).IsZero() {
		r.setLearned(ctx, schedule.SeriesOf(item.Key), schedule.HeldBack, 0)
	}
	started := r.e.app.Now()
	var err error
	if item.Reason == schedule.ReasonOpen {
		err = r.readOpen(sending, item.Key, turn)
	} else {
		w := &window{e: r.e, run: r, item: item, turn: turn, lacking: r.e.app.Sinks, release: release}
		if rev, ok := r.work.Known(item.Key); ok {
			w.previous = rev
		}
		if err = w.open(); err == nil {
			var complete bool
			complete, err = w.commit(ctx, sending)
			r.e.count(func(s *Summary) {
				if complete {
					s.Committed++
				} else if err == nil {
					s.Waiting++
				}
			})
		}
	}
	switch {
	case errors.Is(err, errEarly):
		r.e.count(func(s *Summary) { s.Early++ })
	case err != nil:
		r.classify(ctx, sending, item, fmt.Errorf("export %s: %w", item.Key, err))
	default:
		took := clock.Seconds(r.e.app.Now().Sub(started))
		done := "window exported"
		if item.Reason == schedule.ReasonOpen {
			done = "running window read"
		}
		r.log.With(item.Key.Attrs()).Debug(done, "reason", string(item.Reason), "took_seconds", took)
	}
	r.locked(func() { r.forgetEstimate(item) })
}

// forgetEstimate removes a window from what the run still has to do. The caller holds mu.
func (r *run) forgetEstimate(item schedule.Item) {
	if c, ok := r.estimates[item.Key]; ok {
		delete(r.estimates, item.Key)
		r.need -= c.requests
		if !c.known {
			r.unknown--
		}
	}
}

// readOpen reads the totals of a running window, for the gauges alone.
func (r *run) readOpen(ctx context.Context, k analytics.Key, turn int) error {
	if err := r.order.wait(ctx, turn, r.ample); err != nil {
		return err
	}
	at := r.e.app.Now()
	page, err := r.e.service.Page(ctx, docsapi.PageQuery{Project: k.Project, Window: k.Window, Limit: 1})
	if err != nil {
		return err
	}
	r.noteDataFrom(ctx, k.Project, page.DataFrom)
	r.noteAnswer(ctx, schedule.SourceOf(k))
	open := analytics.OpenWindow{Key: k, Totals: page.Totals, Humans: page.Humans, ReadAt: at}
	if err := r.e.ledger.SetOpen(ctx, open); err != nil {
		return err
	}
	r.e.observe(Event{Step: StepOpen, Key: k})
	r.e.count(func(s *Summary) { s.Open++ })
	return nil
}

// order keeps the requests of a run in the order of its plan while the budget is scarce: a
// window sends only when no window before it may still have to. A window is open from its
// start until all requests it is known to need are in flight, or it ended; one that starts
// over is open again.
type order struct {
	mu      sync.Mutex
	open    map[int]bool // by turn
	changed chan struct{}
}

// set opens or closes the window that has the turn.
func (o *order) set(turn int, open bool) {
	o.mu.Lock()
	if open {
		o.open[turn] = true
	} else {
		delete(o.open, turn)
	}
	o.mu.Unlock()
	o.notify()
}

// notify lets all that wait check again.
func (o *order) notify() {
	o.mu.Lock()
	defer o.mu.Unlock()
	close(o.changed)
	o.changed = make(chan struct{})
}

// isOpenBefore reports whether a window before turn is open, and returns a channel that is
// closed when that may have changed.
func (o *order) isOpenBefore(turn int) (earlier bool, changed <-chan struct{}) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for t := range o.open {
		earlier = earlier || t < turn
	}
	return earlier, o.changed
}

// openWindows returns how many windows are open.
func (o *order) openWindows() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.open)
}

// wait returns when the window that has the turn may send: at once while the budget is
// ample, otherwise when no window before it is open.
func (o *order) wait(ctx context.Context, turn int, ample func(context.Context) bool) error {
	for {
		earlier, changed := o.isOpenBefore(turn)
		if !earlier || ample(ctx) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
