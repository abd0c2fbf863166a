package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
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

// TestShort builds and runs the real binary: no request more than needed, in
// any scenario.
func TestShort(t *testing.T) {
	m, err := measureAll(t.Context(), options{short: true}, t.TempDir(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, r := range m.exports {
		seen[r.scenario] = true
		if extra := nothing(r); extra < 0 || extra > mostNothing(r) {
			t.Errorf("%s: %s sent %d requests, %.4f of the fewest possible", r.scenario, r.client, r.requests, r.ratio())
		}
		if r.cost.maxRSS <= 0 || r.cost.cpuSeconds <= 0 || r.cost.seconds <= 0 {
			t.Errorf("%s: %s has a cost of %+v", r.scenario, r.client, r.cost)
		}
	}
	for _, name := range []string{daysScenario, fiveScenario, largeScenario, firstReading, secondReading, smallScenario, budgetScenario} {
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
	from, to := days(firstDay, 0)
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
	_, err := l.export(t.Context(), contestant{daysScenario, docgaugeClient, 1, 0}, workload{windows: 1, rows: 10}, t.TempDir())
	if err == nil || !strings.Contains(err.Error(), "Rows:9") || !strings.Contains(err.Error(), "Rows:10") {
		t.Errorf("error %v, want both numbers of rows", err)
	}
}

func TestAims(t *testing.T) {
	// Each aim but the last is about one result; a former docgauge took 7 seconds,
	// go-parquet 2.6, the plain client 20.
	r := func(scenario string, inFlight int, w workload, seconds float64, mib, nothing int64) exportResult {
		times := map[string]float64{formerClient: 7 / seconds, goParquetClient: 2.6 / seconds, plainClient: 20 / seconds}
		spent := cost{seconds: seconds, cpuSeconds: seconds, maxRSS: mib << 20}
		return exportResult{contestant{scenario, docgaugeClient, inFlight, 0}, w, spent, w.fewest() + nothing, times}
	}
	budgeted := func(r exportResult) exportResult { r.budget = largeBudget; return r }
	good := []exportResult{
		r(daysScenario, 4, workload{40, dayRows, 0}, 3, 120, 0),
		r(daysScenario, 16, workload{40, 2_500, usualLatency}, 2, 120, 0),
		r(smallScenario, 4, workload{1_000, 10, 0}, 2, 0, 0),
		r(fiveScenario, 4, workload{5, 100_000, 0}, 1.4, 96, 0),
		r(largeScenario, 4, workload{1, middleRows, 0}, 2.8, 80, 0),
		r(largeScenario, 4, workload{1, largeRows, 0}, 28, 87, 0),
		r(firstReading, 16, workload{1, dayRows, usualLatency}, 4, 0, 7),
		r(budgetScenario, 4, workload{120, dayRows, 0}, 1, 0, 0),
		budgeted(r(budgetScenario, 4, workload{120, dayRows, 0}, 1.05, 0, 0)),
	}
	bad := []exportResult{
		r(daysScenario, 4, workload{40, dayRows, 0}, 4, 0, 1),
		r(daysScenario, 16, workload{40, 2_500, usualLatency}, 3, 0, 0),
		r(smallScenario, 4, workload{1_000, 10, 0}, 2.7, 0, 0),
		r(fiveScenario, 4, workload{5, 100_000, 0}, 2.1, 97, 0),
		r(largeScenario, 4, workload{1, middleRows, 0}, 4.5, 100, 0),
		r(largeScenario, 4, workload{1, largeRows, 0}, 40, 129, 0),
		r(firstReading, 16, workload{1, dayRows, usualLatency}, 4.1, 0, 8),
		r(budgetScenario, 4, workload{120, dayRows, 0}, 1, 0, 0),
		budgeted(r(budgetScenario, 4, workload{120, dayRows, 0}, 1.2, 0, 1)),
	}
	for _, tc := range []struct {
		results []exportResult
		met     bool
	}{{good, true}, {bad, false}} {
		got := exportAims(tc.results)
		if len(got) != 13 {
			t.Errorf("%d aims, want 13: %v", len(got), got)
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

// TestCompare: a client that occurs once is compared with everybody, a former
// docgauge with the one of the same settings.
func TestCompare(t *testing.T) {
	r := func(client string, inFlight int, seconds float64) exportResult {
		return exportResult{contestant: contestant{daysScenario, client, inFlight, 0}, cost: cost{seconds: seconds}}
	}
	all := []exportResult{
		r(plainClient, 1, 8), r(formerClient, 1, 6), r(docgaugeClient, 1, 4), r(formerClient, 4, 3), r(docgaugeClient, 4, 1),
	}
	compare(all)
	for i, want := range []map[string]float64{
		2: {plainClient: 2, formerClient: 1.5}, 4: {plainClient: 8, formerClient: 3},
	} {
		if want != nil && !maps.Equal(all[i].times, want) {
			t.Errorf("%+v: compared as %v, want %v", all[i].contestant, all[i].times, want)
		}
	}
}

// TestCheck changes what go-parquet wrote; each change is found for what it is.
func TestCheck(t *testing.T) {
	srv := httptest.NewServer(newServer().handler())
	defer srv.Close()
	w := workload{windows: 2, rows: 300}
	dir := t.TempDir()
	if err := readIntoParquet(io.Discard, order{srv.URL, w.project(), w.windows, 2, dir, firstDay}); err != nil {
		t.Fatal(err)
	}
	look := func(want findings) {
		t.Helper()
		if got, err := findRows(t.Context(), dir, w, firstDay); err != nil || got != want {
			t.Errorf("found %+v (%v), want %+v", got, err, want)
		}
	}
	look(findings{Rows: 600})
	human, ai, total := counts(0, 1) // of the first row on the first day
	row := visitor{string(appendPath(nil, 0)), human, ai, total}
	first := int32(analytics.DateOf(firstDay))
	write := func(name string, day int32, rows ...visitor) {
		t.Helper()
		if err := writeParquet(dir+"/"+name, day, rows); err != nil {
			t.Fatal(err)
		}
	}
	write("again.parquet", first, row)
	look(findings{Rows: 601, Doubled: 1})
	write("again.parquet", first+2, row)
	look(findings{Rows: 601, Wrong: 1})
	row.Total++
	write("again.parquet", first, row)
	look(findings{Rows: 601, Wrong: 1})
	write(firstDay.Format(time.DateOnly)+".parquet", first)
	look(findings{Rows: 301, Wrong: 1, Missing: 300})
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

// TestPeers lets docgauge and go-parquet do the work of make bench-peers in small,
// and kills them half-way.
func TestPlanning(t *testing.T) {
	l := &lab{dir: t.TempDir()}
	results, err := l.planningAll(t.Context(), true, func(cells []string) { t.Log(cells) })
	engines.Need(t, err)
	if len(results) != 7 {
		t.Errorf("%d results", len(results))
	}
	for _, r := range results {
		if r.First <= 0 || r.Next <= 0 {
			t.Errorf("%s took no time: %+v", r.reader, r)
		}
	}
}

func TestPeers(t *testing.T) {
	base, stop, err := startChild(t.Context(), serverRole)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	l := &lab{binary: engines.Docgauge(t), server: base, dir: t.TempDir()}
	results, err := l.peerAll(t.Context(), peers[:2], true, func(cells []string) { t.Log(cells) })
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if r.repeated < 1 || r.name == docgaugeClient && r.repeated > usualInFlight {
			t.Errorf("%s repeated %d requests after the kill", r.name, r.repeated)
		}
		if r.name == docgaugeClient && r.found != (findings{Rows: 8_000}) {
			t.Errorf("%s: after the kill there is %+v", r.name, r.found)
		}
	}
	if text := peerTable(results, true).markdown(); !strings.Contains(text, "| "+goParquetClient+" ") {
		t.Errorf("the table:\n%s", text)
	}
}

func TestPeersMissing(t *testing.T) {
	t.Chdir(t.TempDir())
	there, missing := installed(peers)
	if len(there) != 2 || !strings.Contains(missing, "dlt, tuned") || !strings.Contains(missing, "run make bench-peers") {
		t.Errorf("%d peers are there; missing: %s", len(there), missing)
	}
}

// TestPeerPrograms: what Python cannot parse would only be found when somebody
// installs dlt.
func TestPeerPrograms(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs python3")
	}
	programs, err := filepath.Glob("peers/*.py")
	if err != nil || len(programs) != 3 {
		t.Fatalf("%q (%v), want three programs", programs, err)
	}
	const parse = "import ast, sys\nfor path in sys.argv[1:]: ast.parse(open(path).read(), path)"
	if out, err := exec.Command(python, append([]string{"-c", parse}, programs...)...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
