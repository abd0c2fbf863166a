package coverage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
	"github.com/docgauge/docgauge/sinks"
)

// listing is a sink that is only listed.
type listing struct {
	sinks.Sink
	name string
	days int // how many it holds
	err  error
}

func (l listing) Name() string { return l.name }

func (l listing) Revisions(context.Context) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		for day := range l.days {
			if !yield(analytics.Revision{Key: analytics.Key{Project: "a", Granularity: analytics.Day, Window: analytics.Window{From: analytics.Date(20_000 + day), To: analytics.Date(20_001 + day)}}, Number: 1}, nil) {
				return
			}
		}
		if l.err != nil {
			yield(analytics.Revision{}, l.err)
		}
	}
}

// TestRestore: a sink that cannot be listed may hold all that was ever read. Where
// the others hold nothing, one was just added perhaps, that is an error, so that
// nothing is requested that is there already.
func TestRestore(t *testing.T) {
	away := fmt.Errorf("%w: no server answers", sinks.ErrNotListed)
	for about, tc := range map[string]struct {
		sinks    []sinks.Sink
		want     int
		unknown  bool
		mentions string
	}{
		"both empty":             {[]sinks.Sink{listing{name: "old"}, listing{name: "new"}}, 0, false, ""},
		"both hold something":    {[]sinks.Sink{listing{name: "old", days: 5}, listing{name: "new", days: 2}}, 5, false, ""},
		"the only one is away":   {[]sinks.Sink{listing{name: "old", err: away}}, 0, true, ""},
		"away, another is empty": {[]sinks.Sink{listing{name: "old", err: away}, listing{name: "new"}}, 0, true, ""},
		"empty, another is away": {[]sinks.Sink{listing{name: "new"}, listing{name: "old", err: away}}, 0, true, ""},
		"all away":               {[]sinks.Sink{listing{name: "new", err: away}, listing{name: "old", err: away}}, 0, true, ""},
		"away, another holds it": {[]sinks.Sink{listing{name: "old", err: away}, listing{name: "new", days: 3}}, 3, false, "ledger not restored from sink"},
		"lost in the middle":     {[]sinks.Sink{listing{name: "old", days: 2, err: away}, listing{name: "new"}}, 0, true, ""},
	} {
		t.Run(about, func(t *testing.T) {
			db, err := state.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var log strings.Builder
			for range 2 { // what was not restored is tried again
				err = RestoreEmpty(t.Context(), db, tc.sinks, slog.New(slog.NewTextHandler(&log, nil)))
				if unknown := errors.Is(err, sinks.ErrNotListed); unknown != tc.unknown || err != nil && !unknown {
					t.Errorf("the error is %v", err)
				}
				if tc.unknown && err != nil && !strings.Contains(err.Error(), "nothing is requested") {
					t.Errorf("the error is %v", err)
				}
			}
			entries, err := db.Entries(t.Context())
			if err != nil || len(entries) != tc.want || !strings.Contains(log.String(), tc.mentions) {
				t.Errorf("%d windows are in the ledger, want %d; %v", len(entries), tc.want, err)
			}
		})
	}
}
