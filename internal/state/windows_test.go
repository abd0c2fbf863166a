package state_test

import (
	"math"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/state"
)

// TestWhatWasLearned: facts survive a restart, newer ones replace older ones, and a window that was
// read is not skipped any more.
func TestWhatWasLearned(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	first, second := revision(day(1), 1), revision(day(2), 1)
	aside := func(k analytics.Key, failures int) analytics.Aside {
		return analytics.Aside{Key: k, Reason: analytics.AsideMalformed, Detail: "a path: …", Failures: failures,
			Since: now, Until: now.Add(time.Hour)}
	}
	agents := first.Key
	agents.Report = analytics.AgentsReport
	check(t, db.SetAside(t.Context(), aside(second.Key, 1)))
	check(t, db.SetAside(t.Context(), aside(agents, 7)))
	for n := range 2 {
		check(t, db.SetAside(t.Context(), aside(first.Key, n+1)))
		check(t, db.SetMovement(t.Context(), state.Movement{
			Project: "prj_a", Granularity: analytics.Day, Report: analytics.AgentsReport, Kind: "between", Times: n + 1, At: now,
		}))
		check(t, db.SetPageSize(t.Context(), state.PageSize{Project: "prj_a", Rows: 100 * (n + 1)}))
	}
	check(t, db.Close())
	db = open(t, dir)
	asides := []analytics.Aside{aside(first.Key, 2), aside(agents, 7), aside(second.Key, 1)}
	same(t, asides, must(db.Asides(t.Context()))(t))
	moved := []state.Movement{{
		Project: "prj_a", Granularity: analytics.Day, Report: analytics.AgentsReport, Kind: "between", Times: 2, At: now,
	}}
	same(t, moved, must(db.Movements(t.Context()))(t))
	same(t, []state.PageSize{{Project: "prj_a", Rows: 200}}, must(db.PageSizes(t.Context()))(t))
	check(t, db.Record(t.Context(), first, analytics.Provenance{Requests: 1}, []string{"parquet"}))
	same(t, []analytics.Aside{aside(agents, 7), aside(second.Key, 1)}, must(db.Asides(t.Context()))(t))
}

func TestOpenWindows(t *testing.T) {
	db := open(t, t.TempDir())
	month := day(1)
	month.Granularity, month.To = analytics.Month, month.From+31
	for i, k := range []analytics.Key{day(4), month, day(5)} { // the next day, in the same month
		check(t, db.SetOpen(t.Context(), analytics.OpenWindow{Key: k, Totals: analytics.Totals{Total: int64(i)},
			Humans: analytics.Confirmed, ReadAt: now}))
	}
	same(t, []analytics.OpenWindow{
		{Key: day(5), Totals: analytics.Totals{Total: 2}, Humans: analytics.Confirmed, ReadAt: now},
		{Key: month, Totals: analytics.Totals{Total: 1}, Humans: analytics.Confirmed, ReadAt: now},
	}, must(db.OpenWindows(t.Context()))(t))
}

// TestTop: the rows of the newest reading are kept, of each report and granularity.
func TestTop(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	list := func(n, readers int) state.TopRows {
		k := day(n)
		k.Report = analytics.AgentsReport
		row := analytics.AgentRow{Agent: "claude", Class: "coding", Audience: analytics.AI, Found: true,
			Visitors: int64(readers), Requests: 7}
		other := row
		other.Audience, other.Visitors = "neither", 1
		return state.TopRows{Key: k, Revision: int32(readers), More: n,
			Rows: []analytics.Record{analytics.RecordOf(row), analytics.RecordOf(other)}}
	}
	none, pages := list(2, 9), list(1, 3)
	none.Granularity, none.Rows = analytics.Week, nil
	pages.Report = analytics.VisitorsReport
	for _, l := range []state.TopRows{list(2, 1), list(1, 5), list(2, 2), none, list(2, 1), pages} {
		check(t, db.SetTop(t.Context(), l))
	}
	check(t, db.Close())
	same(t, []state.TopRows{pages, list(2, 2), none}, must(open(t, dir).Top(t.Context(), 9))(t))
}

func TestPages(t *testing.T) {
	db := open(t, t.TempDir())
	row := func(path string, n int64) analytics.Record {
		return analytics.RecordOf(analytics.Row{Path: path, Totals: analytics.Totals{Human: 3, AI: 2, Total: n}})
	}
	first, second := []analytics.Record{row("/b", 4), row("/a", math.MaxInt64)}, []analytics.Record{row("/c\"\n", 9)}
	newest, other := revision(day(4), 2), revision(day(1), 1)
	other.Project = "prj_b"
	set := func(rev analytics.Revision, rows []analytics.Record) {
		t.Helper()
		check(t, db.SetTop(t.Context(), state.TopRows{Key: rev.Key, Revision: rev.Number, Rows: rows}))
	}
	want := func(n int, number int32, rows []analytics.Record) {
		t.Helper()
		same(t, []state.TopRows{{Key: newest.Key, Revision: number, Rows: rows}, {Key: other.Key, Revision: 1}},
			must(db.Top(t.Context(), n))(t))
	}
	set(revision(day(3), 7), first)
	set(newest, first)
	set(newest, second)              // the same reading again
	set(revision(day(3), 9), second) // an older window
	set(revision(day(4), 1), second) // an older reading
	set(other, nil)
	want(10, 2, first)
	set(revision(day(4), 3), second)
	want(10, 3, second)
	want(0, 3, nil)
}
