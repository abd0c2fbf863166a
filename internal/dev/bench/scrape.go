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
	"github.com/docgauge/docgauge/internal/dev/must"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/view"
)

// The ways to scrape. The last two publish a snapshot before each scrape, with new times or with new numbers too.
const (
	steadyScrape = "same snapshot"
	freshScrape  = "new snapshot each"
	readScrape   = "new numbers each"
)

// scrapeSnapshot has the newest window of each of 10 projects and 4 granularities with 50 pages, and 10,000 windows of
// the ledger, which must not slow a scrape down.
func scrapeSnapshot(now time.Time, more int) view.Snapshot {
	s := view.Snapshot{At: now, Sinks: []view.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range 10 {
		project := testbed.Project(fmt.Sprintf("prj_%02d", p), testbed.Today-473, float64(90_000+more))
		for _, grid := range project.Grids {
			newest := *grid.Cells[len(grid.Cells)-1].Revision
			newest.Rows = 50
			pages := testbed.Pages(newest, "/docs/guides/scraping")[:newest.Rows]
			s.Windows = append(s.Windows, view.Window{Revision: newest, Pages: pages})
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
func (l *lab) scrapeAll(ctx context.Context) (all []result) {
	const openMetrics, gzip = "application/openmetrics-text;version=1.0.0", "gzip"
	const protobuf = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
	var served exporter.Values
	served.Publish(scrapeSnapshot(testbed.Now, 0))
	srv := httptest.NewServer(served.Handler())
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
		all = append(all, l.show(result{scrapeTable, way.scenario,
			client{name: docgaugeClient, variant: way.format, inFlight: way.inFlight}, workload{},
			way.run(ctx, &served, srv.URL)}))
	}
	return all
}

// run scrapes after a first scrape that does not count. Each scraper keeps its connection, as Prometheus does. A
// scrape is timed from before the request to the last byte of the response. Allocations are the allocations of
// server, client and new snapshots, for each scrape.
func (s scraping) run(ctx context.Context, served *exporter.Values, base string) values {
	var took []float64
	var size int64 // of the last response on the wire
	var mu sync.Mutex
	scrape := func(client *http.Client, n int) {
		switch s.scenario {
		case freshScrape:
			served.Publish(scrapeSnapshot(testbed.Now.Add(time.Duration(n)*time.Second), 0))
		case readScrape:
			served.Publish(scrapeSnapshot(testbed.Now.Add(time.Duration(n)*time.Second), n))
		}
		request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil))
		request.Header = http.Header{"Accept": {s.accept}, "Accept-Encoding": {s.encoding}}
		start := time.Now()
		resp := must.Get(client.Do(request))
		defer resp.Body.Close()
		bytes := must.Get(io.Copy(io.Discard, resp.Body))
		if resp.StatusCode != http.StatusOK {
			must.Do(errors.New(resp.Status))
		}
		mu.Lock()
		defer mu.Unlock()
		took, size = append(took, 1000*time.Since(start).Seconds()), bytes
	}
	scrape(http.DefaultClient, 0)
	took = nil
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var scrapers errgroup.Group
	for range s.inFlight {
		scrapers.Go(func() (err error) {
			defer must.Catch(&err)
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			for n := range s.scrapes / s.inFlight {
				scrape(client, n+1)
			}
			return nil
		})
	}
	must.Do(scrapers.Wait())
	runtime.ReadMemStats(&after)
	slices.Sort(took)
	n := float64(len(took))
	return values{"scrapes": n, "median": took[len(took)/2], "p99": took[len(took)*99/100], "bytes sent": float64(size),
		"allocations": float64(after.Mallocs-before.Mallocs) / n,
		"allocated":   float64(after.TotalAlloc-before.TotalAlloc) / n / 1024}
}
