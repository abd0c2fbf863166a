package daemon

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
)

// TestScrapesDuringExport: while an export commits, each scraper sees whole snapshots, none older than
// the one before, also beside clients that do not read the response or close the connection.
func TestScrapesDuringExport(t *testing.T) {
	faults := sandbox.Faults{Latency: 25 * time.Millisecond}
	s := testbed.NewService(t, sandbox.Config{Seed: 9, Days: 40, Pages: 300, Faults: faults})
	c := configFor(t, s.URL)
	c.Since.Date = testbed.DaysAgo(20)
	at, _ := serveFor(t, c, Options{})
	rude(t, at)
	var scrapers sync.WaitGroup
	var mu sync.Mutex
	scrapes, snapshots := 0, map[float64]bool{}
	many := 40
	if testing.Short() {
		many = 8 // with the race detector, 40 leave the export nothing to run on
	}
	for range many {
		scrapers.Go(func() {
			times, err := scrapeUntilDone(t.Context(), at)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			scrapes += len(times)
			for _, at := range times {
				snapshots[at] = true
			}
		})
	}
	scrapers.Wait()
	if len(snapshots) < 2 {
		t.Errorf("all %d scrapes saw the same snapshot: nothing was committed", scrapes)
	}
	t.Logf("%d scrapes of %d snapshots during an export of 20 windows", scrapes, len(snapshots))
}

// rude are clients that ask and do not read, and clients that ask and go away.
func rude(t *testing.T, url string) {
	t.Helper()
	for i := range 10 {
		conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
		check(t, err)
		if _, err := conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			_ = conn.Close()
			continue
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
}

// scrapeUntilDone scrapes until the run's success shows, and returns when the
// snapshots it saw were made.
func scrapeUntilDone(ctx context.Context, url string) (times []float64, err error) {
	former := testbed.Series{}
	err = testbed.Poll("the run's success", func() (bool, error) {
		status, body, err := testbed.Fetch(ctx, url+"/metrics")
		if err != nil || status != http.StatusOK {
			return false, fmt.Errorf("status %d, %w", status, err)
		}
		all, err := testbed.ParseSeries(body)
		if err != nil {
			return false, err
		}
		if err := follows(former, all); err != nil {
			return false, err
		}
		former = all
		times = append(times, all["docgauge_snapshot_timestamp_seconds"])
		time.Sleep(time.Duration(rand.IntN(500)) * time.Millisecond)
		return all[`docgauge_export_runs_total{outcome="success"}`] == 1, nil
	})
	return times, err
}

// follows checks that now is whole, and can come after before.
func follows(before, now testbed.Series) error {
	if down := testbed.Fallen(before, now); len(down) > 0 {
		return fmt.Errorf("went down: %v", down)
	}
	if a, b := before["docgauge_snapshot_timestamp_seconds"], now["docgauge_snapshot_timestamp_seconds"]; b < a {
		return fmt.Errorf("a snapshot of %v came after one of %v", b, a)
	}
	site := `{project="` + sandbox.DefaultProject + `",window="day"}`
	pages := now.Only(func(name string) bool {
		return strings.HasPrefix(name, "docgauge_page_visitors_deduplicated{")
	})
	if _, there := now["docgauge_site_visitors_deduplicated"+site]; there && len(pages) != 50 {
		return fmt.Errorf("the newest window has %d pages, want 50", len(pages))
	}
	return nil
}

// revisionOf is a verified reading of the day that was n days ago.
func revisionOf(project string, n int) analytics.Revision {
	from := testbed.DaysAgo(n)
	return analytics.Revision{
		Key: analytics.Key{
			Project: project, Granularity: analytics.Day, Window: analytics.Window{From: from, To: from + 1},
		},
		Number: 1, Settled: n > 4, Verified: true, Totals: analytics.Totals{Human: 970, AI: 450, Total: 1270},
		Rows: 5000, ExportedAt: time.Now().UTC().Truncate(time.Microsecond),
	}
}

// ledgerOf is a daemon whose state has so many days of each of ten projects, with the pages of the
// newest.
func ledgerOf(t *testing.T, days int) *daemon {
	t.Helper()
	c := configFor(t, "http://127.0.0.1:1")
	c.Since.Date, c.Projects = testbed.DaysAgo(days), nil
	var all []analytics.Revision
	for p := range 10 {
		c.Projects = append(c.Projects, fmt.Sprintf("prj_%d", p))
		for i := range days {
			all = append(all, revisionOf(c.Projects[p], i+1))
		}
	}
	d, _ := daemonFor(t, c)
	check(t, d.app.State.Restore(t.Context(), config.SinkParquet, all))
	var rows []analytics.Record
	for i := range config.MaxTopPages {
		path := fmt.Sprintf("/guides/a-page-with-a-name-%04d", i)
		rows = append(rows, analytics.RecordOf(analytics.Row{Path: path,
			Totals: analytics.Totals{Human: 9, AI: 4, Total: int64(9000 - i)}}))
	}
	for p := range 10 {
		rev := all[p*days]
		check(t, d.app.State.SetTop(t.Context(), state.TopRows{Key: rev.Key, Revision: rev.Number, Rows: rows}))
	}
	return d
}

// TestLargeLedger: the cost of a scrape does not depend on the number of windows in the ledger.
func TestLargeLedger(t *testing.T) {
	small, large := ledgerOf(t, 4), ledgerOf(t, 1000)
	began := time.Now()
	snapshot, err := large.snapshot.Read(t.Context())
	check(t, err)
	read := time.Since(began)
	cells := 0
	for _, p := range snapshot.Projects {
		cells += len(p.Grids[0].Cells)
	}
	if cells != 10_000 || len(snapshot.Windows) != 10 {
		t.Fatalf("%d windows, %d newest", cells, len(snapshot.Windows))
	}
	began = time.Now()
	large.values.Publish(snapshot)
	published := time.Since(began)
	small.published(t)
	few, _ := scrapeCost(t, small)
	many, took := scrapeCost(t, large)
	// The live metrics of the process differ a little from scrape to scrape.
	if many > 1.1*few || many > 2000 {
		t.Errorf("a scrape allocates %v times with 10,000 windows, %v times with 40", many, few)
	}
	t.Logf("10,000 windows: a snapshot is read in %v and published in %v; "+
		"a scrape takes %v (median) and %v allocations, %v with 40 windows",
		read.Round(time.Millisecond), published.Round(time.Millisecond), took.Round(10*time.Microsecond), many, few)
}

// scrapeCost is the allocations and the duration of one scrape.
func scrapeCost(t *testing.T, d *daemon) (allocations float64, median time.Duration) {
	t.Helper()
	handler := d.values.Handler()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept-Encoding", "gzip")
	var times []time.Duration
	allocations = testing.AllocsPerRun(50, func() {
		answer := httptest.NewRecorder()
		began := time.Now()
		handler.ServeHTTP(answer, request)
		times = append(times, time.Since(began))
		if answer.Code != http.StatusOK {
			t.Errorf("status %d", answer.Code)
		}
	})
	slices.Sort(times)
	return allocations, times[len(times)/2]
}
