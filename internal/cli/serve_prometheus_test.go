package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/export"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/state"
)

const (
	servedPages = 20 // DOCGAUGE_TOP_PAGES
	// servedBudget is too small for all due windows, so that some stay due.
	servedBudget = 50
	servedDelay  = 20 * time.Millisecond // of each answer
	// servedConcurrency is DOCGAUGE_CONCURRENCY.
	servedConcurrency = 4
)

var servedProjects = []string{"prj_a", "prj_b"}

// TestServe follows one real serve: a real Prometheus has the ledger's numbers of
// it, scrapes cost nothing, and a restart brings them back without the service.
func TestServe(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Seed: 3, Days: 80, Pages: 300, Projects: servedProjects,
		Faults: sandbox.Faults{Latency: servedDelay}})
	p := placeFor(t, s, servedProjects,
		"DOCGAUGE_SINCE="+testbed.DaysAgo(12).String(), fmt.Sprintf("DOCGAUGE_BUDGET=%d", servedBudget),
		fmt.Sprintf("DOCGAUGE_TOP_PAGES=%d", servedPages),
		fmt.Sprintf("DOCGAUGE_CONCURRENCY=%d", servedConcurrency))
	daemon := p.serve(t, "--once-at-start")
	daemon.awaitRuns(t, export.Deferred, 1)
	f := &served{s, p, daemon, t}
	t.Run("prometheus", f.prometheus)
	t.Run("promtool", f.promtool)
	t.Run("page", f.statusPage)
	t.Run("locks", f.locks)
	t.Run("scrapes cost nothing", f.scrapesCostNothing)
	t.Run("restart without the service", f.restart)
	t.Run("restart without the state", f.restartAnew)
}

// served is a service, and a serve that exported from it.
type served struct {
	*testbed.Service
	place
	daemon *sidecar
	whole  *testing.T // what outlives the subtests
}

func (f *served) prometheus(t *testing.T) {
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: f.daemon.URL + "/metrics", Interval: time.Second}}, NativeHistograms: true,
	})
	// A scrape that takes too long on a busy machine ends every series: the queries
	// use the first one.
	q := question{t, server, server.ScrapedAt(t, "docgauge_snapshot_timestamp_seconds", "")}
	f.numbers(q)
	f.top(q)
	f.due(q)
	f.counted(q)
	f.durations(q)
}

// question compares what Prometheus answers of one time.
type question struct {
	*testing.T
	server *engines.Prometheus
	at     time.Time
}

func (q question) is(want map[string]float64, expr string, by ...string) {
	q.Helper()
	if diff := cmp.Diff(want, ask(q.T, q.server, expr, q.at, by...)); diff != "" || len(want) == 0 {
		q.Errorf("%s, %d testbed.Series wanted (-want +Prometheus):\n%s", expr, len(want), diff)
	}
}

// numbers compares the site's with `docgauge status` and with the service.
func (f *served) numbers(q question) {
	status := f.status(q.T)
	site, deduplicated, open := map[string]float64{}, map[string]float64{}, map[string]float64{}
	starts, ends, pages := map[string]float64{}, map[string]float64{}, map[string]float64{}
	for _, c := range status.Coverage {
		name := c.Project + " " + string(c.Granularity)
		totals, rows, err := f.Visitors(c.Project, c.Newest.Window)
		if err != nil || totals != c.Newest.Totals {
			q.Errorf("%s: status has %+v, the service %+v (%v)", name, c.Newest.Totals, totals, err)
		}
		site[name+" human"], site[name+" ai"] = float64(totals.Human), float64(totals.AI)
		deduplicated[name] = float64(totals.Total)
		starts[name], ends[name] = float64(c.Newest.From.Time().Unix()), float64(c.Newest.To.Time().Unix())
		if !c.Newest.TotalsOnly() {
			pages[name] = float64(len(rows))
		}
	}
	for _, w := range status.Open {
		open[w.Project+" "+string(w.Granularity)] = float64(w.Totals.Total)
	}
	q.is(site, "docgauge_site_visitors", "project", "window", "audience")
	q.is(deduplicated, "docgauge_site_visitors_deduplicated", "project", "window")
	q.is(open, "docgauge_open_site_visitors_deduplicated", "project", "window")
	q.is(pages, "docgauge_pages", "project", "window")
	q.is(starts, "docgauge_window_start_timestamp_seconds", "project", "window")
	q.is(ends, "docgauge_window_end_timestamp_seconds", "project", "window")
	q.is(map[string]float64{"analytics": float64(status.Budget.Available)}, "docgauge_api_budget_remaining", "budget")
	q.is(map[string]float64{"": 8}, `count(docgauge_window_verified == 1)`)
}

func (f *served) status(t *testing.T) (report coverage.Status) {
	t.Helper()
	check(t, json.Unmarshal(f.run(t, "status", "--json"), &report))
	return report
}

// top compares the pages with the rows of the archive's newest files.
func (f *served) top(q question) {
	totals, byAudience := map[string]float64{}, map[string]float64{}
	for _, project := range servedProjects {
		for _, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month} {
			rows, err := analytics.Top(analytics.Rows[analytics.Row](f.newestFile(q.T, project, g).Rows()), servedPages)
			if err != nil || len(rows) != servedPages {
				q.Fatal(err, len(rows))
			}
			for _, r := range rows {
				name := strings.Join([]string{project, string(g), r.Path}, " ")
				totals[name] = float64(r.Total)
				byAudience[name+" human"], byAudience[name+" ai"] = float64(r.Human), float64(r.AI)
			}
		}
	}
	q.is(totals, "docgauge_page_visitors_deduplicated", "project", "window", "path")
	q.is(byAudience, "docgauge_page_visitors", "project", "window", "path", "audience")
}

// newestFile opens the newest window of the archive; names sort by date.
func (f *served) newestFile(t *testing.T, project string, g analytics.Granularity) *archive.File {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(f.dir, "data", "visitors", "v1", "p="+project,
		"g="+string(g), "*", "*.parquet"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no file of %s %s: %v", project, g, err)
	}
	file, err := archive.Open(paths[len(paths)-1])
	check(t, err)
	return file
}

// due compares the backlog with `docgauge plan`.
func (f *served) due(q question) {
	var plan planReport
	check(q, json.Unmarshal(f.run(q.T, "plan", "--json"), &plan))
	want := map[string]float64{}
	for _, w := range plan.Windows {
		if w.Reason != "open" {
			want[w.Project+" "+string(w.Granularity)+" "+string(w.Reason)]++
		}
	}
	q.is(want, `docgauge_windows_due{report="visitors"} > 0`, "project", "window", "reason")
	q.is(map[string]float64{"": 2 * 4 * 3}, "count(docgauge_windows_due)")
	if finish := ask(q.T, q.server, "docgauge_backlog_finish_timestamp_seconds - time()", q.at)[""]; finish < 3000 ||
		finish > 4000 {
		q.Errorf("the backlog ends in %v s, want about the hour after which the budget is free", finish)
	}
}

// counted compares counters with the service's log and with the files.
func (f *served) counted(q question) {
	requests := f.Requests()
	if len(requests) != servedBudget {
		q.Errorf("%d requests, the budget is %d", len(requests), servedBudget)
	}
	q.is(map[string]float64{"visitors 200": float64(len(requests))}, "docgauge_api_requests_total", "endpoint", "code")
	windows, rows := map[string]float64{}, 0.0
	for _, rev := range f.revisions(q.T) {
		windows[rev.Project+" parquet"]++
		rows += float64(max(rev.Rows, 0))
	}
	q.is(windows, "docgauge_windows_committed_total", "project", "sink")
	q.is(map[string]float64{"parquet": rows}, "docgauge_rows_written_total", "sink")
	q.is(map[string]float64{"deferred": 1, "success": 0, "failed": 0, "interrupted": 0},
		"docgauge_export_runs_total", "outcome")
	q.is(map[string]float64{"admin": 0}, "docgauge_api_key_rejected", "key")
	q.is(map[string]float64{"parquet": 0}, "docgauge_sink_failures_total + on(sink) docgauge_spool_windows", "sink")
}

func (f *served) revisions(t *testing.T) (all []analytics.Revision) {
	t.Helper()
	sink, err := config.Config{ParquetURL: filepath.Join(f.dir, "data")}.NewSink(config.SinkParquet)
	check(t, err)
	for rev, err := range sink.Revisions(t.Context()) {
		check(t, err)
		all = append(all, rev)
	}
	return all
}

// durations asks native histograms, which a scrape in protobuf has.
func (f *served) durations(q question) {
	q.is(map[string]float64{"visitors": servedBudget}, "histogram_count(docgauge_api_request_duration_seconds)",
		"endpoint")
	q.is(map[string]float64{"": 1}, "histogram_count(docgauge_export_duration_seconds)")
	took := ask(q.T, q.server, "docgauge_export_last_completion_timestamp_seconds - "+
		"docgauge_export_last_start_timestamp_seconds", q.at)[""]
	// A bucket is as wide as an eighth of a power of two.
	least, most := servedDelay.Seconds()/1.1, took*1.1
	for _, quantile := range []string{"0.01", "0.5", "0.99"} {
		expr := "histogram_quantile(" + quantile + ", docgauge_api_request_duration_seconds)"
		if got := ask(q.T, q.server, expr, q.at)[""]; got < least || got > most {
			q.Errorf("%s is %v s, each answer takes %v at least, and the run took %v s", expr, got, servedDelay, took)
		}
	}
	// The completion is noted after the duration, however long that takes.
	least = servedDelay.Seconds() * servedBudget / servedConcurrency
	if got := ask(q.T, q.server, "histogram_sum(docgauge_export_duration_seconds)", q.at)[""]; got < least ||
		got > took+0.01 {
		q.Errorf("the run took %v s by the histogram, %v s by the clock, %v s at least", got, took, least)
	}
}

func (f *served) promtool(t *testing.T) { checked(t, f.daemon.page(t, "/metrics")) }

// statusPage has the same numbers as `docgauge status`.
func (f *served) statusPage(t *testing.T) {
	text := f.daemon.page(t, "/status")
	for _, c := range f.status(t).Coverage {
		for _, n := range []int64{c.Newest.Totals.Human, c.Newest.Totals.AI, c.Newest.Totals.Total} {
			if !strings.Contains(text, ">"+format.Commas(n)+"<") {
				t.Errorf("the page lacks %s of %s %s", format.Commas(n), c.Project, c.Granularity)
			}
		}
	}
}

// locks: no other process exports on the same state, and another one may run the queue, which this one has none of.
func (f *served) locks(t *testing.T) {
	dir := filepath.Join(f.dir, "state")
	if _, err := state.LockExport(dir); !errors.Is(err, state.ErrLocked) {
		t.Errorf("exports can be locked: %v", err)
	}
	queue, err := state.LockQueue(dir)
	check(t, err)
	check(t, queue.Release())
}

// scrapesCostNothing: a thousand scrapes and a hundred page views send nothing.
func (f *served) scrapesCostNothing(t *testing.T) {
	before := len(f.Requests())
	keeping := http.Client{Timeout: testbed.Patience}
	defer keeping.CloseIdleConnections()
	var workers sync.WaitGroup
	began := time.Now()
	for range 4 {
		workers.Go(func() {
			for i := range 275 {
				path := "/metrics"
				if i%11 == 0 {
					path = "/"
				}
				response, err := keeping.Get(f.daemon.URL + path)
				if err != nil || response.StatusCode != http.StatusOK {
					t.Errorf("GET %s: %v, %v", path, response, err)
					return
				}
				_ = response.Body.Close()
			}
		})
	}
	workers.Wait()
	took := time.Since(began)
	if after := len(f.Requests()); after != before {
		t.Errorf("%d requests were sent", after-before)
	}
	t.Logf("1000 scrapes and 100 page views in %v, no request", took.Round(time.Millisecond))
}

// visitors reports whether a series is a count of the service.
func visitors(name string) bool {
	for _, prefix := range []string{"site_visitors", "page_visitors", "pages{", "open_", "window_"} {
		if strings.HasPrefix(name, "docgauge_"+prefix) {
			return true
		}
	}
	return false
}

// restart: the first scrape after it has everything, and the service is dead.
func (f *served) restart(t *testing.T) {
	f.Stop()
	same := func(name string) bool {
		return !strings.HasPrefix(name, "docgauge_snapshot_") &&
			name != "docgauge_config_last_reload_success_timestamp_seconds"
	}
	before := f.daemon.metrics(t).Only(same)
	f.daemon.stop(t)
	f.daemon = f.serve(f.whole)
	after := f.daemon.metrics(t).Only(same)
	if diff := cmp.Diff(before, after); diff != "" || len(after.Only(visitors)) < 300 {
		t.Errorf("%d testbed.Series of visitors; differences (-before +after):\n%s", len(after.Only(visitors)), diff)
	}
}

// restartAnew: the ledger and the pages come back from the files. Only the running day, which is
// in no file, waits for the next run.
func (f *served) restartAnew(t *testing.T) {
	requests := len(f.Requests())
	complete := func(name string) bool { return visitors(name) && !strings.HasPrefix(name, "docgauge_open_") }
	before := f.daemon.metrics(t).Only(complete)
	f.daemon.stop(t)
	check(t, os.RemoveAll(filepath.Join(f.dir, "state")))
	f.daemon = f.serve(f.whole)
	var diff string
	err := testbed.Poll("", func() (bool, error) {
		diff = cmp.Diff(before, f.daemon.metrics(t).Only(visitors))
		return diff == "", nil
	})
	if err != nil {
		t.Errorf("differences (-before +after):\n%s", diff)
	}
	if after := len(f.Requests()); after != requests {
		t.Errorf("%d requests were sent", after-requests)
	}
}

// TestMergeCost: the dashboard shows the cost that the agents of the jobs behind a merge report, from their reports
// through the job object, the journal and the pull request to Prometheus.
func TestMergeCost(t *testing.T) {
	t.Parallel()
	s := testbed.NewService(t, sandbox.Config{Agent: sandbox.Agent{After: 10 * time.Millisecond,
		Pulls: sandbox.Pulls{MergeShare: 1}}})
	p := queuePlace(t, s, map[string]string{
		"priced.md":    "---\nfollow_ups: ['Check it. [sandbox:cost=0.15]']\n---\nFix it. [sandbox:cost=1.2]",
		"failed.md":    "Try it. [sandbox:fail] [sandbox:cost=0.4]",
		"priceless.md": "Write it.",
	}, "DOCGAUGE_SINCE="+testbed.DaysAgo(1).String(), "DOCGAUGE_WINDOWS=day", "DOCGAUGE_OPEN_WINDOWS=",
		"DOCGAUGE_JOB_COST=0.5", "DOCGAUGE_GITHUB_URL="+s.URL+"/github", "DOCGAUGE_GITHUB_TOKEN=ghp_any")
	daemon := p.serve(t)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: daemon.URL + "/metrics", Interval: time.Second}},
	})
	const priced, priceless = `docgauge_agent_pull_request_cost{basis="reported"}`,
		`docgauge_agent_pull_request_cost{basis="estimated", unit=""}`
	server.Await(t, priceless)
	server.Await(t, `docgauge_agent_job_reported_cost_total == 1.75 and on () docgauge_agent_jobs_cost_unknown_total == 1`)
	q := question{t, server, server.ScrapedAt(t, priced, "")}
	q.is(map[string]float64{"USD reported": 1.35, " estimated": 0.5}, "docgauge_agent_pull_request_cost",
		"unit", "basis")
	q.is(map[string]float64{"USD": 1.35, "": 0.5},
		dashboardQuery(t, "docgauge-agent-jobs.json", "Cost per merge"), "unit")
}

// dashboardQuery returns the first query of a panel, of everything and an hour.
func dashboardQuery(t *testing.T, file, title string) string {
	text, err := os.ReadFile(filepath.Join(repository, "dashboards", "json", file))
	check(t, err)
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	check(t, json.Unmarshal(text, &board))
	for _, panel := range board.Panels {
		if panel.Title == title {
			return strings.NewReplacer("$project", ".*", "$instance", ".*", "$__range", "1h").Replace(panel.Targets[0].Expr)
		}
	}
	t.Fatalf("%s has no panel %s", file, title)
	return ""
}

// checked lets promtool look at metrics.
func checked(t *testing.T, text string) {
	t.Helper()
	cmd, err := engines.Tool(t.Context(), "promtool", "check", "metrics", "--extended")
	engines.Need(t, err)
	cmd.Stdin = strings.NewReader(text)
	// Its standard output is the table of cardinalities, which --extended adds.
	var stderr strings.Builder
	cmd.Stderr = &stderr
	if table, err := cmd.Output(); err != nil || stderr.Len() > 0 ||
		!strings.Contains(string(table), "docgauge_page_visitors ") {
		t.Errorf("%v: %s\n%s", err, stderr.String(), table)
	}
}
