package clickhouse

import (
	"fmt"
	"maps"
	"slices"
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
		rows     = "DB.docgauge_visitors_rows"
		windows  = "DB.docgauge_windows"
		aRow     = " WHERE path = '/docs/page-00000003xxxxxxxxxx'"
		ofAgents = "DB.docgauge_agents_rows"
		markers  = "DB.docgauge_agents_markers"
		anAgent  = aRow + " AND agent = 'curl'"
	)
	doubled := func(table string, columns []column, more string) string {
		all := names(columns)
		return fmt.Sprintf("INSERT INTO %s (%s) SELECT %s FROM %[1]s", table, all,
			strings.Replace(all, "attempt", "attempt + "+more+" AS next", 1))
	}
	type damage struct {
		sql  string
		seen sinktest.Seen
	}
	cases := map[string]damage{
		"row deleted":      {"ALTER TABLE " + rows + " DELETE" + aRow, sinktest.LeavesRows(9)},
		"all rows deleted": {"ALTER TABLE " + rows + " DELETE WHERE 1", sinktest.LeavesRows(0)},
		"count changed":    {"ALTER TABLE " + rows + " UPDATE ai = 6" + aRow, sinktest.ChangesRows},
		"counts exchanged": {"ALTER TABLE " + rows + " UPDATE human = ai, ai = human" + aRow,
			sinktest.ChangesRows},
		"rows doubled":             {doubled(rows, visitors.rowColumns(), "0"), sinktest.LeavesRows(20)},
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
		"marker without rows": {doubled(windows, visitors.markerColumns(), "1") + " WHERE revision = 2",
			sinktest.LeavesRows(0)},
		"marker doubled":         {doubled(windows, visitors.markerColumns(), "0"), sinktest.Harmless},
		"attempt without marker": {doubled(rows, visitors.rowColumns(), "1"), sinktest.Harmless},

		"row of agents deleted": {"ALTER TABLE " + ofAgents + " DELETE" + anAgent, sinktest.LeavesRows(9)},
		"class changed":         {"ALTER TABLE " + ofAgents + " UPDATE class = 'human'" + anAgent, sinktest.ChangesRows},
		"visitors changed":      {"ALTER TABLE " + ofAgents + " UPDATE visitors = 1" + anAgent, sinktest.ChangesRows},
		"site of an agent deleted": {"ALTER TABLE " + ofAgents + " DELETE WHERE path = '' AND agent = 'curl'",
			func(before, after sinks.Shown, fault *sinks.Fault) bool {
				return sinktest.ChangesRows(before, after, fault) && after.Sum.Implausible == 5
			}},
		"rows of agents doubled": {doubled(ofAgents, datasets[analytics.AgentsReport].rowColumns(), "0"), sinktest.LeavesRows(20)},
		"revision of the site's agents changed": {"ALTER TABLE " + ofAgents + " UPDATE revision = 7 WHERE path = ''",
			sinktest.Contradicts},
		"number of rows changed": {"ALTER TABLE " + markers + " UPDATE row_count = 9 WHERE 1", sinktest.LeavesRows(10)},
		"marker of agents deleted": {"ALTER TABLE " + markers + " DELETE WHERE revision = 2",
			func(_, after sinks.Shown, _ *sinks.Fault) bool {
				return after.Number == 1 && after.Whole()
			}},
		"attempt of agents without marker": {doubled(ofAgents, datasets[analytics.AgentsReport].rowColumns(), "1"), sinktest.Harmless},
	}
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(cases)) { // the servers take turns
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d, e, report := cases[name], engine(old(t)), analytics.VisitorsReport
			if i%2 == 1 {
				e = modern(t)
			}
			if strings.Contains(d.sql, "docgauge_agents") {
				report = analytics.AgentsReport
			}
			db := database(t, e)
			sinktest.SeesDamage(t, open(t, e.DSN(db), report), report, func() {
				mutate(t, e, db, strings.ReplaceAll(d.sql, "DB.", db+"."))
			}, d.seen)
		})
	}
}

// mutate runs a statement and waits until the server has changed the parts.
func mutate(t *testing.T, e engine, db, sql string) {
	t.Helper()
	must(t, e, sql)
	for strings.TrimSpace(must(t, e,
		"SELECT count() FROM system.mutations WHERE NOT is_done AND database = '"+db+"'")) != "0" {
		check(t, clock.Sleep(t.Context(), 10*time.Millisecond))
	}
}

func TestInspectMakesNothing(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		db := database(t, e)
		sinktest.InspectMakesNothing(t, open(t, e.DSN(db)), open(t, e.DSN(db)), func() string {
			return must(t, e, "SELECT name FROM system.tables WHERE database = '"+db+"'")
		}, func() { must(t, e, "INSERT INTO "+db+".docgauge_migrations (version, views) VALUES (99, 'x')") })
	})
}

// TestInspectOfNoServer: a sink that cannot be listed is not taken for empty.
func TestInspectOfNoServer(t *testing.T) {
	sinktest.NotListed(t, open(t, "clickhouse://127.0.0.1:1/default"))
}
