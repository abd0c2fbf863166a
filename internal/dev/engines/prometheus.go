package engines

import (
	"context"
	"path/filepath"
	"strings"
	"time"
)

// Prometheus is a running server, Debian's 2.42 where install.sh put it there.
type Prometheus struct {
	process
	URL string // http://127.0.0.1:PORT

	data string
}

// PrometheusConfig says what a server scrapes and keeps. Its zero value
// scrapes nothing.
type PrometheusConfig struct {
	Scrapes []Scrape
	// Rules are files of recording and alerting rules; Evaluate is between two
	// evaluations of a group that does not say so, 0: one second.
	Rules    []string
	Evaluate time.Duration
	// Alertmanagers are host:port of those that get the alerts.
	Alertmanagers []string
	// Data is the directory of the database, which may hold blocks already;
	// empty: a new one in the server's directory.
	Data string
	// Retention is how long samples stay ("15d"); empty: ten years, so that
	// blocks of the past are not deleted when the server starts.
	Retention string
	// NativeHistograms turns on the feature: they are scraped where a target has them.
	NativeHistograms bool
}

// keepForever is longer than what any test looks back.
const keepForever = "10y"

// StartPrometheus starts a server that keeps what it writes in dir, which is
// made if it is not there, and waits until it answers queries.
func StartPrometheus(dir string, c PrometheusConfig) (*Prometheus, error) {
	var server *Prometheus
	err := withPorts(1, func(ports []int) (err error) {
		if server, err = newPrometheus(dir, ports[0], c); err != nil {
			return err
		}
		return server.Restart()
	})
	if err != nil {
		return nil, err
	}
	return server, nil
}

// newPrometheus writes the configuration of a server and does not start it.
func newPrometheus(dir string, port int, c PrometheusConfig) (*Prometheus, error) {
	binary, err := program("prometheus")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	if c.Data == "" {
		c.Data = filepath.Join(dir, "data")
	}
	if c.Data, err = filepath.Abs(c.Data); err != nil {
		return nil, err
	}
	config := filepath.Join(dir, "prometheus.yml")
	p := &Prometheus{URL: "http://" + loopback(port), data: c.Data}
	p.process = process{
		name:  "prometheus",
		argv:  append([]string{binary, "--config.file=" + config}, c.flags(port)...),
		dir:   dir,
		ports: []int{port},
		ready: p.answers,
	}
	text, err := c.text()
	if err != nil {
		return nil, err
	}
	return p, write(config, text)
}

func (c PrometheusConfig) flags(port int) []string {
	retention := c.Retention
	if retention == "" {
		retention = keepForever
	}
	flags := []string{
		"--web.listen-address=" + loopback(port),
		"--storage.tsdb.path=" + c.Data,
		"--storage.tsdb.retention.time=" + retention,
		"--log.level=warn",
	}
	if c.NativeHistograms {
		flags = append(flags, "--enable-feature=native-histograms")
	}
	return flags
}

// answers asks for the flags, which only a server that answers queries tells,
// and which tell ours from a stranger.
func (p *Prometheus) answers(ctx context.Context) bool {
	var flags map[string]string
	err := p.get(ctx, "/api/v1/status/flags", nil, &flags)
	return err == nil && strings.TrimSuffix(flags["storage.tsdb.path"], "/") == p.data
}
