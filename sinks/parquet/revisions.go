package parquet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Revisions yields the revision of each window in the tree, from footers alone, and
// finishes what a crash left half done (see the package comment). It ignores files
// with other names than ours.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		keys, _, err := s.list(ctx, sinks.Scope{})
		if err != nil && !yield(analytics.Revision{}, sinks.NotListed(sinkName, err)) {
			return
		}
		s.each(ctx, keys, s.healed, func(shown sinks.Shown, err error) bool { return yield(shown.Revision, err) })
	}
}

// list returns the windows in scope that have a file in either table, and the names
// of files that a reader's glob finds although they are not ours. It does so with an
// error too: those it found until then.
func (s *Sink) list(ctx context.Context, scope sinks.Scope) (keys map[analytics.Key]bool, strays []string, err error) {
	keys = map[analytics.Key]bool{}
	for _, table := range []string{visitorsTable, totalsTable} {
		err := s.tree.list(ctx, table+"/"+version, func(name string) {
			switch key, ours := keyOf(name); {
			case ours && scope.Has(key):
				keys[key] = true
			case !ours && strings.HasSuffix(name, suffix):
				strays = append(strays, name)
			}
		})
		if err != nil {
			return keys, strays, err
		}
	}
	return keys, strays, nil
}

// each yields what read returns of each window, reading several at once where the
// tree is far away. It leaves out nil without an error. It returns false when yield
// wants no more; no goroutine outlives it.
func (s *Sink) each(ctx context.Context, keys map[analytics.Key]bool, read func(context.Context, analytics.Key) (*sinks.Shown, error),
	yield func(sinks.Shown, error) bool) (more bool) {
	type result struct {
		shown *sinks.Shown
		err   error
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan result)
	go func() {
		defer close(results)
		var readers errgroup.Group
		readers.SetLimit(s.tree.readers())
		for key := range keys {
			if within.Err() != nil {
				break
			}
			readers.Go(func() error {
				shown, err := read(within, key)
				if err != nil {
					err = sinks.Fault{Sink: sinkName, Key: key, Kind: kindOf(err), Err: err}
				}
				select {
				case results <- result{shown, err}:
				case <-within.Done():
				}
				return nil
			})
		}
		_ = readers.Wait()
	}()
	more = true
	for r := range results {
		switch {
		case !more: // wait for the end of the goroutines
		case r.shown != nil:
			more = yield(*r.shown, r.err)
		case r.err != nil:
			more = yield(sinks.Shown{}, r.err)
		}
		if !more {
			stop()
		}
	}
	if more && ctx.Err() != nil {
		more = yield(sinks.Shown{}, fmt.Errorf("%s sink: %w", sinkName, context.Cause(ctx)))
	}
	return more
}

// errDisagree means that the two files of a window are not of one revision.
type errDisagree struct{ error }

func kindOf(err error) sinks.FaultKind {
	_, disagree := errors.AsType[errDisagree](err)
	_, local := errors.AsType[*fs.PathError](err)
	_, remote := errors.AsType[bucketError](err)
	switch {
	case disagree:
		return sinks.Disagree
	case errors.Is(err, errDamaged) || isEmptyObject(err):
		return sinks.Unreadable
	case local || remote || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded):
		return sinks.Unavailable
	}
	return sinks.Unreadable
}

// healed returns what readers see of key, after it has made the two tables agree;
// nil if there is no such window.
func (s *Sink) healed(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
	p, err := s.read(ctx, key, false)
	if err == nil && p.remedy() != none {
		p, err = s.heal(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return p.newest(), nil
}

// heal reads again, while no Replace is under way, and applies the remedy.
func (s *Sink) heal(ctx context.Context, key analytics.Key) (pair, error) {
	s.healing.Lock()
	defer s.healing.Unlock()
	p, err := s.read(ctx, key, false)
	if err != nil {
		return p, err
	}
	switch p.remedy() {
	case writeTotals:
		return p, s.writeTotals(ctx, p.visitors.Revision)
	case removeVisitors:
		name, err := place(visitorsTable, key)
		if err != nil {
			return p, err
		}
		return p, s.tree.remove(ctx, name)
	case exportAgain:
		return p, p.disagreement()
	}
	return p, nil
}

func (s *Sink) writeTotals(ctx context.Context, rev analytics.Revision) error {
	name, err := place(totalsTable, rev.Key)
	if err != nil {
		return err
	}
	if err := s.tree.prepare(ctx); err != nil {
		return err
	}
	staged := s.tree.stagingFile()
	defer os.Remove(staged)
	if err := archive.WriteTotals(staged, rev); err != nil {
		return err
	}
	return s.tree.publish(ctx, staged, name)
}

// pair is what the two tables hold of one window; nil is no file.
type pair struct {
	visitors, totals *archive.Footer
	sum              analytics.Sum // of the rows of visitors, if they were read
}

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
	case t != nil && same(v.Revision, t.Revision):
		return none
	case t != nil && t.TotalsOnly() && (t.Number > v.Number || t.Number == v.Number && t.ExportedAt.After(v.ExportedAt)):
		return removeVisitors
	}
	return writeTotals
}

// newest is what readers see once the tables agree; nil if nothing can be told.
func (p pair) newest() *sinks.Shown {
	switch r := p.remedy(); {
	case r == exportAgain:
		return nil
	case r != removeVisitors && p.visitors != nil:
		return &sinks.Shown{Revision: p.visitors.Revision, Checksum: p.visitors.Checksum, Sum: p.sum}
	case p.totals != nil:
		return &sinks.Shown{Revision: p.totals.Revision}
	}
	return nil
}

// disagreement says how the tables differ; nil if they agree.
func (p pair) disagreement() error {
	describe := func(r analytics.Revision) string {
		return fmt.Sprintf("revision %d with %d rows and the totals %d, %d, %d of %s", r.Number, r.Rows,
			r.Totals.Human, r.Totals.AI, r.Totals.Total, r.ExportedAt.Format("2006-01-02 15:04:05"))
	}
	switch v, t := p.visitors, p.totals; {
	case p.remedy() == none:
		return nil
	case v == nil:
		return errDisagree{fmt.Errorf("the visitors file of revision %d with %d rows is missing: export the window again", t.Number, t.Rows)}
	case t == nil:
		return errDisagree{fmt.Errorf("the totals file of revision %d is missing", v.Number)}
	default:
		return errDisagree{fmt.Errorf("the visitors file shows %s, the totals file %s", describe(v.Revision), describe(t.Revision))}
	}
}
