package engines_test

import (
	"bytes"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

// interval is the time between scrapes, and their timeout on a busy machine.
const interval = 300 * time.Millisecond

const answerMetric = "# TYPE answer gauge\nanswer{of=\"a \\\"b\\\"\"} 42\n"

func TestPrometheusScrapes(t *testing.T) {
	target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); r.URL.Path != "/m" || user != "u" || password != "p: '\"" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4")
		fmt.Fprint(w, answerMetric)
	}))
	t.Cleanup(target.Close)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{Scrapes: []engines.Scrape{
		{URL: target.URL + "/m", Interval: interval, Username: "u", Password: "p: '\""},
		{Job: "refused", URL: target.URL + "/m", Interval: interval},
	}})
	var got []engines.Sample
	until(t, "the metric is there", func() (err error) {
		got, err = server.Query(t.Context(), `sum by (of, job) (answer)`, time.Time{})
		if err == nil && len(got) == 0 {
			err = fmt.Errorf("no sample; targets: %v", targets(t, server))
		}
		return err
	})
	want := []engines.Sample{{Labels: map[string]string{"job": "docgauge", "of": `a "b"`}, Value: 42}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	until(t, "the other target is down", func() error {
		for _, target := range targets(t, server) {
			if target.Job == "refused" && target.Health == "down" && strings.Contains(target.LastError, "401") {
				return nil
			}
		}
		return fmt.Errorf("targets: %v", targets(t, server))
	})
}

func targets(t *testing.T, server *engines.Prometheus) []engines.Target {
	t.Helper()
	all, err := server.Targets(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestPrometheusScrapesTLS(t *testing.T) {
	target := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		fmt.Fprint(w, answerMetric)
	}))
	t.Cleanup(target.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pemOf(target.Certificate()), 0o600); err != nil {
		t.Fatal(err)
	}
	server := engines.RunPrometheus(t, engines.PrometheusConfig{Scrapes: []engines.Scrape{
		{URL: target.URL, Interval: interval, CAFile: ca},
	}})
	until(t, "the target is up", func() error {
		if all := targets(t, server); len(all) != 1 || all[0].Health != "up" {
			return fmt.Errorf("targets: %v", all)
		}
		return nil
	})
}

func TestPrometheusOnBlocksOfThePast(t *testing.T) {
	data := t.TempDir()
	at, later := time.Now().AddDate(-1, 0, 0), time.Now().AddDate(0, -1, 0)
	// Retention counts from the newest block, so one block alone is never lost.
	promtool(t, fmt.Sprintf("# TYPE a gauge\na{b=\"c\"} 7 %d\na{b=\"c\"} 8 %d\n# EOF\n", at.Unix(), later.Unix()), data)
	for retention, want := range map[string][]engines.Sample{"15d": nil,
		"": {{Labels: map[string]string{}, Value: 7}}} {
		server := engines.RunPrometheus(t, engines.PrometheusConfig{Data: copyOf(t, data), Retention: retention})
		got, err := server.Query(t.Context(), "sum(a)", at.Add(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("retention %q: %s", retention, diff)
		}
	}
}

func pemOf(c *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw})
}

// until waits until holds returns nil.
func until(t *testing.T, what string, holds func() error) {
	t.Helper()
	var err error
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if err = holds(); err == nil {
			return
		}
	}
	t.Fatalf("waited too long until %s: %v", what, err)
}

func promtool(t *testing.T, text, dir string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, err := engines.Tool(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics", file, dir)
	engines.Need(t, err)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestPrometheusSaysWhatIsWrong(t *testing.T) {
	server := engines.RunPrometheus(t, engines.PrometheusConfig{})
	if _, err := server.Query(t.Context(), "sum(", time.Now()); err == nil ||
		!strings.Contains(err.Error(), "parse error") {
		t.Errorf("Query: %v, want the server's message", err)
	}
	if _, err := server.Query(t.Context(), "up[5m]", time.Now()); err == nil ||
		!strings.Contains(err.Error(), "matrix") {
		t.Errorf("Query for a matrix: %v, want its type named", err)
	}
	got, err := server.Query(t.Context(), "1 + 1", time.Now())
	if diff := cmp.Diff([]engines.Sample{{Value: 2}}, got); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	twice := []engines.Scrape{{Job: "two", URL: server.URL}, {Job: "two", URL: server.URL}}
	_, err = engines.StartPrometheus(t.TempDir(), engines.PrometheusConfig{Scrapes: twice})
	if err == nil || !strings.Contains(err.Error(), `job name \"two\"`) {
		t.Errorf("StartPrometheus with a job given twice: %v, want the server's reason", err)
	}
}

func TestPushgatewayKeepsWhatWasPushed(t *testing.T) {
	server := engines.RunPushgateway(t)
	response, err := http.Post(server.URL+"/metrics/job/docgauge", "text/plain", strings.NewReader(answerMetric))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Fatal(response.Status)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	prometheus := engines.RunPrometheus(t, engines.PrometheusConfig{Scrapes: []engines.Scrape{
		{Job: "gateway", URL: server.URL + "/metrics", Interval: interval, HonorLabels: true},
	}})
	until(t, "the pushed metric is scraped with its own job", func() error {
		got, err := prometheus.Query(t.Context(), `answer{job="docgauge"}`, time.Time{})
		if err == nil && (len(got) != 1 || got[0].Value != 42) {
			err = fmt.Errorf("samples %v", got)
		}
		return err
	})
}

func TestNodeExporterShowsTextfiles(t *testing.T) {
	server := engines.RunNodeExporter(t)
	if err := os.WriteFile(filepath.Join(server.Dir, "a.prom"), []byte(answerMetric), 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := server.Metrics(t.Context())
	if err != nil || !strings.Contains(text, `answer{of="a \"b\""} 42`) ||
		!strings.Contains(text, "node_textfile_scrape_error 0") {
		t.Errorf("%v: %s", err, text)
	}
	if strings.Contains(text, "node_cpu") {
		t.Error("another collector is on")
	}
}

func TestPromtoolChecksMetrics(t *testing.T) {
	cmd, err := engines.Tool(t.Context(), "promtool", "check", "metrics")
	engines.Need(t, err)
	cmd.Stdin = bytes.NewBufferString(answerMetric)
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "no help text") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestAlertmanagerTellsTheWebhook: the webhook gets an alert of a rule, and its end.
func TestAlertmanagerTellsTheWebhook(t *testing.T) {
	statuses := make(chan string, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var message struct {
			Alerts []struct {
				Status string
				Labels map[string]string
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&message); err != nil {
			t.Error(err)
		}
		for _, a := range message.Alerts {
			statuses <- a.Status + " " + a.Labels["alertname"]
		}
	}))
	t.Cleanup(hook.Close)
	manager := engines.RunAlertmanager(t, hook.URL)
	rules := filepath.Join(t.TempDir(), "rules.yml")
	text := `{groups: [{name: a, rules: [{alert: Up, expr: up == 1}]}]}`
	if err := os.WriteFile(rules, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	engines.RunPrometheus(t, engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: target.URL, Interval: 500 * time.Millisecond}},
		Rules:   []string{rules}, Evaluate: 100 * time.Millisecond, Alertmanagers: []string{manager.Addr()},
	})
	expect(t, statuses, "firing Up")
	target.Close()
	expect(t, statuses, "resolved Up")
}

func expect(t *testing.T, from <-chan string, want string) {
	t.Helper()
	select {
	case got := <-from:
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("waited too long for %q", want)
	}
}
