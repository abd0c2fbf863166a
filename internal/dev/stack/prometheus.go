package stack

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/dev/engines"
)

const (
	scrapeEvery   = time.Second
	evaluateEvery = 2 * time.Second
	// scrapePatience is how long the first scrape may take; a new server waits for
	// five seconds or more.
	scrapePatience = 2 * time.Minute
	// historyPages are back-filled of each window.
	historyPages = "5"
)

// startPrometheus fills a database with what the archive has of the past, and
// starts a server over it that scrapes serve and evaluates the rules.
func (s *Stack) startPrometheus(ctx context.Context) error {
	data := s.path("prometheus", "data")
	if err := s.backfill(ctx, data); err != nil {
		return s.without(err)
	}
	rules, err := s.copyRules()
	if err != nil {
		return err
	}
	server, err := engines.StartPrometheus(s.path("prometheus"), engines.PrometheusConfig{
		Scrapes: []engines.Scrape{{URL: s.URL + "/metrics", Interval: scrapeEvery}},
		Data:    data, Rules: rules, Evaluate: evaluateEvery, Alertmanagers: s.alertmanagers(),
	})
	if err != nil {
		return s.without(err)
	}
	s.Prometheus = server
	s.stops = append(s.stops, server.Stop)
	return nil
}

// backfill makes blocks of the history up to now, with the labels of the scrape.
func (s *Stack) backfill(ctx context.Context, data string) error {
	tomorrow := time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly)
	text, err := s.docgauge(ctx, nil, "openmetrics", "--to="+tomorrow, "--pages="+historyPages,
		"--label=job=docgauge", "--label=instance="+strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	history := s.path("history.om")
	if err := os.WriteFile(history, text, 0o600); err != nil {
		return err
	}
	cmd, err := engines.Tool(ctx, "promtool", "tsdb", "create-blocks-from", "openmetrics", "--max-block-duration=744h", history, data)
	if err != nil {
		return err
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("promtool: %w: %s", err, out)
	}
	return nil
}

// RuleFiles finds the files of a directory that hold rules, not tests of rules
// or a server's configuration. A directory that is not there has none.
func RuleFiles(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*.y*ml"))
	if err != nil {
		return nil, err
	}
	var rules []string
	for _, path := range all {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		if ruleGroups.Match(text) {
			rules = append(rules, path)
		}
	}
	return rules, nil
}

var (
	ruleGroups    = regexp.MustCompile(`(?m)^groups:`)
	groupInterval = regexp.MustCompile(`(?m)^\s+interval:.*\n`)
)

// copyRules writes the rules where the server reads them, without the intervals
// of groups: on a stack nobody waits a minute.
func (s *Stack) copyRules() ([]string, error) {
	var copies []string
	for _, path := range s.options.Rules {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		own := s.path("prometheus", "rules", filepath.Base(path))
		if err := os.MkdirAll(filepath.Dir(own), 0o700); err != nil {
			return nil, err
		}
		if err := os.WriteFile(own, groupInterval.ReplaceAll(text, nil), 0o600); err != nil {
			return nil, err
		}
		copies = append(copies, own)
	}
	return copies, nil
}
