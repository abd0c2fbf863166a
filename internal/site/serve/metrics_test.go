package serve

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

var update = flag.Bool("update", false, "write the table of metrics in the documentation")

// TestDocumentedMetrics holds the table in docs/site-serve.md against the code.
func TestDocumentedMetrics(t *testing.T) {
	const path, begin, end = "../../../docs/site-serve.md", "<!-- metrics -->\n", "<!-- /metrics -->"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, found := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	want := "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	for _, m := range Metrics {
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		kind := map[prometheus.ValueType]string{prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge"}
		want += fmt.Sprintf("| `%s` | %s | %s | %s |\n", m.Name, kind[m.Type], labels, m.Help)
	}
	switch {
	case !found || !ended:
		t.Errorf("%s lacks %q and %q", path, begin, end)
	case *update:
		if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	case have != want:
		t.Errorf("the metrics in %s are not as in the code: run `make docs`", path)
	}
}
