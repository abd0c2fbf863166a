package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"sync"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Revisions yields the revision of each window in the tree, from footers
// alone, and finishes what a crash left half done (see the package comment).
// Files with other names than ours are not looked at. A damaged file yields an
// error that names it, and the other windows follow. Where the tree cannot be
// listed, that is an error with [sinks.ErrNotListed].
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return each(ctx, s, sinks.Scope{}, s.revision)
}

// each yields what read returns of each window in scope; nil without an error is
// left out.
func each[T any](ctx context.Context, s *Sink, scope sinks.Scope, read func(context.Context, analytics.Key) (*T, error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		keys, err := s.keys(ctx, scope)
		if err != nil && !yield(none, fmt.Errorf("parquet sink: %w: %w", sinks.ErrNotListed, err)) {
			return
		}
		within, stop := context.WithCancel(ctx)
		all, enough := readAll(within, keys, s.tree.readers(), read), false
		for f := range all {
			if f.value != nil {
				enough = !yield(*f.value, f.err)
			} else if f.err != nil {
				enough = !yield(none, f.err)
			}
			if enough {
				break
			}
		}
		stop()
		for range all {
			// until its goroutines have ended
		}
		if err := ctx.Err(); err != nil && !enough {
			yield(none, fmt.Errorf("parquet sink: %w", err))
		}
	}
}

// found is what reading one window came to.
type found[T any] struct {
	value *T
	err   error
}

// readAll reads windows, several at once where the tree is far away, until all
// are read or ctx is done.
func readAll[T any](ctx context.Context, keys map[analytics.Key]bool, atOnce int, read func(context.Context, analytics.Key) (*T, error)) <-chan found[T] {
	todo, out := make(chan analytics.Key), make(chan found[T])
	go func() {
		defer close(todo)
		for key := range keys {
			select {
			case todo <- key:
			case <-ctx.Done():
				return
			}
		}
	}()
	var wait sync.WaitGroup
	for range atOnce {
		wait.Go(func() {
			for key := range todo {
				value, err := read(ctx, key)
				select {
				case out <- found[T]{value, faultOf(key, err)}:
				case <-ctx.Done():
				}
			}
		})
	}
	go func() { wait.Wait(); close(out) }()
	return out
}

// faultOf makes err the error of one window.
func faultOf(key analytics.Key, err error) error {
	if err == nil {
		return nil
	}
	return sinks.Fault{Sink: name, Key: key, Kind: kindOf(err), Err: err}
}

// errDisagree: the two files of a window are not of one revision.
type errDisagree struct{ error }

func kindOf(err error) sinks.FaultKind {
	_, disagree := errors.AsType[errDisagree](err)
	_, local := errors.AsType[*fs.PathError](err)
	_, remote := errors.AsType[bucketError](err)
	switch {
	case disagree:
		return sinks.Disagree
	case errors.Is(err, errDamaged) || emptyObject(err):
		return sinks.Unreadable
	case local || remote || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return sinks.Unavailable
	}
	return sinks.Unreadable
}

// keys returns the windows in scope that have a file in either table, also with
// an error those found until then.
func (s *Sink) keys(ctx context.Context, scope sinks.Scope) (map[analytics.Key]bool, error) {
	keys := map[analytics.Key]bool{}
	for _, table := range []string{visitorsTable, totalsTable} {
		err := s.tree.list(ctx, table+"/"+version, func(name string) {
			if key, ours := keyOf(name); ours && scope.Has(key) {
				keys[key] = true
			}
		})
		if err != nil {
			return keys, err
		}
	}
	return keys, nil
}

// pair is what the two tables hold of one window; nil is no file.
type pair struct{ visitors, totals *analytics.Revision }

// remedy is what makes the two tables agree.
type remedy int

const (
	none           remedy = iota
	writeTotals           // the visitors file is the newer one
	removeVisitors        // a totals-only revision took its place
	exportAgain           // the visitors file is lost
)

func (p pair) remedy() remedy {
	v, t := p.visitors, p.totals
	switch {
	case v == nil && (t == nil || t.TotalsOnly()):
		return none
	case v == nil:
		return exportAgain
	case t != nil && same(*v, *t):
		return none
	case t != nil && t.TotalsOnly() && newer(*t, *v):
		return removeVisitors
	}
	return writeTotals
}

func newer(a, b analytics.Revision) bool {
	return a.Number > b.Number || a.Number == b.Number && a.ExportedAt.After(b.ExportedAt)
}

// revision returns the revision of key that readers see, nil if there is none.
func (s *Sink) revision(ctx context.Context, key analytics.Key) (*analytics.Revision, error) {
	p, err := s.read(ctx, key)
	if err == nil && p.remedy() != none {
		p, err = s.heal(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return p.newest(), nil
}

// newest is what readers see where the tables agree.
func (p pair) newest() *analytics.Revision {
	if p.visitors != nil {
		return p.visitors
	}
	return p.totals
}

func (p pair) lost() error {
	return errDisagree{fmt.Errorf("the visitors file of revision %d with %d rows is missing: export the window again", p.totals.Number, p.totals.Rows)}
}

// heal looks again, when no Replace is under way, and applies the remedy.
func (s *Sink) heal(ctx context.Context, key analytics.Key) (pair, error) {
	s.healing.Lock()
	defer s.healing.Unlock()
	p, err := s.read(ctx, key)
	if err != nil {
		return p, err
	}
	switch p.remedy() {
	case writeTotals:
		return p, s.writeTotals(ctx, *p.visitors)
	case removeVisitors:
		p.visitors = nil
		return p, s.removeVisitors(ctx, key)
	case exportAgain:
		return p, p.lost()
	}
	return p, nil
}

func (s *Sink) writeTotals(ctx context.Context, rev analytics.Revision) error {
	if err := s.tree.prepare(ctx); err != nil {
		return err
	}
	staged := s.tree.stagingFile()
	defer discard(staged)
	if err := archive.WriteTotals(staged, rev); err != nil {
		return err
	}
	return s.publish(ctx, staged, totalsTable, rev.Key)
}

func (s *Sink) read(ctx context.Context, key analytics.Key) (p pair, err error) {
	if p.totals, err = s.footer(ctx, totalsTable, key); err != nil {
		return p, err
	}
	p.visitors, err = s.footer(ctx, visitorsTable, key)
	return p, err
}

// footer reads the revision of key's file in table, nil if there is no file.
func (s *Sink) footer(ctx context.Context, table string, key analytics.Key) (*analytics.Revision, error) {
	foot, _, err := s.readFile(ctx, table, key, false)
	return revisionOf(foot), err
}
