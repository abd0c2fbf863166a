package cli

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

const (
	// rowsAtOnce bounds the rows of the windows that are loaded at the same time, and
	// so the files that are made of them.
	rowsAtOnce = 1_500_000
	// openAtOnce bounds the windows that are opened at the same time.
	openAtOnce = 8
	// loadTimeout bounds the loading of one window.
	loadTimeout = 10 * time.Minute
)

// loadPlan is the plan of a load.
type loadPlan struct {
	// lacking lists the windows that the sink does not have, by project, granularity
	// and window.
	lacking []analytics.Revision
	// present is the number of windows that the sink has in this revision or a later one.
	present int
	// shown lists everything the sink shows.
	shown []analytics.Revision
	// errors are those of windows of the archive that cannot be read.
	errors []error
}

// newLoadPlan compares the wanted windows of the archive with what the sink shows; both are
// listed as [sinks.Sink] describes it. The first error of the sink is returned; those of the
// archive are in the plan.
func newLoadPlan(
	ctx context.Context, archive, sink iter.Seq2[analytics.Revision, error], wanted func(analytics.Key) bool,
) (p loadPlan, err error) {
	shown := map[analytics.Key]time.Time{}
	for rev, err := range sink {
		if err != nil {
			return loadPlan{}, err
		}
		shown[rev.Key] = rev.ExportedAt
		p.shown = append(p.shown, rev)
	}
	for rev, err := range archive {
		at, there := shown[rev.Key]
		switch {
		case err != nil:
			p.errors = append(p.errors, err)
		case !wanted(rev.Key):
		case there && !rev.ExportedAt.After(at):
			p.present++
		default:
			p.lacking = append(p.lacking, rev)
		}
	}
	slices.SortFunc(p.lacking, func(a, b analytics.Revision) int {
		return strings.Compare(a.Key.String(), b.Key.String())
	})
	return p, ctx.Err()
}

// loader fills a sink from the archive. It does not use the ledger.
type loader struct {
	// open opens a window of the archive; done ends its use.
	open func(context.Context, analytics.Revision) (w sinks.Sealed, done func() error, err error)
	to   sinks.Sink
	// committed is called for each window, from many goroutines, so that it can write
	// several windows together.
	committed func(analytics.Revision) error
}

// run loads the windows, atOnce of them at the same time. The first error of committed or of
// the sink ends the run; the next run loads the rest. Windows that the archive cannot give are
// passed over, and their errors returned with the others, joined.
func (l loader) run(ctx context.Context, windows []analytics.Revision, atOnce int) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var mu sync.Mutex
	var damaged []error
	load := func(rev analytics.Revision, opening *semaphore.Weighted) {
		if opening.Acquire(ctx, 1) != nil {
			return
		}
		w, done, err := l.open(ctx, rev)
		opening.Release(1)
		if end := ctx.Err(); end != nil && errors.Is(err, end) {
			return // the window is not damaged; run returns once why it ended
		}
		if err != nil {
			mu.Lock()
			damaged = append(damaged, fmt.Errorf("%s: %w", rev.Key, err))
			mu.Unlock()
			return
		}
		within, cancel := context.WithTimeout(ctx, loadTimeout)
		defer cancel()
		if err = l.to.Replace(within, w); err == nil {
			err = l.committed(w.Revision())
		}
		if err = errors.Join(err, done()); err != nil {
			stop(fmt.Errorf("%s sink: %s: %w", l.to.Name(), rev.Key, err))
		}
	}
	opening, loading := semaphore.NewWeighted(openAtOnce), semaphore.NewWeighted(rowsAtOnce)
	var wait sync.WaitGroup
	for _, rev := range windows {
		weight := min(max(rev.Rows, rowsAtOnce/int64(atOnce)), rowsAtOnce)
		if loading.Acquire(ctx, weight) != nil {
			break
		}
		wait.Go(func() {
			defer loading.Release(weight)
			load(rev, opening)
		})
	}
	wait.Wait()
	return errors.Join(append(damaged, context.Cause(ctx))...)
}
