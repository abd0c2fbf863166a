package cli

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/dev/testbed"
	"github.com/docgauge/docgauge/internal/sandbox"
)

// historyDays is more than the month that TestHistory looks back.
const historyDays = 40

// sharedArchive is the archive of the tests that only read one. TestMain removes it.
var sharedArchive struct {
	made    analytics.Date
	service *sandbox.Sandbox
	dir     string
}

// archived exports days from a sandbox with the real binary, once a day, and returns the
// sandbox and the archive.
func archived(t *testing.T) (*sandbox.Sandbox, string) {
	t.Helper()
	testbed.NotAtMidnight()
	a, today := &sharedArchive, testbed.DaysAgo(0)
	if a.made != today {
		service := testbed.NewService(t, sandbox.Config{Seed: 11, Days: 2 * historyDays, Pages: 150})
		dir, err := os.MkdirTemp("", "docgauge-cli-test-") //nolint:usetesting // it outlives the test
		check(t, err)
		p := placeFor(t, service, []string{sandbox.DefaultProject}, "DOCGAUGE_OPEN_WINDOWS=",
			"DOCGAUGE_SINCE="+testbed.DaysAgo(historyDays).String(), "DOCGAUGE_WINDOWS=day,week,28d:totals",
			"DOCGAUGE_REPORTS=visitors,agents", "DOCGAUGE_PARQUET_URL="+filepath.Join(dir, "data"))
		p.run(t, "export")
		check(t, os.RemoveAll(a.dir))
		a.made, a.service, a.dir = today, service.Sandbox, dir
	}
	return a.service, filepath.Join(a.dir, "data")
}

// openmetricsOutput is the output of openmetrics.
type openmetricsOutput struct {
	text, stderr string
	err          error
}

func runOpenmetrics(t *testing.T, args ...string) openmetricsOutput {
	t.Helper()
	var out, stderr bytes.Buffer
	a := Program{Out: &out, Err: &stderr}.ready(time.Now)
	cmd := a.openmetricsCommand()
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err := cmd.ExecuteContext(t.Context())
	return openmetricsOutput{out.String(), stderr.String(), err}
}

// blocksOf lets promtool make blocks, as docs/prometheus.md says.
func blocksOf(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "history.om"), filepath.Join(dir, "data")
	check(t, os.WriteFile(file, []byte(text), 0o600))
	cmd, err := engines.Tool(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics",
		"--max-block-duration=744h", file, data)
	engines.Need(t, err)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	return data
}

// TestHistory: Prometheus, started on blocks of the archive's history, answers
// for each day of the last month with the numbers of the service.
func TestHistory(t *testing.T) {
	s, archive := archived(t)
	const pages = 10
	got := runOpenmetrics(t, "--archive", archive, "--pages", fmt.Sprint(pages), "--to",
		(analytics.DateOf(time.Now()) + 1).String())
	if got.err != nil || !strings.Contains(got.stderr, "docgauge: wrote ") {
		t.Fatalf("%v %s", got.err, got.stderr)
	}
	server := engines.RunPrometheus(t, engines.PrometheusConfig{Data: blocksOf(t, got.text)})
	today := analytics.DateOf(time.Now())
	for day := today - 31; day < today; day++ {
		w := analytics.Window{From: day, To: day + 1}
		// The hour in which the window began to be shown may be the running one.
		at := w.To.Time().Add(time.Minute)
		totals, rows, err := s.Visitors(sandbox.DefaultProject, w)
		check(t, err)
		site := ask(t, server, `last_over_time({__name__=~"docgauge_site_visitors.*",window="day"}[30m])`,
			at, "__name__", "audience")
		want := map[string]float64{
			"docgauge_site_visitors human": float64(totals.Human), "docgauge_site_visitors ai": float64(totals.AI),
			"docgauge_site_visitors_deduplicated ": float64(totals.Total),
		}
		if diff := cmp.Diff(want, site); diff != "" {
			t.Errorf("%s (-service +Prometheus):\n%s", w, diff)
		}
		top := ask(t, server, `last_over_time(docgauge_page_visitors_deduplicated{window="day"}[30m])`, at, "path")
		if diff := cmp.Diff(largest(t, rows, pages), top); diff != "" {
			t.Errorf("pages of %s (-service +Prometheus):\n%s", w, diff)
		}
		agents, _, err := s.Agents(sandbox.DefaultProject, w)
		check(t, err)
		want = map[string]float64{}
		for _, a := range agents {
			labels := fmt.Sprintf(" %s %s %s", a.Agent, a.Class, a.Audience)
			want["docgauge_site_agent_visitors"+labels] = float64(a.Visitors)
			want["docgauge_site_agent_requests"+labels] = float64(a.Requests)
		}
		got := ask(t, server, `last_over_time({__name__=~"docgauge_site_agent_.*",window="day"}[30m])`,
			at, "__name__", "agent", "class", "audience")
		if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
			t.Errorf("agents of %s (-service +Prometheus):\n%s", w, diff)
		}
	}
	// The advice of docs/prometheus.md about queries that do not look back.
	noon := (today - 3).Time().Add(12 * time.Hour)
	for expr, want := range map[string]int{
		`docgauge_site_visitors_deduplicated{window="week"}`:                                1,
		`docgauge_site_visitors_deduplicated{window="week"} offset 30m`:                     0,
		`last_over_time(docgauge_site_visitors_deduplicated{window="week"}[1h] offset 30m)`: 1,
	} {
		if samples := ask(t, server, expr, noon, "window"); len(samples) != want {
			t.Errorf("%s: %v, want %d samples", expr, samples, want)
		}
	}
}

func largest(t *testing.T, rows []analytics.Row, n int) map[string]float64 {
	t.Helper()
	rows, err := analytics.Top(func(yield func(analytics.Row, error) bool) {
		for _, row := range rows {
			if !yield(row, nil) {
				return
			}
		}
	}, n)
	check(t, err)
	top := map[string]float64{}
	for _, row := range rows {
		top[row.Path] = float64(row.Total)
	}
	return top
}

// ask returns the values of a query by some of their labels.
func ask(t *testing.T, server *engines.Prometheus, expr string, at time.Time, by ...string) map[string]float64 {
	t.Helper()
	values := map[string]float64{}
	for _, s := range server.Query(t, expr, at) {
		var names []string
		for _, label := range by {
			names = append(names, s.Labels[label])
		}
		values[strings.Join(names, " ")] = s.Value
	}
	return values
}

// TestHistoryGoesOnLive: with the labels of the scrape, history and later scrapes
// are one series.
func TestHistoryGoesOnLive(t *testing.T) {
	_, archive := archived(t)
	live := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE docgauge_pages gauge\ndocgauge_pages{project=%q,window=\"day\"} 7\n",
			sandbox.DefaultProject)
	}))
	t.Cleanup(live.Close)
	got := runOpenmetrics(t, "--archive", archive, "--windows", "day", "--label", "job=docgauge", "--label",
		"instance="+strings.TrimPrefix(live.URL, "http://"))
	if got.err != nil {
		t.Fatal(got.err)
	}
	server := engines.RunPrometheus(t, engines.PrometheusConfig{
		Data: blocksOf(t, got.text), Scrapes: []engines.Scrape{{URL: live.URL, Interval: time.Second}}})
	testbed.Await(t, "a scrape", func() bool {
		return len(ask(t, server, "docgauge_pages == 7", time.Now(), "job")) > 0
	})
	all := ask(t, server, "count_over_time(docgauge_pages[60d])", time.Now(), "job", "project")
	if want := "docgauge " + sandbox.DefaultProject; len(all) != 1 || all[want] < 24*(historyDays-2) {
		t.Errorf("samples of each series: %v", all)
	}
}

func TestOpenMetricsMistakes(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		args string
		want string
	}{
		{"--from yesterday", "--from: date"},
		{"--to 2026-02-30", "--to: date"},
		{"--from 2026-10-02 --to 2026-10-02", "the range is empty"},
		{"--from 2999-01-01", "the range is empty"},
		{"--step 0s", "--step 0s"},
		{"--step 1500ms", "whole seconds"},
		{"--pages -1", "--pages -1"},
		{"--windows day,hour", "--windows: granularity"},
		{"--label job", "--label"},
		{"--label path=/", "history has the label path itself"},
		{"--archive gs://bucket", "--archive: want a directory or s3://"},
		{"--json", "are for --remote-write URL"},
		{"--remote-write.config.file x.yml", "are for --remote-write URL"},
		{"--remote-write store:9090", "--remote-write: want a URL"},
		{"--remote-write http://store/write --remote-write.protocol 3", "want 1.0 or 2.0"},
		{"--remote-write http://store/write --remote-write.config.file nowhere.yml", "nowhere.yml: no such file"},
	} {
		args := strings.Fields(tc.args)
		if !slices.Contains(args, "--archive") {
			args = append(args, "--archive", dir)
		}
		got := runOpenmetrics(t, args...)
		if got.err == nil || !strings.Contains(got.err.Error(), tc.want) ||
			exitCode(got.err) != exitUsage || got.text != "" {
			t.Errorf("%s: %v, exit code %d, wrote %q; want %s", tc.args, got.err, exitCode(got.err), got.text, tc.want)
		}
	}
}
