package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

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
