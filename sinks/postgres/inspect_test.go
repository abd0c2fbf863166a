package postgres

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestInspectDamage: Inspect shows damage done to the tables.
func TestInspectDamage(t *testing.T) {
	const (
		aRow    = " WHERE path LIKE '%00003%'"
		anAgent = aRow + " AND agent = 'curl'"
	)
	contradicts := func(number int32) sinktest.Seen {
		return func(before, after sinks.Shown, fault *sinks.Fault) bool {
			return sinktest.Contradicts(before, after, fault) && after.Number == number
		}
	}
	type damage struct {
		sql  string
		seen sinktest.Seen
	}
	byTurns(t, map[string]damage{
		"row deleted":      {"DELETE FROM docgauge_visitors" + aRow, sinktest.LeavesRows(9)},
		"all rows deleted": {"DELETE FROM docgauge_visitors", sinktest.LeavesRows(0)},
		"count changed":    {"UPDATE docgauge_visitors SET ai = 6" + aRow, sinktest.ChangesRows},
		"path changed":     {"UPDATE docgauge_visitors SET path = '/other'" + aRow, sinktest.ChangesRows},
		"row added": {"INSERT INTO docgauge_visitors SELECT project, granularity, window_start, window_end, " +
			"'/more', 1, 1, 1, " +
			"revision, settled, verified, exported_at FROM docgauge_totals", sinktest.LeavesRows(11)},
		"revision of a row changed": {"UPDATE docgauge_visitors SET revision = 7" + aRow, contradicts(2)},
		"totals changed":            {"UPDATE docgauge_totals SET total = 1", sinktest.ChangesTotals},
		"totals deleted":            {"DELETE FROM docgauge_totals", contradicts(0)},

		"row of agents deleted":      {"DELETE FROM docgauge_agents" + anAgent, sinktest.LeavesRows(9)},
		"all rows of agents deleted": {"DELETE FROM docgauge_agents", sinktest.LeavesRows(0)},
		"agent changed":              {"UPDATE docgauge_agents SET agent = 'wget'" + anAgent, sinktest.ChangesRows},
		"class changed":              {"UPDATE docgauge_agents SET class = 'human'" + anAgent, sinktest.ChangesRows},
		"found changed":              {"UPDATE docgauge_agents SET found = false" + anAgent, sinktest.ChangesRows},
		"requests changed":           {"UPDATE docgauge_agents SET requests = 99" + anAgent, sinktest.ChangesRows},
		"site of an agent deleted": {"DELETE FROM docgauge_agents WHERE path = '' AND agent = 'curl'",
			func(before, after sinks.Shown, fault *sinks.Fault) bool {
				return sinktest.ChangesRows(before, after, fault) && after.Sum.Implausible == 5
			}},
		"row of agents added": {"INSERT INTO docgauge_agents SELECT project, granularity, window_start, window_end, " +
			"'/more', 'curl', 'tool', 'neither', true, 1, 1, 0, -1, revision, settled, verified, exported_at " +
			"FROM docgauge_agents_windows", sinktest.LeavesRows(11)},
		"revision of the site's agents changed": {"UPDATE docgauge_agents SET revision = 7 WHERE path = ''",
			contradicts(2)},
		"number of rows changed":   {"UPDATE docgauge_agents_windows SET row_count = 9", sinktest.LeavesRows(10)},
		"window of agents deleted": {"DELETE FROM docgauge_agents_windows", contradicts(0)},
	}, func(t *testing.T, e *engines.Postgres, d damage) {
		s, r := newSink(t, e, analytics.AgentsReport)
		sinktest.SeesDamage(t, s, reportOf(d.sql), func() { r.must(d.sql) }, d.seen)
	})
}

// reportOf is the report whose tables a statement names.
func reportOf(sql string) analytics.Report {
	for _, report := range analytics.Reports {
		if report != analytics.VisitorsReport && strings.Contains(sql, "docgauge_"+report.String()) {
			return report
		}
	}
	return analytics.VisitorsReport
}

var inspected = sinktest.Inspected

// TestManyPages lists more windows than one statement does.
func TestManyPages(t *testing.T) {
	t.Parallel()
	s, r := newSink(t, serverOf(t, debian))
	shows(t, s, r, seal(1, 0))
	r.must(`INSERT INTO docgauge_totals SELECT 'p' || n / 1000, 'day', DATE '2020-01-01' + n, DATE '2020-01-02' + n,
		1, 1, 1, '', 0, 1, true, true, now() FROM generate_series(1, 3 * 1000 + 7) n`)
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

// TestInspectOfNoServer: a sink that cannot be listed is not taken for empty.
func TestInspectOfNoServer(t *testing.T) {
	sinktest.NotListed(t, open(t, "postgres://u@127.0.0.1:1/db"))
}
