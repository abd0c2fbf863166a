package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be the bench's children, as the bench itself is.
func TestMain(m *testing.M) {
	isChild, err := runChild()
	if !isChild {
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestShort builds and runs the real binary: hardly a request more than needed, in
// any scenario.
func TestShort(t *testing.T) {
	m, err := measureAll(t.Context(), options{short: true}, t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range m.exports {
		seen[r.scenario] = true
		if r.requests < r.work.fewest() || r.requests > r.work.most() {
			t.Errorf("%s: %s sent %d requests, the fewest are %d", r.scenario, r.client, r.requests, r.work.fewest())
		}
		if r.cost.maxRSS <= 0 || r.cost.cpuSeconds <= 0 || r.cost.seconds <= 0 {
			t.Errorf("%s: %s has a cost of %+v", r.scenario, r.client, r.cost)
		}
	}
	for _, name := range []string{daysScenario, largeScenario, firstReading, secondReading, smallScenario} {
		if !seen[name] {
			t.Errorf("no result for %q", name)
		}
	}
	if len(m.scrapes) != len(scrapings(true)) {
		t.Errorf("%d scrapes, want %d", len(m.scrapes), len(scrapings(true)))
	}
	for _, r := range m.scrapes {
		if r.size < 10_000 || r.median <= 0 || r.p99 < r.median || r.allocations <= 0 {
			t.Errorf("scrape: %+v", r)
		}
	}
	if text := m.markdown(); !strings.Contains(text, "| "+secondReading) || !strings.Contains(text, "| yes |") {
		t.Errorf("the tables:\n%s", text)
	}
}

// TestPages reads windows of awkward sizes as a client does.
func TestPages(t *testing.T) {
	srv := httptest.NewServer(newServer().handler())
	defer srv.Close()
	var fewest int64
	for _, rows := range []int{0, 1, 249, 250, 251, 1000} {
		w := workload{windows: 1, rows: rows}
		fewest += w.fewest()
		paths := readWindow(t, srv.URL, w)
		if len(paths) != rows {
			t.Errorf("a window of %d rows served %d", rows, len(paths))
		}
		if rows > 1 && slices.IsSorted(paths) {
			t.Errorf("a window of %d rows came sorted: sorting it would be no work", rows)
		}
		slices.Sort(paths)
		if n := len(slices.Compact(slices.Clone(paths))); n != rows {
			t.Errorf("a window of %d rows has %d paths", rows, n)
		}
		for _, p := range paths {
			if len(p) < 30 || len(p) > 40 {
				t.Errorf("path %s has %d bytes, want 30 to 40", p, len(p))
			}
		}
	}
	requests, err := countRequests(srv.URL)
	if err != nil || requests != 10 || fewest != 10 {
		t.Errorf("the server counted %d requests (%v), %d are the fewest; want 10", requests, err, fewest)
	}
}

// readWindow reads one window page by page and returns its paths.
func readWindow(t *testing.T, base string, w workload) (paths []string) {
	t.Helper()
	from, to := days(0)
	var first json.RawMessage
	for more, offset := true, 0; more; offset += pageRows {
		if offset > w.rows+pageRows {
			t.Fatalf("a window of %d rows does not end", w.rows)
		}
		var got struct {
			Totals json.RawMessage
			page
		}
		getJSON(t, fmt.Sprintf("%s/v1/analytics/%s/visitors?dateFrom=%s&dateTo=%s&limit=%d&offset=%d", base, w.project(), from, to, pageRows, offset), &got)
		for _, v := range got.Visitors {
			if v.Total < max(v.Human, v.AI) || v.Total > v.Human+v.AI {
				t.Errorf("%+v cannot be: total is of the union", v)
			}
			paths = append(paths, v.Path)
		}
		if first == nil {
			first = got.Totals
		}
		if !bytes.Equal(first, got.Totals) {
			t.Errorf("totals %s at offset %d, before %s", got.Totals, offset, first)
		}
		more = got.HasMore
	}
	return paths
}

func getJSON(t *testing.T, url string, into any) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s: %v: %s", url, resp.Status, err, body)
	}
}

func TestServerRefuses(t *testing.T) {
	srv := httptest.NewServer(newServer().handler())
	defer srv.Close()
	for _, path := range []string{
		"/nonsense/visitors?dateFrom=2025-01-01&limit=250&offset=0",
		"/5rows_0ms/visitors?dateFrom=yesterday&limit=250&offset=0",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=251&offset=0",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=250&offset=-1",
		"/5rows_0ms/visitors?dateFrom=2025-01-01&limit=250",
	} {
		resp, err := http.Get(srv.URL + "/v1/analytics" + path)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusBadRequest {
			t.Errorf("%s: %s, want 400", path, resp.Status)
		}
	}
}

// TestWrongCount: a client that reports other numbers than the server is an error.
func TestWrongCount(t *testing.T) {
	srv := httptest.NewServer(newServer().handler())
	defer srv.Close()
	liar := t.TempDir() + "/docgauge"
	if err := os.WriteFile(liar, []byte("#!/bin/sh\necho '{\"rows\": 9, \"requests\": 0}'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	l := &lab{binary: liar, server: srv.URL, dir: t.TempDir()}
	_, err := l.export(t.Context(), contestant{daysScenario, docgaugeClient, 1}, workload{windows: 1, rows: 10}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "Rows:9") || !strings.Contains(err.Error(), "Rows:10") {
		t.Errorf("error %v, want both numbers of rows", err)
	}
}

func TestAims(t *testing.T) {
	r := func(scenario string, inFlight int, w workload, seconds float64, rss, requests int64) exportResult {
		return exportResult{contestant{scenario, docgaugeClient, inFlight}, w, cost{seconds: seconds, maxRSS: rss}, requests, 20 / seconds}
	}
	good := []exportResult{
		r(daysScenario, 4, workload{40, dayRows, 0}, 3, 0, 4280),
		r(daysScenario, 16, workload{40, 2_500, usualLatency}, 2, 0, 400),
		r(largeScenario, 4, workload{1, middleRows, 0}, 4, 100<<20, 4000),
		r(largeScenario, 4, workload{1, largeRows, 0}, 40, 105<<20, 40000),
	}
	bad := []exportResult{
		r(daysScenario, 4, workload{40, dayRows, 0}, 4, 0, 4281),
		r(daysScenario, 16, workload{40, 2_500, usualLatency}, 3, 0, 400),
		r(largeScenario, 4, workload{1, middleRows, 0}, 4, 100<<20, 4000),
		r(largeScenario, 4, workload{1, largeRows, 0}, 40, 129<<20, 40000),
	}
	for _, tc := range []struct {
		results []exportResult
		met     bool
	}{{good, true}, {bad, false}} {
		got := exportAims(tc.results)
		if len(got) != 5 {
			t.Errorf("%d aims, want 5: %v", len(got), got)
		}
		for _, a := range got {
			if a.met != tc.met {
				t.Errorf("%s: %s met: %v, want %v", a.name, a.measured, a.met, tc.met)
			}
		}
	}
	if got := exportAims(nil); len(got) > 0 {
		t.Errorf("nothing was measured, aims are %v", got)
	}
}

func TestMarkdown(t *testing.T) {
	got := table{{"a", "× b"}, {"long", "1"}}.markdown()
	want := "| a    | × b |\n|------|-----|\n| long | 1   |\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestScrapeAims(t *testing.T) {
	if got := scrapeAims(nil); got != nil {
		t.Errorf("aims of nothing: %v", got)
	}
	result := func(name string, median time.Duration) scrapeResult {
		return scrapeResult{scraping: scraping{name: name}, median: median}
	}
	for _, median := range []time.Duration{9 * time.Millisecond, 60 * time.Millisecond} {
		got := scrapeAims([]scrapeResult{result(steadyScrape, time.Millisecond), result(steadyScrape, median), result(freshScrape, median)})
		if len(got) != 2 || got[0].met != (median < 10*time.Millisecond) || got[1].met != (median < 50*time.Millisecond) {
			t.Errorf("%v: %v", median, got)
		}
	}
}
