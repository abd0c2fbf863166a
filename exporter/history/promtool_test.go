package history_test

import (
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
)

// blocks lets promtool make blocks of a text.
func blocks(t *testing.T, text []byte) (dir string) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "history.om")
	must(t, os.WriteFile(file, text, 0o600))
	data := filepath.Join(dir, "data")
	cmd, err := engines.Tool(t.Context(), "promtool", "tsdb", "create-blocks-from", "openmetrics",
		"--max-block-duration=744h", file, data)
	engines.Need(t, err)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("promtool: %v\n%s", err, out)
	}
	return data
}

// TestPrometheusReadsIt: Prometheus itself reads the format, and finds every series
// that was written, with its labels unchanged, and every sample.
func TestPrometheusReadsIt(t *testing.T) {
	odd := []string{
		oddPath, "/", "/a b", `/\`, `/\n`, "/\n", "/\"", "/\t\r\x01\x7f", "/{a=\"b\"} 1 2", "/#", "/# EOF\n",
		"/\x00", "/\xff\xfe", "/\u202e\u0000", "/" + strings.Repeat("é", 400), "/日本語/😀", "/%20?a=b&c",
	}
	s := &shelf{rows: func(k analytics.Key) iter.Seq2[analytics.Row, error] {
		var rows []analytics.Row
		for n, path := range odd {
			rows = append(rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(n), AI: int64(k.To),
				Total: int64(k.To) + int64(n)}})
		}
		return rowsOf(rows...)
	}}
	for to := date("2026-10-02"); to <= date("2026-10-04"); to++ {
		agents := reading("prj_a", "day", to-1, to)
		agents.Report = analytics.AgentsReport
		s.windows = append(s.windows, reading("prj_a", "day", to-1, to), agents)
	}
	o := between("2026-10-01", "2026-10-05", time.Hour)
	o.Pages = len(odd)
	text := written(t, s, o)
	server := engines.RunPrometheus(t, engines.PrometheusConfig{Data: blocks(t, []byte(text))})
	want, got := map[string]float64{}, map[string]float64{}
	for name, w := range parse(t, text) {
		want[name] = float64(len(w.times))
		family := w.labels["__name__"] // which functions drop
		for _, sample := range server.Query(t, "count_over_time("+family+"[10d])", o.To) {
			sample.Labels["__name__"] = family
			got[key(sample.Labels)] = sample.Value
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("samples of each series (-written +in Prometheus):\n%s", diff)
	}
	last := o.To.Add(-time.Hour)
	for n, text := range odd {
		expr := fmt.Sprintf("docgauge_page_visitors_deduplicated{path=%+q}",
			exporter.Label(text)) // PromQL takes U+FFFD only escaped
		if got := server.Query(t, expr, last); len(got) != 1 || got[0].Value != float64(int(date("2026-10-04"))+n) {
			t.Errorf("%s: %v", expr, got)
		}
	}
}
