package engines

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Prometheus is a running server, Debian's 2.42 where install.sh installed it.
type Prometheus struct {
	process
	URL string // http://127.0.0.1:PORT
}

// PrometheusConfig sets what a server does. Its zero value scrapes nothing.
type PrometheusConfig struct {
	Scrapes []Scrape
	// Rules are files of recording and alerting rules. Evaluate is the interval
	// of groups that have none; 0 is one second.
	Rules    []string
	Evaluate time.Duration
	// Alertmanagers are host:port of those that get the alerts.
	Alertmanagers []string
	// Data is the directory of the database, which may hold blocks already;
	// empty is a new one in the server's directory.
	Data string
	// NativeHistograms enables the feature: targets that have them are scraped for them.
	NativeHistograms bool
	// RemoteWrite lets the server receive remote write at /api/v1/write. OutOfOrder is
	// how much older than its newest sample a sample may be ("10y"); empty: not at all.
	RemoteWrite bool
	OutOfOrder  string
}

// Scrape is one target of a Prometheus server.
type Scrape struct {
	Job string // the label job; empty is "docgauge"
	URL string // of the metrics: http://127.0.0.1:9817/metrics
	// Interval between two scrapes, in whole milliseconds; 0 is one second.
	Interval time.Duration
}

// RunPrometheus starts a server for one test, as [StartPrometheus] does.
func RunPrometheus(t testing.TB, c PrometheusConfig) *Prometheus {
	t.Helper()
	return run(t, func(dir string) (*Prometheus, error) { return StartPrometheus(dir, c) })
}

// StartPrometheus starts a server that keeps its data in dir, which is
// made if it is absent, and waits until it answers queries.
func StartPrometheus(dir string, c PrometheusConfig) (*Prometheus, error) {
	return start(dir, 1, func(dir string, ports []int) (*Prometheus, error) { return newPrometheus(dir, ports, c) })
}

// newPrometheus writes the configuration of a server and does not start it.
func newPrometheus(dir string, ports []int, c PrometheusConfig) (*Prometheus, error) {
	binary, err := program("prometheus")
	if err != nil {
		return nil, err
	}
	data, err := filepath.Abs(cmp.Or(c.Data, filepath.Join(dir, "data")))
	if err != nil {
		return nil, err
	}
	text, err := c.text()
	if err != nil {
		return nil, err
	}
	config, address := filepath.Join(dir, "prometheus.yml"), loopback(ports[0])
	p := &Prometheus{URL: "http://" + address}
	p.process = process{
		name: "prometheus",
		argv: []string{binary, "--config.file=" + config, "--web.listen-address=" + address,
			"--storage.tsdb.path=" + data, "--log.level=warn",
			// Ten years, so that blocks of the past are not deleted when the server starts.
			"--storage.tsdb.retention.time=10y"},
		dir:   dir,
		ports: ports,
		// Only a server that answers queries returns its flags, and they tell it
		// from another server.
		ready: func(ctx context.Context) bool {
			var flags map[string]string
			err := getJSON(ctx, p.URL+"/api/v1/status/flags", &flags)
			return err == nil && strings.TrimSuffix(flags["storage.tsdb.path"], "/") == data
		},
	}
	if c.NativeHistograms {
		p.argv = append(p.argv, "--enable-feature=native-histograms")
	}
	if c.RemoteWrite {
		p.argv = append(p.argv, "--web.enable-remote-write-receiver")
	}
	return p, write(config, text)
}

// text is the server's configuration. It is JSON, which is YAML too, so that URLs are escaped.
func (c PrometheusConfig) text() (string, error) {
	milliseconds := func(d time.Duration) string {
		return fmt.Sprintf("%dms", cmp.Or(d, time.Second).Milliseconds())
	}
	jobs := []map[string]any{}
	for _, s := range c.Scrapes {
		u, err := url.Parse(s.URL)
		if err != nil || u.Host == "" {
			return "", fmt.Errorf("scrape %q: want a URL like http://127.0.0.1:9817/metrics", s.URL)
		}
		jobs = append(jobs, map[string]any{
			"job_name":        cmp.Or(s.Job, "docgauge"),
			"scrape_interval": milliseconds(s.Interval),
			"scrape_timeout":  milliseconds(s.Interval),
			"scheme":          u.Scheme,
			"metrics_path":    u.EscapedPath(),
			"static_configs":  []any{map[string]any{"targets": []string{u.Host}}},
		})
	}
	config := map[string]any{
		"global":         map[string]any{"evaluation_interval": milliseconds(c.Evaluate)},
		"scrape_configs": jobs,
		"rule_files":     c.Rules,
	}
	if c.OutOfOrder != "" {
		config["storage"] = map[string]any{"tsdb": map[string]any{"out_of_order_time_window": c.OutOfOrder}}
	}
	if len(c.Alertmanagers) > 0 {
		config["alerting"] = map[string]any{"alertmanagers": []any{
			map[string]any{"static_configs": []any{map[string]any{"targets": c.Alertmanagers}}},
		}}
	}
	text, err := json.MarshalIndent(config, "", "  ")
	return string(text), err
}

// Sample is one element of a query's result. Labels has the metric's name as
// __name__ where the result has one; a scalar has no labels.
type Sample struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates a PromQL expression at one time, in milliseconds; the zero
// time is now. The result must be a vector or a scalar; its samples are in the
// server's order. An error, with the server's message, ends the test.
func (p *Prometheus) Query(t testing.TB, expr string, at time.Time) (samples []Sample) {
	t.Helper()
	parameters := url.Values{"query": {expr}}
	if !at.IsZero() {
		parameters.Set("time", strconv.FormatFloat(float64(at.UnixMilli())/1000, 'f', 3, 64))
	}
	var answer struct {
		ResultType string
		Result     json.RawMessage
	}
	err := getJSON(t.Context(), p.URL+"/api/v1/query?"+parameters.Encode(), &answer)
	switch {
	case err != nil:
	case answer.ResultType == "vector":
		var vector []struct {
			Metric map[string]string
			Value  point
		}
		err = json.Unmarshal(answer.Result, &vector)
		for _, v := range vector {
			samples = append(samples, Sample{v.Metric, float64(v.Value)})
		}
	case answer.ResultType == "scalar":
		var value point
		err = json.Unmarshal(answer.Result, &value)
		samples = []Sample{{Value: float64(value)}}
	default:
		err = fmt.Errorf("its result is a %s, must be a vector or scalar", answer.ResultType)
	}
	if err != nil {
		t.Fatalf("query %s: %v", expr, err)
	}
	return samples
}

// point is the value of a sample, which is written as [time, "value"]. A native
// histogram has none and is 0.
type point float64

func (p *point) UnmarshalJSON(text []byte) error {
	var at float64
	var value string
	if err := json.Unmarshal(text, &[2]any{&at, &value}); err != nil {
		return err
	}
	f, err := strconv.ParseFloat(value, 64)
	*p = point(f)
	return err
}

// Await waits until an expression has a result, at most two minutes, and
// returns its first value.
func (p *Prometheus) Await(t testing.TB, expr string) float64 {
	t.Helper()
	const patience = 2 * time.Minute
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		if got := p.Query(t, expr, time.Time{}); len(got) > 0 {
			return got[0].Value
		}
	}
	_, targets, err := request(t.Context(), p.URL+"/api/v1/targets", "")
	t.Fatalf("%s: no result after %v; targets: %s, %v", expr, patience, targets, err)
	return 0
}

// ScrapedAt waits until series meet a condition ("== 10", or none), and returns
// the time of that scrape. On a busy machine a later scrape may take too long
// and make all series stale; at the returned time they are there for ever.
func (p *Prometheus) ScrapedAt(t testing.TB, series, condition string) time.Time {
	t.Helper()
	at := p.Await(t, fmt.Sprintf("timestamp(%s) and %s %s", series, series, condition))
	return time.UnixMilli(int64(math.Round(1000 * at)))
}
