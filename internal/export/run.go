package export

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

// Work is what a run is to do.
type Work struct {
	// Items in the order of the plan.
	Items []schedule.Item
	// Known returns the newest revision of a window in the ledger.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Sizes says how many pages windows probably have, and learns from what is
	// read; nil knows nothing. At most one request a window is wasted where it is wrong.
	Sizes *schedule.Sizes
	// Room returns how many requests the budget lets through now, if it limits
	// them at all; nil does not. It is asked before each request.
	Room func(context.Context) (free int, limited bool, err error)
	// Policy decides which windows are better not begun now. Its Moved is taken
	// from Movements, to which the run adds what it sees; it may be nil.
	Policy    schedule.Policy
	Movements map[schedule.MovementKey]schedule.Movement
	// Asides are the windows that failed in earlier runs and are due again.
	Asides map[analytics.Key]analytics.Aside
}

// Result says what a run did.
type Result struct {
	// Committed counts windows that every sink has; Waiting those that are
	// sealed but that a sink still lacks.
	Committed, Waiting int
	// Open counts running windows that were read.
	Open int
	Rows int64
	// Drifted counts readings that were begun again, Mispredicted pages that
	// were asked for although they do not exist.
	Drifted, Mispredicted int
	// Unverified counts windows that were committed so, MovedRows and
	// RepeatedRows the rows of them that are suspect (analytics.Provenance).
	Unverified              int
	MovedRows, RepeatedRows int64
	// SetAside counts windows that failed alone and are read again later.
	SetAside int
	// Left counts windows that are still due; BudgetSpent reports whether the
	// budget is why. Wanted is how many requests must be free for the first of
	// them; 0 is one.
	Left        int
	BudgetSpent bool
	Wanted      int
	// Errors are the failures, each a message of its own. Warnings are those of windows
	// that were set aside: the run did what it could.
	Errors, Warnings []error
}

// run is one Run.
type run struct {
	p    *Pipeline
	work Work
	log  *slog.Logger
	// cut ends every request, those in flight and those that wait to be sent.
	cut   context.CancelCauseFunc
	order *order

	// left holds the items that are not begun, in order; only dispatch uses it.
	left []schedule.Item
	// before is how many requests were free before the first was sent.
	before int

	mu     sync.Mutex
	result Result
	// ended: no further window is begun. stop: nothing further is sent either.
	ended bool
	stop  error
	// need is how many requests the windows that are not done probably cost;
	// unknown counts those of which nobody knows.
	need, unknown int
	costs         map[analytics.Key]cost
	health        health
}

type cost struct {
	requests int
	known    bool
}

// errStopped is in the error of a window that was given up because of another's failure.
var errStopped = errors.New("the run has stopped")

// Run reads the windows of w. It returns when all are done, refused by the
// budget or failed, or soon after ctx ended; what was fetched by then stays.
//
// While the budget does not surely reach for everything, each request goes to the
// first window of the plan that can use it, so that at the end of the budget at
// most one window of a project is begun and not whole. Else windows are read at
// the same time, as many as Concurrency says.
func (p *Pipeline) Run(ctx context.Context, w Work) Result {
	sending, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	if w.Sizes == nil {
		w.Sizes = schedule.NewSizes(nil)
	}
	if w.Movements == nil {
		w.Movements = map[schedule.MovementKey]schedule.Movement{}
	}
	r := &run{
		p: p, work: w, log: p.cfg.Logger, cut: cut, order: newOrder(),
		left: slices.Clone(w.Items), health: newHealth(),
	}
	r.work.Policy.Moved = r.moved
	r.before, _ = r.free(ctx)
	r.recount()
	r.dispatch(ctx, sending)
	r.noteFailing(ctx)
	r.result.Left += len(r.left)
	return r.result
}

// dispatch begins one window after the other and returns when all have ended.
func (r *run) dispatch(ctx, sending context.Context) {
	var windows sync.WaitGroup
	defer windows.Wait()
	places := make(chan struct{}, r.p.cfg.Concurrency)
	for place := 0; ; place++ {
		select {
		case places <- struct{}{}:
		case <-ctx.Done():
			return
		}
		item, ok := r.next(ctx, place)
		if !ok {
			return
		}
		r.order.set(place, true)
		r.begun(1)
		windows.Go(func() {
			defer func() {
				r.begun(-1)
				r.order.set(place, false)
				<-places
				r.order.notify()
			}()
			r.do(ctx, sending, item, place)
		})
	}
}

// next takes the next window to begin out of the plan, and waits until it may be
// begun. It returns false if none may any more.
func (r *run) next(ctx context.Context, place int) (schedule.Item, bool) {
	for r.begins(ctx) {
		if err := r.checkSpool(); err != nil {
			return schedule.Item{}, false
		}
		open, changed := r.order.look(place)
		at, wait := r.choose(ctx, open)
		if at >= 0 {
			item := r.left[at]
			copy(r.left[1:], r.left[:at]) // mostly it is the first
			r.left = r.left[1:]
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

// choose returns the place in r.left of the window to begin now, -1 if there is
// none; wait says that there may be one when a window under way has gone on.
//
// A window that failed before is tried once something went well: a service that is
// down is not the window's fault, and a window that fails must not make the service
// look down.
func (r *run) choose(ctx context.Context, open bool) (at int, wait bool) {
	ample := r.ample(ctx)
	if !ample && open {
		return -1, true
	}
	r.dropBarred()
	answered, underWay := r.standing()
	suspect := -1
	for i, item := range r.left {
		if r.isSuspect(item.Key) && !answered {
			if suspect < 0 || r.soonerTried(item.Key, r.left[suspect].Key) {
				suspect = i
			}
			continue
		}
		if ample {
			return i, false
		}
		r.totalsFirst(&r.left[i], 0) // what is known now, not at the time of the plan
		begun, holds, pass := r.weigh(ctx, i)
		switch {
		case !holds:
			return begun, false
		case !pass:
			return -1, false
		}
	}
	if suspect >= 0 && !underWay {
		return suspect, false
	}
	return -1, suspect >= 0
}

// soonerTried orders windows that failed before: they take turns, and of two whose
// turn it is the one goes first that is begun.
func (r *run) soonerTried(a, b analytics.Key) bool {
	fa, fb := r.work.Asides[a].Failures, r.work.Asides[b].Failures
	return fa < fb || fa == fb && r.work.Sizes.Begun(a) > 0 && r.work.Sizes.Begun(b) == 0
}

// weigh decides about beginning the window at place i of r.left while the budget
// is scarce. If it need not be held back, begun is the place of the one to begin:
// i, or another of its project that was begun earlier, unless the budget surely
// does not end within the one at i. pass says that the windows behind one that is
// held back may use what is free: it would have had room at the begin of the run,
// and so has at that of the next.
func (r *run) weigh(ctx context.Context, i int) (begun int, holds, pass bool) {
	item, now := r.left[i], r.p.cfg.Now()
	free, _ := r.free(ctx)
	need, basis := r.work.Sizes.Requests(item)
	if basis == schedule.BasisLedger && need <= free {
		return i, false, false
	}
	if r.work.Sizes.Begun(item.Key) == 0 {
		for j, other := range r.left {
			if j != i && other.Project == item.Project && r.work.Sizes.Begun(other.Key) > 0 {
				return j, false, false
			}
		}
	}
	whole, _ := r.work.Sizes.Pages(item) // what was read of one that moves is lost
	if need <= free || basis == schedule.BasisUnknown || !r.work.Policy.HoldsBack(item.Key, whole, free, now) {
		return i, false, false
	}
	r.holdBack(ctx, item, whole)
	return -1, true, r.before >= whole
}

// holdBack notes that a window waits for an hour's budget, and of the first of the
// plan that does, since when.
func (r *run) holdBack(ctx context.Context, item schedule.Item, requests int) {
	first := false
	r.count(func(res *Result) {
		res.BudgetSpent = true
		if first = res.Wanted == 0; first {
			res.Wanted = requests
		}
	})
	if key, held := r.held(item.Key); first && !held {
		r.setMovement(ctx, key, int(item.From))
	}
}

// held reports whether it is this window of its series that waits.
func (r *run) held(k analytics.Key) (schedule.MovementKey, bool) {
	key := schedule.MovementKey{Series: schedule.SeriesOf(k), Kind: schedule.HeldBack}
	m, _ := r.moved(key)
	return key, m.Times == int(k.From)
}

// free returns how many requests the budget lets through now.
func (r *run) free(ctx context.Context) (free int, limited bool) {
	if r.work.Room == nil {
		return math.MaxInt, false
	}
	free, limited, err := r.work.Room(ctx)
	switch {
	case err != nil:
		return 0, true // the next request meets the error
	case !limited:
		return math.MaxInt, false
	}
	return free, true
}

// ample reports whether the budget surely reaches for all that is not done: for
// twice of what it can well cost.
func (r *run) ample(ctx context.Context) bool {
	free, limited := r.free(ctx)
	if !limited {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unknown == 0 && 2*r.need <= free
}

// recount estimates the windows that are not done.
func (r *run) recount() {
	costs := make(map[analytics.Key]cost, len(r.work.Items))
	r.mu.Lock()
	defer r.mu.Unlock()
	need, unknown := 0, 0
	for _, item := range r.work.Items {
		if former, counted := r.costs[item.Key]; r.costs != nil && (!counted || former.known) {
			if counted {
				costs[item.Key], need = former, need+former.requests
			}
			continue // done, or known already
		}
		n, known := r.work.Sizes.Most(item)
		c := cost{n, known}
		costs[item.Key] = c
		need += n
		if !c.known {
			unknown++
		}
	}
	r.costs, r.need, r.unknown = costs, need, unknown
}

// paid takes a window that ended out of what the rest costs.
func (r *run) paid(k analytics.Key) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c, ok := r.costs[k]; ok {
		delete(r.costs, k)
		r.need -= c.requests
		if !c.known {
			r.unknown--
		}
	}
}

// begins reports whether another window may begin.
func (r *run) begins(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ctx.Err() == nil && !r.ended && r.stop == nil && len(r.left) > 0
}

// checkSpool ends the run where the spool has no room for another window.
func (r *run) checkSpool() error {
	if r.p.cfg.SpoolMax == 0 {
		return nil
	}
	size, err := r.p.spool.Size()
	switch {
	case err != nil:
		r.halt(err)
	case size >= r.p.cfg.SpoolMax:
		err = fmt.Errorf("the spool holds %d bytes of windows that a sink still lacks, DOCGAUGE_SPOOL_MAX is %d: exporting pauses until the sink takes them", size, r.p.cfg.SpoolMax)
		r.end(err)
	}
	return err
}

// end lets the windows under way finish, and no other begin.
func (r *run) end(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.ended = true
	r.result.Errors = append(r.result.Errors, cause)
}

// halt ends the run at once: nothing more is sent. The first cause is reported.
func (r *run) halt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop != nil {
		return
	}
	r.stop = errStopped
	r.result.Errors = append(r.result.Errors, cause)
	r.cut(errStopped)
}

// stopped returns an error once nothing may be sent any more.
func (r *run) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop
}

// do reads one window and classifies how that ended.
func (r *run) do(ctx, sending context.Context, item schedule.Item, place int) {
	defer r.paid(item.Key)
	r.p.tell(StepStarted, item.Key, 0)
	if key, held := r.held(item.Key); held {
		r.setMovement(ctx, key, 0)
	}
	started := r.p.cfg.Now()
	if err := r.export(ctx, sending, item, place); err != nil {
		r.classify(ctx, sending, item, fmt.Errorf("export %s: %w", item.Key, err))
		return
	}
	r.log.Info("window exported", "window", item.Key.String(), "reason", item.Reason, "took", r.p.cfg.Now().Sub(started).Round(time.Millisecond))
}

func (r *run) count(f func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.result)
}

func (r *run) moved(key schedule.MovementKey) (schedule.Movement, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m, ok := r.work.Movements[key]
	return m, ok
}

// setMovement keeps how often in a row a series moved. That it cannot is no
// failure of the window: the next run decides with what is known by then.
func (r *run) setMovement(ctx context.Context, key schedule.MovementKey, times int) {
	at := r.p.cfg.Now()
	r.mu.Lock()
	r.work.Movements[key] = schedule.Movement{Times: times, At: at}
	r.mu.Unlock()
	if err := r.p.ledger.SetMovement(ctx, key.Project, key.Granularity, string(key.Kind), times, at); err != nil && ctx.Err() == nil {
		r.log.Warn("movement not noted", "project", key.Project, "granularity", string(key.Granularity), "error", err)
	}
}
