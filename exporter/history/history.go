package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Archive is where windows come from.
type Archive interface {
	// Revisions yields the newest reading of each window, in any order. An
	// error concerns one window and does not end it.
	Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error]
	// Window opens one of them; done ends its use. It is called by several
	// goroutines at once, and only for pages.
	Window(ctx context.Context, rev analytics.Revision) (w Window, done func() error, err error)
}

// Window is a window with its rows.
type Window interface {
	// Revision describes it. It may be a later reading than was asked for.
	Revision() analytics.Revision
	// Rows yields its rows, none for a totals-only window.
	Rows() iter.Seq2[analytics.Row, error]
}

// Options say what is written.
type Options struct {
	// From and To limit the times of samples: From <= t < To, in whole seconds.
	From, To time.Time
	// Step is between two samples of a value that goes on: whole seconds, at
	// least one. There is always one where a window begins to be shown.
	Step time.Duration
	// Pages is how many pages of each window have series, those with the most
	// visitors; 0: none, and no rows are read.
	Pages int
	// Labels are name, value pairs that every series gets.
	Labels []string
	// Want chooses windows; nil: all.
	Want func(analytics.Key) bool
}

// Summary counts what was written.
type Summary struct {
	Windows int // that are shown at some time
	Series  int
	Samples int64
}

// openWindows is how many windows are read at once: a bucket is far away.
const openWindows = 8

// Write writes the history of the archive to out. The error joins those of all
// windows that cannot be read.
func Write(ctx context.Context, out io.Writer, from Archive, o Options) (Summary, error) {
	if o.Step < time.Second || o.Step%time.Second != 0 {
		return Summary{}, fmt.Errorf("step %s: want whole seconds, at least one", o.Step)
	}
	lines, err := readTimelines(ctx, from, o)
	if err != nil {
		return Summary{}, err
	}
	if err := readPages(ctx, from, lines, o.Pages); err != nil {
		return Summary{}, err
	}
	return writeText(ctx, out, lines, o)
}

func readTimelines(ctx context.Context, from Archive, o Options) ([]timeline, error) {
	var revs []analytics.Revision
	var errs []error
	for rev, err := range from.Revisions(ctx) {
		switch {
		case err != nil:
			errs = append(errs, err)
		case o.Want == nil || o.Want(rev.Key):
			revs = append(revs, rev)
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return newTimelines(revs, o.From.Unix(), o.To.Unix()), errors.Join(errs...)
}

// readPages reads the n pages with the most visitors of every span.
func readPages(ctx context.Context, from Archive, lines []timeline, n int) error {
	if n <= 0 {
		return nil
	}
	var some errgroup.Group
	some.SetLimit(openWindows)
	var errs failures
	for _, line := range lines {
		for i := range line.spans {
			if span := &line.spans[i]; !span.TotalsOnly() && ctx.Err() == nil {
				some.Go(func() error {
					errs.add(span.readPages(ctx, from, n))
					return nil
				})
			}
		}
	}
	_ = some.Wait() // errs has them all, not only the first
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return errs.err()
}

func (s *span) readPages(ctx context.Context, from Archive, n int) error {
	w, done, err := from.Window(ctx, *s.Revision)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Key, err)
	}
	// The totals and the pages must be of the same reading, also where the window
	// is shown as the one before another.
	*s.Revision = w.Revision()
	s.pages, err = analytics.Top(w.Rows(), n)
	if err = errors.Join(err, done()); err != nil {
		return fmt.Errorf("%s: %w", s.Key, err)
	}
	return nil
}
