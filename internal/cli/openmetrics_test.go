package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

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
	out, stderr, err := ranHere(t, time.Now(), (*Program).openmetricsCommand, args...)
	return openmetricsOutput{out, stderr, err}
}

// ranHere runs a command in the test's process, at a time.
func ranHere(
	t *testing.T, now time.Time, command func(*Program) *cobra.Command, args ...string,
) (out, stderr string, err error) {
	t.Helper()
	var stdout, log bytes.Buffer
	cmd := command(newProgram(&stdout, &log, func() time.Time { return now }))
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	err = cmd.ExecuteContext(t.Context())
	return stdout.String(), log.String(), err
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
			want["docgauge_site_agent_markdown"+labels] = float64(a.Markdown)
			want["docgauge_site_agent_bytes"+labels] = float64(a.Bytes)
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

// everything describes each series of a text in a server: the number of samples, and numbers
// that depend on all their values and times.
func everything(t *testing.T, server *engines.Prometheus, text string, at time.Time) map[string]float64 {
	t.Helper()
	all := map[string]float64{}
	for _, name := range regexp.MustCompile(`(?m)^# TYPE (\w+) gauge$`).FindAllStringSubmatch(text, -1) {
		for _, function := range []string{"count_over_time", "stddev_over_time", "sum_over_time", "last_over_time",
			"deriv"} {
			expr := function + "(" + name[1] + "[60d])"
			for labels, value := range ask(t, server, expr, at, "project", "window", "audience", "path", "agent", "class") {
				all[expr+" "+labels] = value
			}
		}
	}
	return all
}

// liveTarget is a target of scrapes, so that a server has newer samples than the history.
func liveTarget(t *testing.T) []engines.Scrape {
	live := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "live 1")
	}))
	t.Cleanup(live.Close)
	return []engines.Scrape{{URL: live.URL, Interval: time.Second}}
}

// TestRemoteWriteIsTheHistory: Prometheus receives the samples that promtool makes of the
// text, also when it was sent twice, and to one that has newer samples.
func TestRemoteWriteIsTheHistory(t *testing.T) {
	engines.Long(t)
	_, archive := archived(t)
	args := []string{"--archive", archive, "--pages", "5"}
	text := runOpenmetrics(t, args...)
	if text.err != nil {
		t.Fatal(text.err)
	}
	blocks := engines.RunPrometheus(t, engines.PrometheusConfig{Data: blocksOf(t, text.text)})
	received := engines.RunPrometheus(t, engines.PrometheusConfig{
		RemoteWrite: true, OutOfOrder: "1y", Scrapes: liveTarget(t)})
	received.Await(t, "live")
	end := analytics.DateOf(time.Now()).Time().Add(-time.Second)
	want := everything(t, blocks, text.text, end)
	if len(want) < 300 {
		t.Fatalf("only %d values", len(want))
	}
	for _, how := range []string{"once", "again"} {
		got := runOpenmetrics(t, append(args, "--remote-write", received.URL+"/api/v1/write", "--json")...)
		s := summaryOf(t, got)
		if got.err != nil || s.Refused != 0 || s.Accepted != s.Samples || s.Samples < 10_000 ||
			s.Retries != 0 || len(s.Errors) > 0 {
			t.Fatalf("%s: %v, %+v", how, got.err, s)
		}
		if diff := cmp.Diff(want, everything(t, received, text.text, end)); diff != "" {
			t.Errorf("%s (-promtool +remote write):\n%s", how, diff)
		}
	}
}

func summaryOf(t *testing.T, got openmetricsOutput) (s remoteSummary) {
	t.Helper()
	if err := json.Unmarshal([]byte(got.text), &s); err != nil {
		t.Fatalf("%q, %s: %v", got.text, got.stderr, err)
	}
	return s
}

// TestRemoteWriteTooOld: without a window Prometheus takes history only while it has
// nothing newer; a window that is too short takes its part.
func TestRemoteWriteTooOld(t *testing.T) {
	_, archive := archived(t)
	send := func(t *testing.T, server *engines.Prometheus) (remoteSummary, openmetricsOutput) {
		got := runOpenmetrics(t, "--archive", archive, "--remote-write", server.URL+"/api/v1/write", "--json")
		return summaryOf(t, got), got
	}
	scrapes := liveTarget(t)
	t.Run("new server", func(t *testing.T) {
		t.Parallel()
		if s, got := send(t, engines.RunPrometheus(t, engines.PrometheusConfig{RemoteWrite: true})); got.err != nil ||
			s.Accepted != s.Samples {
			t.Errorf("%v: %+v", got.err, s)
		}
	})
	t.Run("no window", func(t *testing.T) {
		t.Parallel()
		server := engines.RunPrometheus(t, engines.PrometheusConfig{RemoteWrite: true, Scrapes: scrapes})
		server.Await(t, "live")
		s, got := send(t, server)
		if exitCode(got.err) != exitFailed || s.Refused != s.Samples || s.Requests > 700 {
			t.Errorf("%v: %+v", got.err, s)
		}
		if text := strings.Join(s.Errors, "\n"); !strings.Contains(text, "out_of_order_time_window") ||
			!strings.Contains(text, "out of bounds") {
			t.Error(text)
		}
	})
	t.Run("short window", func(t *testing.T) {
		t.Parallel()
		server := engines.RunPrometheus(t, engines.PrometheusConfig{RemoteWrite: true,
			OutOfOrder: "10d", Scrapes: scrapes})
		server.Await(t, "live")
		before := time.Now()
		s, got := send(t, server)
		if exitCode(got.err) != exitFailed || s.Refused == 0 || s.Accepted == 0 ||
			s.Accepted+s.Refused != s.Samples || s.Retries != 0 {
			t.Fatalf("%v: %+v", got.err, s)
		}
		const window = 10 * 24 * time.Hour
		// The server's newest sample may be some scrapes old, and samples are an hour apart.
		if limit := before.Add(-window); s.RefusedThrough.Before(limit.Add(-2*time.Hour)) ||
			s.RefusedThrough.After(time.Now().Add(-window)) {
			t.Errorf("refused through %s, want the hours before %s", s.RefusedThrough, limit)
		}
	})
	t.Run("no receiver", func(t *testing.T) {
		t.Parallel()
		s, got := send(t, engines.RunPrometheus(t, engines.PrometheusConfig{}))
		if text := strings.Join(s.Errors, "\n"); exitCode(got.err) != exitFailed || s.Requests != 1 ||
			!strings.Contains(text, "--web.enable-remote-write-receiver") {
			t.Errorf("%v: %+v", got.err, s)
		}
	})
}

// TestRemoteWriteEnds: an error names the day to continue from, and the number of samples that arrived.
func TestRemoteWriteEnds(t *testing.T) {
	_, archive := archived(t)
	var requests int
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests++; requests%4 == 0 {
			http.Error(w, "this month's quota is used up", http.StatusForbidden)
		}
	}))
	t.Cleanup(receiver.Close)
	args := []string{"--archive", archive, "--remote-write", receiver.URL + "/write"}
	got := runOpenmetrics(t, append(args, "--json")...)
	s := summaryOf(t, got)
	if exitCode(got.err) != exitFailed || s.Accepted != 6000 || s.Requests != 4 ||
		s.Through == nil || len(s.Errors) != 1 {
		t.Fatalf("%v: %+v", got.err, s)
	}
	for _, says := range []string{"HTTP 403 Forbidden: this month's quota is used up: ", "continue with --from " +
		s.Through.Format(time.DateOnly)} {
		if !strings.Contains(s.Errors[0], says) {
			t.Errorf("%s\nwant %s", s.Errors[0], says)
		}
	}
	got = runOpenmetrics(t, args...)
	if exitCode(got.err) != exitFailed || !strings.HasPrefix(got.text, "wrote 6,000 of ") ||
		!strings.Contains(fmt.Sprint(got.err), s.Errors[0][:20]) {
		t.Errorf("%v: %s", got.err, got.text)
	}
}
