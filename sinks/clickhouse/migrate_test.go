package clickhouse

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

func TestMigrationsAtOnce(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		dsn := e.DSN(database(t, e))
		sinktest.MigrationsAtOnce(t, func() sinks.Sink { return open(t, dsn) }, newReader(t, dsn))
	})
}

func TestVisitorsOnly(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		name := database(t, e)
		dsn, w := e.DSN(name), seal(1, 3)
		sinktest.VisitorsOnly(t, open(t, dsn), open(t, dsn, analytics.AgentsReport), newReader(t, dsn), w,
			w.For(analytics.AgentsReport), func() bool {
				return must(t, e, "SELECT name FROM system.tables WHERE database = '"+name+"' AND name LIKE '%agents%'") != ""
			})
	})
}

// TestMigratesOnce opens a schema three times: it is made once. A newer one is refused.
func TestMigratesOnce(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		name := database(t, e)
		for range 3 {
			check(t, open(t, e.DSN(name)).Check(t.Context()))
		}
		if got := must(t, e, "SELECT count() FROM "+name+"."+visitors.versions); strings.TrimSpace(got) != "1" {
			t.Errorf("%s migrations", got)
		}
		must(t, e, "INSERT INTO "+name+"."+visitors.versions+" (version, views) VALUES (2, 'modern')")
		refused(t, e.DSN(name), "schema version 2, this program knows 1", "use the release of docgauge that made them")
	})
}

// TestViewsAfterUpgrade finds the views that an old server was given.
func TestViewsAfterUpgrade(t *testing.T) {
	t.Parallel()
	e := modern(t)
	name := database(t, e)
	l := layout{data: visitors, database: name, server: oldest}
	for _, statement := range append(append([]string{l.versions()}, l.tables()...), l.views()...) {
		must(t, e, statement)
	}
	must(t, e, "INSERT INTO "+name+"."+visitors.versions+" (version, views) VALUES (1, '"+l.flavour()+"')")
	s, r := open(t, e.DSN(name)), newReader(t, e.DSN(name))
	w := windowOf(0, 1, 10)
	if err := s.Replace(t.Context(), w); err != nil || r.shown(w.Rev.Key) != 1 {
		t.Errorf("Replace = %v", err)
	}
	for _, view := range []string{visitors.view, visitors.windows} {
		got := must(t, e, "SELECT toTypeName(settled), toTypeName(exported_at) FROM "+name+"."+view+" LIMIT 1")
		if !strings.HasPrefix(got, "Bool\tDateTime64(6") {
			t.Errorf("%s has the types %s", view, got)
		}
	}
}
