package engines

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"time"
)

// Scrape is one target of a Prometheus server.
type Scrape struct {
	Job string // the label job; empty: "docgauge"
	URL string // of the metrics: http://127.0.0.1:9817/metrics
	// Interval is between two scrapes, in whole milliseconds; 0 is one second.
	Interval time.Duration
	// Username and Password are for basic auth; empty: none.
	Username, Password string
	// CAFile is a PEM file with what signed the target's certificate, where the
	// URL is https; empty: the system's.
	CAFile string
	// HonorLabels keeps the target's own labels job and instance, as a scrape
	// of a Pushgateway must.
	HonorLabels bool
}

const (
	scrapeJob      = "docgauge"
	scrapeInterval = time.Second

	evaluateInterval = time.Second
)

// text is the server's configuration: JSON, which is YAML too, so that whatever
// a URL or password holds is escaped.
func (c PrometheusConfig) text() (string, error) {
	jobs := []map[string]any{}
	for _, s := range c.Scrapes {
		job, err := s.job()
		if err != nil {
			return "", err
		}
		jobs = append(jobs, job)
	}
	config := map[string]any{
		"global":         map[string]any{"evaluation_interval": milliseconds(cmp.Or(c.Evaluate, evaluateInterval))},
		"scrape_configs": jobs,
	}
	if len(c.Rules) > 0 {
		config["rule_files"] = c.Rules
	}
	if len(c.Alertmanagers) > 0 {
		config["alerting"] = map[string]any{"alertmanagers": []any{
			map[string]any{"static_configs": []any{map[string]any{"targets": c.Alertmanagers}}},
		}}
	}
	text, err := json.MarshalIndent(config, "", "  ")
	return string(text), err
}

func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

func (s Scrape) job() (map[string]any, error) {
	u, err := url.Parse(s.URL)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("scrape %q: want a URL like http://127.0.0.1:9817/metrics", s.URL)
	}
	if s.Job == "" {
		s.Job = scrapeJob
	}
	if s.Interval == 0 {
		s.Interval = scrapeInterval
	}
	every := milliseconds(s.Interval)
	job := map[string]any{
		"job_name":        s.Job,
		"scrape_interval": every,
		"scrape_timeout":  every,
		"honor_labels":    s.HonorLabels,
		"scheme":          u.Scheme,
		"metrics_path":    u.EscapedPath(),
		"static_configs":  []any{map[string]any{"targets": []string{u.Host}}},
	}
	if s.Username != "" {
		job["basic_auth"] = map[string]string{"username": s.Username, "password": s.Password}
	}
	if s.CAFile != "" {
		job["tls_config"] = map[string]string{"ca_file": s.CAFile}
	}
	return job, nil
}
