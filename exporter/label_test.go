package exporter_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/exporter"
)

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
		if !strings.HasPrefix(got, beginning) || !strings.Contains(got, "…") || !utf8.ValidString(got) || len(got) > exporter.MaxLabel {
			t.Errorf("Label(%q) = %q, %d bytes", s, got, len(got))
		}
	}
}

// Values that are altered alike stay apart, and what was altered is not altered again.
func TestLabelKeepsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tail := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "\xff", "\xfe\xfd", "é", "🙂", "\x00"}), 0, 8)
		stem := strings.Repeat(rapid.SampledFrom([]string{"x", "é", "\xff"}).Draw(t, "stem"), rapid.IntRange(0, 300).Draw(t, "length"))
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
