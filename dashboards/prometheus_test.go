package dashboards

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// TestPromQL runs every query on a real server that holds each metric of the exporter,
// and finds numbers for each.
func TestPromQL(t *testing.T) {
	at := time.Now().UTC().AddDate(0, 0, -40).Truncate(time.Hour)
	server := filled(t, at)
	for name, vars := range map[string]map[string]string{
		"as it opens":  {},
		"one project":  {"project": "prj_a", "window": "day"},
		"two projects": {"project": "(prj_a|prj_b)", "window": "month"},
	} {
		for _, q := range queries(t, isPromQL) {
			vars["__to"] = fmt.Sprint(at.UnixMilli())
			if samples := server.Query(t, q.Expand(vars), at); len(samples) == 0 || math.IsNaN(samples[0].Value) {
				t.Errorf("%s, %s: %v\n%s", name, q, samples, q.Expand(vars))
			}
		}
	}
	t.Run("answers", func(t *testing.T) { testPromAnswers(t, server, at) })
	t.Run("past", func(t *testing.T) { testPast(t, server, at) })
}

// labelValues are the values of labels. The value of pr_link depends on the prompt. Any other label without an entry
// has one value.
var labelValues = map[string][]string{
	"project": {"prj_a", "prj_b"}, "window": {"day", "week", "month", "28d"}, "audience": {"human", "ai"},
	"agent": {"browser", "Claude-User", "curl"}, "class": {"answers"}, "report": {"visitors", "agents"},
	"path": {"/", "/guide"}, "kind": {"moved", "repeated"}, "bound": {"low", "estimate", "high"},
	"verdict": {"more readers", "fewer readers", "no clear change"}, "final": {"true"},
	"sink": {"parquet", "clickhouse"}, "cap": {"day", "active"},
	"state": {"pending", "active", "unknown", "open"}, "result": {"pr", "failed"}, "outcome": {"success", "failed"},
	"unit": {"USD"}, "basis": {"reported", "at_least"},
	"reason": {"missing", "repeats", "failing"}, "budget": {"analytics", "agent:prj_a", "agent:prj_b"},
	"prompt": slices.Sorted(maps.Keys(links)),
}

// links are the addresses of prompts' pull requests.
var links = map[string]string{
	"fix-typos": "https://code.example/acme/docs/pull/7", "weekly.md": "", "strange": "javascript:alert(1)",
}

type valueOf struct {
	series string
	value  float64
}

// values are the values of series. The first regular expression that matches a series counts. A timestamp is a
// number of seconds ago.
var values = []valueOf{
	{`^docgauge_site_visitors_dedup`, 101}, {`^docgauge_site_visitors.*human`, 80}, {`^docgauge_site_visitors.*ai`, 33},
	{`^docgauge_previous.*dedup`, 84}, {`^docgauge_previous.*human`, 64}, {`^docgauge_previous.*ai`, 30},
	{`page_visitors_dedup.*guide`, 24}, {`page_visitors.*guide.*ai`, 5},
	{`prompts.*prj_a.*pending`, 2}, {`prompts.*prj_b.*pending`, 1}, {`queue_paused.*failing`, 1}, {`queue_paused`, 0},
	{`project_refused`, 0},
	{`jobs_finished_total.*prj_a.*pr"`, 3}, {`jobs_finished_total`, 0},
	{`pull_request_cost`, 1.27}, {`pull_requests.*prj_a.*open`, 1}, {`pull_requests.*prj_b.*open`, 2},
	{`cap_used.*day`, 3}, {`cap_limit.*day`, 10},
	{`budget_remaining.*analytics`, 17}, {`budget_remaining`, 88}, {`budget_limit`, 90},
	{`agent_visitors.*Claude-User`, 12}, {`agent_visitors.*curl`, 3},
	{`windows_due.*missing`, 4}, {`windows_due`, 0}, {`windows_set_aside.*repeats`, 3}, {`windows_set_aside`, 0},
	{`suspect_rows.*prj_b`, 7}, {`suspect_rows`, 0}, {`le="64"`, 0},
	{`job_created_timestamp_seconds`, 7200}, {`window_start_timestamp_seconds`, 7200}, {`timestamp_seconds`, 3600},
	{``, 9},
}

// series returns the series of a metric, one for each combination of the values of its labels.
func series(m exporter.Metric) []string {
	all := []string{m.Name + `{instance="127.0.0.1:9817"`}
	if m.Type == "histogram" {
		bucket := m.Name + `_bucket{instance="127.0.0.1:9817",le=`
		all = []string{bucket + `"64"`, bucket + `"4096"`, bucket + `"+Inf"`}
	}
	for _, label := range m.Labels {
		var more []string
		for _, begin := range all {
			options := labelValues[label]
			if options == nil {
				options = []string{"any " + label}
			}
			if _, rest, ok := strings.Cut(begin, `prompt="`); ok && label == "pr_link" {
				prompt, _, _ := strings.Cut(rest, `"`)
				options = []string{links[prompt]}
			}
			for _, value := range options {
				more = append(more, fmt.Sprintf("%s,%s=%q", begin, label, value))
			}
		}
		all = more
	}
	return all
}

// filled returns a server that holds every metric in each minute of the hour before at,
// and what docgauge openmetrics writes also around the day before, once an hour. Counters, except for project prj_b,
// grow by one at the end.
func filled(t *testing.T, at time.Time) *engines.Prometheus {
	t.Helper()
	var b strings.Builder
	for _, m := range exporter.Metrics() {
		for _, s := range series(m) {
			i := slices.IndexFunc(values, func(v valueOf) bool { return regexp.MustCompile(v.series).MatchString(s) })
			value := values[i].value
			if strings.Contains(s, "timestamp_seconds{") {
				value = float64(at.Unix()) - value
			}
			for hour := -25; hour <= -23 && hasPast(m.Name); hour++ {
				fmt.Fprintf(&b, "%s} %v %d\n", s, value, at.Add(time.Duration(hour)*time.Hour).Unix())
			}
			for minute := -59; minute <= 0; minute++ {
				grows := m.Type != "gauge" && !strings.Contains(s, "prj_b") && !strings.Contains(s, `le="64"`)
				if minute == 0 && grows {
					value++
				}
				fmt.Fprintf(&b, "%s} %v %d\n", s, value, at.Add(time.Duration(minute)*time.Minute).Unix())
			}
		}
	}
	text, data := filepath.Join(t.TempDir(), "history.om"), t.TempDir()
	must(t, os.WriteFile(text, []byte(b.String()+"# EOF\n"), 0o600))
	promtool, err := engines.Tool(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", text, data)
	engines.Need(t, err)
	if out, err := promtool.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return engines.RunPrometheus(t, engines.PrometheusConfig{Data: data})
}

// testPromAnswers holds what is calculated against the values.
func testPromAnswers(t *testing.T, server *engines.Prometheus, at time.Time) {
	query := func(panel, ref string) []engines.Sample {
		found := queries(t, func(q engines.Query) bool { return q.Panel == panel && q.Ref == ref })
		if len(found) == 0 {
			t.Fatalf("no query %s of a panel %q", ref, panel)
		}
		return server.Query(t, found[0].Expand(map[string]string{"__to": fmt.Sprint(at.UnixMilli())}), at)
	}
	for _, tc := range []struct {
		panel, ref, label, of string
		want                  float64
	}{
		{"Readers of the week", "A", "project", "prj_a", 101},
		{"Readers of the month", "B", "project", "prj_b", 80},
		{"Readers of the day", "C", "project", "prj_a", 33},
		{"Change from the same weekday", "A", "project", "prj_a", 101./84 - 1},
		{"Change from the week before", "B", "project", "prj_a", 80./64 - 1},
		{"Change from the month before", "C", "project", "prj_a", 33./30 - 1},
		{"AI share of the day", "A", "project", "prj_a", 33. / 101},
		{"Top pages of the $window", "A", "path", "/guide", 24},
		{"Pages of the $window", "D", "path", "/guide", 5. / 24},
		{"How fresh the windows are", "C", "window", "week", 1},
		{"How fresh the windows are", "C", "window", "28d", 1. / 24},
		{"Queue", "A", "", "", 1},
		{"Waiting", "A", "", "", 3},
		{"Ended with a pull request", "A", "", "", 4. / 5},
		{"Jobs by result", "A", "result", "pr", 1},
		{"Time to a pull request", "A", "", "", 3600},
		{"Jobs and their pull requests", "C", "prompt", "fix-typos", 3600},
		{"Pull requests by state", "A", "state", "open", 3},
		{"Accepted", "A", "", "", .5},
		{"Cost per merge", "A", "unit", "USD", 1.27},
		{"Jobs of unknown cost", "A", "", "", 1},
		{"Merged and closed, 7 days", "A", "project", "prj_a", 1},
		{"Merged and closed, 7 days", "B", "project", "prj_b", 0},
		{"Caps on jobs", "A", "cap", "day", .3},
		{"Verdicts", "A", "", "", 18},
		{"Readers after a merge", "D", "verdict", "fewer readers", 9},
		{"Budget in use", "A", "budget", "analytics", 1 - 17./90},
		{"Agent requests left", "A", "budget", "agent:prj_a", 88},
		{"Windows due", "A", "", "", 64},
		{"Is all well?", "A", "", "", 1},
		{"Is all well?", "B", "", "", 0},
		{"Due windows by reason", "A", "reason", "missing", 64},
		{"Windows of agents that are due", "A", "project", "prj_a", 16},
		{"Assistants with most readers", "A", "agent", "Claude-User", 12},
		{"Agents of the $window", "C", "agent", "curl", 3},
		{"Windows set aside by reason", "A", "reason", "repeats", 6},
		{"Windows set aside by reason", "A", "reason", "failing", 0},
		{"Suspect rows of the newest windows", "A", "project", "prj_b", 7},
		{"Suspect rows of the newest windows", "A", "project", "prj_a", 0},
	} {
		samples := query(tc.panel, tc.ref)
		i := slices.IndexFunc(samples, func(s engines.Sample) bool { return s.Labels[tc.label] == tc.of })
		if i < 0 || math.Abs(samples[i].Value-tc.want) > 1e-9 {
			t.Errorf("%s / %s: %v, want %v for %s=%q", tc.panel, tc.ref, samples, tc.want, tc.label, tc.of)
		}
	}
	// What a link leads to begins with http:// or https://, whatever the service says.
	got, want := map[string]string{}, maps.Clone(links)
	want["strange"] = ""
	for _, s := range query("Jobs and their pull requests", "A") {
		got[s.Labels["prompt"]] = s.Labels["pull_request"]
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("links to pull requests\n%s", diff)
	}
}

// hasPast reports whether docgauge openmetrics writes the history of a metric.
func hasPast(name string) bool {
	return slices.ContainsFunc(exporter.WindowMetrics(), func(m exporter.Metric) bool { return m.Name == name })
}

// testPast asks between two samples of a history with one an hour.
func testPast(t *testing.T, server *engines.Prometheus, at time.Time) {
	asked, unwritten := 0, func(name string) bool { return !hasPast(name) }
	for _, q := range queries(t, isPromQL) {
		if slices.ContainsFunc(regexp.MustCompile(`docgauge_[a-z_]+`).FindAllString(q.Expr, -1), unwritten) {
			continue
		}
		asked++
		if samples := server.Query(t, q.Expand(nil), at.Add(-24*time.Hour+37*time.Minute)); len(samples) == 0 {
			t.Errorf("%s has no past\n%s", q, q.Expand(nil))
		}
	}
	if asked < 20 {
		t.Errorf("only %d queries are of what history has", asked)
	}
}
