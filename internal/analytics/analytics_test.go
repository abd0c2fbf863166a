package analytics

import (
	"encoding/json"
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
	for _, bad := range []string{"", "d", "1d", "0d", "-3d", "+3d", "07d", "367d", "days", "day:", "day:total",
		"28d:totals:totals", "9999999999999999999d"} {
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

func TestCheckProject(t *testing.T) {
	for id, want := range map[string]bool{
		"prj_a": true, "A-9": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "../a": false, "a b": false, "a\n": false, "é": false,
	} {
		if got := CheckProject(id) == nil; got != want {
			t.Errorf("%.20q: usable %t, want %t", id, got, want)
		}
	}
}

// TestEarlier: windows before another one, which share no day with it, and the one a
// year before.
func TestEarlier(t *testing.T) {
	d := NewDate
	for _, tc := range []struct {
		g               Granularity
		from, to        Date
		n               int
		earlier, before Window
	}{
		{Day, d(2026, 3, 1), d(2026, 3, 2), 7, Window{d(2026, 2, 22), d(2026, 2, 23)},
			Window{d(2025, 3, 2), d(2025, 3, 3)}},
		{Week, d(2026, 9, 28), d(2026, 10, 5), 2, Window{d(2026, 9, 14), d(2026, 9, 21)},
			Window{d(2025, 9, 29), d(2025, 10, 6)}},
		{Month, d(2026, 3, 1), d(2026, 4, 1), 1, Window{d(2026, 2, 1), d(2026, 3, 1)},
			Window{d(2025, 3, 1), d(2025, 4, 1)}},
		{Month, d(2028, 2, 1), d(2028, 3, 1), 14, Window{d(2026, 12, 1), d(2027, 1, 1)},
			Window{d(2027, 2, 1), d(2027, 3, 1)}},
		{"28d", d(2026, 3, 1), d(2026, 3, 29), 1, Window{d(2026, 2, 1), d(2026, 3, 1)},
			Window{d(2025, 3, 2), d(2025, 3, 30)}},
	} {
		w := Window{tc.from, tc.to}
		if got := tc.g.Earlier(w, tc.n); got != tc.earlier {
			t.Errorf("%s %s, %d before: %s, want %s", tc.g, w, tc.n, got, tc.earlier)
		}
		if got := tc.g.YearBefore(w); got != tc.before {
			t.Errorf("%s %s, a year before: %s, want %s", tc.g, w, got, tc.before)
		}
		former := tc.g.ComparedWith(w)
		if tc.g == Day && former != tc.earlier || tc.g != Day && former.To != w.From {
			t.Errorf("%s %s is compared with %s", tc.g, w, former)
		}
	}
}

// TestKeyNames: a key is read back from its name; visitors have none of a report, in JSON neither.
func TestKeyNames(t *testing.T) {
	k := Key{Project: "prj_a", Granularity: Day, Window: Window{NewDate(2026, 10, 1), NewDate(2026, 10, 2)}}
	for report, want := range map[Report]string{VisitorsReport: "prj_a day [2026-10-01,2026-10-02)",
		AgentsReport: "prj_a agents day [2026-10-01,2026-10-02)"} {
		k.Report = report
		if got, err := ParseKey(want); k.String() != want || got != k || err != nil {
			t.Errorf("%s is %s, read as %+v, %v", want, k, got, err)
		}
		text, err := json.Marshal(k)
		if err != nil || strings.Contains(string(text), "report") != (report != VisitorsReport) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestAgentSum: rows that contradict themselves or the site are counted, and the order does not matter to
// the checksum.
func TestAgentSum(t *testing.T) {
	site := AgentRow{Agent: "a", Class: "coding", Audience: AI, Found: true, Visitors: 3, Requests: 9}
	fine, missed, few, many := site, site, site, site
	fine.Path, fine.Visitors = "/a", 3
	missed.Path, missed.Found, missed.Visitors = "/b", false, 4
	few.Path, few.Requests = "/c", 2
	many.Path, many.Visitors, many.Requests = "/d", 4, 4
	added := func(rows ...AgentRow) *Sum {
		add, sum := AgentsReport.Shape().Sum()
		for _, r := range rows {
			add(RecordOf(r))
		}
		return sum
	}
	sum := added(site, fine, missed, few, many)
	for ai, fits := range map[int64]bool{2: false, 3: true, 4: false} {
		if err := AgentsReport.Shape().CheckBounds(*sum, Totals{AI: ai}, ""); (err == nil) != fits {
			t.Errorf("%d visitors: %v", ai, err)
		}
	}
	if sum.Rows != 4 || sum.Implausible != 2 || sum.Example != "/c" {
		t.Errorf("%+v", sum)
	}
	other := added(missed, many, site, few, fine)
	many.Found = false
	changed := added(site, fine, missed, few, many)
	if other.Checksum != sum.Checksum || changed.Checksum == sum.Checksum {
		t.Errorf("checksums %s, %s in another order, %s of another row", sum.Checksum, other.Checksum, changed.Checksum)
	}
}
