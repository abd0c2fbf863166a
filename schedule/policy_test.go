package schedule

import (
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// learned are the facts of the series that a policy is asked about.
type learned map[Fact]Noted

func (m learned) policy() Policy {
	return Policy{Limit: 90, Settle: 72 * time.Hour, Learned: func(_ Series, f Fact) Noted { return m[f] }}
}

func TestTotalsFirst(t *testing.T) {
	key := key(t, "day", "2026-03-02", "2026-03-03")
	young := key.To.Time().Add(71*time.Hour + 59*time.Minute)
	ripe := key.To.Time().Add(72 * time.Hour)
	yesterday, lastMonth := young.Add(-24*time.Hour), young.Add(-29*24*time.Hour)
	for _, tc := range []struct {
		name  string
		pages int
		at    time.Time
		moved learned
		want  string // the reason; empty: it is read
	}{
		{"above the budget, nothing known", 120, young, nil, ""},
		{"above the budget, moved", 120, young, learned{movedBetween: {1, yesterday}},
			"rows from 2026-03-06 00:00: 120 pages are more than an hour's budget"},
		{"above the budget, held still since", 120, young, learned{movedBetween: {0, yesterday}}, ""},
		{"above the budget, moved long ago", 120, young, learned{movedBetween: {1, lastMonth}}, ""},
		{"above the budget, moved, ripe", 120, ripe, learned{movedBetween: {1, yesterday}}, ""},
		{"within the budget, moved", 90, young, learned{movedBetween: {1, yesterday}}, ""},
		{"unknown size, at least above the budget", 1, young,
			learned{movedBetween: {1, yesterday}, LeastPages: {91, lastMonth}}, "91 pages"},
		{"restless, worst case above the budget", 31, young, learned{MovedWithin: {4, yesterday}},
			"31 pages, and such windows move while they are read"},
		{"restless, worst case within it", 30, young, learned{MovedWithin: {9, yesterday}}, ""},
		{"one window was restless", 31, young, learned{MovedWithin: {3, yesterday}}, ""},
	} {
		why, totals := tc.moved.policy().TotalsFirst(key, tc.pages, tc.at)
		if totals != (tc.want != "") || !strings.Contains(why, tc.want) {
			t.Errorf("%s: %q, %v; want %q", tc.name, why, totals, tc.want)
		}
	}
	unlimited := learned{movedBetween: {1, yesterday}}.policy()
	unlimited.Limit = 0
	if _, totals := unlimited.TotalsFirst(key, 1e6, young); totals {
		t.Error("without a budget nothing is put off")
	}
}

func TestDefers(t *testing.T) {
	key := key(t, "day", "2026-03-02", "2026-03-03")
	young, ripe := key.To.Time().Add(time.Hour), key.To.Time().Add(100*time.Hour)
	this := int(key.From)
	for _, tc := range []struct {
		name       string
		need, free int
		at         time.Time
		moved      learned
		want       bool
	}{
		{"there is room", 40, 40, young, nil, false},
		{"can still move", 40, 39, young, nil, true},
		{"can still move, but did not", 40, 39, young, learned{movedBetween: {0, young}}, false},
		{"can no longer move", 40, 39, ripe, nil, false},
		{"can no longer move, but did", 40, 39, ripe, learned{movedRipe: {2, ripe}}, true},
		{"the whole budget", 90, 89, young, nil, true},
		{"no hour has room for it", 91, 89, young, nil, false},
		{"waits for an hour", 40, 39, young, learned{HeldBack: {this, young.Add(-time.Hour)}}, true},
		{"waited for two", 40, 39, young, learned{HeldBack: {this, young.Add(-2 * time.Hour)}}, false},
		{"another one waited for two", 40, 39, young, learned{HeldBack: {this - 1,
			young.Add(-2 * time.Hour)}}, true},
	} {
		if got := tc.moved.policy().Defers(key, tc.need, tc.free, tc.at); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestRest(t *testing.T) {
	const day = 24 * time.Hour
	for failures, want := range map[int][2]time.Duration{ // malformed, empty
		1: {55 * time.Minute, day}, 2: {110 * time.Minute, 2 * day}, 3: {220 * time.Minute, 4 * day},
		4: {440 * time.Minute, 36500 * day}, 6: {day, 36500 * day}, 1e6: {day, 36500 * day},
	} {
		for i, reason := range []analytics.AsideReason{analytics.AsideMalformed, analytics.AsideEmpty} {
			a := analytics.Aside{Reason: reason, Failures: failures}
			if got := Rest(a); got != want[i] || GivenUp(a) != (got > 30*day) {
				t.Errorf("%d failures, %s: %v, want %v", failures, reason, got, want[i])
			}
		}
	}
}

// TestWaiting: a window that is set aside or given up is not due before its time, and says why.
func TestWaiting(t *testing.T) {
	in := Input{
		Now: time.Date(2026, 3, 5, 6, 0, 0, 0, time.UTC), Projects: []string{"a"}, Specs: specs(t, "day"),
		Since: date(t, "2026-03-01"), Settle: 48 * time.Hour, Sizes: NewSizes(nil),
	}
	day := func(from, to string) analytics.Key { return key(t, "day", from, to) }
	large := day("2026-03-03", "2026-03-04")
	l := ledger{
		large:                           {Key: large, Rows: analytics.TotalsOnlyRows, Verified: true},
		day("2026-03-01", "2026-03-02"): {Key: day("2026-03-01", "2026-03-02"), Rows: 30_000, Settled: true},
	}
	in.Known = l.known
	for k, r := range l {
		in.Sizes.Learn(k, r.Rows)
	}
	in.Policy = learned{movedBetween: {1, in.Now.Add(-time.Hour)}}.policy()
	in.Policy.Settle = in.Settle
	aside := day("2026-03-02", "2026-03-03")
	until := in.Now.Add(time.Minute)
	in.Aside = func(k analytics.Key) (analytics.Aside, bool) {
		return analytics.Aside{Key: k, Reason: analytics.AsideMalformed, Failures: 3, Until: until}, k == aside
	}
	due, waiting := Plan(in)
	diffLines(t, due, "missing a day [2026-03-04,2026-03-05) totals newest")
	if !strings.Contains(due[0].Why, "120 pages are more than an hour's budget") {
		t.Errorf("why: %q", due[0].Why)
	}
	diffLines(t, waiting, "missing a day [2026-03-03,2026-03-04) totals", "missing a day [2026-03-02,2026-03-03)")
	if !strings.Contains(waiting[1].Why, "skipped until 2026-03-05 06:01: malformed") {
		t.Errorf("why: %q", waiting[1].Why)
	}
	// Its time has come; and a window that is named is read at once.
	until = in.Now
	if due, _ := Plan(in); len(due) != 2 {
		t.Errorf("due: %v", lines(due))
	}
	asked, _, _, err := Asked(in, large.From, large.To)
	if err != nil || len(asked) != 1 || asked[0].TotalsOnly {
		t.Errorf("asked: %v, %v", asked, err)
	}
	// Rows that were given up wait for their window to settle, whatever the budget.
	in.Policy = Policy{}
	in.GaveUp = func(k analytics.Key) bool { return k == large }
	if due, waiting := Plan(in); len(due) != 2 || len(waiting) != 1 ||
		!strings.Contains(waiting[0].Why, "rows from 2026-03-06 00:00") {
		t.Errorf("due %v, waiting %+v", lines(due), waiting)
	}
	in.Now = large.To.Time().Add(in.Settle)
	if _, waiting := Plan(in); len(waiting) != 0 {
		t.Errorf("waiting %+v", waiting)
	}
}
