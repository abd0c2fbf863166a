package web_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
)

var (
	now                       = testbed.Now
	commas, seen, wants, must = humanize.Comma, engines.VisibleText, engines.Wants, engines.Must
)

// figures are the numbers of the newest window of a grid as a card shows them.
func figures(g view.Grid, form string) string {
	now, before := g.Newest.Totals, g.EndingAt(g.Granularity.ComparedWith(g.Newest.Window).To)
	moved := func(of func(analytics.Totals) int64) string {
		if before == nil || of(before.Totals) == 0 {
			return ""
		}
		growth := float64(of(now)-of(before.Totals)) / float64(of(before.Totals)) * 100
		if math.Abs(growth) >= 99.95 {
			return fmt.Sprintf(" ▲ %.0f%%", growth)
		}
		return fmt.Sprintf(" %s %.1f%%", map[bool]string{true: "▲", false: "▼"}[growth > 0], math.Abs(growth))
	}
	human := func(t analytics.Totals) int64 { return t.Human }
	ai := func(t analytics.Totals) int64 { return t.AI }
	return fmt.Sprintf(form, commas(now.Human), moved(human), commas(now.AI),
		moved(ai), float64(now.AI)/float64(now.Total)*100, commas(now.Human+now.AI-now.Total))
}

const (
	onCard  = "Human %s%s AI %s%s AI share %.1f%% Read as person and as AI %s"
	inTotal = "People %s%s AI readers %s%s %.1f%% of all Person and AI %s"
)

// demoSnapshot is two projects after some months: one was read for long, the other since
// September. Much waits, some windows are skipped, a sink is down.
// demoAgents are windows of agents of the first project.
func demoAgents() []view.RowsWindow {
	to := analytics.DateOf(now)
	w := view.RowsWindow{More: 23}
	for _, row := range []analytics.AgentRow{
		{Agent: "browser", Class: "human", Audience: analytics.Human, Visitors: 12345, Requests: 43210},
		{Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Visitors: 1203, Requests: 9871},
		{Agent: "ChatGPT-User", Class: "answers", Audience: analytics.AI, Visitors: 41, Requests: 8123,
			Markdown: 560, Bytes: 23e7},
		{Agent: "unnamed", Class: "coding", Audience: analytics.AI, Visitors: 350, Requests: 1204519, Markdown: 1204519,
			Bytes: 163e8},
		{Agent: "<b>evil</b>\u202e", Class: "tool", Audience: "neither", Visitors: 3, Requests: 3},
	} {
		w.Rows = append(w.Rows, analytics.RecordOf(row))
	}
	w.Key = analytics.Key{Project: "prj_docs_main", Granularity: analytics.Day, Report: analytics.AgentsReport,
		Window: analytics.Window{From: to - 1, To: to}}
	week := w
	week.Granularity, week.From = analytics.Week, to-7
	return []view.RowsWindow{w, week}
}

func demoSnapshot() *view.Snapshot {
	s := &view.Snapshot{
		At: now, NextRun: now.Add(46 * time.Minute),
		LastSuccess: now.Add(-74 * time.Minute),
		Budgets: []view.Budget{
			{Name: "analytics", Limit: 90, Available: 12, Next: now.Add(9 * time.Minute)},
			{Name: "agent:prj_docs_main", Project: "prj_docs_main", Limit: 90, Available: 88},
			{Name: "agent:developer-hub", Project: "developer-hub", Limit: 90, Available: 90},
		},
		Keys: []view.Key{
			{Name: "read", Expires: now.Add(5*24*time.Hour + time.Hour)},
			{Name: "write", Expires: now.Add(71 * 24 * time.Hour)},
		},
		Sinks: []view.Sink{
			{Name: "parquet", Location: "s3://docs-analytics/prod", LastCommit: now.Add(-13 * time.Minute)},
			{Name: "clickhouse", Location: "clickhouse://clickhouse.internal:9000/docs",
				LastCommit: now.Add(-74 * time.Minute), Waiting: 14,
				Problem: "dial tcp 10.0.4.17:9000: connect: connection refused; " +
					"windows wait in the spool and are delivered by the next export"},
		},
		Finish: now.Add(3 * time.Hour),
		Others: demoAgents(),
		Due: []view.Due{
			{Project: "prj_docs_main", Granularity: analytics.Day, Reason: "missing", Count: 9},
			{Project: "prj_docs_main", Granularity: analytics.Day, Reason: "settle"},
			{Project: "prj_docs_main", Granularity: analytics.Week, Reason: "unverified", Count: 1},
			{Project: "developer-hub", Granularity: "28d", Reason: "missing", Count: 4},
			{Project: "prj_docs_main", Report: analytics.AgentsReport, Granularity: analytics.Day, Reason: "missing", Count: 2},
		},
		Projects: []view.Project{
			madeUpProject("prj_docs_main", analytics.NewDate(2026, 5, 1), 1800), madeUpProject("developer-hub",
				analytics.NewDate(2026, 9, 6), 96),
		},
		Runs:  demoRuns(),
		Queue: demoQueue(), Outcomes: testbed.Outcomes("prj_docs_main"),
	}
	s.Projects[0].Name = "Product docs"
	for i, a := range []analytics.Aside{
		{Reason: analytics.AsideMalformed, Failures: 3,
			Detail: "GET /v1/analytics/prj_docs_main/visitors: page at offset 750 of day [2026-09-17,2026-09-18): " +
				"row 12: human is \"<b>many</b>\", not a count"},
		{Reason: analytics.AsideFailing, Failures: 1,
			Detail: "the service answered 500 Internal Server Error three times"},
	} {
		from := testbed.Today - 19 - analytics.Date(i)
		a.Key = analytics.Key{Project: "prj_docs_main", Granularity: analytics.Day,
			Window: analytics.Window{From: from, To: from + 1}}
		a.Since, a.Until = now.Add(-6*time.Hour), now.Add(3*time.Hour+time.Minute)
		s.Asides = append(s.Asides, a)
	}
	// The newest days of the second project have no rows until they settle.
	days := &s.Projects[1].Grids[0]
	for i := len(days.Cells) - 2; i < len(days.Cells); i++ {
		days.Cells[i].Revision.Rows = analytics.TotalsOnlyRows
		days.Cells[i].RowsFrom = (days.Cells[i].To + 3).Time()
	}
	// Rows of the newest week of the first are suspect.
	s.Projects[0].Grids[1].Newest.Verified = false
	for i := range s.Projects {
		p := &s.Projects[i]
		for j := range p.Grids {
			g := &p.Grids[j]
			g.Count()
			newest := g.Newest
			if newest == nil {
				continue
			}
			w := view.Window{Revision: *newest}
			if !w.TotalsOnly() {
				w.Pages = madeUpPages(*newest, "/extra")[:50]
			}
			if !w.Verified {
				w.MovedRows, w.RepeatedRows = 25, 7
			}
			s.Windows = append(s.Windows, w)
		}
		size := p.Grids[0].Newest.Totals.Total
		s.Open = append(s.Open, analytics.OpenWindow{
			Key: analytics.Key{Project: p.ID, Granularity: analytics.Day,
				Window: analytics.Window{From: testbed.Today, To: testbed.Today + 1}},
			Totals: analytics.Totals{Human: size * 3 / 10, AI: size / 8,
				Total: size * 2 / 5}, ReadAt: now.Add(-13 * time.Minute),
		})
	}
	return s
}

// demoQueue is a paused queue with jobs in every kind of state.
func demoQueue() *view.Queue {
	jobs := append(madeUpJobs("prj_docs_main"),
		view.Job{Project: "developer-hub", Prompt: "fix-<b>typos</b>.md", State: "unknown",
			Reason: "the service answered 502 after it had the prompt; docgauge jobs resolve says what to do"},
		view.Job{Project: "prj_docs_main", Prompt: "odd-link", State: "completed", ID: "job_29",
			PRLink: "javascript:alert(1)"})
	return &view.Queue{
		Prompts: []view.StateCount{
			{Project: "prj_docs_main", State: "pending", Count: 3},
			{Project: "prj_docs_main", State: "active", Count: 1},
			{Project: "prj_docs_main", State: "completed", Count: 1},
			{Project: "developer-hub", State: "pending", Count: 1},
			{Project: "developer-hub", State: "unknown", Count: 1}, {Project: "developer-hub", State: "held"},
		},
		Waiting: []view.Job{
			{Project: "prj_docs_main", Prompt: "translate.md", Title: "Translate the guides", State: "pending",
				Reason: "the cap on jobs a day is reached"},
			{Project: "developer-hub", Prompt: "links.md", State: "pending"},
		},
		Jobs: jobs, Paused: "unknown", PausedSince: now.Add(-time.Hour),
	}
}

// good is a day without anything to do, of one project.
func good() *view.Snapshot {
	s := demoSnapshot()
	s.Runs, s.Projects = s.Runs[1:3], s.Projects[:1]
	s.Queue = nil
	s.Due, s.Asides, s.Finish, s.Keys, s.Sinks = nil, nil, time.Time{}, s.Keys[1:], s.Sinks[:1]
	s.Budgets = s.Budgets[:1]
	s.Budgets[0].Available, s.Budgets[0].Next = 71, time.Time{}
	return s
}

// failed is a day on which the last run ended with much to say.
func failed() *view.Snapshot {
	s := demoSnapshot()
	s.Runs = s.Runs[3:]
	s.Runs[0].Message += strings.Repeat("\nexport prj_docs_main week [2026-09-28,2026-10-05): "+strings.Repeat("x",
		90), 8)
	s.Keys[0].Rejected = true
	return s
}

func demoRuns() (out []analytics.Run) {
	started := now.Add(-14 * time.Minute)
	for i, outcome := range []string{"deferred", "success", "success", "failed", "success", "interrupted", "success"} {
		r := analytics.Run{Started: started.Add(-time.Duration(i) * time.Hour), Outcome: outcome, Windows: 4 + i,
			Requests: 19 + 7*i}
		r.Finished = r.Started.Add(time.Duration(6+31*i) * time.Second)
		if outcome == "failed" {
			r.Message = "export prj_docs_main day [2026-10-05,2026-10-06): sinks/clickhouse: insert 812 rows: " +
				"dial tcp 10.0.4.17:9000: connect: connection refused\nexport developer-hub week " +
				"[2026-09-28,2026-10-05): the service answered 503 Service Unavailable three times"
		}
		out = append(out, r)
	}
	return out
}

// madeUpProject is a site that more and more agents read, since a date; size is about its
// readers of a day. Three days are missing six weeks ago, and the day 30 days ago is
// unverified. Of the 28-day windows only totals are known.
func madeUpProject(id string, since analytics.Date, size float64) view.Project {
	random := rand.New(rand.NewPCG(7, uint64(size)))
	p := view.Project{ID: id}
	for _, name := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
		g := view.Grid{Granularity: name, TotalsOnly: name == "28d"}
		for _, w := range completeWindows(name, since) {
			c := view.Cell{Window: w}
			if name != analytics.Day || w.From < testbed.Today-44 || w.From > testbed.Today-42 {
				c.Revision = madeUpRevision(random, id, g, w, size)
			}
			g.Cells = append(g.Cells, c)
		}
		g.Count()
		p.Grids = append(p.Grids, g)
	}
	return p
}

// completeWindows lists the complete windows of a granularity that begin on or after a date.
func completeWindows(g analytics.Granularity, since analytics.Date) (out []analytics.Window) {
	for from := since; from < testbed.Today; from++ {
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
		if w.To <= testbed.Today {
			out = append(out, w)
		}
	}
	return out
}

func madeUpRevision(random *rand.Rand, id string, g view.Grid, w analytics.Window, size float64) *analytics.Revision {
	age := float64(w.From - analytics.NewDate(2026, 4, 1))
	v := size * math.Pow(float64(w.Days()), .72) * (.93 + .14*random.Float64()) * (.75 + age/420)
	if day := w.From.Weekday(); w.Days() == 1 && (day == time.Saturday || day == time.Sunday) {
		v *= .55
	}
	ai := .14 + .3/(1+math.Exp(-(age-110)/22)) + .012*random.Float64()
	r := &analytics.Revision{
		Key:    analytics.Key{Project: id, Granularity: g.Granularity, Window: w},
		Number: 1, Settled: w.To+3 <= testbed.Today, Verified: w.From != testbed.Today-30,
		Totals: analytics.Totals{Human: int64(v * (1.06 - ai)), AI: int64(v * ai), Total: int64(v)},
		Rows:   52, ExportedAt: w.To.Time().Add(10*time.Hour + 17*time.Minute),
	}
	if g.TotalsOnly {
		r.Rows = analytics.TotalsOnlyRows
	}
	return r
}

// madeUpPaths are the paths of the most read pages: long ones, and some that are not plain text.
var madeUpPaths = []string{
	"/", "/docs/quickstart", "/docs/api/authentication", "/docs/sdk/javascript/getting-started",
	"/blog/2026/09/agents-read-docs",
	"/llms.txt", `/search?q="<script>alert(1)</script>`,
	"/docs/guides/webhooks/verify-signatures-and-replay-protection-for-high-volume-endpoints",
	"/עברית/מדריך/התחלה", "/docs/emoji/🚀-launch-👩‍💻", "/docs/api/errors", "/pricing",
	"/changelog",
}

// plainPath is a path as a picture for people shows it: without markup and letters that the
// fonts of the machine lack.
func plainPath(path string) string {
	for i, r := range path {
		if r > unicode.MaxASCII || r == '?' {
			return cmp.Or(strings.TrimRight(path[:i], "/"), "/docs/guides")
		}
	}
	return path
}

// madeUpPages are the pages of a reading, the most read first. One of them is extra.
func madeUpPages(r analytics.Revision, extra string) (rows []analytics.Row) {
	random := rand.New(rand.NewPCG(uint64(r.To), uint64(r.From)))
	for i := range 52 {
		path := fmt.Sprintf("/docs/reference/resource-%02d", i)
		if i < len(madeUpPaths) {
			path = madeUpPaths[i]
		}
		if i == 14 {
			path = extra
		}
		v := float64(r.Totals.Total) * .62 * math.Pow(.86, float64(i)) * (.9 + .2*random.Float64())
		ai := .2 + .4*random.Float64()
		row := analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(v * (1.05 - ai)), AI: int64(v * ai),
			Total: int64(v)}}
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(b.Total, a.Total) })
	return rows
}

// madeUpJobs are jobs of a project in several states, the newest first.
func madeUpJobs(project string) (out []view.Job) {
	const pulls = "https://code.example/acme/docs/pull/"
	for i, j := range []view.Job{
		{Prompt: "weekly/losing-readers.md", Title: "Pages that lost readers", State: "active", Stalled: true},
		{Prompt: "llms-txt", Title: "Write llms.txt", State: "completed", Result: "pr", PRLink: pulls + "431"},
		{Prompt: "webhooks", Title: "Examples for webhooks", State: "failed", Result: "failed",
			Reason: "the service says: the check of the build failed"},
		{Prompt: "quickstart", Title: "Rewrite the quickstart for agents", State: "completed", Result: "pr",
			PRLink: pulls + "419"},
		{Prompt: "links", Title: "Look for dead links", State: "completed", Result: "no_pr"},
		{Prompt: "auth", Title: "One page on authentication", State: "completed", Result: "pr", PRLink: pulls + "398"},
		{Prompt: "typos", Title: "Fix typos in the guides", State: "completed", Result: "pr", PRLink: pulls + "371"},
	} {
		j.Project, j.ID = project, fmt.Sprintf("job_%d", i)
		j.Begun = testbed.Now.Add(-time.Duration(150+i*i*3311) * time.Minute)
		j.Created = j.Begun.Add(2 * time.Second)
		if j.Result != "" {
			j.Ended = j.Created.Add(time.Duration(1017+i*797) * time.Second)
		}
		out = append(out, j)
	}
	return out
}
