package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// The content of the scraped snapshot: the newest window of each project and granularity with its pages, and the
// windows of the ledger, which must not slow a scrape down.
const (
	scrapeProjects = 10
	scrapePages    = 50
	ledgerWindows  = 10_000
)

// The ways to scrape. The last two publish a snapshot before each scrape, with new times or with new numbers too.
const (
	steadyScrape = "same snapshot"
	freshScrape  = "new snapshot each"
	readScrape   = "new numbers each"
)

// scraped is the cost of scrapes. Allocations are those of server, client and new snapshots, for
// each scrape.
type scraped struct {
	scrapes                     int
	median, p99                 float64 // ms
	allocations, allocatedBytes float64
	size                        int64 // of the last response on the wire
}

func scrapeSnapshot(now time.Time, more int64) view.Snapshot {
	granularities := []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"}
	today := analytics.DateOf(now)
	var rows []analytics.Row
	for i := range int64(scrapePages) {
		path := fmt.Sprintf("/guides/section-%02d/a-page-about-%02d", i%7, i)
		human, ai := 9000-31*i+more, 700-7*i+more
		rows = append(rows, analytics.Row{Path: path, Human: human, AI: ai, Total: human + ai/2})
	}
	s := view.Snapshot{At: now, Sinks: []view.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range scrapeProjects {
		project := view.Project{ID: fmt.Sprintf("prj_%02d", p)}
		for _, g := range granularities {
			grid := view.Grid{Granularity: g}
			for n := range analytics.Date(ledgerWindows / scrapeProjects / len(granularities)) {
				window := analytics.Window{From: today - n - 1, To: today - n}
				r := analytics.Revision{
					Key:    analytics.Key{Project: project.ID, Granularity: g, Window: window},
					Number: 1, Totals: analytics.Totals{Human: 81234 + more, AI: 20345 + more, Total: 99999 + more},
					Rows: scrapePages, ExportedAt: now,
				}
				grid.Cells = append(grid.Cells, view.Cell{Window: window, Revision: &r})
			}
			s.Windows = append(s.Windows, view.Window{Revision: *grid.Cells[0].Revision, Pages: rows})
			project.Grids = append(project.Grids, grid)
		}
		s.Projects = append(s.Projects, project)
	}
	return s
}

// scraping is one way to scrape, many times.
type scraping struct {
	scenario, format string
	accept, encoding string // headers
	inFlight         int
	scrapes          int
}

// scrapeAll scrapes a server in this process in every way.
func (l *lab) scrapeAll(ctx context.Context) (all []result, err error) {
	const openMetrics, gzip = "application/openmetrics-text;version=1.0.0", "gzip"
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	var values exporter.Values
	values.Publish(scrapeSnapshot(time.Now(), 0))
	srv := httptest.NewServer(values.Handler())
	defer srv.Close()
	for _, way := range []scraping{
		{steadyScrape, "gzip openmetrics", openMetrics, gzip, 1, 1000},
		{steadyScrape, "gzip protobuf", protobuf, gzip, 1, 1000},
		{steadyScrape, "identity text", "text/plain;version=0.0.4", "identity", 1, 1000},
		{"in parallel", "gzip openmetrics", openMetrics, gzip, 40, 2000},
		{freshScrape, "gzip openmetrics", openMetrics, gzip, 1, 100},
		{readScrape, "gzip openmetrics", openMetrics, gzip, 1, 100},
	} {
		if l.short {
			way.scrapes /= 50
		}
		r := result{table: scrapeTable, scenario: way.scenario,
			client: client{name: way.format, inFlight: way.inFlight}}
		if r.scraped, err = way.run(ctx, &values, srv.URL); err != nil {
			return all, err
		}
		all = append(all, r)
	}
	return all, nil
}

// run scrapes after a first scrape that does not count. Each scraper keeps its connection, as Prometheus does. A
// scrape is timed from before the request to the last byte of the response.
func (s scraping) run(ctx context.Context, values *exporter.Values, base string) (r scraped, err error) {
	var took []float64
	var mu sync.Mutex
	scrape := func(client *http.Client, n int) error {
		switch s.scenario {
		case freshScrape:
			values.Publish(scrapeSnapshot(time.Now(), 0))
		case readScrape:
			values.Publish(scrapeSnapshot(time.Now(), int64(n)))
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
		if err != nil {
			return err
		}
		request.Header = http.Header{"Accept": {s.accept}, "Accept-Encoding": {s.encoding}}
		start := time.Now()
		resp, err := client.Do(request)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		size, err := io.Copy(io.Discard, resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
		mu.Lock()
		defer mu.Unlock()
		took, r.size = append(took, 1000*time.Since(start).Seconds()), size
		return err
	}
	if err := scrape(http.DefaultClient, 0); err != nil {
		return r, err
	}
	took = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var scrapers errgroup.Group
	for range s.inFlight {
		scrapers.Go(func() error {
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			for n := range s.scrapes / s.inFlight {
				if err := scrape(client, n+1); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := scrapers.Wait(); err != nil {
		return r, err
	}
	runtime.ReadMemStats(&after)
	slices.Sort(took)
	r.scrapes, r.median, r.p99 = len(took), took[len(took)/2], took[len(took)*99/100]
	r.allocations = float64(after.Mallocs-before.Mallocs) / float64(len(took))
	r.allocatedBytes = float64(after.TotalAlloc-before.TotalAlloc) / float64(len(took))
	return r, nil
}
