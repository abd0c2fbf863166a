// Package sinks is the contract between the pipeline and the places committed
// windows go to. Its implementations live in the folders below it; sinktest is
// the contract as a test suite that each of them runs.
//
// A run over two sinks is not atomic across them: for a while one may show a
// newer revision of a window than the other.
package sinks

import (
	"context"
	"errors"
	"iter"
	"os"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Sealed is one revision of one window, fetched whole and immutable.
type Sealed interface {
	// Revision describes it.
	Revision() analytics.Revision
	// Rows yields its rows sorted by path, each path once; none for a
	// totals-only window. It may be ranged over more than once, and memory does
	// not grow with the number of rows. After an error nothing more is yielded.
	Rows() iter.Seq2[analytics.Row, error]
	// Open opens the sealed window file (package archive) for reading.
	Open() (*os.File, error)
}

// ErrNotListed: the windows a sink holds could not be listed, so that it must
// not be taken for empty.
var ErrNotListed = errors.New("the windows it holds cannot be listed")

// Sink stores windows. It is used by many goroutines at once, but never by two
// for the same window.
type Sink interface {
	// Name is the sink's name in configuration, ledger, logs and metrics.
	Name() string
	// Replace commits w. After nil, readers see exactly this revision of the
	// window; after an error they see the former one or this one, whole.
	// Calling it again with the same revision is safe.
	Replace(ctx context.Context, w Sealed) error
	// Revisions yields what the sink shows: the newest revision of each window,
	// in no order. The ledger is rebuilt from it. After an error with
	// ErrNotListed windows are missing that the sink may hold; any other is of
	// one window, a Fault, and the others follow.
	Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error]
	// Inspect yields what readers see of each window in scope, each once, in no
	// order; errors are as those of Revisions. It changes nothing, and may run
	// beside a process that writes: of a window that is replaced meanwhile it
	// yields either revision, or a Fault of kind Disagree. With a Fault comes what
	// the rows tell, where they can be read: they may still be whole.
	Inspect(ctx context.Context, scope Scope) iter.Seq2[Shown, error]
	// Window gives the window of rev's key, as readers see it, as a sealed one
	// that stays as it is. A file that is needed for that is made in dir; done
	// removes it. It changes nothing, and the window may be of another revision
	// than rev by now.
	Window(ctx context.Context, rev analytics.Revision, dir string) (w Sealed, done func() error, err error)
}
