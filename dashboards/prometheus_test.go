package dashboards

import (
	"context"
	"maps"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/engines"
)

// TestPromQL runs every query on a real server that scrapes what the exporter
// serves, and finds data for each.
func TestPromQL(t *testing.T) {
	server := scraped(t, everything(time.Now().UTC()))
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
				expr := q.Expand(vars)
				samples, err := server.Query(t.Context(), expr, time.Time{})
				if err != nil || len(samples) == 0 {
					t.Errorf("%s / %s / %s: %d samples, %v\n%s", q.Dashboard, q.Panel, q.Ref, len(samples), err, expr)
				}
			}
		})
	}
}

// scraped returns a server that has scraped the snapshot three times.
func scraped(t *testing.T, s exporter.Snapshot) *engines.Prometheus {
	t.Helper()
	var values exporter.Values
	values.Publish(s)
	target := httptest.NewServer(values.Handler())
	t.Cleanup(target.Close)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: target.URL, Interval: 200 * time.Millisecond}},
	})
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C {
		got, err := server.Query(ctx, "count_over_time("+exporter.BuildInfo+"[1m])", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		if len(got) == 1 && got[0].Value >= 3 {
			return server
		}
	}
}

// everything is a snapshot with a value for each metric.
func everything(now time.Time) exporter.Snapshot {
	s := exporter.Snapshot{
		At: now, Version: "v1.2.3", Revision: "0123456",
		Projects: []exporter.Project{{ID: "prj_a"}, {ID: "prj_b"}},
		Finish:   now.Add(3 * time.Hour),
		Budgets:  []exporter.Budget{{Name: "analytics", Limit: 90, Remaining: 17}, {Name: "agent:prj_a", Limit: 90, Remaining: 88}, {Name: "agent:prj_b", Limit: 90, Remaining: 90}},
		Keys:     []exporter.Key{{Name: "admin", Expires: now.AddDate(0, 1, 0)}, {Name: "write"}},
		Sinks:    []exporter.Sink{{Name: "parquet", LastCommit: now.Add(-time.Hour)}, {Name: "clickhouse", LastCommit: now.Add(-time.Hour), Waiting: 2}},
		Counters: []exporter.Counter{
			{Name: "export_runs_total", Labels: []string{"outcome", "success"}, Value: 9},
			{Name: "agent_jobs_finished_total", Labels: []string{"project", "prj_a", "result", "pr"}, Value: 3},
			{Name: "agent_jobs_finished_total", Labels: []string{"project", "prj_a", "result", "failed"}, Value: 1},
		},
		Histograms: []exporter.Histogram{
			{Name: "export_duration_seconds", Buckets: map[int]uint64{exporter.Bucket(time.Minute): 9}, Sum: 540},
			{Name: "api_request_duration_seconds", Labels: []string{"endpoint", "visitors"}, Buckets: map[int]uint64{exporter.Bucket(time.Second): 9}, Sum: 9},
		},
		LastStart: now.Add(-20 * time.Minute), LastCompletion: now.Add(-19 * time.Minute), LastSuccess: now.Add(-19 * time.Minute),
		Queue: queue(now),
	}
	for _, p := range s.Projects {
		for g, days := range map[analytics.Granularity]int{"day": 1, "week": 7, "month": 31} {
			s.Windows = append(s.Windows, window(p.ID, g, now, days))
			s.Due = append(s.Due, exporter.Due{Project: p.ID, Granularity: g, Reason: "missing", Count: 4})
		}
		s.Open = append(s.Open, exporter.Open{
			Key: window(p.ID, "day", now.AddDate(0, 0, 1), 1).Key, Totals: analytics.Totals{Human: 12, AI: 7, Total: 18}, ReadAt: now,
		})
	}
	return s
}

// window is the newest complete one, which ended last midnight.
func window(project string, g analytics.Granularity, now time.Time, days int) exporter.Window {
	to := analytics.DateOf(now)
	return exporter.Window{
		Revision: analytics.Revision{
			Key:    analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: to - analytics.Date(days), To: to}},
			Number: 1, Settled: true, Verified: true, Totals: analytics.Totals{Human: 80, AI: 33, Total: 101}, Rows: 2,
		},
		Previous: &analytics.Totals{Human: 64, AI: 30, Total: 84},
		Pages:    []analytics.Row{{Path: "/", Human: 70, AI: 30, Total: 95}, {Path: "/guide", Human: 20, AI: 5, Total: 24}},
	}
}

func queue(now time.Time) *exporter.Queue {
	return &exporter.Queue{
		Prompts: []exporter.Prompts{
			{Project: "prj_a", State: "pending", Count: 2}, {Project: "prj_a", State: "active", Count: 1}, {Project: "prj_a", State: "unknown", Count: 1},
			{Project: "prj_b", State: "pending", Count: 1}, {Project: "prj_b", State: "active"}, {Project: "prj_b", State: "unknown"},
		},
		Jobs: []exporter.Job{
			{Project: "prj_a", Prompt: "weekly.md", ID: "job_3", State: "active", Status: "active", Created: now.Add(-time.Hour)},
			{Project: "prj_a", Prompt: "fix-typos", ID: "job_2", State: "completed", Status: "completed", PRLink: "https://code.example/acme/docs/pull/7",
				Model: "m-1", Repository: "acme/docs", Ref: "main", Created: now.Add(-3 * time.Hour), Ended: now.Add(-2 * time.Hour)},
			{Project: "prj_a", Prompt: "strange", ID: "job_1", State: "completed", Status: "completed", PRLink: "javascript:alert(1)",
				Created: now.Add(-5 * time.Hour), Ended: now.Add(-4 * time.Hour)},
		},
		Caps:   []exporter.Cap{{Name: "day", Limit: 10, Used: 3}, {Name: "active", Limit: 3, Used: 1}},
		Paused: "unknown",
	}
}

// with returns vars and more.
func with(vars map[string]string, more map[string]string) map[string]string {
	all := maps.Clone(vars)
	maps.Copy(all, more)
	return all
}
