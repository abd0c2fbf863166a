package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
)

// The content of the scraped snapshot: the newest window of each project and
// granularity with its pages, and the windows of the ledger, which must not
// slow a scrape down.
const (
	scrapeProjects = 10
	scrapePages    = 50
	ledgerWindows  = 10_000
)

var scrapeGranularities = []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"}

// allocated are the allocations of the scraped process, at /allocated.
type allocated struct {
	Objects uint64 `json:"objects"`
	Bytes   uint64 `json:"bytes"`
}

// metricsHandler serves the metrics of a large snapshot. A POST to /publish publishes
// the next, with ?read with other numbers of visitors, as if every window had been read.
func metricsHandler() http.Handler {
	var values exporter.Values
	var readings int64
	publish := func() { values.Publish(scrapeSnapshot(time.Now(), readings)) }
	publish()
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", values.Handler())
	mux.HandleFunc("POST /publish", func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Has("read") {
			readings++
		}
		publish()
	})
	mux.HandleFunc("GET /allocated", func(w http.ResponseWriter, _ *http.Request) {
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		_ = json.NewEncoder(w).Encode(allocated{mem.Mallocs, mem.TotalAlloc})
	})
	return mux
}

func scrapeSnapshot(now time.Time, more int64) exporter.Snapshot {
	today := analytics.DateOf(now)
	// revision is that of the window that ended n days ago.
	revision := func(project string, g analytics.Granularity, n int) analytics.Revision {
		window := analytics.Window{From: today - analytics.Date(n+1), To: today - analytics.Date(n)}
		return analytics.Revision{
			Key: analytics.Key{Project: project, Granularity: g, Window: window}, Number: 1,
			Totals: analytics.Totals{Human: 81234 + more, AI: 20345 + more, Total: 99999 + more}, Rows: scrapePages, ExportedAt: now,
		}
	}
	var rows []analytics.Row
	for i := range int64(scrapePages) {
		path := fmt.Sprintf("/guides/section-%02d/a-page-about-%02d", i%7, i)
		rows = append(rows, analytics.Row{Path: path, Human: 9000 - 31*i + more, AI: 700 - 7*i + more, Total: 9600 - 37*i + more})
	}
	s := exporter.Snapshot{At: now, Sinks: []exporter.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range scrapeProjects {
		project := exporter.Project{ID: fmt.Sprintf("prj_%02d", p)}
		for _, g := range scrapeGranularities {
			s.Windows = append(s.Windows, exporter.Window{Revision: revision(project.ID, g, 0), Pages: rows})
			grid := exporter.Grid{Granularity: g}
			for n := range ledgerWindows / scrapeProjects / len(scrapeGranularities) {
				r := revision(project.ID, g, n)
				grid.Cells = append(grid.Cells, exporter.Cell{Window: r.Window, Revision: &r})
			}
			project.Grids = append(project.Grids, grid)
		}
		s.Projects = append(s.Projects, project)
	}
	return s
}

// The requested formats, by their names in the table.
var scrapeAccept = map[string]string{
	"OpenMetrics": "application/openmetrics-text;version=1.0.0",
	"text":        "text/plain;version=0.0.4",
	"protobuf":    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited",
}

// The names of the ways to scrape.
const (
	steadyScrape   = "same snapshot"
	freshScrape    = "new snapshot each"
	readScrape     = "new numbers each"
	parallelScrape = "in parallel"
)

// scraping is one way to scrape, many times.
type scraping struct {
	name             string // freshScrape and readScrape publish a new snapshot before each
	format, encoding string
	inFlight         int
	scrapes          int
}

func scrapings(short bool) []scraping {
	all := []scraping{
		{steadyScrape, "OpenMetrics", "gzip", 1, 1000},
		{steadyScrape, "protobuf", "gzip", 1, 1000},
		{steadyScrape, "text", "identity", 1, 1000},
		{parallelScrape, "OpenMetrics", "gzip", 40, 2000},
		{freshScrape, "OpenMetrics", "gzip", 1, 100},
		{readScrape, "OpenMetrics", "gzip", 1, 100},
	}
	for i := range all {
		if short {
			all[i].scrapes /= 50
		}
	}
	return all
}

// scrapeResult is one row of the table of scrapes.
type scrapeResult struct {
	scraping
	median, p99 time.Duration
	// allocations and allocatedBytes are of the serving process, for each scrape.
	allocations, allocatedBytes float64
	size                        int64 // of the last answer as it was sent
}

func (r scrapeResult) cells() []string {
	return []string{
		r.name, strings.ToLower(r.encoding + " " + r.format), strconv.Itoa(r.inFlight), humanize.Comma(int64(r.scrapes)),
		milliseconds(r.median), milliseconds(r.p99),
		humanize.Comma(int64(r.allocations)), fmt.Sprintf("%.0f KiB", r.allocatedBytes/1024), humanize.Comma(r.size),
	}
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%.2f ms", 1000*d.Seconds()) }

// scrapeAll starts the process that is scraped, scrapes it in every way, and stops it.
func scrapeAll(ctx context.Context, ways []scraping, done func(cells []string)) (all []scrapeResult, err error) {
	base, stop, err := startChild(ctx, metricsRole)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stop()) }()
	for _, way := range ways {
		r, err := way.run(ctx, base)
		if err != nil {
			return all, fmt.Errorf("scrape: %w", err)
		}
		done(r.cells())
		all = append(all, r)
	}
	return all, nil
}

// run scrapes after a first scrape that does not count. Each scraper keeps its
// connection, as Prometheus does.
func (s scraping) run(ctx context.Context, base string) (r scrapeResult, err error) {
	if _, _, err := s.scrape(ctx, http.DefaultClient, base); err != nil {
		return r, err
	}
	allocations := func() (a allocated, err error) {
		err = request(ctx, http.DefaultClient, http.MethodGet, base+"/allocated", nil, func(body io.Reader) error {
			return json.NewDecoder(body).Decode(&a)
		})
		return a, err
	}
	before, err := allocations()
	if err != nil {
		return r, err
	}
	r.scraping = s
	var took []time.Duration
	var mu sync.Mutex
	var scrapers sync.WaitGroup
	for range s.inFlight {
		scrapers.Go(func() {
			client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
			defer client.CloseIdleConnections()
			for range s.scrapes / s.inFlight {
				d, n, scrapeErr := s.scrape(ctx, client, base)
				mu.Lock()
				took, r.size, err = append(took, d), n, errors.Join(err, scrapeErr)
				mu.Unlock()
				if scrapeErr != nil {
					return
				}
			}
		})
	}
	scrapers.Wait()
	if err != nil {
		return r, err
	}
	after, err := allocations()
	slices.Sort(took)
	n := float64(len(took))
	r.scrapes, r.median, r.p99 = len(took), took[len(took)/2], took[len(took)*99/100]
	r.allocations, r.allocatedBytes = float64(after.Objects-before.Objects)/n, float64(after.Bytes-before.Bytes)/n
	return r, err
}

// scrape is timed from before the request to the last byte of the answer.
func (s scraping) scrape(ctx context.Context, client *http.Client, base string) (took time.Duration, size int64, err error) {
	if publish, ok := map[string]string{freshScrape: "/publish", readScrape: "/publish?read"}[s.name]; ok {
		if err := request(ctx, client, http.MethodPost, base+publish, nil, func(io.Reader) error { return nil }); err != nil {
			return 0, 0, err
		}
	}
	header := http.Header{"Accept": {scrapeAccept[s.format]}, "Accept-Encoding": {s.encoding}}
	start := time.Now()
	err = request(ctx, client, http.MethodGet, base+"/metrics", header, func(body io.Reader) (err error) {
		size, err = io.Copy(io.Discard, body)
		return err
	})
	return time.Since(start), size, err
}

// request passes the body of a good answer to read.
func request(ctx context.Context, client *http.Client, method, url string, header http.Header, read func(io.Reader) error) error {
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return err
	}
	r.Header = header
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, answer.Status)
	}
	return read(answer.Body)
}

// scrapeAims judges the scrapes.
func scrapeAims(all []scrapeResult) (aims []aim) {
	for _, want := range []struct {
		scrape, name string
		under        time.Duration
	}{
		{steadyScrape, "a scrape of 10 projects × 4 windows × 50 pages under 10 ms at the median", 10 * time.Millisecond},
		{freshScrape, "the first scrape of a snapshot, 10,000 windows in the ledger, under 10 ms at the median", 10 * time.Millisecond},
		{readScrape, "the first scrape after every number changed under 10 ms at the median", 10 * time.Millisecond},
	} {
		var slowest time.Duration
		for _, r := range all {
			if r.name == want.scrape {
				slowest = max(slowest, r.median)
			}
		}
		if slowest > 0 {
			aims = append(aims, aim{want.name, milliseconds(slowest), slowest < want.under})
		}
	}
	return aims
}
