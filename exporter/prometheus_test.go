package exporter_test

import (
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/engines"
	"github.com/docgauge/docgauge/internal/view"
)

// odd are paths that a server must keep unchanged.
var odd = []string{
	"/plain", "", "/\"quoted\"", "/two\nlines", "/back\\slash", "/\\n", "/emoji 🙂", "/tab\tcr\rbell\aesc\x1b[0m\x7f",
	"/c1\u0085\u2028", "/comma,{brace}=\"x\"", "# HELP nothing", "/not UTF-8 \xff", "/not UTF-8 \xfe", "/nul\x00",
	"/nul\x00\x00",
}

// oddPages returns a snapshot with a page for each odd path, whose number of
// visitors is its index.
func oddPages() view.Snapshot {
	s := rich()
	s.Windows = s.Windows[:1]
	s.Windows[0].Pages = nil
	for i, path := range odd {
		s.Windows[0].Pages = append(s.Windows[0].Pages, analytics.Row{Path: path, Totals: analytics.Totals{Total: int64(i)}})
	}
	return s
}

// A real server takes every label value and both kinds of buckets.
func TestPrometheus(t *testing.T) {
	target := httptest.NewServer(publish(oddPages()).Handler())
	t.Cleanup(target.Close)
	for _, native := range []bool{false, true} {
		t.Run(fmt.Sprintf("native %v", native), func(t *testing.T) {
			t.Parallel()
			server := engines.RunPrometheus(t, engines.PrometheusConfig{
				Scrapes: []engines.Scrape{{URL: target.URL, Interval: time.Second}}, NativeHistograms: native,
			})
			at := server.ScrapedAt(t, "docgauge_build_info", "")
			for i, path := range odd {
				labels := map[string]string{"path": exporter.Label(path), "project": "prj_a", "window": "day"}
				if got, ok := find(server.Query(t, "docgauge_page_visitors_deduplicated", at), labels); !ok ||
					got != float64(i) {
					t.Errorf("%q: got %v, %v", path, got, ok)
				}
			}
			quantile := "histogram_quantile(1, docgauge_api_request_duration_seconds" + "_bucket)"
			if native {
				quantile = "histogram_quantile(1, docgauge_api_request_duration_seconds" + ")"
			}
			if got := server.Query(t, quantile, at); len(got) != 1 || got[0].Value != 1 {
				t.Errorf("%s is %v", quantile, got)
			}
		})
	}
}

// find returns the value of the sample that has all the labels.
func find(samples []engines.Sample, labels map[string]string) (float64, bool) {
next:
	for _, s := range samples {
		for name, value := range labels {
			if s.Labels[name] != value {
				continue next
			}
		}
		return s.Value, true
	}
	return 0, false
}
