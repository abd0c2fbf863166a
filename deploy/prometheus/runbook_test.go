package prometheus

import (
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

var queries = regexp.MustCompile("(?ms)^```promql\n(.*?)^```$")

// Prometheus understands each query of the runbook, and docgauge has what it names.
func TestRunbookQueries(t *testing.T) {
	var values exporter.Values
	values.Publish(healthy(time.Now()))
	target := httptest.NewServer(values.Handler())
	t.Cleanup(target.Close)
	server := serve(t, target.URL, nil)
	text, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	metrics := known(rules(t))
	found := 0
	for _, block := range queries.FindAllSubmatch(text, -1) {
		for line := range strings.SplitSeq(strings.TrimSpace(string(block[1])), "\n") {
			found++
			checkQuery(t, server, line, metrics)
		}
	}
	if found < 10 {
		t.Errorf("only %d queries were found", found)
	}
}

func checkQuery(t *testing.T, server *engines.Prometheus, line string, metrics map[string][]string) {
	t.Helper()
	asked := rule{Record: line, Expr: line}
	names := parse(line)
	for _, s := range names.selectors {
		own, ok := metrics[s.Metric]
		if !ok {
			t.Errorf("%s: %s is no metric", line, s.Metric)
		}
		mustHave(t, asked, slices.Concat(scraped, own), s.Labels)
	}
	mustHave(t, asked, labels(asked, metrics), names.grouped)
	if _, err := server.Query(t.Context(), line, time.Time{}); err != nil {
		t.Error(err)
	}
}
