package exporter_test

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/exporter"
)

func TestMarkdown(t *testing.T) {
	text := exporter.Markdown()
	if !strings.HasPrefix(text, "**Visitors**\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n| `docgauge_site_visitors` | gauge | `project`, `window`, `audience` | Unique visitors of the site in the newest complete window. |\n") {
		t.Errorf("begins with %.300s", text)
	}
	rows := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `docgauge_") {
			continue
		}
		rows++
		if strings.Count(line, "|") != 5 || strings.Contains(line, "a scrape sends no request") {
			t.Error(line)
		}
	}
	if rows != len(exporter.Metrics()) || strings.Count(text, "****") != 0 {
		t.Errorf("%d rows for %d metrics", rows, len(exporter.Metrics()))
	}
}
