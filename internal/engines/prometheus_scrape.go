package engines

import (
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
)

// scrapeConfig is the server's configuration: JSON, which is YAML too, so that
// whatever a URL or password holds is escaped.
func scrapeConfig(scrapes []Scrape) (string, error) {
	jobs := []map[string]any{}
	for _, s := range scrapes {
		job, err := s.job()
		if err != nil {
			return "", err
		}
		jobs = append(jobs, job)
	}
	text, err := json.MarshalIndent(map[string]any{"scrape_configs": jobs}, "", "  ")
	return string(text), err
}

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
	every := fmt.Sprintf("%dms", s.Interval.Milliseconds())
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
