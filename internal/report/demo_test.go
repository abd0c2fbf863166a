package report_test

import (
	"bytes"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/report"
)

// now is a Tuesday, 31 minutes past ten.
var now = time.Date(2026, time.October, 6, 10, 31, 12, 0, time.UTC)

// demo is a site that more and more agents read, after some months: with a gap, a
// drift, and an agent that worked on it.
func demo() report.Report {
	return report.Report{
		Made: now, Version: "v0.6.0", Archive: "s3://docs-analytics/prod",
		Projects: []report.Project{demoProject("docs-main", 1800)},
		State: &report.State{
			LastRun: &report.Run{Started: now.Add(-14 * time.Minute), Outcome: "success"}, LastSuccess: now.Add(-13 * time.Minute),
			Queue: &report.Queue{Jobs: demoJobs("docs-main")},
		},
	}
}

// several are two projects, and all that can be wrong.
func several() report.Report {
	r := demo()
	r.Projects = append(r.Projects, demoProject("developer-hub", 96), report.Project{ID: "odd", Lines: []report.Line{
		{Granularity: analytics.Day, Cells: []report.Cell{{Window: analytics.Window{From: today - 1, To: today}, Revision: &analytics.Revision{
			Totals: analytics.Totals{Human: 3, AI: 4, Total: 9}, Rows: analytics.TotalsOnlyRows,
		}}}},
		{Granularity: analytics.Week, Cells: []report.Cell{{Window: analytics.Window{From: today - 8, To: today - 1}}}},
	}})
	from := today - 400
	r.From = &from
	r.State.LastRun.Outcome, r.State.LastRun.Message = "failed", "the service answered 503 three times; the next run tries again"
	r.State.Queue.Paused = "The queue is paused since 2026-10-05 11:00: two creates in a row are in doubt"
	for i := range 130 {
		r.State.Queue.Jobs = append(r.State.Queue.Jobs, report.Job{Project: "developer-hub", Prompt: fmt.Sprintf("weekly/%d.md", i), State: "expired"})
	}
	return r
}

var today = analytics.DateOf(now)

func demoJobs(project string) []report.Job {
	var out []report.Job
	for i, j := range []report.Job{
		{Prompt: "weekly/losing-readers.md", Title: "Pages that lost readers", State: "active", Stalled: true},
		{Prompt: "llms-txt", Title: "Write llms.txt", State: "completed", Result: "pr", PRLink: "https://code.example/acme/docs/pull/431"},
		{Prompt: "webhooks", Title: "Examples for webhooks", State: "failed", Result: "failed", Reason: "the service says: the check of the build failed"},
		{Prompt: "quickstart", Title: "Rewrite the quickstart for agents", State: "completed", Result: "pr", PRLink: "https://code.example/acme/docs/pull/419"},
		{Prompt: "links", Title: "Look for dead links", State: "completed", Result: "no_pr"},
		{Prompt: "auth", Title: "One page on authentication", State: "completed", Result: "pr", PRLink: "https://code.example/acme/docs/pull/398"},
		{Prompt: "typos", Title: "Fix typos in the guides", State: "completed", Result: "pr", PRLink: "https://code.example/acme/docs/pull/371"},
	} {
		j.Project = project
		j.Begun = now.Add(-time.Duration(150+i*i*3311) * time.Minute)
		j.Created = j.Begun.Add(2 * time.Second)
		if j.Result != "" {
			j.Ended = j.Created.Add(time.Duration(1017+i*797) * time.Second)
		}
		out = append(out, j)
	}
	return out
}

func demoProject(id string, size float64) report.Project {
	g := generator{rand.New(rand.NewPCG(7, uint64(size))), id, size}
	p := report.Project{ID: id}
	for _, name := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
		p.Lines = append(p.Lines, g.line(name))
	}
	return p
}

type generator struct {
	*rand.Rand
	id   string
	size float64
}

func (g generator) line(name analytics.Granularity) report.Line {
	l := report.Line{Granularity: name}
	for from := analytics.NewDate(2026, 4, 1); from < today; from++ {
		w, begins := windowAt(name, from)
		if !begins || w.To > today {
			continue
		}
		c := report.Cell{Window: w}
		if name != analytics.Day || w.From < today-44 || w.From > today-42 {
			c.Revision = g.revision(name, w)
		}
		l.Cells = append(l.Cells, c)
	}
	if name == "28d" {
		return l
	}
	n := len(l.Cells)
	earlier, later := g.rows(l.Cells[n-2], "/old/launch-notes", 2), g.rows(l.Cells[n-1], "/docs/agents/mcp-server", 1)
	movers, err := analytics.FindMovers(earlier, later, analytics.Everyone, 50)
	if err != nil {
		panic(err)
	}
	l.Pages = &report.Pages{Before: l.Cells[n-2].Revision, Movers: movers}
	return l
}

// windowAt is the window of a granularity that begins on a day, if one does.
func windowAt(g analytics.Granularity, from analytics.Date) (analytics.Window, bool) {
	switch {
	case g.RollingDays() > 0:
		return analytics.Window{From: from, To: from + analytics.Date(g.RollingDays())}, true
	case g == analytics.Week:
		return analytics.Window{From: from, To: from + 7}, from.Weekday() == time.Monday
	case g == analytics.Month:
		return analytics.Window{From: from, To: analytics.NewDate(from.Time().Year(), from.Time().Month()+1, 1)}, from.Time().Day() == 1
	}
	return analytics.Window{From: from, To: from + 1}, true
}

func (g generator) revision(name analytics.Granularity, w analytics.Window) *analytics.Revision {
	age := float64(w.From - analytics.NewDate(2026, 4, 1))
	v := g.size * math.Pow(float64(w.Days()), .72) * (.93 + .14*g.Float64()) * (.75 + age/420)
	if day := w.From.Weekday(); w.Days() == 1 && (day == time.Saturday || day == time.Sunday) {
		v *= .55
	}
	ai := .14 + .3/(1+math.Exp(-(age-110)/22)) + .012*g.Float64()
	return &analytics.Revision{
		Key:    analytics.Key{Project: g.id, Granularity: name, Window: w},
		Number: 1, Settled: w.To+3 <= today, Verified: w.From != today-30,
		Totals: analytics.Totals{Human: int64(v * (1.06 - ai)), AI: int64(v * ai), Total: int64(v)},
		Rows:   52, ExportedAt: w.To.Time().Add(10*time.Hour + 17*time.Minute),
	}
}

var paths = []string{
	"/", "/docs/quickstart", "/docs/api/authentication", "/docs/sdk/javascript/getting-started", "/blog/agents-read-docs", "/llms.txt",
	"/docs/guides/webhooks/verify-signatures-and-replay-protection-for-high-volume-endpoints", "/docs/api/errors", "/pricing", "/changelog",
}

// rows are the pages of a window, with one that the other does not have.
func (g generator) rows(c report.Cell, extra string, seed uint64) iter.Seq2[analytics.Row, error] {
	r := rand.New(rand.NewPCG(seed, uint64(c.From)))
	var rows []analytics.Row
	for i := range 52 {
		path := fmt.Sprintf("/docs/reference/resource-%02d", i)
		if i < len(paths) {
			path = paths[i]
		}
		if i == 14 {
			path = extra
		}
		v := float64(c.Revision.Totals.Total) * .62 * math.Pow(.88, float64(i)) * (.9 + .2*r.Float64())
		ai := .2 + .4*r.Float64()
		rows = append(rows, analytics.Row{Path: path, Human: int64(v * (1.05 - ai)), AI: int64(v * ai), Total: int64(v)})
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
	return rowsOf(rows...)
}

func rowsOf(rows ...analytics.Row) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func write(t testing.TB, r report.Report) string {
	t.Helper()
	var out bytes.Buffer
	if err := report.Write(&out, r); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
