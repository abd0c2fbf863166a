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

// TestInspectDamage: Inspect shows damage done to the tables.
func TestInspectDamage(t *testing.T) {
	const (
		rows    = "DB.docgauge_visitors_rows"
		windows = "DB.docgauge_windows"
		aRow    = " WHERE path = '/docs/page-00000003xxxxxxxxxx'"
	)
	doubled := func(table string, columns []column, more string) string {
		all := names(columns)
		return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %[1]s", table, all,
			strings.Replace(all, "attempt", "attempt + "+more+" AS next", 1))
	}
	for name, d := range map[string]struct {
		sql  string
		seen sinktest.Seen
	}{
		"row deleted":      {"ALTER TABLE " + rows + " DELETE" + aRow, sinktest.LeavesRows(9)},
		"all rows deleted": {"ALTER TABLE " + rows + " DELETE WHERE 1", sinktest.LeavesRows(0)},
		"count changed":    {"ALTER TABLE " + rows + " UPDATE ai = 6" + aRow, sinktest.ChangesRows},
		"counts exchanged": {"ALTER TABLE " + rows + " UPDATE human = ai, ai = human" + aRow,
			sinktest.ChangesRows},
		"rows doubled":             {doubled(rows, rowColumns, "0"), sinktest.LeavesRows(20)},
		"revision of rows changed": {"ALTER TABLE " + rows + " UPDATE revision = 7" + aRow, sinktest.Contradicts},
		"totals changed":           {"ALTER TABLE " + windows + " UPDATE total = 1 WHERE 1", sinktest.ChangesTotals},
		"marker deleted": {"ALTER TABLE " + windows + " DELETE WHERE revision = 2",
			func(_, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Number == 1 && after.Whole()
			}},
		"markers deleted": {"ALTER TABLE " + windows + " DELETE WHERE 1",
			func(_, after sinks.Shown, fault *sinks.Fault) bool {
				return after.Number == 0 && fault == nil
			}},
		"marker without rows": {doubled(windows, windowColumns, "1") + " WHERE revision = 2",
			sinktest.LeavesRows(0)},
		"marker doubled":         {doubled(windows, windowColumns, "0"), sinktest.Harmless},
		"attempt without marker": {doubled(rows, rowColumns, "1"), sinktest.Harmless},
	} {
		t.Run(name, func(t *testing.T) {
			both(t, func(t *testing.T, e engine) {
				db := database(t, e)
				sinktest.SeesDamage(t, open(t, e.DSN(db)), func() {
					mutate(t, e, db,
						strings.ReplaceAll(d.sql, "DB.", db+"."))
				}, d.seen)
			})
		})
	}
}

var inspected = sinktest.Inspected

// mutate runs a statement and waits until the server has changed the parts.
func mutate(t *testing.T, e engine, db, sql string) {
	t.Helper()
	must(t, e, sql)
	for strings.TrimSpace(must(t, e,
		"SELECT count() FROM system.mutations WHERE NOT is_done AND database = '"+db+"'")) != "0" {
		check(t, clock.Sleep(t.Context(), 10*time.Millisecond))
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
		replace(t, writer, seal(1, 3))
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
	sinktest.NotListed(t, open(t, "clickhouse://127.0.0.1:1/default"))
}
