package analytics

import (
	"strings"
	"testing"
	"time"
)

func TestDate(t *testing.T) {
	for _, tc := range []struct{ in, want string }{
		{"1970-01-01", "1970-01-01"}, {"1969-12-31", "1969-12-31"},
		{"2024-02-29", "2024-02-29"}, {"2026-12-31", "2026-12-31"},
	} {
		d, err := ParseDate(tc.in)
		if err != nil || d.String() != tc.want {
			t.Errorf("ParseDate(%q) = %v, %v; want %s", tc.in, d, err, tc.want)
		}
	}
	for _, bad := range []string{"", "2023-02-29", "2026-1-1", "2026-01-01T00:00:00Z", "today"} {
		if d, err := ParseDate(bad); err == nil {
			t.Errorf("ParseDate(%q) = %v, want an error", bad, d)
		}
	}
	zone := time.FixedZone("east", 5*60*60)
	if got := DateOf(time.Date(2026, 3, 1, 4, 59, 0, 0, zone)).String(); got != "2026-02-28" {
		t.Errorf("DateOf uses the zone's date: %s", got)
	}
	if got := DateOf(time.Unix(-1, 0)).String(); got != "1969-12-31" {
		t.Errorf("DateOf(-1s) = %s", got)
	}
}

func TestParseSpec(t *testing.T) {
	for in, want := range map[string]Spec{
		"day":         {Granularity: Day},
		"week:totals": {Granularity: Week, TotalsOnly: true},
		"28d:totals":  {Granularity: "28d", TotalsOnly: true},
		"2d":          {Granularity: "2d"},
		"366d":        {Granularity: "366d"},
	} {
		got, err := ParseSpec(in)
		if err != nil || got != want || got.String() != in {
			t.Errorf("ParseSpec(%q) = %+v, %v", in, got, err)
		}
	}
	for _, bad := range []string{"", "d", "1d", "0d", "-3d", "+3d", "07d", "367d", "days", "day:", "day:total", "28d:totals:totals", "9999999999999999999d"} {
		if got, err := ParseSpec(bad); err == nil {
			t.Errorf("ParseSpec(%q) = %+v, want an error", bad, got)
		}
	}
}

func FuzzParseSpec(f *testing.F) {
	f.Add("28d:totals")
	f.Add("day")
	f.Fuzz(func(t *testing.T, s string) {
		spec, err := ParseSpec(s)
		if err == nil && spec.String() != s {
			t.Fatalf("%q reads as %q", s, spec)
		}
	})
}

func TestValidProject(t *testing.T) {
	for id, want := range map[string]bool{
		"prj_a": true, "-": true, strings.Repeat("x", 128): true,
		"": false, strings.Repeat("x", 129): false, "..": false, "a/b": false, "a b": false, "prj_a\n": false, "prj_é": false,
	} {
		if got := ValidProject(id); got != want {
			t.Errorf("ValidProject(%q) = %t", id, got)
		}
	}
}
