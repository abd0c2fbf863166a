package cli

import (
	"flag"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

var serveKills = flag.Int("serve-kills", serveRound, "how often TestServeKilled kills serve")

// serveRound is the number of kills before one run is let through: with
// more, nothing would be left to do.
const serveRound = 5

// committedSeries counts the windows that are in the Parquet files.
const committedSeries = `docgauge_windows_committed_total{project="` + sandbox.DefaultProject + `",sink="parquet"}`

// TestServeKilled kills serve at random moments of an export that is scraped all
// the time. No counter is ever lower after a restart than it was seen before, and
// in the end every window is there once, each row equal to the service's.
func TestServeKilled(t *testing.T) {
	engines.Long(t)
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 7, Days: 20, Pages: 700,
		Faults: sandbox.Faults{Latency: 80 * time.Millisecond}})
	for kills := 0; kills < *serveKills; kills += serveRound {
		r := killing{s, placeFor(t, s, []string{sandbox.DefaultProject}, "DOCGAUGE_SINCE="+testbed.DaysAgo(14).String(),
			"DOCGAUGE_OPEN_WINDOWS=",
			"DOCGAUGE_WINDOWS=day,week,3d:totals", "DOCGAUGE_CONCURRENCY=1")}
		seen, scrapes := r.kills(t)
		requests := len(s.Requests())
		windows, rows := r.heals(t, seen)
		t.Logf("%d kills, %d scrapes in between, no counter of %d fell; %d requests after the last kill; %d windows "+
			"and %d rows equal to the service's",
			serveRound, scrapes, len(seen.Only(testbed.Rises)), len(s.Requests())-requests, windows, rows)
	}
}

// killing is a place where serve is killed.
type killing struct {
	*testbed.Service
	place
}

// kills returns the last scrape before the last kill.
func (r killing) kills(t *testing.T) (seen testbed.Series, scrapes int) {
	seen = testbed.Series{}
	for range serveRound {
		daemon := r.serve(t, "--once-at-start")
		first := daemon.metrics(t)
		if down := testbed.Fallen(seen, first); len(down) > 0 {
			t.Fatalf("after a kill:\n%s", strings.Join(down, "\n"))
		}
		time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, daemon.kill)
		last, n := scrapeUntilDead(t, daemon, first)
		seen, scrapes = last, scrapes+n
	}
	return seen, scrapes
}

// heals lets one run through and compares what there is.
func (r killing) heals(t *testing.T, seen testbed.Series) (windows, rows int) {
	began := float64(time.Now().UnixMilli()) / 1000
	daemon := r.serve(t, "--once-at-start")
	var end testbed.Series
	testbed.Await(t, "the run's success", func() bool {
		end = daemon.metrics(t)
		return end["docgauge_export_last_success_timestamp_seconds"] >= began && end.Rested()
	})
	if down := testbed.Fallen(seen, end); len(down) > 0 {
		t.Errorf("after the last kill:\n%s", strings.Join(down, "\n"))
	}
	windows, rows = compareAll(t, r.Sandbox, filepath.Join(r.dir, "data"), sandbox.DefaultProject)
	// Each window was committed once, by either process.
	if got := end[committedSeries]; got != float64(windows) {
		t.Errorf("%v windows were counted, %d are there", got, windows)
	}
	if got := end[`docgauge_rows_written_total{sink="parquet"}`]; got != float64(rows) {
		t.Errorf("%v rows were counted, %d are there", got, rows)
	}
	return windows, rows
}

// scrapeUntilDead continues from a scrape. It returns the last that was answered, and
// how many were.
func scrapeUntilDead(t *testing.T, s *sidecar, last testbed.Series) (testbed.Series, int) {
	t.Helper()
	for n := 0; ; n++ {
		status, body, err := testbed.Fetch(t.Context(), s.URL+"/metrics")
		if err != nil {
			<-s.ended
			return last, n
		}
		now, err := testbed.ParseSeries(body)
		if err != nil || status != http.StatusOK {
			t.Fatalf("status %d, %v", status, err)
		}
		if down := testbed.Fallen(last, now); len(down) > 0 {
			t.Fatalf("within one process:\n%s", strings.Join(down, "\n"))
		}
		last = now
		time.Sleep(10 * time.Millisecond)
	}
}
