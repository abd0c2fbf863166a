package dashboards

import (
	"fmt"
	"maps"
	"math"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/effect"
)

// TestPromQL runs every query on a real server that scrapes what the exporter
// serves, and finds numbers for each.
func TestPromQL(t *testing.T) {
	server, at := scraped(t, everything(time.Now().UTC()))
	for name, vars := range map[string]map[string]string{
		"as it opens":  {},
		"one project":  {"project": "prj_a", "window": "day"},
		"two projects": {"project": "(prj_a|prj_b)", "window": "month"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, q := range Queries() {
				if q.Engine != Prometheus {
					continue
				}
				samples := query(t, server, q.Expand(vars), at)
				if len(samples) == 0 || math.IsNaN(samples[0].Value) {
					t.Errorf("%s / %s / %s: %v\n%s", q.Dashboard, q.Panel, q.Ref, samples, q.Expand(vars))
				}
			}
		})
	}
	t.Run("answers", func(t *testing.T) { testPromAnswers(t, server, at) })
}

// testPromAnswers holds what is calculated against the snapshot.
func testPromAnswers(t *testing.T, server *engines.Prometheus, at time.Time) {
	for _, tc := range []struct {
		panel, ref, label, of string
		want                  float64
	}{
		{"Readers of the week", "A", "project", "prj_a", 101},
		{"Readers of the month", "B", "project", "prj_b", 80},
		{"Readers of the day", "C", "project", "prj_a", 33},
		{"Change from the day before", "A", "project", "prj_a", 101./84 - 1},
		{"Change from the week before", "B", "project", "prj_a", 80./64 - 1},
		{"Change from the month before", "C", "project", "prj_a", 33./30 - 1},
		{"AI share of the day", "A", "project", "prj_a", 33. / 101},
		{"Top pages of the $window", "A", "path", "/guide", 24},
		{"Pages of the $window", "D", "path", "/guide", 5. / 24},
		{"Queue", "A", "", "", 1},
		{"Waiting", "A", "", "", 3},
		{"Ended with a pull request", "A", "", "", 4. / 5},
		{"Jobs by result", "A", "result", "pr", 1},
		{"Time to a pull request", "A", "", "", 3600},
		{"Jobs and their pull requests", "C", "prompt", "fix-typos", 3600},
		{"Pull requests by state", "A", "state", "open", 3},
		{"Accepted", "A", "", "", .5},
		{"Cost per merge", "A", "", "", 1},
		{"Merged and closed, 7 days", "A", "project", "prj_a", 1},
		{"Merged and closed, 7 days", "B", "project", "prj_b", 0},
		{"Caps on jobs", "A", "cap", "day", .3},
		{"Budget in use", "A", "budget", "analytics", 1 - 17./90},
		{"Agent requests left", "A", "budget", "agent:prj_a", 88},
		{"Windows due", "A", "", "", 24},
		{"Is all well?", "A", "", "", 1},
		{"Is all well?", "B", "", "", 0},
		{"Due windows by reason", "A", "reason", "missing", 24},
		{"Windows set aside by reason", "A", "reason", "repeats", 6},
		{"Windows set aside by reason", "A", "reason", "failing", 0},
		{"Suspect rows of the newest windows", "A", "project", "prj_b", 7},
		{"Suspect rows of the newest windows", "A", "project", "prj_a", 0},
	} {
		samples := query(t, server, refOf(t, tc.panel, tc.ref).Expand(nil), at)
		i := slices.IndexFunc(samples, func(s engines.Sample) bool { return s.Labels[tc.label] == tc.of })
		if i < 0 || math.Abs(samples[i].Value-tc.want) > 1e-9 {
			t.Errorf("%s / %s: %v, want %v for %s=%q", tc.panel, tc.ref, samples, tc.want, tc.label, tc.of)
		}
	}
	links := map[string]string{}
	for _, s := range query(t, server, refOf(t, "Jobs and their pull requests", "A").Expand(nil), at) {
		links[s.Labels["prompt"]] = s.Labels[pullRequest]
	}
	want := map[string]string{"fix-typos": "https://code.example/acme/docs/pull/7", "weekly.md": "", "strange": ""}
	if diff := cmp.Diff(want, links); diff != "" {
		t.Errorf("links to pull requests\n%s", diff)
	}
}

// written are the metrics of which docgauge openmetrics writes history.
var written = []string{
	exporter.SiteVisitors, exporter.SiteVisitorsDeduplicated, exporter.PreviousSiteVisitors, exporter.PreviousSiteVisitorsDeduplicated,
	exporter.PageVisitors, exporter.PageVisitorsDeduplicated, exporter.Pages,
	exporter.WindowStartTimestamp, exporter.WindowEndTimestamp, exporter.WindowSettled, exporter.WindowVerified,
}

// TestPastThatWasBackFilled asks between two samples of a history with one an hour.
func TestPastThatWasBackFilled(t *testing.T) {
	at := time.Now().UTC().AddDate(0, 0, -40).Truncate(time.Hour)
	text, data := filepath.Join(t.TempDir(), "history.om"), t.TempDir()
	if err := os.WriteFile(text, []byte(hourly(at)), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool, err := engines.Tool(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", text, data)
	engines.Need(t, err)
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := engines.RunPrometheus(t, engines.PrometheusConfig{Data: data})
	asked := 0
	for _, q := range Queries() {
		if q.Engine != Prometheus || slices.ContainsFunc(metricName.FindAllString(q.Expr, -1),
			func(m string) bool { return !slices.Contains(written, m) }) {
			continue
		}
		asked++
		if samples := query(t, server, q.Expand(nil), at.Add(37*time.Minute)); len(samples) == 0 {
			t.Errorf("%s / %s / %s has no past\n%s", q.Dashboard, q.Panel, q.Ref, q.Expand(nil))
		}
	}
	if asked < 20 {
		t.Errorf("only %d queries are of what history has", asked)
	}
}

var metricName = regexp.MustCompile(`docgauge_[a-z_]+`)

// hourly is history as docgauge openmetrics writes it, with a step of an hour.
func hourly(at time.Time) string {
	var b strings.Builder
	for _, m := range exporter.Metrics() {
		if !slices.Contains(written, m.Name) {
			continue
		}
		fmt.Fprintf(&b, "# TYPE %s gauge\n", m.Name)
		for _, window := range []string{"day", "week", "month"} {
			for _, audience := range []string{exporter.AudienceAI, exporter.AudienceHuman} {
				if audience == exporter.AudienceHuman && !slices.Contains(m.Labels, exporter.LabelAudience) {
					continue
				}
				labels := pairs(m.Labels, map[string]string{
					exporter.LabelProject: "p", exporter.LabelWindow: window, exporter.LabelAudience: audience, exporter.LabelPath: "/",
				})
				for hour := -1; hour <= 1; hour++ {
					fmt.Fprintf(&b, "%s{%s} %d %d\n", m.Name, labels, len(m.Name), at.Add(time.Duration(hour)*time.Hour).Unix())
				}
			}
		}
	}
	return b.String() + "# EOF\n"
}

func pairs(labels []string, values map[string]string) string {
	var all []string
	for _, l := range labels {
		all = append(all, fmt.Sprintf("%s=%q", l, values[l]))
	}
	return strings.Join(all, ",")
}

func refOf(t *testing.T, panel, ref string) Query {
	t.Helper()
	i := slices.IndexFunc(Queries(), func(q Query) bool { return q.Panel == panel && q.Ref == ref })
	if i < 0 {
		t.Fatalf("no query %s of a panel %q", ref, panel)
	}
	return Queries()[i]
}

func query(t *testing.T, server *engines.Prometheus, expr string, at time.Time) []engines.Sample {
	t.Helper()
	samples, err := server.Query(t.Context(), expr, at)
	if err != nil {
		t.Fatal(err)
	}
	return samples
}

// scraped returns a server that has scraped the snapshot, and after that one in
// which a run and a job more have ended, and when it scraped that. Later a scrape
// may fail on a machine that is busy, and then nothing is there.
func scraped(t *testing.T, s exporter.Snapshot) (*engines.Prometheus, time.Time) {
	t.Helper()
	var values exporter.Values
	values.Publish(s)
	target := httptest.NewServer(values.Handler())
	t.Cleanup(target.Close)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: target.URL, Interval: time.Second}},
	})
	server.Await(t, "count_over_time("+exporter.BuildInfo+"[1h]) >= 3")
	values.Publish(later(s))
	return server, server.ScrapedAt(t, exporter.ExportRuns+`{outcome="success"}`, "== 10")
}

// later is s with one more of everything that is counted.
func later(s exporter.Snapshot) exporter.Snapshot {
	s.Counters, s.Histograms = slices.Clone(s.Counters), slices.Clone(s.Histograms)
	for i := range s.Counters {
		s.Counters[i].Value++
	}
	for i, h := range s.Histograms {
		s.Histograms[i].Buckets = maps.Clone(h.Buckets)
		for bucket := range h.Buckets {
			s.Histograms[i].Buckets[bucket]++
		}
	}
	queue := *s.Queue
	queue.Reviews = slices.Clone(queue.Reviews)
	queue.Reviews[0].Merged++
	queue.Reviews[0].Closed++
	s.Queue = &queue
	return s
}

// everything is a snapshot with a value for each metric.
func everything(now time.Time) exporter.Snapshot {
	s := exporter.Snapshot{
		At: now, Version: "v1.2.3", Revision: "0123456",
		Projects: []exporter.Project{{ID: "prj_a"}, {ID: "prj_b"}},
		Finish:   now.Add(3 * time.Hour),
		Budgets: []exporter.Budget{{Name: "analytics", Limit: 90, Remaining: 17},
			{Name: "agent:prj_a", Limit: 90, Remaining: 88}, {Name: "agent:prj_b", Limit: 90, Remaining: 90}},
		Keys: []exporter.Key{{Name: "admin", Expires: now.AddDate(0, 1, 0)}, {Name: "write"}},
		Sinks: []exporter.Sink{{Name: "parquet", LastCommit: now.Add(-time.Hour)},
			{Name: "clickhouse", LastCommit: now.Add(-time.Hour), Waiting: 2}},
		Counters: []exporter.Counter{
			{Name: "export_runs_total", Labels: []string{"outcome", "success"}, Value: 9},
			{Name: "agent_jobs_finished_total", Labels: []string{"project", "prj_a", "result", "pr"}, Value: 3},
			{Name: "agent_jobs_finished_total", Labels: []string{"project", "prj_a", "result", "failed"}},
			{Name: "agent_job_cost_total", Labels: []string{"project", "prj_a"}, Value: 5},
		},
		Histograms: []exporter.Histogram{
			{Name: "export_duration_seconds", Buckets: map[int]uint64{exporter.Bucket(time.Minute): 9}, Sum: 540},
			{Name: "api_request_duration_seconds", Labels: []string{"endpoint", "visitors"},
				Buckets: map[int]uint64{exporter.Bucket(time.Second): 9}, Sum: 9},
			{Name: "agent_pull_request_merge_seconds", Labels: []string{"project", "prj_a"},
				Buckets: map[int]uint64{exporter.Bucket(time.Hour): 2}, Sum: 7200},
		},
		LastStart: now.Add(-20 * time.Minute), LastCompletion: now.Add(-19 * time.Minute), LastSuccess: now.Add(-19 * time.Minute),
		Queue: queue(now),
		Outcomes: []effect.Outcome{{
			Merge: effect.Merge{Project: "prj_a", Link: "https://code.example/acme/docs/pull/5"},
			Effects: []effect.Effect{
				{Path: "/guide", Audience: analytics.Human, Verdict: effect.More, Change: .27, Low: .19, High: .36},
				{Path: "/guide", Audience: analytics.AI, Verdict: effect.Unclear, Change: -.05, Low: -.2, High: .12},
			},
		}},
	}
	for _, p := range s.Projects {
		for g, days := range map[analytics.Granularity]int{"day": 1, "week": 7, "month": 31} {
			w := window(p.ID, g, now, days)
			if p.ID == "prj_b" {
				w.Verified, w.MovedRows, w.RepeatedRows = false, 7, 7
			}
			s.Windows = append(s.Windows, w)
			s.Asides = append(s.Asides, analytics.Aside{Key: w.Key, Reason: analytics.AsideRepeats, Failures: 2,
				Until: now.Add(time.Hour)})
			s.Due = append(s.Due, exporter.Due{Project: p.ID, Granularity: g, Reason: "missing", Count: 4})
		}
		s.Open = append(s.Open, exporter.Open{
			Key: window(p.ID, "day", now.AddDate(0, 0, 1), 1).Key, Totals: analytics.Totals{Human: 12, AI: 7,
				Total: 18}, ReadAt: now,
		})
	}
	return s
}

// window is the newest complete one, which ended last midnight.
func window(project string, g analytics.Granularity, now time.Time, days int) exporter.Window {
	to := analytics.DateOf(now)
	return exporter.Window{
		Revision: analytics.Revision{
			Key: analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: to - analytics.Date(days),
				To: to}},
			Number: 1, Settled: true, Verified: true, Totals: analytics.Totals{Human: 80, AI: 33, Total: 101}, Rows: 2,
		},
		Previous: &analytics.Totals{Human: 64, AI: 30, Total: 84},
		Pages:    []analytics.Row{{Path: "/", Human: 70, AI: 30, Total: 95}, {Path: "/guide", Human: 20, AI: 5, Total: 24}},
	}
}

func queue(now time.Time) *exporter.Queue {
	return &exporter.Queue{
		Prompts: []exporter.Prompts{
			{Project: "prj_a", State: "pending", Count: 2}, {Project: "prj_a", State: "active", Count: 1}, {Project: "prj_a",
				State: "unknown", Count: 1},
			{Project: "prj_b", State: "pending", Count: 1}, {Project: "prj_b", State: "active"}, {Project: "prj_b",
				State: "unknown"},
		},
		Jobs: []exporter.Job{
			{Project: "prj_a", Prompt: "weekly.md", ID: "job_3", State: "active", Status: "active",
				Created: now.Add(-time.Hour)},
			{Project: "prj_a", Prompt: "fix-typos", ID: "job_2", State: "completed", Status: "completed",
				PRLink: "https://code.example/acme/docs/pull/7",
				Model:  "m-1", Repository: "acme/docs", Ref: "main", Created: now.Add(-3 * time.Hour), Ended: now.Add(-2 * time.Hour)},
			{Project: "prj_a", Prompt: "strange", ID: "job_1", State: "completed", Status: "completed",
				PRLink:  "javascript:alert(1)",
				Created: now.Add(-5 * time.Hour), Ended: now.Add(-4 * time.Hour)},
		},
		Caps:   []exporter.Cap{{Name: "day", Limit: 10, Used: 3}, {Name: "active", Limit: 3, Used: 1}},
		Paused: "unknown",
		PullRequests: []exporter.PullRequests{{Project: "prj_a", State: "open", Count: 1}, {Project: "prj_a", State: "merged", Count: 2},
			{Project: "prj_b", State: "open", Count: 2}},
		Reviews: []exporter.Review{{Project: "prj_a", Merged: 2, Closed: 1, OldestOpen: now.Add(-50 * time.Hour)},
			{Project: "prj_b", OldestOpen: now.Add(-30 * time.Hour)}},
		Costs: true,
	}
}

// with returns vars and more.
func with(vars map[string]string, more map[string]string) map[string]string {
	all := maps.Clone(vars)
	maps.Copy(all, more)
	return all
}
