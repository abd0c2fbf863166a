package exporter_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/view"
)

// The formats a scraper asks for.
const (
	acceptText        = "text/plain;version=0.0.4"
	acceptOpenMetrics = "application/openmetrics-text;version=1.0.0"
	acceptProtobuf    = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
)

// noon is when the rich snapshot was made.
var noon = time.Date(2026, 10, 7, 12, 0, 0, 250e6, time.UTC)

// rich returns a snapshot that has every metric.
func rich() view.Snapshot {
	return view.Snapshot{
		At: noon, Version: "v1.2.3", Revision: "0123456",
		Reload: &view.Reload{Successful: true, LastSuccess: noon.Add(-time.Hour)},
		Projects: []view.Project{
			{ID: "prj_a", Grids: []view.Grid{{Granularity: analytics.Day}, {Granularity: "28d", TotalsOnly: true}}},
			{ID: "prj_b"},
		},
		Windows: []view.Window{
			{Revision: revision("prj_a", analytics.Day, 6, 7, 3), Pages: []analytics.Row{
				{Path: "/", Totals: analytics.Totals{Human: 70, AI: 30, Total: 95}},
				{Path: "/guide", Totals: analytics.Totals{Human: 20, AI: 5, Total: 24}},
				{Path: "/a \"quoted\" \\ path\nof two lines 🙂", Totals: analytics.Totals{Human: 1, AI: 1, Total: 2}},
			}},
			{Revision: unverified("prj_a", analytics.Week, -1, 6, 812), MovedRows: 250, RepeatedRows: 7},
			{Revision: revision("prj_a", "28d", -21, 7, analytics.TotalsOnlyRows),
				Previous: &analytics.Totals{Human: 70, AI: 20, Total: 88}},
			{Revision: revision("prj_b", analytics.Day, 6, 7, 0)},
		},
		Open: []analytics.OpenWindow{{
			Key:    key("prj_a", analytics.Day, 7, 8),
			Totals: analytics.Totals{Human: 12, AI: 7, Total: 18}, ReadAt: noon.Add(-time.Minute),
		}},
		Others: []view.RowsWindow{{
			Revision: of(analytics.AgentsReport, revision("prj_a", analytics.Day, 6, 7, 9)), More: 2, Rows: records(
				analytics.AgentRow{Agent: "browser", Class: "human", Audience: analytics.Human, Visitors: 70, Requests: 210,
					Bytes: 8_400_000},
				analytics.AgentRow{Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Visitors: 20, Requests: 400,
					Markdown: 300, Bytes: -1},
				analytics.AgentRow{Agent: "curl", Class: "tool", Audience: analytics.AI, Visitors: 3, Requests: 3},
				analytics.AgentRow{Agent: "curl", Class: "tool", Audience: "neither", Visitors: 4, Requests: 9},
			),
		}, {
			Revision: of(analytics.SourcesReport, revision("prj_a", analytics.Day, 6, 7, 9)), Rows: records(
				analytics.SourceRow{Source: "chatgpt", Class: "assistant", Agent: analytics.BrowserAgent, Visitors: 12, Requests: 15},
				analytics.SourceRow{Source: "chatgpt", Class: "assistant", Agent: analytics.UnconfirmedAgent, Visitors: 1, Requests: 1},
			),
		}, {
			Revision: of(analytics.ViewsReport, revision("prj_a", analytics.Day, 6, 7, 9)),
		}},
		Due: []view.Due{
			{Project: "prj_a", Report: analytics.AgentsReport, Granularity: analytics.Day, Reason: "missing", Count: 1},
			{Project: "prj_a", Granularity: analytics.Day, Reason: "missing", Count: 4},
			{Project: "prj_a", Granularity: analytics.Day, Reason: "settle"},
		},
		Finish: noon.Add(time.Hour),
		Asides: []analytics.Aside{
			{Key: key("prj_a", analytics.Day, 5, 6), Reason: analytics.AsideMalformed, Failures: 2,
				Until: noon.Add(time.Hour)},
			{Key: key("prj_a", analytics.Day, 4, 5), Reason: analytics.AsideMalformed, Failures: 1,
				Until: noon.Add(time.Hour)},
			{Key: key("prj_a", analytics.Day, 3, 4), Reason: analytics.AsideFailing, Failures: 4,
				Until: noon.Add(time.Hour)},
		},
		Queue: &view.Queue{
			Refused: []string{"prj_b"},
			Prompts: []view.StateCount{
				{Project: "prj_a", State: "pending", Count: 2}, {Project: "prj_a", State: "active", Count: 1},
				{Project: "prj_b", State: "active"},
			},
			Jobs: []view.Job{
				{Project: "prj_a", Prompt: "weekly.md", ID: "job_2", State: "active", Status: "active", Model: "m-1",
					Repository: "acme/docs", Ref: "main", Created: noon.Add(-time.Hour)},
				{Project: "prj_a", Prompt: "fix-typos", ID: "job_1", State: "completed", Status: "completed",
					PRLink:  "https://code.example/acme/docs/pull/7",
					Created: noon.Add(-3 * time.Hour), Ended: noon.Add(-2 * time.Hour)},
				{Project: "prj_a", Prompt: "never accepted", State: "unknown"},
			},
			Caps: []view.Cap{{Name: "day", Limit: 10, Used: 2}, {Name: "active", Limit: 3, Used: 1},
				{Name: "open_pull_requests", Limit: 5, Used: 2}, {Name: "cost", Limit: 10.5, Used: 3.25}},
			PullRequests: []view.StateCount{
				{Project: "prj_a", State: "open", Count: 1}, {Project: "prj_a", State: "unknown"},
				{Project: "prj_a", State: "merged", Count: 3}, {Project: "prj_b", State: "open"},
			},
			Reviews: []view.Review{{Project: "prj_a", Merged: 3, Closed: 1, OldestOpen: noon.Add(-72 * time.Hour)},
				{Project: "prj_b"}},
			Costs:  true,
			Paused: "unknown",
		},
		Missed: []view.MissedPath{{Project: "prj_a", Path: "/old", Requests: 43}, {Project: "prj_b", Requests: -1}},
		Outcomes: view.Outcomes{Summaries: []view.OutcomeSummary{{
			Project: "prj_a", Merges: 4, Comparisons: 8, More: 3, Fewer: 1, ByChance: .4, TooEarly: 2, NotEnoughData: 1,
			Mean: &view.MeanChange{Change: .06, Low: .02, High: .1, Comparisons: 7, Dates: 4},
		}}, Merges: []view.Outcome{{
			Merge: view.Merge{Project: "prj_a", Link: "https://code.example/acme/docs/pull/5", At: noon,
				Cost: view.Cost{Reported: []view.Amount{{Amount: 1.27, Unit: "USD"}}, Jobs: 2, Estimate: .5, Estimated: 1}},
			Final: true,
			Effects: []view.Effect{
				{Path: "/guide", Audience: analytics.Human, Verdict: view.MoreReaders, Change: .27, Low: .19,
					High: .36},
				{Path: "/guide", Audience: analytics.AI, Verdict: view.NotEnoughData, Reason: "12 visitors a day",
					Before: 12},
			},
		}}},
		Counters: []view.Counter{
			{Name: "agent_jobs_finished_total", Labels: []string{"project", "prj_a", "result", "pr"}, Value: 5},
			{Name: "agent_job_cost_total", Labels: []string{"project", "prj_a"}, Value: 7.5},
			{Name: "agent_job_reported_cost_total", Labels: []string{"project", "prj_a", "unit", "USD"}, Value: 6.35},
			{Name: "agent_jobs_cost_unknown_total", Labels: []string{"project", "prj_a"}, Value: 1},
			{Name: "export_runs_total", Labels: []string{"outcome", "success"}, Value: 9},
			{Name: "windows_committed_total", Labels: []string{"sink", "parquet", "project", "prj_a"}, Value: 31},
			{Name: "rows_written_total", Labels: []string{"sink", "parquet"}, Value: 12345},
			{Name: "api_requests_total", Labels: []string{"endpoint", "visitors", "code", "429"}, Value: 2},
		},
		Histograms: []view.Histogram{
			{Name: "export_duration_seconds", Buckets: buckets(400*time.Millisecond, 31*time.Second, time.Hour),
				Sum: 3631.4},
			{Name: "api_request_duration_seconds", Labels: []string{"endpoint", "visitors"},
				Buckets: buckets(time.Second, time.Second, 40*time.Millisecond), Sum: 2.04},
			{Name: "agent_pull_request_merge_seconds", Labels: []string{"project", "prj_a"},
				Buckets: buckets(10*time.Minute, 26*time.Hour, 26*time.Hour), Sum: 187800},
		},
		Budgets: []view.Budget{
			{Name: "visitors", Limit: 90, Available: 17},
			{Name: "agent"},
		},
		Keys: []view.Key{
			{Name: "read", Expires: noon.AddDate(0, 3, 0)},
			{Name: "write", Rejected: true},
		},
		Sinks: []view.Sink{
			{Name: "parquet", LastCommit: noon.Add(-time.Minute)},
			{Name: "clickhouse", Waiting: 3, Problem: "connection refused"},
		},
		LastStart: noon.Add(-3 * time.Minute), LastCompletion: noon.Add(-2 * time.Minute),
		LastSuccess: noon.Add(-2 * time.Minute),
	}
}

// large returns a snapshot of that many projects, with windows of four
// granularities and that many pages each.
func large(projects, pages int) view.Snapshot {
	s := view.Snapshot{At: noon, Sinks: []view.Sink{{Name: "parquet"}, {Name: "clickhouse"}}}
	for p := range projects {
		id := fmt.Sprintf("prj_%04d", p)
		s.Projects = append(s.Projects, view.Project{ID: id})
		for _, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "28d"} {
			w := view.Window{Revision: revision(id, g, 6, 7, int64(pages))}
			for i := range int64(pages) {
				path := fmt.Sprintf("/docs/section-%d/a-page-with-a-name-%d", i%7, i)
				w.Pages = append(w.Pages, analytics.Row{Path: path, Totals: analytics.Totals{Human: 1000 - i, AI: 500 - i,
					Total: 1400 - i}})
			}
			s.Windows = append(s.Windows, w)
		}
	}
	return s
}

func key(project string, g analytics.Granularity, from, to int) analytics.Key {
	day := func(n int) analytics.Date { return analytics.NewDate(2026, time.October, n) }
	return analytics.Key{Project: project, Granularity: g, Window: analytics.Window{From: day(from), To: day(to)}}
}

func revision(project string, g analytics.Granularity, from, to int, rows int64) analytics.Revision {
	return analytics.Revision{
		Key: key(project, g, from, to), Number: 2, Settled: rows != 0, Verified: true,
		Totals: analytics.Totals{Human: 80, AI: 33, Total: 101}, Rows: rows, ExportedAt: noon,
	}
}

func unverified(project string, g analytics.Granularity, from, to int, rows int64) analytics.Revision {
	r := revision(project, g, from, to, rows)
	r.Verified = false
	return r
}

func buckets(durations ...time.Duration) map[int]uint64 {
	counts := map[int]uint64{}
	for _, d := range durations {
		counts[view.Bucket(d)]++
	}
	return counts
}

// publish returns values that hold s.
func publish(s view.Snapshot) *exporter.Values {
	var v exporter.Values
	v.Publish(s)
	return &v
}

// scrape asks the handler of v, and returns its answer, which it uncompresses.
func scrape(t testing.TB, v *exporter.Values, accept, encoding string) (http.Header, string) {
	t.Helper()
	request := httptest.NewRequest(http.MethodGet, "/metrics", nil)
	request.Header.Set("Accept", accept)
	request.Header.Set("Accept-Encoding", encoding)
	answer := httptest.NewRecorder()
	v.Handler().ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		t.Fatalf("status %d: %s", answer.Code, answer.Body)
	}
	if answer.Header().Get("Content-Encoding") != "gzip" {
		return answer.Header(), answer.Body.String()
	}
	plain, err := gzip.NewReader(answer.Body)
	must(t, err)
	text, err := io.ReadAll(plain)
	must(t, err)
	return answer.Header(), string(text)
}

// own returns the part of a text exposition that is not of the runtime.
func own(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.Contains(line, "docgauge_") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// metrics returns the series of s as /metrics has them, by "name{label="value"}".
func metrics(t testing.TB, s view.Snapshot) map[string]float64 {
	t.Helper()
	_, text := scrape(t, publish(s), acceptText, "")
	return parse(t, text)
}

// parse reads the text format; it leaves out the labels named by without.
func parse(t testing.TB, text string, without ...string) map[string]float64 {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	must(t, err)
	all := map[string]float64{}
	for name, f := range families {
		for _, m := range f.Metric {
			all[name+labels(m, without)] = value(m)
		}
	}
	return all
}

// decode reads the delimited protobuf format.
func decode(t testing.TB, body string) map[string]*dto.MetricFamily {
	t.Helper()
	all := map[string]*dto.MetricFamily{}
	decoder := expfmt.NewDecoder(bytes.NewBufferString(body), expfmt.FmtProtoDelim)
	for {
		var f dto.MetricFamily
		err := decoder.Decode(&f)
		if errors.Is(err, io.EOF) {
			return all
		}
		must(t, err)
		all[f.GetName()] = &f
	}
}

func labels(m *dto.Metric, without []string) string {
	var pairs []string
	for _, l := range m.Label {
		if !slices.Contains(without, l.GetName()) {
			pairs = append(pairs, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
	}
	if pairs == nil {
		return ""
	}
	return "{" + strings.Join(pairs, ",") + "}"
}

func value(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return -1
}

func of(report analytics.Report, rev analytics.Revision) analytics.Revision {
	rev.Report = report
	return rev
}

func records[R analytics.RowType](rows ...R) (all []analytics.Record) {
	for _, row := range rows {
		all = append(all, analytics.RecordOf(row))
	}
	return all
}
