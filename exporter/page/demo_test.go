package page_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// now is a Tuesday, 31 minutes past ten.
var now = time.Date(2026, time.October, 6, 10, 31, 12, 0, time.UTC)

// demo is what two projects look like after some months: one has been read for
// long, with a gap and a drift, the other since September.
func demo() *exporter.Snapshot {
	s := &exporter.Snapshot{
		At: now, NextRun: now.Add(46 * time.Minute),
		LastStart: now.Add(-14 * time.Minute), LastCompletion: now.Add(-13 * time.Minute), LastSuccess: now.Add(-74 * time.Minute),
		Budgets: []exporter.Budget{{Name: "analytics", Limit: 90, Remaining: 12, Next: now.Add(9 * time.Minute)}},
		Keys: []exporter.Key{
			{Name: "read", Expires: now.Add(5*24*time.Hour + time.Hour)},
			{Name: "write", Expires: now.Add(71 * 24 * time.Hour)},
		},
		Sinks: []exporter.Sink{
			{Name: "parquet", Location: "s3://docs-analytics/prod", LastCommit: now.Add(-13 * time.Minute)},
			{Name: "clickhouse", Location: "clickhouse://clickhouse.internal:9000/docs", LastCommit: now.Add(-74 * time.Minute), Waiting: 14,
				Problem: "dial tcp 10.0.4.17:9000: connect: connection refused; windows wait in the spool and are delivered by the next export"},
		},
		Finish: now.Add(3 * time.Hour),
		Due: []exporter.Due{
			{Project: "prj_docs_main", Granularity: analytics.Day, Reason: "missing", Count: 9},
			{Project: "prj_docs_main", Granularity: analytics.Day, Reason: "settle"},
			{Project: "prj_docs_main", Granularity: analytics.Week, Reason: "unverified", Count: 1},
			{Project: "developer-hub", Granularity: "28d", Reason: "missing", Count: 4},
		},
		Runs:  demoRuns(),
		Queue: demoQueue(),
	}
	g := generator{s: s, r: rand.New(rand.NewPCG(7, 11))}
	g.project("prj_docs_main", analytics.NewDate(2026, 5, 1), 1800)
	g.project("developer-hub", analytics.NewDate(2026, 9, 6), 96)
	trouble(s)
	return s
}

// trouble sets windows of one project aside and makes rows of its newest week
// suspect, and leaves the two newest days of the other without rows until they have
// settled.
func trouble(s *exporter.Snapshot) {
	today := analytics.DateOf(now)
	for i, a := range []analytics.Aside{
		{Reason: analytics.AsideMalformed, Failures: 3, Detail: "GET /v1/analytics/prj_docs_main/visitors: page at offset 750 of day [2026-09-17,2026-09-18): row 12: human is \"<b>many</b>\", not a count; nothing was kept of it"},
		{Reason: analytics.AsideFailing, Failures: 1, Detail: "the service answered 500 Internal Server Error three times"},
	} {
		a.Key = analytics.Key{Project: "prj_docs_main", Granularity: analytics.Day, Window: analytics.Window{From: today - 19 - analytics.Date(i), To: today - 18 - analytics.Date(i)}}
		a.Since, a.Until = now.Add(-6*time.Hour), now.Add(3*time.Hour+time.Minute)
		s.Asides = append(s.Asides, a)
	}
	days := &s.Projects[1].Grids[0]
	for i := len(days.Cells) - 2; i < len(days.Cells); i++ {
		c := &days.Cells[i]
		if !c.Revision.Verified {
			days.Unverified--
		}
		c.Revision.Rows, c.Revision.Verified = analytics.TotalsOnlyRows, true
		c.RowsFrom = (c.To + 3).Time()
		days.Rowless++
	}
	newest := days.Cells[len(days.Cells)-1].Revision
	for i := range s.Windows {
		switch w := &s.Windows[i]; {
		case w.Key == newest.Key:
			w.Revision, w.Pages = *newest, nil
		case w.Project == "prj_docs_main" && w.Granularity == analytics.Week:
			week := &s.Projects[0].Grids[1]
			if w.Verified {
				week.Unverified++
			}
			w.Verified, w.MovedRows, w.RepeatedRows = false, 250, 7
			r := w.Revision
			week.Cells[len(week.Cells)-1].Revision = &r
		}
	}
}

// demoQueue is a paused queue with jobs in every kind of state.
func demoQueue() *exporter.Queue {
	return &exporter.Queue{
		Prompts: []exporter.Prompts{
			{Project: "prj_docs_main", State: "pending", Count: 3}, {Project: "prj_docs_main", State: "active", Count: 1},
			{Project: "prj_docs_main", State: "completed", Count: 1}, {Project: "developer-hub", State: "pending", Count: 1},
			{Project: "developer-hub", State: "unknown", Count: 1}, {Project: "developer-hub", State: "held"},
		},
		Jobs: []exporter.Job{
			{Project: "prj_docs_main", Prompt: "weekly/losing-readers.md", Title: "Pages that lost readers", State: "active", Status: "active",
				ID: "job_31", Model: "opus", Repository: "acme/docs", Ref: "main", Created: now.Add(-150 * time.Minute), Stalled: true},
			{Project: "developer-hub", Prompt: "fix-<b>typos</b>.md", State: "unknown",
				Reason: "the service answered 502 after it had the prompt; docgauge jobs resolve says what to do"},
			{Project: "prj_docs_main", Prompt: "quickstart", Title: "Rewrite the quickstart", State: "completed", Status: "completed", ID: "job_30",
				PRLink: "https://code.example/acme/docs/pull/412", Created: now.Add(-26 * time.Hour), Ended: now.Add(-25 * time.Hour)},
			{Project: "prj_docs_main", Prompt: "odd-link", State: "completed", ID: "job_29", PRLink: "javascript:alert(1)",
				Created: now.Add(-50 * time.Hour), Ended: now.Add(-49 * time.Hour)},
		},
		Paused: "unknown",
	}
}

// good is a day without anything to do, of one project.
func good() *exporter.Snapshot {
	s := demo()
	s.Runs, s.Projects = s.Runs[1:3], s.Projects[:1]
	s.Queue = nil
	s.Due, s.Asides, s.Finish, s.Keys, s.Sinks = nil, nil, time.Time{}, s.Keys[1:], s.Sinks[:1]
	s.Budgets[0].Remaining, s.Budgets[0].Next = 71, time.Time{}
	return s
}

// failed is a day on which the last run ended with much to say.
func failed() *exporter.Snapshot {
	s := demo()
	s.Runs = s.Runs[3:]
	s.Runs[0].Message += strings.Repeat("\nexport prj_docs_main week [2026-09-28,2026-10-05): "+strings.Repeat("x", 90), 8)
	s.Keys[0].Rejected = true
	return s
}

func demoRuns() (out []exporter.Run) {
	started := now.Add(-14 * time.Minute)
	for i, outcome := range []string{"deferred", "success", "success", "failed", "success", "interrupted", "success"} {
		r := exporter.Run{Started: started.Add(-time.Duration(i) * time.Hour), Outcome: outcome, Windows: 4 + i, Requests: 19 + 7*i}
		r.Finished = r.Started.Add(time.Duration(6+31*i) * time.Second)
		if outcome == "failed" {
			r.Message = "export prj_docs_main day [2026-10-05,2026-10-06): sinks/clickhouse: insert 812 rows: dial tcp 10.0.4.17:9000: connect: connection refused\nexport developer-hub week [2026-09-28,2026-10-05): the service answered 503 Service Unavailable three times; the next run tries again"
		}
		out = append(out, r)
	}
	return out
}

type generator struct {
	s *exporter.Snapshot
	r *rand.Rand
}

func (g *generator) project(id string, since analytics.Date, size float64) {
	today := analytics.DateOf(now)
	p := exporter.Project{ID: id}
	for _, spec := range []analytics.Spec{{Granularity: analytics.Day}, {Granularity: analytics.Week}, {Granularity: analytics.Month}, {Granularity: "28d", TotalsOnly: true}} {
		grid := exporter.Grid{Granularity: spec.Granularity, TotalsOnly: spec.TotalsOnly}
		for _, w := range tiling(spec.Granularity, since, today) {
			g.cell(id, &grid, w, size)
		}
		p.Grids = append(p.Grids, grid)
		g.newest(grid)
		if spec.Granularity == analytics.Day {
			g.s.Open = append(g.s.Open, exporter.Open{
				Key:    analytics.Key{Project: id, Granularity: analytics.Day, Window: analytics.Window{From: today, To: today + 1}},
				Totals: analytics.Totals{Human: int64(size * .31), AI: int64(size * .12), Total: int64(size * .41)}, ReadAt: now.Add(-13 * time.Minute),
			})
		}
	}
	g.s.Projects = append(g.s.Projects, p)
}

// tiling lists the complete windows that begin on or after since.
func tiling(g analytics.Granularity, since, today analytics.Date) (out []analytics.Window) {
	for from := since; from < today; from++ {
		w := analytics.Window{From: from, To: from + 1}
		switch {
		case g.RollingDays() > 0:
			w.To = from + analytics.Date(g.RollingDays())
		case g == analytics.Week && from.Weekday() == time.Monday:
			w.To = from + 7
		case g == analytics.Month && from.Time().Day() == 1:
			w.To = analytics.NewDate(from.Time().Year(), from.Time().Month()+1, 1)
		case g != analytics.Day:
			continue
		}
		if w.To <= today {
			out = append(out, w)
		}
	}
	return out
}

func (g *generator) cell(id string, grid *exporter.Grid, w analytics.Window, size float64) {
	today := analytics.DateOf(now)
	c := exporter.Cell{Window: w}
	gap := grid.Granularity == analytics.Day && (w.From >= today-21 && w.From < today-18 || g.r.IntN(90) == 0 && w.To < today)
	if gap {
		grid.Missing++
	} else {
		c.Revision = g.revision(id, grid, w, size)
		grid.Known++
		if !c.Revision.Settled {
			grid.Provisional++
		}
		if !c.Revision.Verified {
			grid.Unverified++
		}
	}
	grid.Cells = append(grid.Cells, c)
}

func (g *generator) revision(id string, grid *exporter.Grid, w analytics.Window, size float64) *analytics.Revision {
	v := size * math.Pow(float64(w.Days()), .72) * (.9 + .2*g.r.Float64()) * (1 + float64(w.From-analytics.NewDate(2026, 7, 1))/400)
	if day := w.From.Weekday(); w.Days() == 1 && (day == time.Saturday || day == time.Sunday) {
		v *= .52
	}
	ai := .22 + float64(w.From-analytics.NewDate(2026, 5, 1))/900
	r := &analytics.Revision{
		Key:    analytics.Key{Project: id, Granularity: grid.Granularity, Window: w},
		Number: 1, Settled: w.To+3 <= analytics.DateOf(now), Verified: g.r.IntN(23) != 0,
		Totals: analytics.Totals{Human: int64(v * .84), AI: int64(v * ai), Total: int64(v)},
		Rows:   int64(300 + size/3), ExportedAt: w.To.Time().Add(time.Hour),
	}
	if grid.TotalsOnly {
		r.Rows = analytics.TotalsOnlyRows
	}
	return r
}

// newest publishes the last window of a grid.
func (g *generator) newest(grid exporter.Grid) {
	if len(grid.Cells) == 0 || grid.Cells[len(grid.Cells)-1].Revision == nil {
		return
	}
	w := exporter.Window{Revision: *grid.Cells[len(grid.Cells)-1].Revision}
	if !grid.TotalsOnly {
		w.Pages = demoPages(w.Totals)
	}
	g.s.Windows = append(g.s.Windows, w)
}

var paths = []string{
	"/", "/docs/quickstart", "/docs/api/authentication", "/docs/sdk/javascript/getting-started", "/blog/2026/09/agents-read-docs",
	`/search?q="<script>alert(1)</script>`, "/docs/guides/webhooks/verify-signatures-and-replay-protection-for-high-volume-endpoints",
	"/עברית/מדריך/התחלה", "/docs/emoji/🚀-launch-👩‍💻", "/docs/api/errors", "/pricing", "/changelog", "/llms.txt",
}

func demoPages(t analytics.Totals) (out []analytics.Row) {
	for i := range 50 {
		path := fmt.Sprintf("/docs/reference/resource-%02d", i)
		if i < len(paths) {
			path = paths[i]
		}
		v := float64(t.Total) * .62 * math.Pow(.87, float64(i))
		out = append(out, analytics.Row{Path: path, Human: int64(v * .8), AI: int64(v * .31), Total: int64(v)})
	}
	return out
}
