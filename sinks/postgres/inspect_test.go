package postgres

import (
	"errors"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestInspectDamage: what was done to the tables is seen in what readers see.
func TestInspectDamage(t *testing.T) {
	key := sinktest.Key("prj_a", 0)
	for _, d := range []struct {
		name, sql string
		// want reports whether the damage is seen.
		want func(before, after sinks.Shown, fault *sinks.Fault) bool
	}{
		{"row deleted", "DELETE FROM docgauge_visitors WHERE path LIKE '%00003%'",
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 9 }},
		{"all rows deleted", "DELETE FROM docgauge_visitors",
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 0 }},
		{"count changed", "UPDATE docgauge_visitors SET ai = 6 WHERE path LIKE '%00003%'",
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Sum.Rows == 10 && after.Sum.Checksum != before.Sum.Checksum
			}},
		{"path changed", "UPDATE docgauge_visitors SET path = '/other' WHERE path LIKE '%00003%'",
			func(before, after sinks.Shown, _ *sinks.Fault) bool { return after.Sum.Checksum != before.Sum.Checksum }},
		{"row added", "INSERT INTO docgauge_visitors SELECT project, granularity, window_start, window_end, '/more', 1, 1, 1, revision, settled, verified, exported_at FROM docgauge_totals",
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 11 }},
		{"revision of a row changed", "UPDATE docgauge_visitors SET revision = 7 WHERE path LIKE '%00003%'",
			func(_, after sinks.Shown, fault *sinks.Fault) bool {
				return fault != nil && fault.Kind == sinks.Disagree && fault.Key == key && after.Number == 2
			}},
		{"totals changed", "UPDATE docgauge_totals SET total = 1",
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Totals.Total == 1 && after.Sum == before.Sum
			}},
		{"totals deleted", "DELETE FROM docgauge_totals",
			func(_, after sinks.Shown, fault *sinks.Fault) bool {
				return after.Number == 0 && fault != nil && fault.Kind == sinks.Disagree && fault.Key == key
			}},
	} {
		t.Run(d.name, func(t *testing.T) {
			each(t, func(t *testing.T, e *engines.Postgres) {
				s, r := newSink(t, e)
				shows(t, s, r, seal(1, 4))
				shows(t, s, r, seal(2, 10))
				before, fault := inspected(t, s, key)
				if !before.Whole() || fault != nil {
					t.Fatalf("before: %+v, %v", before, fault)
				}
				r.must(d.sql)
				after, fault := inspected(t, s, key)
				if !d.want(before, after, fault) {
					t.Errorf("before %+v, after %+v, fault %v", before, after, fault)
				}
				shows(t, s, r, seal(2, 10))
				if again, fault := inspected(t, s, key); again != before || fault != nil {
					t.Errorf("after Replace: %+v, %v", again, fault)
				}
			})
		})
	}
}

// inspected returns what Inspect yields of one window.
func inspected(t *testing.T, s *Sink, key analytics.Key) (shown sinks.Shown, fault *sinks.Fault) {
	t.Helper()
	for got, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true}) {
		if f, ok := errors.AsType[sinks.Fault](err); ok {
			fault = &f
		} else if err != nil {
			t.Fatal(err)
		}
		if got.Key == key {
			shown = got
		}
	}
	return shown, fault
}

// TestManyPages lists more windows than one statement does.
func TestManyPages(t *testing.T) {
	t.Parallel()
	s, r := newSink(t, serverOf(t, debian))
	shows(t, s, r, seal(1, 0))
	r.must(`INSERT INTO docgauge_totals SELECT 'p' || n / 1000, 'day', DATE '2020-01-01' + n, DATE '2020-01-02' + n, 1, 1, 1, 0, 1, true, true, now() FROM generate_series(1, 3 * 1000 + 7) n`)
	seen := map[analytics.Key]bool{}
	for rev, err := range s.Revisions(t.Context()) {
		if err != nil || seen[rev.Key] {
			t.Fatalf("%s, seen before %t, %v", rev.Key, seen[rev.Key], err)
		}
		seen[rev.Key] = true
	}
	if len(seen) != 3*windowsAtOnce+8 {
		t.Errorf("%d windows", len(seen))
	}
}

// TestInspectOfNoServer: what cannot be listed is not taken for empty.
func TestInspectOfNoServer(t *testing.T) {
	s := open(t, "postgres://u@127.0.0.1:1/db")
	n := 0
	for _, err := range s.Inspect(t.Context(), sinks.Scope{Rows: true}) {
		if n++; !errors.Is(err, sinks.ErrNotListed) {
			t.Errorf("Inspect yields %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors", n)
	}
}
