package coverage

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
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
			if !yield(analytics.Revision{Key: analytics.Key{Project: "a", Granularity: analytics.Day,
				Window: analytics.Window{From: analytics.Date(20_000 + day), To: analytics.Date(20_001 + day)}},
				Number: 1}, nil) {
				return
			}
		}
		if l.err != nil {
			yield(analytics.Revision{}, l.err)
		}
	}
}

func (l listing) Inspect(context.Context, sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return func(func(sinks.Shown, error) bool) {}
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
		"both empty": {[]sinks.Sink{listing{name: "old"}, listing{name: "new"}}, 0, false, ""},
		"both hold something": {[]sinks.Sink{listing{name: "old", days: 5}, listing{name: "new", days: 2}}, 5,
			false, ""},
		"the only one is away":   {[]sinks.Sink{listing{name: "old", err: away}}, 0, true, ""},
		"away, another is empty": {[]sinks.Sink{listing{name: "old", err: away}, listing{name: "new"}}, 0, true, ""},
		"empty, another is away": {[]sinks.Sink{listing{name: "new"}, listing{name: "old", err: away}}, 0, true, ""},
		"all away": {[]sinks.Sink{listing{name: "new", err: away}, listing{name: "old", err: away}}, 0,
			true, ""},
		"away, another holds it": {[]sinks.Sink{listing{name: "old", err: away}, listing{name: "new", days: 3}}, 3,
			false, "ledger not rebuilt from sink"},
		"lost in the middle": {[]sinks.Sink{listing{name: "old", days: 2, err: away}, listing{name: "new"}}, 0,
			true, ""},
	} {
		t.Run(about, func(t *testing.T) {
			db, err := state.Open(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			var log strings.Builder
			for range 2 { // a failed restore is tried again
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

// TestReach: a window that the ledger has never known is due since DOCGAUGE_SINCE, and the
// newest two are due in any case; others are read if they are named, where they are configured.
func TestReach(t *testing.T) {
	now := time.Date(2026, 3, 12, 9, 0, 0, 0, time.UTC)
	c := config.Config{Projects: []string{"a"}, Windows: []analytics.Spec{{Granularity: analytics.Day},
		{Granularity: analytics.Month, TotalsOnly: true}}}
	c.Since.Date = analytics.NewDate(2026, 3, 5)
	reach := Reach(c, now)
	for text, want := range map[string][2]bool{
		"a day [2026-03-05,2026-03-06)": {true, true}, "a day [2026-03-11,2026-03-12)": {true, true},
		"a day [2026-03-04,2026-03-05)": {true, false},
		"a day [2026-03-12,2026-03-13)": {true, false}, "a month [2026-01-01,2026-02-01)": {true, true},
		"a month [2025-12-01,2026-01-01)": {true, false},
		"b day [2026-03-05,2026-03-06)":   {}, "a week [2026-03-02,2026-03-09)": {},
	} {
		key, err := analytics.ParseKey(text)
		if configured, due := reach(key); err != nil || configured != want[0] || due != want[1] {
			t.Errorf("%s: configured %t, due %t, %v", text, configured, due, err)
		}
	}
}
