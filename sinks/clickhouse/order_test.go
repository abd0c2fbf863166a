package clickhouse

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// TestOrderOfReading stretches the time between the two tables' states in a
// query over the view to a second, in which a revision is committed: the
// query must see the former revision or the new one, not a marker without rows.
func TestOrderOfReading(t *testing.T) {
	both(t, func(t *testing.T, e engine) {
		s, r := newSink(t, e)
		key := sinktest.Key("prj_a", 0)
		sizes := map[int32]int{1: 300, 2: 700}
		seal := func(number int32) error {
			return s.Replace(t.Context(), sinktest.Seal(t, sinktest.Revision(key, number),
				sinktest.Pages(sizes[number])))
		}
		check(t, seal(1))
		slow, settings := stretched(t, s)
		number := int32(1)
		for range 2 {
			counted := make(chan string, 1)
			go func() { counted <- count(r, slow, settings) }()
			sinktest.Eventually(t, "the server", func() bool {
				return len(counted) > 0 || underWay(t, e, "sleep(0.6)")
			})
			time.Sleep(200 * time.Millisecond) // from its begin into the stretch, which no table shows
			number = 3 - number
			if err := seal(number); err != nil {
				t.Error(err)
			}
			got := <-counted
			if got != "300 of revision 1" && got != "700 of revision 2" {
				t.Errorf("the query sees %s", got)
			}
		}
	})
}

// underWay reports whether a query with such words is under way.
func underWay(t *testing.T, e engine, words string) bool {
	return must(t, e, "SELECT count() FROM system.processes WHERE query LIKE '%"+words+"%' AND query NOT LIKE "+
		"'%system.processes%'") != "0\n"
}

// stretched is the query of the view, which sleeps before it comes to the
// markers, and again before it reads them, and settings that could upset it.
func stretched(t *testing.T, s *Sink) (query string, settings clickhouse.Settings) {
	t.Helper()
	ses, err := s.open(t.Context(), analytics.VisitorsReport)
	check(t, err)
	from := "FROM " + ses.in(visitors.markers)
	query = strings.NewReplacer(
		" WHERE (", " WHERE (SELECT sleep(0.6)) = 0 AND (",
		from, "FROM (SELECT * "+from+" WHERE (SELECT sleep(0.4)) = 0)",
	).Replace(ses.shownRows())
	if strings.Count(query, "sleep") != 2 {
		t.Fatal("the view is not what this test takes it for")
	}
	if ses.inlines {
		settings = clickhouse.Settings{inlineViews: 1}
	}
	return query, settings
}

func count(r reader, query string, settings clickhouse.Settings) string {
	var n uint64
	var revision int32
	err := r.conn.QueryRow(clickhouse.Context(r.t.Context(), clickhouse.WithSettings(settings)),
		"SELECT toUInt64(count()), max(revision) FROM ("+query+")").Scan(&n, &revision)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%d of revision %d", n, revision)
}
