package clickhouse

import (
	"errors"
	"iter"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// listed is a sealed window of given rows.
type listed struct {
	window
	rows []analytics.Row
}

func (l listed) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, r := range l.rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestTop(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		s, _ := newSink(t, e)
		w := listed{windowOf(1, 1, 4), []analytics.Row{
			{Path: "/a'\\", Total: 5}, {Path: "/b", Human: 4, AI: 3, Total: 6}, {Path: "/c", Total: 5}, {Path: "/d", Total: 1},
		}}
		if err := s.Replace(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		got, err := s.Top(t.Context(), w.rev, 3)
		if diff := cmp.Diff([]analytics.Row{w.rows[1], w.rows[0], w.rows[2]}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
		later := w.rev
		later.Number++
		if got, err := s.Top(t.Context(), later, 3); !errors.Is(err, sinks.ErrOtherRevision) {
			t.Errorf("of a revision that is not there: %v, %v", got, err)
		}
	})
}
