package report_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/webtest"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/internal/web/report"
)

// demo is a site that more and more agents read, after some months, and an agent that
// worked on it.
func demo() report.Report {
	return report.Report{
		Made: webtest.Now, Version: "v0.6.0",
		Projects: []report.Project{demoProject("docs-main", 1800)}, Outcomes: webtest.Outcomes("docs-main"),
		State: &report.State{
			LastRun:     &view.Run{Started: webtest.Now.Add(-14 * time.Minute), Outcome: "success"},
			LastSuccess: webtest.Now.Add(-13 * time.Minute), Queue: &view.Queue{Jobs: webtest.Jobs("docs-main")},
		},
	}
}

func demoProject(id string, size float64) report.Project {
	p := report.Project{ID: id}
	if id == "docs-main" {
		p.Name = "Product docs"
	}
	for _, g := range webtest.Project(id, analytics.NewDate(2026, 4, 1), size).Grids {
		s := report.Series{Grid: g}
		if !g.TotalsOnly {
			newest := g.Newest
			before := g.EndingAt(newest.From)
			earlier, later := webtest.Pages(*before, "/old/launch-notes"), webtest.Pages(*newest, "/docs/agents/mcp-server")
			m, err := analytics.FindMovers(analytics.ByPath(earlier), analytics.ByPath(later), analytics.Everyone, 50)
			if err != nil {
				panic(err)
			}
			s.Pages = &report.Pages{Before: before, Movers: m}
		}
		p.Series = append(p.Series, s)
	}
	return p
}

// several are three projects, with everything that can be wrong.
func several() report.Report {
	r := demo()
	day := analytics.Window{From: webtest.Today - 1, To: webtest.Today}
	odd := []report.Series{
		{Grid: view.Grid{Granularity: analytics.Day, TotalsOnly: true, Cells: []view.Cell{{Window: day, Revision: &analytics.Revision{
			Key: analytics.Key{Window: day}, Totals: analytics.Totals{Human: 3, AI: 4, Total: 9}, Rows: analytics.TotalsOnlyRows,
		}}}}},
		{Grid: view.Grid{Granularity: analytics.Week, Cells: []view.Cell{{Window: analytics.Window{From: webtest.Today - 8, To: webtest.Today - 1}}}}},
	}
	for i := range odd {
		odd[i].Grid.Count()
	}
	r.Projects = append(r.Projects, demoProject("developer-hub", 96), report.Project{ID: "odd", Series: odd})
	from := webtest.Today - 400
	r.From = &from
	r.State.LastRun.Outcome, r.State.LastRun.Message = "failed", "the service answered 503 three times; the next run tries again"
	r.State.Queue.Paused, r.State.Queue.PausedSince = "unknown", webtest.Now.Add(-24*time.Hour)
	for i := range 130 {
		r.State.Queue.Jobs = append(r.State.Queue.Jobs, view.Job{Project: "developer-hub", Prompt: fmt.Sprintf("weekly/%d.md", i), State: "expired"})
	}
	return r
}

func write(t testing.TB, r report.Report) string {
	t.Helper()
	var out bytes.Buffer
	webtest.Must(t, report.Write(&out, r))
	return out.String()
}
