package sinktest

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// seal seals n rows as revision number of the first day of prj_a.
func (s *suite) seal(number int32, n int) sinks.Sealed {
	s.Helper()
	return Seal(s, Revision(Key("prj_a", 0), number), pagesOf(n, number))
}

func testReplace(s *suite) {
	for number, n := range []int{10, 10, 25} {
		s.shows(s.replace(s.seal(int32(number)+1, n)))
	}
}

func testFewerRows(s *suite) {
	s.replace(s.seal(1, 40))
	s.shows(s.replace(s.seal(2, 3)))
	s.shows(s.replace(s.seal(3, 0)))
}

func testSameRevisionTwice(s *suite) {
	w := s.replace(s.seal(1, 10))
	s.replace(w)
	s.shows(w)
	s.shows(s.replace(s.seal(1, 10)))
}

func testEmptyWindow(s *suite) {
	s.shows(s.replace(s.seal(1, 0)))
	s.shows(s.replace(s.seal(2, 5)))
}

func testTotalsOnly(s *suite) {
	key := Key("prj_a", 0)
	only := func(number int32) sinks.Sealed { return Seal(s, TotalsOnly(Revision(key, number)), nil) }
	s.shows(s.replace(only(1)))
	s.shows(s.replace(only(2)))
	s.shows(s.replace(s.seal(3, 10)))
	last := s.replace(only(4))
	s.shows(last)
	if got := s.revisions(); !cmp.Equal(got[key], last.Revision()) {
		s.Errorf("Revisions = %+v", got)
	}
}

func testWeirdPaths(s *suite) {
	var rows []analytics.Row
	for i, path := range []string{
		"", "/", "//", " ", "/a b", "/a'b", `/a"b`, "/a`b", `/a\b`, `/a\nb`, "/a\nb", "/a\tb", "/a\r\nb", "/a\x00b",
		"/a%2Fb", "/a%00b", "/a?b=c&d", "/a#b", "/a{b}", "/a;DROP TABLE x--", "/NULL", `\N`, "/über", "/日本語", "/🦊", "/e\u0301",
		"/\u202eabc", "/\ufeff", "/" + strings.Repeat("x", 1<<20-1), "/" + strings.Repeat("é", 4<<10), `/\ud800\xff`,
	} {
		rows = append(rows, analytics.Row{Path: path, Human: int64(i), AI: 1, Total: int64(i) + 1})
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
	s.shows(s.replace(Seal(s, Revision(Key("prj_a", 0), 1), list(rows...))))
}

func testBigCounts(s *suite) {
	rev := Revision(Key("prj_a", 0), math.MaxInt32)
	rev.Totals = analytics.Totals{Human: math.MaxInt64, AI: math.MaxInt64 - 1, Total: 1<<53 + 1}
	s.shows(s.replace(Seal(s, rev, list(
		analytics.Row{Path: "/a", Human: math.MaxInt64, AI: 1<<53 + 1, Total: math.MaxInt64 - 1},
		analytics.Row{Path: "/b"},
	))))
}

func testManyRows(s *suite) {
	s.shows(s.replace(s.seal(1, 300_000)))
}

func testManyWindows(s *suite) {
	var all []sinks.Sealed
	for day := range 40 {
		all = append(all, Seal(s, Revision(Key("prj_a", day), int32(day)+1), pagesOf(20+day, int32(day))))
	}
	var wait sync.WaitGroup
	for _, w := range all {
		wait.Go(func() {
			for range 2 {
				if err := s.sink.Replace(s.Context(), w); err != nil {
					s.Errorf("Replace: %v", err)
				}
			}
		})
	}
	wait.Wait()
	for _, w := range all {
		s.shows(w)
	}
	if got := s.revisions(); len(got) != len(all) {
		s.Errorf("Revisions yields %d windows, want %d", len(got), len(all))
	}
}

// testNeighbours changes one window among others of its project and of another.
func testNeighbours(s *suite) {
	var others []sinks.Sealed
	for _, project := range []string{"prj_a", "prj_b", "prj_A", "prj_a-1", "PRJ__", "p", strings.Repeat("x", 128)} {
		for day := range 3 {
			w := s.replace(Seal(s, Revision(Key(project, day), 1), pagesOf(5, int32(day+len(project)))))
			if project != "prj_a" || day != 1 {
				others = append(others, w)
			}
		}
	}
	s.shows(s.replace(Seal(s, Revision(Key("prj_a", 1), 2), pagesOf(2, 9))))
	for _, w := range others {
		s.shows(w)
	}
}

// testGranularities writes windows that begin on the same day.
func testGranularities(s *suite) {
	var all []sinks.Sealed
	for i, g := range []analytics.Granularity{analytics.Day, analytics.Week, analytics.Month, "2d", "28d"} {
		key := Key("prj_a", 0)
		key.Granularity = g
		key.To = key.From + analytics.Date(1+i)
		all = append(all, s.replace(Seal(s, Revision(key, 1), pagesOf(4, int32(i)))))
	}
	for _, w := range all {
		s.shows(w)
	}
}

func testRevisions(s *suite) {
	want := map[analytics.Key]analytics.Revision{}
	commit := func(w sinks.Sealed) { want[w.Revision().Key] = s.replace(w).Revision() }
	if got := s.revisions(); len(got) != 0 {
		s.Errorf("an empty sink yields %v", got)
	}
	for day := range 5 {
		commit(Seal(s, Revision(Key("prj_a", day), 1), pagesOf(day, 1)))
	}
	commit(Seal(s, Revision(Key("prj_a", 2), 2), pagesOf(1, 2)))
	commit(Seal(s, Revision(Key("prj_b", 2), 7), pagesOf(3, 2)))
	commit(Seal(s, TotalsOnly(Revision(Key("prj_c", 31), 1)), nil))
	if diff := cmp.Diff(want, s.revisions()); diff != "" {
		s.Errorf("Revisions (-committed +yielded):\n%s", diff)
	}
}

func testRevisionsStop(s *suite) {
	for day := range 3 {
		s.replace(Seal(s, Revision(Key("prj_a", day), 1), pagesOf(1, 1)))
	}
	for range s.sink.Revisions(s.Context()) {
		break
	}
}
