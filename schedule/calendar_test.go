package schedule

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

var calendar = []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month}

// The dates that can be written as YYYY-MM-DD, less two rolling windows at each end.
var (
	firstDate = analytics.NewDate(0, 1, 1) + 2*analytics.MaxRollingDays
	lastDate  = analytics.NewDate(9999, 12, 31) - 2*analytics.MaxRollingDays
)

func date(t testing.TB, s string) analytics.Date {
	t.Helper()
	d, err := analytics.ParseDate(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func window(t testing.TB, from, to string) analytics.Window {
	t.Helper()
	return analytics.Window{From: date(t, from), To: date(t, to)}
}

// key names the window of project a that goes from one date to the other.
func key(t testing.TB, g analytics.Granularity, from, to string) analytics.Key {
	t.Helper()
	return analytics.Key{Project: "a", Granularity: g, Window: window(t, from, to)}
}

func open(t rapid.TB, g analytics.Granularity, d analytics.Date) analytics.Window {
	t.Helper()
	w, ok := Open(g, d)
	if !ok {
		t.Fatalf("no open %s window on %s", g, d)
	}
	return w
}

// checkTile checks the window of g that contains d, and the two before it.
func checkTile(t rapid.TB, g analytics.Granularity, d analytics.Date) {
	t.Helper()
	w := open(t, g, d)
	if d < w.From || w.To <= d {
		t.Fatalf("%s window of %s is %s", g, d, w)
	}
	for day := w.From; day < w.To; day++ {
		if other := open(t, g, day); other != w {
			t.Fatalf("%s is in the %s windows %s and %s", day, g, w, other)
		}
	}
	before := open(t, g, w.From-1)
	two := open(t, g, before.From-1)
	if before.To != w.From || two.To != before.From {
		t.Fatalf("%s windows leave a gap or overlap: %s %s %s", g, two, before, w)
	}
	if diff := cmp.Diff([]analytics.Window{w, before, two}, slices.Collect(Within(g, two.From,
		w.To))); diff != "" {
		t.Fatal(diff)
	}
	if newest := Newest(g, d); newest != before {
		t.Fatalf("newest complete %s window on %s is %s, want %s", g, d, newest, before)
	}
}

func TestWindowsTile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.SampledFrom(calendar).Draw(t, "granularity")
		checkTile(t, g, analytics.Date(rapid.Int32Range(int32(firstDate), int32(lastDate)).Draw(t, "date")))
	})
}

func TestRollingWindowsEndOnceADay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, analytics.MaxRollingDays).Draw(t, "days")
		g := analytics.Granularity(strconv.Itoa(n) + "d")
		to := analytics.Date(rapid.Int32Range(int32(firstDate), int32(lastDate)).Draw(t, "to"))
		span := rapid.IntRange(0, 800).Draw(t, "span")
		end := to
		for w := range Within(g, to-analytics.Date(span), to) {
			if w.To != end || w.Days() != n {
				t.Fatalf("%s window %s, want %d days that end at %s", g, w, n, end)
			}
			end--
		}
		if got, want := int(to-end), max(0, span-n+1); got != want {
			t.Fatalf("%d windows of %s in %d days, want %d", got, g, span, want)
		}
		if w, ok := Open(g, to); ok {
			t.Fatalf("%s has an open window %s", g, w)
		}
	})
}

func TestWeeksAreISOWeeks(t *testing.T) {
	for w := range Within(analytics.Week, date(t, "2018-12-31"), date(t, "2034-01-02")) {
		year, week := w.From.Time().ISOWeek()
		if w.From.Weekday() != time.Monday || w.Days() != 7 {
			t.Errorf("week %s begins on a %s", w, w.From.Weekday())
		}
		for d := w.From; d < w.To; d++ {
			if y, n := d.Time().ISOWeek(); y != year || n != week {
				t.Errorf("%s is in ISO week %d-%d, its window %s in %d-%d", d, y, n, w, year, week)
			}
		}
	}
}

func TestNewestAndOpen(t *testing.T) {
	for _, tc := range []struct {
		g            analytics.Granularity
		today        string
		newest, open string
	}{
		{"day", "2024-03-01", "[2024-02-29,2024-03-01)", "[2024-03-01,2024-03-02)"},
		{"day", "2027-01-01", "[2026-12-31,2027-01-01)", "[2027-01-01,2027-01-02)"},
		{"week", "2027-01-03", "[2026-12-21,2026-12-28)", "[2026-12-28,2027-01-04)"},
		{"week", "2027-01-04", "[2026-12-28,2027-01-04)", "[2027-01-04,2027-01-11)"},
		{"month", "2027-01-31", "[2026-12-01,2027-01-01)", "[2027-01-01,2027-02-01)"},
		{"month", "2027-02-01", "[2027-01-01,2027-02-01)", "[2027-02-01,2027-03-01)"},
		{"28d", "2027-01-10", "[2026-12-13,2027-01-10)", ""},
	} {
		today := date(t, tc.today)
		if got := Newest(tc.g, today); got.String() != tc.newest {
			t.Errorf("Newest(%s, %s) = %s, want %s", tc.g, today, got, tc.newest)
		}
		if got, ok := Open(tc.g, today); ok != (tc.open != "") || ok && got.String() != tc.open {
			t.Errorf("Open(%s, %s) = %s, %v, want %s", tc.g, today, got, ok, tc.open)
		}
	}
}

func TestWithin(t *testing.T) {
	from, to := date(t, "2026-01-02"), date(t, "2026-03-31")
	months := Within(analytics.Month, from, to)
	for range 2 { // a sequence can be ranged over again
		if got := fmt.Sprint(slices.Collect(months)); got != "[[2026-02-01,2026-03-01)]" {
			t.Error(got)
		}
	}
	for w := range Within(analytics.Day, from, to) {
		if w != window(t, "2026-03-30", "2026-03-31") {
			t.Errorf("first day is %s", w)
		}
		break
	}
	for _, g := range []analytics.Granularity{"day", "week", "month", "28d", "", "fortnight"} {
		if got := slices.Collect(Within(g, to, from)); got != nil {
			t.Errorf("%q windows in an inverted window: %v", g, got)
		}
	}
	if got := slices.Collect(Within("fortnight", from, to)); got != nil {
		t.Errorf("windows of an unknown granularity: %v", got)
	}
}

// FuzzCalendar checks that dates which no calendar can express cause neither panics nor
// endless loops, and that all others tile.
func FuzzCalendar(f *testing.F) {
	for _, d := range []int32{0, math.MinInt32, math.MinInt32 + 40, math.MaxInt32 - 40, math.MaxInt32} {
		for g := range uint16(5) {
			f.Add(d, g)
		}
	}
	f.Fuzz(func(t *testing.T, day int32, kind uint16) {
		g, d := analytics.Granularity(strconv.Itoa(int(kind))+"d"), analytics.Date(day)
		if int(kind) < len(calendar) {
			g = calendar[kind]
		}
		Open(g, d)
		Newest(g, d)
		// Windows become strictly older, and the sequence ends with time itself.
		var last analytics.Window
		steps := 0
		for w := range Within(g, math.MinInt32, d) {
			if w.From >= w.To || w.To > d || steps > 0 && (w.From >= last.From || w.To >= last.To) {
				t.Fatalf("%s window %d..%d after %d..%d on %d", g, w.From, w.To, last.From, last.To, d)
			}
			last = w
			if steps++; steps == 1000 {
				break
			}
		}
		if slices.Contains(calendar, g) && firstDate <= d && d <= lastDate {
			checkTile(t, g, d)
		}
	})
}
