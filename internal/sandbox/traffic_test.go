package sandbox

import (
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/google/go-cmp/cmp"
)

func compare(t *testing.T, what string, want, got answer) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
		t.Errorf("%s: %s", what, diff)
	}
}

// Every day, week and month of the default site looks like a site.
func TestTrafficIsPlausible(t *testing.T) {
	s := newTest(t, Config{})
	weekday, weekend := int64(0), int64(0)
	for d := date("2026-10-05"); d < date("2026-10-12"); d++ {
		a := truth(t, s, d.String(), (d + 1).String())
		if n := len(a.rows); n < 400 || n > DefaultPages {
			t.Errorf("%s has %d rows", d, n)
		}
		if d.Weekday() == time.Saturday || d.Weekday() == time.Sunday {
			weekend = max(weekend, a.totals.Total)
		} else {
			weekday += a.totals.Total
		}
	}
	if weekend*5 > weekday*3/4 {
		t.Errorf("the larger weekend day has %d visitors, five working days have %d", weekend, weekday)
	}
	week, month := truth(t, s, "2026-10-05", "2026-10-12").totals, truth(t, s, "2026-09-01", "2026-10-01").totals
	if sum := weekday + 2*weekend; week.Total > sum*4/5 || week.Total < weekday/5 {
		t.Errorf("the week has %d visitors, its days together about %d", week.Total, sum)
	}
	if month.Total < week.Total*3/2 || month.Total > week.Total*4 {
		t.Errorf("the month has %d visitors, a week %d", month.Total, week.Total)
	}
	for _, n := range []analytics.Totals{week, month} {
		if n.Total >= n.Human+n.AI || n.Total <= n.Human || n.AI == 0 || n.AI >= n.Human {
			t.Errorf("%+v: human and AI visitors do not overlap as they should", n)
		}
	}
	if empty := truth(t, s, "2026-06-15", "2026-06-16"); empty.totals.Total != 0 || empty.rows != nil {
		t.Errorf("traffic before the first day: %v", empty.totals)
	}
	if first := truth(t, s, "2026-06-16", "2026-06-17"); first.totals.Total == 0 {
		t.Error("no traffic on the first day")
	}
}

func TestTrafficIsDeterministic(t *testing.T) {
	two := []string{DefaultProject, "prj_b"}
	a := newTest(t, Config{Seed: 7, Projects: two})
	truth(t, a, "2026-09-01", "2026-10-01") // other days first
	want := truth(t, a, "2026-10-05", "2026-10-06")
	later := func() time.Time { return noon.AddDate(0, 1, 3) }
	compare(t, "another run, later", want, truth(t, newTest(t, Config{Seed: 7, Now: later, Days: 60}), "2026-10-05", "2026-10-06"))
	if other := truth(t, newTest(t, Config{Seed: 8}), "2026-10-05", "2026-10-06"); cmp.Equal(want.rows, other.rows) {
		t.Error("another seed has the same traffic")
	}
	if _, rows, _ := a.Visitors("prj_b", window("2026-10-05", "2026-10-06")); cmp.Equal(want.rows, rows) {
		t.Error("another project has the same traffic")
	}
	if other := truth(t, a, "2026-10-06", "2026-10-07"); cmp.Equal(want.rows, other.rows) {
		t.Error("another day has the same traffic")
	}
}

func TestTodayGrowsByTheMinute(t *testing.T) {
	now := time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)
	s := newTest(t, Config{Now: func() time.Time { return now }})
	closed := truth(t, s, "2026-10-13", "2026-10-14")
	previous := truth(t, s, "2026-10-14", "2026-10-15")
	if previous.totals.Total > 5 {
		t.Errorf("%d visitors at midnight", previous.totals.Total)
	}
	for range 24 {
		now = now.Add(59 * time.Second)
		compare(t, "within the minute", previous, truth(t, s, "2026-10-14", "2026-10-15"))
		now = now.Add(time.Hour - 59*time.Second)
		grown := truth(t, s, "2026-10-14", "2026-10-15")
		if grown.totals.Total <= previous.totals.Total {
			t.Errorf("%s: %d visitors, %d an hour ago", now, grown.totals.Total, previous.totals.Total)
		}
		previous = grown
	}
	now = now.AddDate(1, 0, 0)
	compare(t, "yesterday a year later", closed, truth(t, s, "2026-10-13", "2026-10-14"))
	if today := truth(t, s, "2027-10-14", "2027-10-15"); today.totals.Total == 0 {
		t.Error("no new days while it runs")
	}
}

func TestLateDataSettles(t *testing.T) {
	now := time.Date(2026, 10, 14, 0, 0, 0, 0, time.UTC)
	s := newTest(t, Config{Faults: Faults{LateDays: 2}, Now: func() time.Time { return now }})
	day := func() answer { return truth(t, s, "2026-10-13", "2026-10-14") }
	fresh := day()
	now = now.Add(24 * time.Hour)
	older := day()
	now = now.Add(24*time.Hour - time.Minute)
	almost := day()
	now = now.Add(time.Minute)
	settled := day()
	if fresh.totals.Total >= older.totals.Total || older.totals.Total >= settled.totals.Total {
		t.Errorf("visitors: %d at the end, %d after a day, %d after two", fresh.totals.Total, older.totals.Total, settled.totals.Total)
	}
	if almost.totals.Total > settled.totals.Total {
		t.Errorf("visitors went from %d to %d", almost.totals.Total, settled.totals.Total)
	}
	compare(t, "settled without lateness", truth(t, newTest(t, Config{}), "2026-10-13", "2026-10-14"), settled)
	now = now.AddDate(0, 3, 0)
	compare(t, "three months later", settled, day())
}

// The last event of a day arrives in the very last minute of the late days.
func TestArrivalBounds(t *testing.T) {
	for luck := range uint32(5_000_000) {
		a := arrival(7, luck, 2)
		if luck%lateShare != 0 && a != 7 || luck%lateShare == 0 && (a <= daySeconds || a > 3*daySeconds) {
			t.Fatalf("luck %d arrives at %d", luck, a)
		}
	}
}

func TestDriftLandsInYesterdayAndToday(t *testing.T) {
	s := newTest(t, Config{Faults: Faults{DriftEvery: 2}})
	days := func() (n [3]int64) {
		for i, from := range []string{"2026-10-12", "2026-10-13", "2026-10-14"} {
			n[i] = truth(t, s, from, (date(from) + 1).String()).totals.Total
		}
		return n
	}
	before := days()
	asked := decode(t, get(s, path+"?dateFrom=2026-10-13&dateTo=2026-10-14"))
	if asked.Totals.Total != before[1] {
		t.Error("drift on the first request")
	}
	asked = decode(t, get(s, path+"?dateFrom=2026-10-13&dateTo=2026-10-14"))
	want := [3]int64{before[0], before[1] + 1, before[2] + 1}
	if got := days(); got != want || asked.Totals.Total != want[1] {
		t.Errorf("days %v, asked %v; want %v", got, asked.Totals, want)
	}
	get(s, path)
	get(s, path)
	if got := truth(t, s, "2026-10-13", "2026-10-15").totals; got.Total < want[1]+2 {
		t.Errorf("both days have %d visitors", got.Total)
	}
}

// A counted answer never sees the drift that comes while it is counted.
func TestDriftLeavesTheDayAlone(t *testing.T) {
	d := date("2026-10-14")
	s := newTest(t, Config{})
	base := s.projects[DefaultProject].synthetic
	one := withDrift(base, []drift{{d, human}}).day(d)
	two := withDrift(base, []drift{{d, ai}}).day(d)
	n := len(base.day(d))
	if len(one) != n+1 || one[n].who&1 != human || two[n].who&1 != ai {
		t.Errorf("%d events, %v and %v after %d", len(one), one[n], two[n], n)
	}
}

func TestPathsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range docPaths(2000) {
		if seen[p] || p[0] != '/' {
			t.Errorf("path %q comes twice or is no path", p)
		}
		seen[p] = true
	}
	if len(docPaths(3)) != 3 || len(seen) != 2000 {
		t.Error("not as many paths as asked for")
	}
}
