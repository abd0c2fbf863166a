package postgres

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestAltered: tables that were changed by hand, before the first use and while a sink
// is at work, are one clear error; harmless changes are accepted.
func TestAltered(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	const notOurs = "not as docgauge made it"
	for name, tc := range map[string]struct {
		sql, want string
		// working is the error of a sink that was in use before the change; "" means no error.
		working string
	}{
		"column dropped": {"ALTER TABLE docgauge_visitors DROP COLUMN ai", "has none for column ai, want bigint",
			notOurs},
		"total dropped": {"ALTER TABLE docgauge_totals DROP COLUMN page_count", "has none for column page_count",
			notOurs},
		"other type": {"ALTER TABLE docgauge_visitors ALTER COLUMN human TYPE integer",
			"has integer for column human, want bigint", ""},
		"other type, text": {"ALTER TABLE docgauge_totals ALTER COLUMN exported_at TYPE text",
			"has text for column exported_at", ""},
		"key dropped": {"ALTER TABLE docgauge_visitors DROP CONSTRAINT docgauge_visitors_pkey",
			"has none for primary key", ""},
		"total key dropped": {"ALTER TABLE docgauge_totals DROP CONSTRAINT docgauge_totals_pkey",
			"has none for primary key", notOurs},
		"other key": {"ALTER TABLE docgauge_totals DROP CONSTRAINT docgauge_totals_pkey, ADD PRIMARY KEY " +
			"(project)", "has project for primary key", notOurs},
		"column, not null":   {"ALTER TABLE docgauge_visitors ADD COLUMN more integer NOT NULL", notOurs, notOurs},
		"table dropped":      {"DROP TABLE docgauge_totals", "docgauge_totals is gone", "a table is gone"},
		"migrations dropped": {"DROP TABLE docgauge_migrations", "that docgauge did not make", ""},
		"row-level security": {"ALTER TABLE docgauge_visitors ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY", "",
			""}, // not for a superuser
		"newer": {"INSERT INTO docgauge_migrations (version, made_by) VALUES (99, 'x')",
			"schema version 99", ""},
		"column":          {"ALTER TABLE docgauge_visitors ADD COLUMN more integer", "", ""},
		"column, default": {"ALTER TABLE docgauge_visitors ADD COLUMN more integer NOT NULL DEFAULT 1", "", ""},
		"index and view": {"CREATE INDEX ON docgauge_visitors USING hash (path); CREATE VIEW v AS SELECT path " +
			"FROM docgauge_visitors", "", ""},
		"column order": {"ALTER TABLE docgauge_visitors DROP COLUMN verified; ALTER TABLE docgauge_visitors " +
			"ADD COLUMN verified boolean NOT NULL", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dsn, r := made(t, e)
			s := open(t, dsn)
			check(t, s.Check(t.Context()))
			r.must(tc.sql)
			err := s.Replace(t.Context(), seal(1, 3))
			if (err == nil) != (tc.working == "") || err != nil && !strings.Contains(err.Error(), tc.working) {
				t.Errorf("at work: %v, want %q", err, tc.working)
			}
			if tc.working != "" { // the sink notices by itself that the tables are in order again
				defer func() {
					r.must("DROP TABLE IF EXISTS docgauge_visitors, docgauge_totals, docgauge_migrations")
					shows(t, s, r, seal(2, 3))
				}()
			}
			if tc.want != "" {
				refused(t, dsn, tc.want)
			} else if err := open(t, dsn).Check(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestVisitorsOnly(t *testing.T) {
	t.Parallel()
	dsn, w := place(t, serverOf(t, debian)), seal(1, 3)
	r := readerAt(t, dsn)
	sinktest.VisitorsOnly(t, open(t, dsn), open(t, dsn, analytics.AgentsReport), r, w, w.For(analytics.AgentsReport),
		func() bool {
			return value[bool](r.client, "SELECT count(*) > 0 FROM pg_tables WHERE schemaname = current_schema() AND "+
				"tablename LIKE '%agents%'")
		})
}

// TestAgentsAlone: changes to a table of agents stop the windows of agents, and not the windows of visitors, in the
// same sink.
func TestAgentsAlone(t *testing.T) {
	t.Parallel()
	e := serverOf(t, debian)
	for sql, want := range map[string]string{
		"ALTER TABLE docgauge_agents DROP COLUMN class": "docgauge_agents has none for column class, want text",
		"ALTER TABLE docgauge_agents DROP CONSTRAINT docgauge_agents_pkey, ADD PRIMARY KEY (path_key)": "docgauge_agents " +
			"has path_key for primary key",
		"DROP TABLE docgauge_agents_windows":                                         "docgauge_agents_windows is gone",
		"INSERT INTO docgauge_agents_migrations (version, made_by) VALUES (99, 'x')": "schema version 99",
	} {
		dsn, r := made(t, e)
		r.must(sql)
		s := open(t, dsn, analytics.AgentsReport)
		for name, err := range map[string]error{"Check": s.Check(t.Context()),
			"Replace": s.Replace(t.Context(), seal(1, 3).For(analytics.AgentsReport))} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %s = %v, want %q", sql, name, err, want)
			}
		}
		shows(t, s, r, seal(1, 3))
	}
}

// TestOthersTable has a table of that name that docgauge did not make.
func TestOthersTable(t *testing.T) {
	t.Parallel()
	dsn := place(t, serverOf(t, debian))
	c := connect(t, dsn)
	c.must("CREATE TABLE docgauge_totals (id integer)")
	refused(t, dsn, "that docgauge did not make", "docgauge_totals")
	if n := value[int](c, "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()"); n != 1 {
		t.Errorf("%d tables", n)
	}
}

func TestInspectMakesNothing(t *testing.T) {
	t.Parallel()
	dsn := place(t, serverOf(t, debian))
	r := readerAt(t, dsn)
	sinktest.InspectMakesNothing(t, open(t, dsn), open(t, dsn), func() string {
		return value[string](r.client,
			"SELECT coalesce(string_agg(tablename, ' '), '') FROM pg_tables WHERE schemaname = current_schema()")
	}, func() { r.must("INSERT INTO docgauge_migrations (version, made_by) VALUES (99, 'x')") })
}
