package analytics_test

import (
	"strings"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestSafeLink(t *testing.T) {
	const host = "https://code.example/"
	for link, safe := range map[string]bool{
		"https://code.example/acme/docs/pull/7": true, "http://127.0.0.1:8787/pr/1": true, "http://localhost/pr/1": true, "http://[::1]:8/pr/1": true,
		"http://code.example/pull/7": false, "javascript:alert(1)": false, "data:text/html,x": false, "//code.example/x": false,
		"https:///x": false, "ftp://code.example/x": false, "https://code.example/\x00": false, "": false,
		host + strings.Repeat("x", 300-len(host)): true, host + strings.Repeat("x", 301-len(host)): false,
	} {
		if got := analytics.SafeLink(link); (got == link && link != "") != safe || !safe && got != "" {
			t.Errorf("%.60q: %q, safe: %v", link, got, safe)
		}
	}
}
