package web_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web"
)

// demoReport is a site that more and more agents read, after some months, and an agent that worked
// on it.
func demoReport() web.Report {
	r := web.Report{Made: now, Version: "v0.1.0", Pages: map[analytics.Key]*web.Pages{}, State: &view.Snapshot{
		Runs:        []analytics.Run{{Started: now.Add(-14 * time.Minute), Outcome: "success"}},
		LastSuccess: now.Add(-13 * time.Minute), Outcomes: testbed.Outcomes("docs-main"),
		Queue: &view.Queue{Jobs: madeUpJobs("docs-main")},
	}}
	addProject(&r, "docs-main", 1800)
	r.Projects[0].Name = "Product docs"
	return r
}

func addProject(r *web.Report, id string, size float64) {
	p := madeUpProject(id, analytics.NewDate(2026, 4, 1), size)
	for _, g := range p.Grids {
		if g.TotalsOnly {
			continue
		}
		before := g.EndingAt(g.Granularity.ComparedWith(g.Newest.Window).To)
		earlier := madeUpPages(*before, "/old/launch-notes")
		later := madeUpPages(*g.Newest, "/docs/agents/mcp-server")
		m, err := analytics.FindMovers(analytics.ByPath(earlier), analytics.ByPath(later), analytics.Everyone, 50)
		if err != nil {
			panic(err)
		}
		r.Pages[g.Newest.Key] = &web.Pages{Newest: g.Newest, Before: before, Movers: m}
	}
	r.Projects = append(r.Projects, p)
}

// several are three projects, with everything that can be wrong.
func several() web.Report {
	r := demoReport()
	addProject(&r, "developer-hub", 96)
	day := analytics.Window{From: testbed.Today - 1, To: testbed.Today}
	r.Projects = append(r.Projects, view.Project{ID: "odd", Grids: []view.Grid{
		{Granularity: analytics.Day, TotalsOnly: true, Cells: []view.Cell{{Window: day, Revision: &analytics.Revision{
			Key: analytics.Key{Window: day}, Totals: analytics.Totals{Human: 3, AI: 4,
				Total: 9}, Rows: analytics.TotalsOnlyRows,
		}}}},
		{Granularity: analytics.Week, Cells: []view.Cell{{Window: analytics.Window{From: day.From - 7, To: day.From}}}},
	}})
	from := testbed.Today - 400
	r.From = &from
	r.State.Runs[0].Outcome, r.State.Runs[0].Message = "failed", "the service answered 503 three times"
	r.State.Queue.Paused, r.State.Queue.PausedSince = "unknown", now.Add(-24*time.Hour)
	for i := range 130 {
		job := view.Job{Project: "developer-hub", Prompt: fmt.Sprintf("weekly/%d.md", i), State: "expired"}
		r.State.Queue.Jobs = append(r.State.Queue.Jobs, job)
	}
	return r
}

func write(t testing.TB, r web.Report) string {
	t.Helper()
	var out bytes.Buffer
	must(t, r.Write(&out))
	return out.String()
}
