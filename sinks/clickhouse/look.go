package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Look yields what Revisions does, and makes and changes nothing: where docgauge has
// made no tables yet there is no window.
func (s *Sink) Look(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		if err := s.lookAt(ctx, func(r analytics.Revision) bool { return yield(r, nil) }); err != nil {
			yield(analytics.Revision{}, fmt.Errorf("%w: %w", sinks.ErrNotListed, s.explain(err)))
		}
	}
}

func (s *Sink) lookAt(ctx context.Context, yield func(analytics.Revision) bool) (err error) {
	l, err := s.look(ctx)
	if err != nil || l == nil {
		return err
	}
	defer func() { err = errors.Join(err, l.done()) }()
	return l.revisions(ctx, yield)
}
