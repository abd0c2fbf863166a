package pipeline

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// maxFailures is how many windows may fail in a row, each after its retries,
// before the service is taken to be down and the run ends.
const maxFailures = 2

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

	mu     sync.Mutex
	result Result
	// ended: no further window is begun. stop: nothing further is sent either.
	ended  bool
	stop   error
	barred map[string]bool // projects the service refuses
	streak int             // windows failed since the last that went well
}

// errStopped is in the error of a window that was given up because of another's failure.
var errStopped = errors.New("the run has stopped")

// Run reads the windows of w. It returns when all are done, refused by the
// budget or failed, or soon after ctx ended; what was fetched by then stays.
func (p *Pipeline) Run(ctx context.Context, w Work) Result {
	r := &run{Pipeline: p, Work: w, log: p.cfg.Logger, barred: map[string]bool{}}
	queue := make(chan schedule.Item)
	var workers sync.WaitGroup
	for range p.cfg.Concurrency {
		workers.Go(func() {
			for item := range queue {
				r.do(ctx, item)
			}
		})
	}
	begun := 0
	for _, item := range w.Items {
		if !r.goesOn(ctx) {
			break
		}
		select {
		case queue <- item:
			begun++
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	r.result.Left += len(w.Items) - begun
	return r.result
}

// goesOn reports whether another window may begin.
func (r *run) goesOn(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	if err := r.room(); err != nil {
		r.halt(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended && r.stop == nil
}

// room returns an error when the spool is full.
func (r *run) room() error {
	size, err := r.spool.Size()
	if err != nil || r.cfg.SpoolMax == 0 || size < r.cfg.SpoolMax {
		return err
	}
	return fmt.Errorf("the spool holds %d bytes of windows that a sink still lacks, DOCGAUGE_SPOOL_MAX is %d: exporting pauses until the sink takes them", size, r.cfg.SpoolMax)
}

// halt ends the run for good; the first cause is reported.
func (r *run) halt(cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stop == nil {
		r.stop = errStopped
		r.result.Errors = append(r.result.Errors, cause)
	}
}

// stopped returns an error once nothing may be sent any more.
func (r *run) stopped() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stop
}

// do reads one window and sorts what came of it.
func (r *run) do(ctx context.Context, item schedule.Item) {
	if r.skips(ctx, item) {
		return
	}
	r.tell(StepStarted, item.Key, 0)
	started := r.cfg.Now()
	err := r.export(ctx, item)
	if err == nil {
		r.log.Info("window exported", "window", item.Key.String(), "reason", item.Reason, "took", r.cfg.Now().Sub(started).Round(time.Millisecond))
		r.mu.Lock()
		r.streak = 0
		r.mu.Unlock()
		return
	}
	r.sort(ctx, item, fmt.Errorf("export %s: %w", item.Key, err))
}

// skips reports whether the window is not to be begun after all.
func (r *run) skips(ctx context.Context, item schedule.Item) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.ended || r.stop != nil {
		r.result.Left++
		return true
	}
	return r.barred[item.Project]
}

// sort decides what a window's failure means for the run: nothing but a delay,
// the end of its project's windows, or the end of the run.
func (r *run) sort(ctx context.Context, item schedule.Item, err error) {
	switch {
	case ctx.Err() != nil || errors.Is(err, errStopped):
		r.count(func(res *Result) { res.Left++ })
	case refused(err) || docsapi.IsThrottled(err):
		r.count(func(res *Result) { res.Left++; res.BudgetSpent = true; r.ended = true })
	case docsapi.IsUnauthorized(err):
		r.halt(err)
	case fromService(err):
		r.failed(item, err)
	default:
		r.halt(err)
	}
}

func (r *run) count(f func(*Result)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(&r.result)
}

// refused reports whether the budget did not let a request through until a
// known time.
func refused(err error) bool {
	r, ok := errors.AsType[interface {
		error
		RetryAt() time.Time
	}](err)
	return ok && !r.RetryAt().IsZero()
}

// fromService reports whether the failure is the service's or the network's,
// rather than our own state's.
func fromService(err error) bool {
	_, ok := errors.AsType[*docsapi.Error](err)
	_, local := errors.AsType[interface {
		error
		RetryAt() time.Time
	}](err)
	return ok && !local
}

// failed notes a window the service did not give. A refusal of the project's
// request (4xx) bars the project; two windows in a row that failed after their
// retries mean that the service is down. A window the service answers with
// nonsense fails alone.
func (r *run) failed(item schedule.Item, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if docsapi.OutcomeOf(err) == docsapi.Transient {
		r.streak++
	} else if e, _ := errors.AsType[*docsapi.Error](err); e.Status >= 400 {
		if r.barred[item.Project] {
			return // said once
		}
		r.barred[item.Project] = true
	}
	r.result.Left++
	r.result.Errors = append(r.result.Errors, err)
	if r.streak >= maxFailures {
		r.ended = true
	}
}
