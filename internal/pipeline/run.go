package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

// Work is what a run is to do.
type Work struct {
	// Items in the order in which to begin them.
	Items []schedule.Item
	// Known returns the newest revision of a window in the ledger.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Predict returns how many pages a window is expected to have at least; 0 or
	// 1 where nothing is known. At most one request is wasted where it is wrong.
	Predict func(analytics.Key) int
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
	// Left counts windows that are still due; BudgetSpent reports whether the
	// budget is why.
	Left        int
	BudgetSpent bool
	// Errors are the failures, each a message of its own.
	Errors []error
}

// run is one Run.
type run struct {
	*Pipeline
	Work
	log *slog.Logger
	// cut ends every request, those in flight and those that wait to be sent.
	cut context.CancelCauseFunc

	mu     sync.Mutex
	result Result
	// ended: no further window is begun. stop: nothing further is sent either.
	ended  bool
	stop   error
	barred map[string]bool // projects the service refuses
	// streak and nonsense count windows that failed, each in its way, since the
	// last that went well.
	streak, nonsense int
}

// errStopped is in the error of a window that was given up because of another's failure.
var errStopped = errors.New("the run has stopped")

// Run reads the windows of w. It returns when all are done, refused by the
// budget or failed, or soon after ctx ended; what was fetched by then stays.
func (p *Pipeline) Run(ctx context.Context, w Work) Result {
	sending, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	r := &run{Pipeline: p, Work: w, log: p.cfg.Logger, cut: cut, barred: map[string]bool{}}
	queue := make(chan schedule.Item)
	var workers sync.WaitGroup
	for range p.cfg.Concurrency {
		workers.Go(func() {
			for item := range queue {
				r.do(ctx, sending, item)
			}
		})
	}
	begun := r.hand(ctx, queue)
	close(queue)
	workers.Wait()
	r.result.Left += len(w.Items) - begun
	return r.result
}

// hand gives the items out, in order, and returns how many it gave.
func (r *run) hand(ctx context.Context, queue chan<- schedule.Item) (begun int) {
	for _, item := range r.Items {
		if !r.begins(ctx) {
			return begun
		}
		select {
		case queue <- item:
			begun++
		case <-ctx.Done():
			return begun
		}
	}
	return begun
}

// begins reports whether another window may begin.
func (r *run) begins(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return ctx.Err() == nil && !r.ended && r.stop == nil
}

// checkRoom ends the run where the spool has no room for another window.
func (r *run) checkRoom() {
	full, err := r.full()
	switch {
	case err != nil:
		r.halt(err)
	case full != nil:
		r.end(full)
	}
}

// full says that the spool has no room, and why that is.
func (r *run) full() (full, err error) {
	if r.cfg.SpoolMax == 0 {
		return nil, nil
	}
	size, err := r.spool.Size()
	if err != nil || size < r.cfg.SpoolMax {
		return nil, err
	}
	return fmt.Errorf("the spool holds %d bytes of windows that a sink still lacks, DOCGAUGE_SPOOL_MAX is %d: exporting pauses until the sink takes them", size, r.cfg.SpoolMax), nil
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

// do reads one window and sorts what came of it.
func (r *run) do(ctx, sending context.Context, item schedule.Item) {
	if r.skips(ctx, item) {
		return
	}
	r.tell(StepStarted, item.Key, 0)
	started := r.cfg.Now()
	if err := r.export(ctx, sending, item); err != nil {
		r.sort(sending, item, fmt.Errorf("export %s: %w", item.Key, err))
		return
	}
	r.log.Info("window exported", "window", item.Key.String(), "reason", item.Reason, "took", r.cfg.Now().Sub(started).Round(time.Millisecond))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.streak, r.nonsense = 0, 0
}

// skips reports whether the window is not to be begun after all.
func (r *run) skips(ctx context.Context, item schedule.Item) bool {
	if r.begins(ctx) {
		r.checkRoom()
	}
	if r.begins(ctx) && !r.bars(item.Project) {
		return false
	}
	r.count(func(res *Result) { res.Left++ })
	return true
}

func (r *run) bars(project string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.barred[project]
}

func (r *run) count(f func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.result)
}
