package schedule

import (
	"math"
	"testing"

	"github.com/docgauge/docgauge/internal/analytics"
)

func TestRequests(t *testing.T) {
	for rows, want := range map[int64]int{
		analytics.TotalsOnlyRows: 1, 0: 1, 1: 1, 250: 1, 251: 2, 500: 2, 501: 3, 25_000: 100,
	} {
		if got := Requests(rows, analytics.PageRows); got != want {
			t.Errorf("Requests(%d) = %d, want %d", rows, got, want)
		}
	}
	if got := Requests(math.MaxInt64, 1); got <= 0 {
		t.Errorf("Requests overflows: %d", got)
	}
}

func TestSizes(t *testing.T) {
	s := NewSizes(map[Source]int{{Project: "small"}: 100})
	at := func(project, g, from, to string) analytics.Key {
		return analytics.Key{Project: project, Granularity: analytics.Granularity(g), Window: window(t, from, to)}
	}
	if !s.Learn(at("a", "day", "2026-03-01", "2026-03-02"), 1000) ||
		s.Learn(at("a", "day", "2026-03-09", "2026-03-10"), 5000) {
		t.Error("the first of a series is not told from the second")
	}
	if s.Learn(at("a", "month", "2026-02-01", "2026-03-01"), analytics.TotalsOnlyRows) {
		t.Error("totals alone say nothing")
	}
	s.Learn(at("small", "day", "2026-03-01", "2026-03-02"), 1000)
	s.SetBegun(at("a", "day", "2026-03-09", "2026-03-10"), 7)
	s.SetBegun(at("b", "day", "2026-03-09", "2026-03-10"), 90)
	for _, tc := range []struct {
		item         Item
		pages, still int
		basis        Basis
	}{
		{Item{Key: at("a", "day", "2026-03-01", "2026-03-02")}, 4, 4, BasisLedger},
		{Item{Key: at("a", "day", "2026-03-01", "2026-03-02"), TotalsOnly: true}, 1, 1, BasisLedger},
		{Item{Key: at("a", "day", "2026-03-09", "2026-03-10")}, 20, 13, BasisLedger},
		{Item{Key: at("a", "day", "2026-03-04", "2026-03-05")}, 4, 4, BasisNeighbours},
		{Item{Key: at("a", "day", "2026-03-05", "2026-03-06")}, 20, 20, BasisNeighbours},
		{Item{Key: at("a", "day", "2026-02-01", "2026-02-02")}, 4, 4, BasisNeighbours},
		{Item{Key: at("a", "day", "2026-03-20", "2026-03-21")}, 20, 20, BasisNeighbours},
		{Item{Key: at("a", "week", "2026-03-02", "2026-03-09")}, 20, 20, BasisDay},
		{Item{Key: at("small", "week", "2026-03-02", "2026-03-09")}, 10, 10, BasisDay},
		{Item{Key: at("c", "day", "2026-03-02", "2026-03-03")}, 1, 1, BasisUnknown},
		{Item{Key: at("b", "day", "2026-03-09", "2026-03-10")}, 91, 1, BasisUnknown},
		{Item{Key: at("c", "day", "2026-03-02", "2026-03-03"), Reason: ReasonOpen}, 1, 1,
			BasisLedger},
	} {
		pages, basis := s.Pages(tc.item)
		still, _ := s.Requests(tc.item)
		if pages != tc.pages || still != tc.still || basis != tc.basis {
			t.Errorf("%s: %d pages, %d requests from %s; want %d, %d, %s", tc.item.Key, pages, still, basis, tc.pages,
				tc.still, tc.basis)
		}
	}
	// Surely: its own last reading; else, where requests are not scarce, three
	// quarters of the smallest neighbour.
	own, other := at("a", "day", "2026-03-09", "2026-03-10"), at("a", "day", "2026-03-10", "2026-03-11")
	for _, tc := range []struct {
		key    analytics.Key
		scarce bool
		want   int
	}{{own, true, 20}, {own, false, 20}, {other, true, 0}, {other, false, 3},
		{at("c", "day", "2026-03-10", "2026-03-11"), false, 0}} {
		if got := s.Surely(tc.key, tc.scarce); got != tc.want {
			t.Errorf("%s, scarce %v: %d pages, want %d", tc.key, tc.scarce, got, tc.want)
		}
	}
	// Most: its own last reading; else the largest of its series, where there is one.
	for _, tc := range []struct {
		key   analytics.Key
		want  int
		known bool
	}{
		{at("a", "day", "2026-03-01", "2026-03-02"), 4, true}, {at("a", "day", "2026-03-02", "2026-03-03"), 20, true},
		{at("a", "week", "2026-03-02", "2026-03-09"), 20, false},
		{at("c", "day", "2026-03-02", "2026-03-03"), 1, false},
	} {
		if got, known := s.Most(Item{Key: tc.key}); got != tc.want || known != tc.known {
			t.Errorf("%s: at most %d, %v; want %d, %v", tc.key, got, known, tc.want, tc.known)
		}
	}
	small := Source{Project: "small"}
	if !s.Knows(small) || s.Knows(Source{Project: "b"}) ||
		s.Knows(Source{Project: "small", Report: analytics.AgentsReport}) {
		t.Error("which projects are known")
	}
	s.SetPerPage(small, analytics.PageRows)
	if n, _ := s.Pages(Item{Key: at("small", "day", "2026-03-01", "2026-03-02")}); n != 4 {
		t.Errorf("%d pages of 250 rows", n)
	}
}
