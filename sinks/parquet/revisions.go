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
	return s.revisions(ctx, s.revision)
}

// Look yields what Revisions does, and changes nothing: it may run while another
// process writes. Of a window that a crash left half done it yields the reading
// that Revisions would finish.
func (s *Sink) Look(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return s.revisions(ctx, s.look)
}

// glance returns the revision of a window, nil if there is none.
type glance func(ctx context.Context, key analytics.Key) (*analytics.Revision, error)

func (s *Sink) revisions(ctx context.Context, read glance) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		keys, err := s.keys(ctx)
		if err != nil && !yield(analytics.Revision{}, fmt.Errorf("parquet sink: %w: %w", sinks.ErrNotListed, err)) {
			return
		}
		within, stop := context.WithCancel(ctx)
		all, enough := s.readAll(within, keys, read), false
		for f := range all {
			if (f.err != nil || f.rev != nil) && !yield(deref(f.rev), f.err) {
				enough = true
				break
			}
		}
		stop()
		for range all {
			// until its goroutines have ended
		}
		if err := ctx.Err(); err != nil && !enough {
			yield(analytics.Revision{}, fmt.Errorf("parquet sink: %w", err))
		}
	}
}

// found is what reading one window came to.
type found struct {
	rev *analytics.Revision
	err error
}

// readAll reads windows, several at once where the tree is far away, until all
// are read or ctx is done.
func (s *Sink) readAll(ctx context.Context, keys map[analytics.Key]bool, read glance) <-chan found {
	todo, out := make(chan analytics.Key), make(chan found)
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
	for range s.tree.readers() {
		wait.Go(func() {
			for key := range todo {
				rev, err := read(ctx, key)
				if err != nil {
					err = fmt.Errorf("parquet sink: %s: %w", key, err)
				}
				select {
				case out <- found{rev, err}:
				case <-ctx.Done():
				}
			}
		})
	}
	go func() { wait.Wait(); close(out) }()
	return out
}

func deref(rev *analytics.Revision) analytics.Revision {
	if rev == nil {
		return analytics.Revision{}
	}
	return *rev
}

// keys returns the windows that have a file in either table, also with an error
// those found until then.
func (s *Sink) keys(ctx context.Context) (map[analytics.Key]bool, error) {
	keys := map[analytics.Key]bool{}
	for _, table := range []string{visitorsTable, totalsTable} {
		err := s.tree.list(ctx, table+"/"+version, func(name string) {
			if key, ours := keyOf(name); ours {
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

// look does without a repair what revision does.
func (s *Sink) look(ctx context.Context, key analytics.Key) (*analytics.Revision, error) {
	p, err := s.read(ctx, key)
	if err == nil && p.remedy() == exportAgain {
		// The one file may have gone, and the other come, between the two reads.
		p, err = s.read(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	switch p.remedy() {
	case removeVisitors:
		return p.totals, nil
	case exportAgain:
		return nil, p.lost()
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
	return fmt.Errorf("the visitors file of revision %d with %d rows is missing: export the window again", p.totals.Number, p.totals.Rows)
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
func (s *Sink) footer(ctx context.Context, table string, key analytics.Key) (_ *analytics.Revision, err error) {
	name, err := place(table, key)
	if err != nil {
		return nil, err
	}
	f, err := s.tree.open(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	rev, err := archive.ReadRevision(f, f.Size())
	if err == nil && rev.Key != key {
		err = fmt.Errorf("holds %s", rev.Key)
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", s.tree.describe(name), err)
	}
	return &rev, nil
}
