package sandbox

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// weekBefore returns the week that begins n weeks before the newest complete one.
func weekBefore(now time.Time, n int) analytics.Window {
	monday := analytics.DateOf(now)
	for monday.Weekday() != time.Monday {
		monday--
	}
	monday -= analytics.Date(7 * (n + 1))
	return analytics.Window{From: monday, To: monday + 7}
}

func counted(t fataler, s *Sandbox, w analytics.Window) facts.Visitors {
	t.Helper()
	totals, rows, err := s.Visitors(DefaultProject, w)
	if err != nil {
		t.Fatalf("%v", err)
	}
	return facts.Visitors{Totals: totals, Rows: rows}
}

func byPath(rows []analytics.Row) []analytics.Row {
	return slices.SortedFunc(slices.Values(rows), func(a, b analytics.Row) int {
		return strings.Compare(a.Path, b.Path)
	})
}

// TestGrowthShowsMovers: in every week some pages appear and some vanish; on a site of
// the usual size others rise and fall clearly.
func TestGrowthShowsMovers(t *testing.T) {
	for seed, tc := range []struct{ pages, weeks int }{{100, 60}, {500, 16}, {DefaultPages, 16}} {
		s := newTest(t, Config{Seed: uint64(seed), Pages: tc.pages, Scenario: Growth, Days: 7*tc.weeks + 14})
		for n := range tc.weeks {
			w := weekBefore(noon, n)
			m, err := analytics.FindMovers(
				analytics.ByPath(byPath(counted(t, s, weekBefore(noon, n+1)).Rows)),
				analytics.ByPath(byPath(counted(t, s, w).Rows)),
				analytics.Everyone, 20)
			check(t, err)
			// More than the chance of a count does.
			clearly := func(c analytics.Change) bool {
				return math.Abs(float64(c.By(analytics.Everyone))) > 3*math.Sqrt(float64(c.Before.Total))
			}
			if tc.pages >= 500 && (!slices.ContainsFunc(m.Rising.First, clearly) ||
				!slices.ContainsFunc(m.Falling.First, clearly)) {
				t.Errorf("seed %d, %d pages, week %s: nothing moves clearly: %v", seed, tc.pages, w.From, m)
			}
			if m.Appeared.Count == 0 || m.Vanished.Count == 0 {
				t.Errorf("seed %d, %d pages, week %s: %d pages appeared, %d vanished", seed, tc.pages, w.From,
					m.Appeared.Count, m.Vanished.Count)
			}
		}
	}
}

// TestGrowthGrows: over a quarter a site wins readers and a larger share of AI.
func TestGrowthGrows(t *testing.T) {
	s := newTest(t, Config{Scenario: Growth})
	before, newest := counted(t, s, weekBefore(noon, 13)).Totals, counted(t, s, weekBefore(noon, 0)).Totals
	if newest.Total < before.Total*115/100 || newest.AI*before.Total < before.AI*newest.Total*115/100 {
		t.Errorf("%+v 13 weeks before %+v", before, newest)
	}
	if newest.Human <= newest.AI || newest.Total >= newest.Human+newest.AI {
		t.Errorf("%+v is not a site of people whose assistants read too", newest)
	}
	working, weekend := int64(0), int64(0)
	for w, i := weekBefore(noon, 0), analytics.Date(0); i < 7; i++ {
		n := counted(t, s, analytics.Window{From: w.From + i, To: w.From + i + 1}).Totals.Total
		if i < 5 {
			working += n
		} else {
			weekend += n
		}
	}
	if weekend*5 > working*2*3/4 {
		t.Errorf("%d visitors on five working days, %d on a weekend", working, weekend)
	}
}

// TestGrowthIsConsistent: numbers are exact sets, and depend on the date alone.
func TestGrowthIsConsistent(t *testing.T) {
	c := Config{Seed: 4, Pages: 100, Scenario: Growth}
	s := newTest(t, c)
	w := weekBefore(noon, 0)
	week := counted(t, s, w)
	for d := w.From; d < w.To; d++ {
		day := counted(t, s, analytics.Window{From: d, To: d + 1})
		for _, row := range append(day.Rows, analytics.Row{Path: "all", Totals: analytics.Totals{Human: day.Totals.Human,
			AI:    day.Totals.AI,
			Total: day.Totals.Total}}) {
			if row.Total > day.Totals.Total || row.Total > week.Totals.Total || row.Total < max(row.Human, row.AI) ||
				row.Total > row.Human+row.AI {
				t.Errorf("%s: %+v of %+v, in the week %+v", d, row, day.Totals, week.Totals)
			}
		}
	}
	c.Days, c.Now = 50, func() time.Time { return noon.AddDate(0, 0, 11) }
	compare(t, "another run, begun later", week, counted(t, newTest(t, c), w))
	c.Scenario = Steady
	if steady := counted(t, newTest(t, c), w); steady.Totals == week.Totals {
		t.Error("the scenarios do not differ")
	}
}
