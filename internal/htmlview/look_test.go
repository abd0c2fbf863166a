package htmlview

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestWords(t *testing.T) {
	for _, tc := range [][2]string{
		{Commas(0), "0"}, {Commas(999), "999"}, {Commas(1000), "1,000"}, {Commas(-1234567), "−1,234,567"},
		{Commas(int64(math.MaxInt64)), "9,223,372,036,854,775,807"}, {Commas(int64(math.MinInt64)), "−9,223,372,036,854,775,808"},
		{Short(0.5), "0.5"}, {Short(850), "850"}, {Short(1200), "1.2k"}, {Short(2.5e6), "2.5M"}, {Short(6e18), "6000000000G"},
		{Percent(1, 3), "33.3\u202f%"}, {Percent(0, 3), "0.0\u202f%"}, {Percent(3, 3), "100\u202f%"}, {Percent(1, 0), "–"},
		{Difference(200, 199), "▼ 0.5\u202f%"}, {Difference(1, 40), "▲ 3900\u202f%"}, {Difference(10000, 10001), "unchanged"},
		{age(0), "just now"}, {age(time.Second), "in a moment"}, {age(-29 * time.Second), "just now"}, {age(-31 * time.Second), "1\u00a0min ago"}, {age(-89 * time.Minute), "89\u00a0min ago"},
		{age(91 * time.Minute), "in 2\u00a0h"}, {age(35 * time.Hour), "in 35\u00a0h"}, {age(-37 * time.Hour), "2\u00a0days ago"},
		{Took(-time.Second), "–"}, {Took(340 * time.Millisecond), "0.3\u00a0s"}, {Took(75 * time.Second), "75\u00a0s"},
		{Took(121 * time.Second), "2\u00a0min\u00a01\u00a0s"}, {Took(3*time.Hour + 59*time.Second), "3\u00a0h\u00a00\u00a0min"},
		{Title("28d"), "28 days"}, {Title("day"), "Day"}, {Cut("héé", 2), "hé…"}, {Cut("hé", 2), "hé"},
	} {
		if tc[0] != tc[1] {
			t.Errorf("%q, want %q", tc[0], tc[1])
		}
	}
}

func TestSpans(t *testing.T) {
	for _, tc := range []struct {
		g              analytics.Granularity
		from, to, want string
	}{
		{"day", "2026-10-05", "2026-10-06", "Mon 5 Oct 2026"},
		{"week", "2026-09-28", "2026-10-05", "28 Sep – 4 Oct 2026"},
		{"week", "2026-10-05", "2026-10-12", "5 – 11 Oct 2026"},
		{"week", "2025-12-29", "2026-01-05", "29 Dec 2025 – 4 Jan 2026"},
		{"month", "2026-02-01", "2026-03-01", "February 2026"},
		{"28d", "2026-09-08", "2026-10-06", "8 Sep – 5 Oct 2026"},
	} {
		got := SpanOf(tc.g, analytics.Window{From: date(t, tc.from), To: date(t, tc.to)})
		if got.Text != tc.want || got.Exact != "["+tc.from+","+tc.to+")" {
			t.Errorf("%+v, want %s", got, tc.want)
		}
	}
	want := "UTC dates; the first day is 2026-10-05, the last 2026-10-11. The end, 2026-10-12, is not part of it."
	if got := note(analytics.Window{From: date(t, "2026-10-05"), To: date(t, "2026-10-12")}); got != want {
		t.Error(got)
	}
}

func TestCeiling(t *testing.T) {
	for n, want := range map[int64]float64{0: 2, 1: 2, 3: 4, 5: 6, 9: 10, 10: 10, 11: 12, 17: 20, 101: 120, 999: 1000, 8001: 10000} {
		if got := Ceiling(n); got != want {
			t.Errorf("ceiling of %d is %v, want %v", n, got, want)
		}
	}
}

func date(t *testing.T, s string) analytics.Date {
	t.Helper()
	d, err := analytics.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestMarks: a reading is provisional or settled, and perhaps unverified too.
func TestMarks(t *testing.T) {
	for want, r := range map[string]analytics.Revision{
		"provisional":            {Verified: true},
		"settled":                {Settled: true, Verified: true},
		"provisional unverified": {},
		"settled unverified":     {Settled: true},
	} {
		var classes, words []string
		for _, m := range Marks(r) {
			if classes, words = append(classes, m.Class), append(words, m.Word); m.Note == "" {
				t.Errorf("%s: no note", m.Word)
			}
		}
		if got := strings.Join(words, " "); got != want || strings.Join(classes, " ") != want {
			t.Errorf("%q of class %q, want %q", got, classes, want)
		}
	}
}
