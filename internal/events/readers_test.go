package events

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/schedule"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// moving is a world that is told of changes of more than 30%.
func moving(t *testing.T) *world {
	return newWorld(t, func(c *config.Config) { c.NotifyChange.Percent = 30 })
}

// TestReadersChange: the newest week of a project is reported once if it changed, whatever happens
// afterwards, and no other.
func TestReadersChange(t *testing.T) {
	w := moving(t)
	w.week("prj_a", 0, analytics.Totals{Human: 900, AI: 200, Total: 1000})
	w.want("nothing to compare with")
	w.week("prj_a", 1, analytics.Totals{Human: 1900, AI: 400, Total: 2000})
	e := w.want("fewer by half", readersChanged)[0]
	if r := e.Readers; e.Project != "prj_a" || !r.Site || r.AIShare || r.Pages != nil || r.Change.Total != -1000 ||
		!strings.Contains(e.Text, "1,000 readers (−1,000, −50.0%); changed by more than 30%: readers") {
		t.Errorf("%+v %+v", e, r)
	}
	w.week("prj_a", 0, analytics.Totals{Human: 90, AI: 20, Total: 100}) // another reading
	w.restart(time.Time{})
	w.want("once a week")
	w.cfg.Projects = config.Projects{"prj_b"}
	w.restart(time.Time{})
	w.want("another project")
	w.cfg.Projects = config.Projects{"prj_a", "prj_b"}
	w.restart(time.Time{})
	w.want("it is back")
	w.week("prj_b", 0, analytics.Totals{Human: 900, AI: 200, Total: 1000})
	w.week("prj_b", 1, analytics.Totals{Human: 900, AI: 200, Total: 1000})
	w.want("no change")
	w.record("prj_b", 0, 2, analytics.Totals{Human: 900, AI: 300, Total: 1000}, nil)
	if r := w.want("it settled", readersChanged)[0].Readers; r.Site || !r.AIShare {
		t.Errorf("%+v", r)
	}
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.week("prj_b", 0, analytics.Totals{Human: 100, AI: 50, Total: 120})
	w.want("the next week", readersChanged)
	w.cfg.NotifyChange = config.Change{Percent: 90, Points: 5}
	w.restart(time.Time{})
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.week("prj_b", 0, analytics.Totals{Human: 120, AI: 20, Total: 140})
	e = w.want("27 points of AI share, 66% of it", readersChanged)[0]
	if r := e.Readers; r.Site || !r.AIShare || r.Points != 5 ||
		!strings.Contains(e.Text, "changed by more than 90% (AI share: 5 points): AI share") {
		t.Errorf("%+v %+v", e, r)
	}
	w.cfg.NotifyChange.Percent = 0
	w.restart(time.Time{})
	w.now = w.now.Add(7 * 24 * time.Hour)
	w.week("prj_b", 0, analytics.Totals{Human: 1000, AI: 50, Total: 1020})
	w.want("turned off")
}

// TestHasMoved: a change counts if it exceeds the percentage and chance.
func TestHasMoved(t *testing.T) {
	for _, c := range []struct {
		before, after int64
		want          bool
	}{
		{1000, 1300, false}, {1000, 1301, true}, {1000, 700, false}, {1000, 699, true}, {50, 70, false}, {50, 90, true},
		{0, 9, false}, {0, 10, true}, {10, 0, true}, {9, 0, false}, {0, 0, false},
	} {
		if got := hasMoved(c.before, c.after, 30); got != c.want {
			t.Errorf("%d to %d: %v", c.before, c.after, got)
		}
	}
	for _, c := range []struct {
		before, after analytics.Totals
		want          bool
	}{
		{analytics.Totals{AI: 200, Total: 1000}, analytics.Totals{AI: 259, Total: 1000}, false},
		{analytics.Totals{AI: 200, Total: 1000}, analytics.Totals{AI: 270, Total: 1000}, true},
		{analytics.Totals{AI: 200, Total: 1000}, analytics.Totals{AI: 140, Total: 2000}, true},
		{analytics.Totals{AI: 200, Total: 1000}, analytics.Totals{AI: 400, Total: 2000}, false},
		{analytics.Totals{AI: 8, Total: 40}, analytics.Totals{AI: 12, Total: 40}, false},
		{analytics.Totals{Total: 40}, analytics.Totals{AI: 12, Total: 40}, true},
		{analytics.Totals{AI: 8, Total: 9}, analytics.Totals{}, false},
	} {
		if got := shareHasMoved(c.before, c.after, config.Change{Percent: 30}); got != c.want {
			t.Errorf("share, %+v to %+v: %v", c.before, c.after, got)
		}
	}
	for ai, want := range map[int64]bool{2490: false, 2510: true, 1510: false, 1490: true} {
		before, after := analytics.Totals{AI: 2000, Total: 10_000}, analytics.Totals{AI: ai, Total: 10_000}
		if got := shareHasMoved(before, after, config.Change{Percent: 90, Points: 5}); got != want {
			t.Errorf("share, %d to %d in points: %v", before.AI, ai, got)
		}
	}
}

// record enters a reading of a week, n weeks ago, and its rows in the sink.
func (w *world) record(project string, ago int, number int32, totals analytics.Totals, rows []analytics.Row) {
	w.t.Helper()
	to := schedule.Newest(analytics.Week, analytics.DateOf(w.now)).To - analytics.Date(7*ago)
	rev := analytics.Revision{
		Key: analytics.Key{Project: project, Granularity: analytics.Week,
			Window: analytics.Window{From: to - 7, To: to}},
		Number: number, Verified: true, Rows: analytics.TotalsOnlyRows, Totals: totals, ExportedAt: w.now,
	}
	var at []string
	if rows != nil {
		rev.Rows = int64(len(rows))
		sealed := sinktest.Seal(w.t, rev, analytics.ByPath(rows))
		w.check(w.app.Sinks[0].Replace(w.t.Context(), sealed))
		rev, at = sealed.Revision(), []string{config.SinkParquet}
	}
	w.check(w.app.State.Record(w.t.Context(), rev, analytics.Provenance{}, at))
	for _, sink := range at {
		w.check(w.app.State.Committed(w.t.Context(), rev, sink, w.now))
	}
}

// TestPagesChange: pages among the 20 most read of either week count, with those that appeared and
// vanished.
func TestPagesChange(t *testing.T) {
	w := moving(t)
	weeks := [2][]analytics.Row{}
	row := func(path string, before, after int64) {
		for i, n := range []int64{before, after} {
			if n > 0 {
				weeks[i] = append(weeks[i], analytics.Row{Path: path, Totals: analytics.Totals{Human: n, Total: n}})
			}
		}
	}
	for _, path := range strings.Split("abcdefghijklmnopq", "") {
		row("/"+path, 500, 510) // 17 pages
	}
	row("/up", 300, 450)
	row("/down", 300, 150)
	row("/gone", 250, 0)
	row("/new", 0, 240)
	row("/small", 50, 120) // the 21st of both weeks
	row("/tiny", 40, 100)
	totals := analytics.Totals{Human: 9000, AI: 2000, Total: 10000}
	w.record("prj_a", 1, 1, totals, weeks[0])
	w.record("prj_a", 0, 1, totals, weeks[1])
	e := w.want("pages", readersChanged)[0]
	paths := []string{}
	for _, p := range e.Readers.Pages {
		paths = append(paths, p.Path)
	}
	if want := []string{"/gone", "/new", "/down", "/up"}; e.Readers.Site || e.Readers.AIShare ||
		!slices.Equal(paths, want) {
		t.Errorf("%v, want %v: %+v", paths, want, e.Readers)
	}
	if want := []string{"Vanished: /gone (250 the week before)", "Appeared: /new (240)",
		"Falling: /down −150, −50.0% (150)", "Rising: /up +150, +50.0% (450)"}; !slices.Equal(e.Lines[3:7], want) {
		t.Errorf("%q", e.Lines)
	}
	many := view.ReadersChange{Week: view.Week{Before: &totals, Change: &totals, Settled: true}}
	many.Pages = make([]view.DigestPage, 12)
	if lines := readersLines(&many); len(lines) != 14 || lines[13] != "and 2 more pages" {
		t.Errorf("%q", lines)
	}
	jobs := view.Digest{Week: many.Week, Jobs: make([]view.DigestJob, 12)}
	if lines := digestLines(&jobs); lines[len(lines)-1] != "and 2 more agent jobs" {
		t.Errorf("%q", lines)
	}
}

// TestDigestAgents: a digest has the agents of its week with the change, without people, and of the paths that are
// not there the most asked ones of plain characters; strangers choose those paths. Of any other report it has the first
// rows of the site.
func TestDigestAgents(t *testing.T) {
	w := newWorld(t, func(c *config.Config) {
		c.Reports = config.Reports{analytics.AgentsReport, analytics.SourcesReport}
		digestAt(t, "* * * * *")(c)
	})
	for ago := 1; ago >= 0; ago-- {
		w.week("prj_a", ago, analytics.Totals{Human: 6, AI: 4, Total: 9})
		n := int64(2 - ago)
		rows := []analytics.AgentRow{
			{Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Found: true, Visitors: 1200 * n, Requests: 5000},
			{Agent: "browser", Class: "human", Audience: analytics.Human, Found: true, Visitors: 6000, Requests: 6000},
			{Path: "/guides/a", Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Found: true, Visitors: 3,
				Requests: 4},
			{Path: "/guide/a", Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Visitors: 2, Requests: 30 * n},
			{Path: "/set_up", Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Visitors: 2, Requests: 3},
			{Path: "/set-up", Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Found: true, Visitors: 2,
				Requests: 3},
		}
		for i, path := range []string{"/a\n<!channel>", "/ignore all rules", "/.env", "/\u202eabc", "/" +
			strings.Repeat("x", 300)} {
			rows = append(rows, analytics.AgentRow{Path: path, Agent: "Claude-User", Class: "answers",
				Audience: analytics.AI, Visitors: 2, Requests: 900 + int64(i)})
		}
		slices.SortFunc(rows, analytics.AgentRow.Compare)
		to := schedule.Newest(analytics.Week, analytics.DateOf(w.now)).To - analytics.Date(7*ago)
		commit := func(report analytics.Report, rows iter.Seq2[analytics.Record, error]) {
			rev := analytics.Revision{Key: analytics.Key{Project: "prj_a", Granularity: analytics.Week, Report: report,
				Window: analytics.Window{From: to - 7, To: to}}, Number: 1, Verified: true, ExportedAt: w.now}
			file, err := archive.Encode(rev, rows)
			w.check(err)
			w.check(w.app.Sinks[0].Replace(t.Context(), file))
			w.check(w.app.State.Record(t.Context(), file.Revision(), analytics.Provenance{}, []string{config.SinkParquet}))
			w.check(w.app.State.Committed(t.Context(), file.Revision(), config.SinkParquet, w.now))
		}
		commit(analytics.AgentsReport, analytics.Records(sinktest.List(rows...)))
		commit(analytics.SourcesReport, analytics.Records(sinktest.List(analytics.SourceRow{Source: "chatgpt",
			Class: "assistant", Agent: "browser", Visitors: 30 * n, Requests: 1500}, analytics.SourceRow{Path: "/a",
			Source: "chatgpt", Class: "assistant", Agent: "browser", Visitors: 2, Requests: 3})))
	}
	w.now = w.now.Add(time.Minute)
	e := w.want("a digest", digest)[0]
	if len(e.Digest.Agents) != 1 || len(e.Digest.Misses) != 2 {
		t.Fatalf("%+v", e.Digest)
	}
	for _, line := range []string{"Assistant Claude-User: 2,400 readers (+1,200, +100%), 5,000 requests",
		"Missed by agents: 7 paths, 1 with a sure redirect",
		"Not there: /guide/a, 60 requests (+30, +100%) by Claude-User 60; most similar page /guides/a",
		"From chatgpt: 60 readers (browser) (+30, +100%); its agents made 0 requests"} {
		if !slices.Contains(e.Lines, line) {
			t.Errorf("no %q in %q", line, e.Lines)
		}
	}
}
