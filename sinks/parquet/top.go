package parquet

import (
	"context"
	"fmt"
	"iter"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Top reads the visitors file of rev's window, with the tests of Inspect.
func (s *Sink) Top(ctx context.Context, rev analytics.Revision, n int) (_ []analytics.Row, err error) {
	if rev.TotalsOnly() {
		return nil, nil
	}
	name, err := place(visitorsTable, rev.Key)
	if err != nil {
		return nil, err
	}
	f, err := s.tree.whole(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", s.tree.describe(name), err)
	}
	defer f.Close()
	foot, err := archive.ReadFooter(f, f.Size())
	if err == nil && (foot.Key != rev.Key || foot.Number != rev.Number) {
		err = sinks.ErrOtherRevision
	}
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", s.tree.describe(name), err)
	}
	return analytics.Top(s.rows(name, f), n)
}

// rows yields the rows of an open visitors file; damage is its last error.
func (s *Sink) rows(name string, f file) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		more := true
		_, _, err := archive.InspectRows(f, f.Size(), func(r analytics.Row) { more = more && yield(r, nil) })
		if err != nil && more {
			yield(analytics.Row{}, fmt.Errorf("file %s: %w", s.tree.describe(name), err))
		}
	}
}
