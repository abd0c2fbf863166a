package clickhouse

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestInspectDamage: what was done to the tables is seen in what readers see.
func TestInspectDamage(t *testing.T) {
	const rows, windows = "docgauge_visitors_rows", "docgauge_windows"
	key := sinktest.Key("prj_a", 0)
	marker := names(windowColumns)
	for _, d := range []struct {
		name string
		sql  []string
		// want reports whether the damage is seen.
		want func(before, after sinks.Shown, fault *sinks.Fault) bool
	}{
		{"row deleted", []string{"ALTER TABLE DB." + rows + " DELETE WHERE path = '/docs/page-00000003xxxxxxxxxx'"},
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return !after.Whole() && after.Sum.Rows == 9 && before.Sum.Rows == 10
			}},
		{"all rows deleted", []string{"ALTER TABLE DB." + rows + " DELETE WHERE 1"},
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 0 }},
		{"count changed", []string{"ALTER TABLE DB." + rows + " UPDATE ai = 6 WHERE path = '/docs/page-00000003xxxxxxxxxx'"},
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Sum.Rows == 10 && after.Sum.Checksum != before.Sum.Checksum
			}},
		{"counts exchanged", []string{"ALTER TABLE DB." + rows + " UPDATE human = ai, ai = human WHERE path = '/docs/page-00000003xxxxxxxxxx'"},
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Sum.Checksum != before.Sum.Checksum
			}},
		{"rows doubled", []string{fmt.Sprintf("INSERT INTO DB.%[1]s (%[2]s) SELECT %[2]s FROM DB.%[1]s", rows, names(rowColumns))},
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 20 }},
		{"revision of rows changed", []string{"ALTER TABLE DB." + rows + " UPDATE revision = 7 WHERE path = '/docs/page-00000003xxxxxxxxxx'"},
			func(_, _ sinks.Shown, fault *sinks.Fault) bool { return fault != nil && fault.Kind == sinks.Disagree }},
		{"totals changed", []string{"ALTER TABLE DB." + windows + " UPDATE total = 1 WHERE 1"},
			func(before, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Totals.Total == 1 && after.Sum == before.Sum
			}},
		{"marker deleted", []string{"ALTER TABLE DB." + windows + " DELETE WHERE revision = 2"},
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return after.Number == 1 && after.Whole() }},
		{"markers deleted", []string{"ALTER TABLE DB." + windows + " DELETE WHERE 1"},
			func(_, after sinks.Shown, fault *sinks.Fault) bool { return after.Number == 0 && fault == nil }},
		{"marker without rows", []string{fmt.Sprintf("INSERT INTO DB.%s (%s) SELECT %s FROM DB.%s WHERE revision = 2",
			windows, marker, strings.Replace(marker, "attempt", "attempt + 1 AS next", 1), windows)},
			func(_, after sinks.Shown, _ *sinks.Fault) bool { return !after.Whole() && after.Sum.Rows == 0 }},
		// What no reader sees is no damage.
		{"marker doubled", []string{fmt.Sprintf("INSERT INTO DB.%[1]s (%[2]s) SELECT %[2]s FROM DB.%[1]s", windows, marker)},
			func(before, after sinks.Shown, fault *sinks.Fault) bool { return before == after && fault == nil }},
		{"attempt without marker", []string{fmt.Sprintf("INSERT INTO DB.%s (%s) SELECT %s FROM DB.%s",
			rows, names(rowColumns), strings.Replace(names(rowColumns), "attempt", "attempt + 1 AS next", 1), rows)},
			func(before, after sinks.Shown, fault *sinks.Fault) bool { return before == after && fault == nil }},
	} {
		t.Run(d.name, func(t *testing.T) {
			both(t, func(t *testing.T, e engine) {
				db := database(t, e)
				s := open(t, e.DSN(db))
				shows(t, s, newReader(t, e.DSN(db)), seal(1, 4))
				if err := s.Replace(t.Context(), seal(2, 10)); err != nil {
					t.Fatal(err)
				}
				before, fault := inspected(t, s, key)
				if !before.Whole() || fault != nil {
					t.Fatalf("before: %+v, %v", before, fault)
				}
				for _, sql := range d.sql {
					mutate(t, e, db, strings.ReplaceAll(sql, "DB.", db+"."))
				}
				after, fault := inspected(t, s, key)
				if !d.want(before, after, fault) {
					t.Errorf("before %+v, after %+v, fault %v", before, after, fault)
				}
				if err := s.Replace(t.Context(), seal(2, 10)); err != nil {
					t.Fatal(err)
				}
				if again, fault := inspected(t, s, key); again.Sum != before.Sum || !again.Whole() || again.Number != 2 || fault != nil {
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
		} else if got.Key == key {
			shown = got
		}
	}
	return shown, fault
}

// mutate runs a statement and waits until the server has changed the parts.
func mutate(t *testing.T, e engine, db, sql string) {
	t.Helper()
	must(t, e, sql)
	for strings.TrimSpace(must(t, e, "SELECT count() FROM system.mutations WHERE NOT is_done AND database = '"+db+"'")) != "0" {
		if err := clock.Sleep(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}

// TestInspectMakesNothing: a database that was never written to stays empty, and
// one that another release made is not changed.
func TestInspectMakesNothing(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		db := database(t, e)
		s := open(t, e.DSN(db))
		if shown, fault := inspected(t, s, analytics.Key{}); shown.Number != 0 || fault != nil {
			t.Errorf("an empty database shows %+v, %v", shown, fault)
		}
		if _, _, err := s.Window(t.Context(), sinktest.Revision(sinktest.Key("prj_a", 0), 1), t.TempDir()); err == nil {
			t.Error("an empty database gives a window")
		}
		if made := must(t, e, "SELECT name FROM system.tables WHERE database = '"+db+"'"); made != "" {
			t.Errorf("tables %s were made", made)
		}
		writer := open(t, e.DSN(db))
		if err := writer.Replace(t.Context(), seal(1, 3)); err != nil {
			t.Fatal(err)
		}
		must(t, e, "INSERT INTO "+db+".docgauge_migrations (version, views) VALUES (99, 'x')")
		for _, err := range s.Inspect(t.Context(), sinks.Scope{}) {
			if !errors.Is(err, sinks.ErrNotListed) || !strings.Contains(err.Error(), "schema version 99") {
				t.Errorf("a newer schema: %v", err)
			}
		}
	})
}

// TestInspectOfNoServer: what cannot be listed is not taken for empty.
func TestInspectOfNoServer(t *testing.T) {
	s := open(t, "clickhouse://127.0.0.1:1/default")
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
