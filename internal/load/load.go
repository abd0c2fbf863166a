// Package load is the use case behind `docgauge load`: it fills a sink from the
// archive, the windows that a Parquet sink has published, without asking the API.
//
// It skips a window that the sink has in this revision or a later one, so
// loading again does nothing, and a load that was interrupted continues where it
// stopped. It does not know what is due or what a ledger is; its caller keeps other
// writers of the sink away.
package load

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
	// windowTimeout bounds the loading of one window.
	windowTimeout = 10 * time.Minute
)

// Archive is where windows come from.
type Archive interface {
	// Window opens one of them; done ends its use.
	Window(ctx context.Context, rev analytics.Revision) (w sinks.Sealed, done func() error, err error)
}

// Plan is what loading would do.
type Plan struct {
	// Lacking lists the windows that the sink does not have, by project, granularity
	// and window.
	Lacking []analytics.Revision
	// Present is the number of windows that the sink has in this revision already,
	// or a later one.
	Present int
	// Shown lists everything the sink shows.
	Shown []analytics.Revision
	// Errors are those of windows of the archive that cannot be read.
	Errors []error
}

// Rows returns how many rows the windows have together.
func (p Plan) Rows() (n int64) {
	for _, rev := range p.Lacking {
		n += max(rev.Rows, 0)
	}
	return n
}

// NewPlan compares the windows of the archive that want says yes to with what the
// sink shows; both are listed as [sinks.Sink] describes it. The first error of the
// sink is returned; those of the archive are in the plan.
func NewPlan(ctx context.Context, archive, sink iter.Seq2[analytics.Revision, error], want func(analytics.Key) bool) (Plan, error) {
	var p Plan
	shown := map[analytics.Key]time.Time{}
	for rev, err := range sink {
		if err != nil {
			return Plan{}, err
		}
		shown[rev.Key] = rev.ExportedAt
		p.Shown = append(p.Shown, rev)
	}
	for rev, err := range archive {
		at, there := shown[rev.Key]
		switch {
		case err != nil:
			p.Errors = append(p.Errors, err)
		case !want(rev.Key):
		case there && !rev.ExportedAt.After(at):
			p.Present++
		default:
			p.Lacking = append(p.Lacking, rev)
		}
	}
	slices.SortFunc(p.Lacking, func(a, b analytics.Revision) int { return strings.Compare(a.Key.String(), b.Key.String()) })
	return p, ctx.Err()
}

// Run loads the windows of the plan, atOnce of them at the same time, and calls committed
// for each, also at the same time: whoever keeps what it says can write it together.
// The first error of committed or of the sink ends the run; the next run loads the
// rest. Run passes over windows that the archive cannot give, and returns their errors
// with the others, joined.
func Run(ctx context.Context, from Archive, to sinks.Sink, p Plan, atOnce int, committed func(analytics.Revision) error) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	l := loader{from: from, to: to, committed: committed, stop: stop, opening: semaphore.NewWeighted(openAtOnce)}
	room := semaphore.NewWeighted(rowsAtOnce)
	var wait sync.WaitGroup
	for _, rev := range p.Lacking {
		weight := min(max(rev.Rows, rowsAtOnce/int64(atOnce)), rowsAtOnce)
		if room.Acquire(ctx, weight) != nil {
			break
		}
		wait.Go(func() {
			defer room.Release(weight)
			l.window(ctx, rev)
		})
	}
	wait.Wait()
	if cause := context.Cause(ctx); cause != nil {
		l.damaged = append(l.damaged, cause)
	}
	return errors.Join(l.damaged...)
}

type loader struct {
	from      Archive
	to        sinks.Sink
	committed func(analytics.Revision) error
	stop      context.CancelCauseFunc
	opening   *semaphore.Weighted

	mu      sync.Mutex
	damaged []error
}

// window loads one window.
func (l *loader) window(ctx context.Context, rev analytics.Revision) {
	if l.opening.Acquire(ctx, 1) != nil {
		return
	}
	w, done, err := l.from.Window(ctx, rev)
	l.opening.Release(1)
	if end := ctx.Err(); end != nil && errors.Is(err, end) {
		return // the window is not damaged; Run returns once why it ended
	}
	if err != nil {
		l.mu.Lock()
		l.damaged = append(l.damaged, fmt.Errorf("%s: %w", rev.Key, err))
		l.mu.Unlock()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, windowTimeout)
	defer cancel()
	if err = l.to.Replace(ctx, w); err == nil {
		err = l.committed(w.Revision())
	}
	if err = errors.Join(err, done()); err != nil {
		l.stop(fmt.Errorf("%s sink: %s: %w", l.to.Name(), rev.Key, err))
	}
}
