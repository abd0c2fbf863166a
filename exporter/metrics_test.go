package exporter_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/exporter"
)

// TestDocumentation holds the table of metrics in docs/prometheus.md against the code;
// with -update it writes it.
func TestDocumentation(t *testing.T) {
	const path, begin, end = "../docs/prometheus.md", "<!-- metrics -->\n", "<!-- /metrics -->"
	text, err := os.ReadFile(path)
	must(t, err)
	before, rest, found := strings.Cut(string(text), begin)
	have, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		t.Fatalf("%s lacks %q and %q", path, begin, end)
	}
	want := documentation()
	switch {
	case have == want:
	case !*update:
		t.Errorf("the metrics in %s are not as in the code: run `make docs`", path)
	default:
		must(t, os.WriteFile(path, []byte(before+begin+want+end+after), 0o644))
	}
}

// documentation is one table for each group, under a line that names it.
func documentation() string {
	titles := map[string]string{
		"visitors": "Visitors", "pipeline": "Pipeline", "api": "API",
		"jobs": "Agent jobs (if DOCGAUGE_PROMPTS_DIR is set)", "build": "Program",
	}
	// The sentences that nearly every help text ends with.
	repeated := strings.NewReplacer(
		" Cached; a scrape sends no request.", "", " Kept in the state, over restarts.", "",
		" Unique visitors must not be summed: not over paths, windows or audiences.", "",
		", in seconds since 1970-01-01T00:00:00Z", "", "; in seconds since 1970-01-01T00:00:00Z", "", "|", `\|`)
	var b strings.Builder
	group := ""
	for _, m := range exporter.Metrics() {
		if m.Group != group {
			group = m.Group
			fmt.Fprintf(&b, "\n**%s**\n\n| metric | type | labels | meaning |\n|---|---|---|---|\n", titles[group])
		}
		labels := ""
		if len(m.Labels) > 0 {
			labels = "`" + strings.Join(m.Labels, "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.Name, m.Type, labels, repeated.Replace(m.Help))
	}
	return strings.TrimPrefix(b.String(), "\n")
}
func TestLabel(t *testing.T) {
	full := strings.Repeat("x", exporter.MaxLabel)
	for _, s := range []string{"", "/", "/a \"b\"\\ \n\r\t\x00", "/🙂", full} {
		if got := exporter.Label(s); got != s {
			t.Errorf("Label(%q) = %q", s, got)
		}
	}
	for s, beginning := range map[string]string{
		full + "x":                        "xxxx",
		"/a\xffb\xfe\xfdc":                "/a\uFFFDb\uFFFDc…",
		strings.Repeat("🙂", 100):          "🙂🙂",
		"x" + strings.Repeat("\xff🙂", 99): "x\uFFFD🙂\uFFFD",
	} {
		got := exporter.Label(s)
		if !strings.HasPrefix(got, beginning) || !strings.Contains(got, "…") || !utf8.ValidString(got) ||
			len(got) > exporter.MaxLabel {
			t.Errorf("Label(%q) = %q, %d bytes", s, got, len(got))
		}
	}
}

// Values altered in the same way stay distinct, and an altered value is not altered again.
func TestLabelKeepsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tail := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\xff", "\xfe\xfd", "é", "🙂", "\x00"}), 0, 8)
		stem := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\xff"}).Draw(t, "stem"),
			rapid.IntRange(0, 300).Draw(t, "length"))
		a, b := stem+strings.Join(tail.Draw(t, "a"), ""), stem+strings.Join(tail.Draw(t, "b"), "")
		la, lb := exporter.Label(a), exporter.Label(b)
		if (a == b) != (la == lb) {
			t.Fatalf("%q and %q are shown as %q and %q", a, b, la, lb)
		}
		if !utf8.ValidString(la) || len(la) > exporter.MaxLabel || exporter.Label(la) != la {
			t.Fatalf("%q is shown as %q", a, la)
		}
	})
}
