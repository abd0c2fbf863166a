package parquet

import (
	"context"
	"errors"
	"iter"
	"maps"
	"os"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/filestore"
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
		s.readEach(ctx, keys, s.healed, func(shown sinks.Shown, err error) bool { return yield(shown.Revision, err) })
	}
}

// list returns the windows in scope that have a file in a table, and the names
// of files that a reader's glob finds although they are not ours. It does so with an
// error too: those it found until then.
func (s *Sink) list(ctx context.Context, scope sinks.Scope) (keys map[analytics.Key]bool, strays []string, err error) {
	keys = map[analytics.Key]bool{}
	for _, table := range s.tables() {
		err := s.store.List(ctx, table+"/"+version, "", func(name string) {
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

// readEach yields what read returns of each window.
func (s *Sink) readEach(ctx context.Context, keys map[analytics.Key]bool,
	read func(context.Context, analytics.Key) (*sinks.Shown, error),
	yield func(sinks.Shown, error) bool) (more bool) {
	return sinks.Each(ctx, sinkName, maps.Keys(keys), s.store.Readers(),
		func(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
			shown, err := read(ctx, key)
			if err != nil {
				err = sinks.Fault{Sink: sinkName, Key: key, Kind: kindOf(err), Err: err}
			}
			return shown, err
		}, yield)
}

func kindOf(err error) sinks.FaultKind {
	switch {
	case errors.Is(err, sinks.ErrDisagree):
		return sinks.Disagree
	case filestore.Unavailable(err):
		return sinks.Unavailable
	}
	return sinks.Unreadable
}

// healed makes the tables agree on key, and returns the window that readers then see;
// nil if they do not see it.
func (s *Sink) healed(ctx context.Context, key analytics.Key) (*sinks.Shown, error) {
	p, err := s.read(ctx, key, false)
	if err == nil && p.Remedy() != sinks.Nothing {
		p, err = s.heal(ctx, key)
	}
	if err != nil {
		return nil, err
	}
	return p.Newest(), nil
}

// heal reads again, while no Replace is under way, and applies the remedy.
func (s *Sink) heal(ctx context.Context, key analytics.Key) (sinks.Pair, error) {
	s.healing.Lock()
	defer s.healing.Unlock()
	p, err := s.read(ctx, key, false)
	if err != nil {
		return p, err
	}
	switch p.Remedy() {
	case sinks.WriteTotals:
		return p, s.writeTotals(ctx, p.Visitors.Revision)
	case sinks.RemoveVisitors:
		name, err := nameOf(key.Report.String(), key)
		if err != nil {
			return p, err
		}
		return p, s.store.Remove(ctx, name)
	case sinks.ExportAgain:
		return p, p.Disagreement()
	}
	return p, nil
}

func (s *Sink) writeTotals(ctx context.Context, rev analytics.Revision) error {
	name, err := nameOf(rev.Report.Shape().TotalsTable, rev.Key)
	if err != nil {
		return err
	}
	if err := s.store.Prepare(ctx); err != nil {
		return err
	}
	staged := s.store.StagingFile()
	defer os.Remove(staged)
	if err := archive.WriteTotals(staged, rev); err != nil {
		return err
	}
	return s.store.Publish(ctx, staged, name)
}
