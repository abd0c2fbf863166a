package history_test

import (
	"bytes"
	"iter"
	"testing"
	"time"

	"github.com/docgauge/docgauge/exporter"
	"github.com/docgauge/docgauge/exporter/history"
	"github.com/docgauge/docgauge/internal/analytics"
)

// FuzzPath: whatever a path holds, one line is one sample, and the label reads
// back.
func FuzzPath(f *testing.F) {
	for _, text := range []string{"/", oddPath, "\x00\xff", `\`, `"`, "\n# EOF\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := &shelf{
			windows: []analytics.Revision{reading("prj_a", "day", date("2026-10-01"), date("2026-10-02"))},
			rows: func(analytics.Key) iter.Seq2[analytics.Row, error] {
				return rowsOf(analytics.Row{Path: text, Total: 7})
			},
		}
		o := between("2026-10-02", "2026-10-03", 24*time.Hour)
		o.Pages = 1
		var out bytes.Buffer
		summary, err := history.Write(t.Context(), &out, s, o)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, w := range parse(t, out.String()) {
			if label, ok := w.labels["path"]; ok && label == exporter.Label(text) {
				found++
			}
		}
		if found != 3 || summary.Samples != 11 {
			t.Errorf("%d series of the page, %d samples", found, summary.Samples)
		}
	})
}
