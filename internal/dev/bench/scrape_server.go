package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// What the scraped snapshot holds: the newest window of each project and
// granularity with its pages, and the windows of the ledger behind them, of which
// a scrape must notice nothing.
const (
	scrapeProjects = 10
	scrapePages    = 50
	ledgerWindows  = 10_000
)

var scrapeGranularities = []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"}

// allocated is what the scraped process tells of itself at /allocated.
type allocated struct {
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
}

// metricsHandler serves the metrics of a large snapshot; a POST to /publish
// publishes the next.
func metricsHandler() http.Handler {
	var values exporter.Values
	publish := func() { values.Publish(scrapeSnapshot(time.Now())) }
	publish()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", values.Handler())
	mux.HandleFunc("POST /publish", func(http.ResponseWriter, *http.Request) { publish() })
	mux.HandleFunc("GET /allocated", func(w http.ResponseWriter, _ *http.Request) {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		_ = json.NewEncoder(w).Encode(allocated{mem.Mallocs, mem.TotalAlloc})
	})
	return mux
}

func scrapeSnapshot(now time.Time) exporter.Snapshot {
	s := exporter.Snapshot{At: now, Sinks: []exporter.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range scrapeProjects {
		project := exporter.Project{ID: fmt.Sprintf("prj_%02d", p)}
		for _, g := range scrapeGranularities {
			newest := scrapeRevision(project.ID, g, 0, now)
			s.Windows = append(s.Windows, exporter.Window{Revision: newest, Pages: scrapeRows()})
			grid := exporter.Grid{Granularity: g}
			for n := range ledgerWindows / scrapeProjects / len(scrapeGranularities) {
				r := scrapeRevision(project.ID, g, n, now)
				grid.Cells = append(grid.Cells, exporter.Cell{Window: r.Window, Revision: &r})
			}
			project.Grids = append(project.Grids, grid)
		}
		s.Projects = append(s.Projects, project)
	}
	return s
}

// scrapeRevision is of the window that ended n days ago.
func scrapeRevision(project string, g analytics.Granularity, n int, now time.Time) analytics.Revision {
	today := analytics.DateOf(now)
	window := analytics.Window{From: today - analytics.Date(n+1), To: today - analytics.Date(n)}
	return analytics.Revision{
		Key: analytics.Key{Project: project, Granularity: g, Window: window}, Number: 1,
		Totals: analytics.Totals{Human: 81234, AI: 20345, Total: 99999}, Rows: scrapePages, ExportedAt: now,
	}
}

// scrapeRows returns pages whose paths are as long as those of package rows.
func scrapeRows() []analytics.Row {
	var rows []analytics.Row
	for i := range int64(scrapePages) {
		path := fmt.Sprintf("/guides/section-%02d/a-page-about-%02d", i%7, i)
		rows = append(rows, analytics.Row{Path: path, Human: 9000 - 31*i, AI: 700 - 7*i, Total: 9600 - 37*i})
	}
	return rows
}
