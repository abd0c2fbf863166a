package sinktest

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// seal seals n rows as revision number of the first day of prj_a.
func (s *suite) seal(number int32, n int) sinks.Sealed {
	s.Helper()
	return Seal(s, Revision(s.key("prj_a", 0), number), pagesOf(n, number))
}

// testReplace begins with an empty window, comes to one, and ends with one revision several times.
func testReplace(s *suite) {
	for number, n := range []int{0, 5, 10, 10, 25, 3, 0} {
		s.shows(s.replace(s.seal(int32(number)+1, n)))
	}
	w := s.replace(s.seal(8, 10))
	s.replace(w)
	s.shows(w)
	s.shows(s.replace(s.seal(8, 10)))
	s.shows(s.replace(s.seal(3, 4))) // the last writer wins: what was restored from a backup, or another state's
}

func testTotalsOnly(s *suite) {
	key := s.key("prj_a", 0)
	only := func(number int32) sinks.Sealed { return Seal(s, TotalsOnly(Revision(key, number)), nil) }
	s.shows(s.replace(only(1)))
	s.shows(s.replace(only(2)))
	s.shows(s.replace(s.seal(3, 10)))
	last := s.replace(only(4))
	s.shows(last)
	if got := s.yields(s.sink.Revisions(s.Context())); !gocmp.Equal(got[key], last.Revision()) {
		s.Errorf("Revisions = %+v", got)
	}
	shown, fault := Inspected(s.T, s.sink, key)
	if file := last.(*archive.File); key.Report.Shape().Site && shown.Sum.Checksum.String() != file.Checksum() {
		s.Errorf("inspected %+v, %v; want rows of the site with the checksum %s", shown, fault, file.Checksum())
	}
}

// testOddRows: paths of any characters, and counts as large as can be.
func testOddRows(s *suite) {
	var rows []analytics.Row
	for i, path := range []string{
		"", "/", "//", " ", "/a b", "/a'b", `/a"b`, "/a`b", `/a\b`, `/a\nb`, "/a\nb", "/a\tb", "/a\r\nb", "/a\x00b",
		"/a%2Fb", "/a%00b", "/a?b=c&d", "/a#b", "/a{b}", "/a;DROP TABLE x--", "/NULL",
		`\N`, "/über", "/日本語", "/🦊", "/e\u0301",
		// Two with one MD5: strangers choose the paths that are missed.
		"TEXTCOLLBYfGiJUETHQ4hAcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak",
		"TEXTCOLLBYfGiJUETHQ4hEcKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak",
		"/\u202eabc", "/\ufeff", "/" + strings.Repeat("x", 1<<20-1), "/" + strings.Repeat("é", 4<<10), `/\ud800\xff`,
	} {
		rows = append(rows, analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(i), AI: 1, Total: int64(i) + 1}})
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
	s.shows(s.replace(Seal(s, Revision(s.key("prj_a", 0), 1), List(rows...))))

	rev := Revision(s.key("prj_a", 0), math.MaxInt32)
	if !s.report.Shape().Site {
		rev.Totals = analytics.Totals{Human: math.MaxInt64, AI: math.MaxInt64 - 1, Total: 1<<53 + 1}
	}
	s.shows(s.replace(Seal(s, rev, List(
		analytics.Row{Path: "/a", Totals: analytics.Totals{Human: math.MaxInt64, AI: 1<<53 + 1, Total: math.MaxInt64 - 1}},
		analytics.Row{Path: "/b"},
	))))
}

// testManyRows: more than a row group of a file, and than a block in memory.
func testManyRows(s *suite) { s.shows(s.replace(s.seal(1, 70_000))) }

func testManyWindows(s *suite) {
	var all []sinks.Sealed
	for day := range 20 {
		all = append(all, Seal(s, Revision(s.key("prj_a", day), int32(day)+1), pagesOf(20+day, int32(day))))
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
	if got := s.yields(s.sink.Revisions(s.Context())); len(got) != len(all) {
		s.Errorf("Revisions yields %d windows, want %d", len(got), len(all))
	}
}

// testNeighbours changes one window among others of its project and of another.
func testNeighbours(s *suite) {
	var all []sinks.Sealed
	for _, project := range []string{"prj_a", "prj_b", "prj_A", "prj_a-1", "PRJ__", "p", strings.Repeat("x", 128)} {
		all = append(all, Seal(s, Revision(s.key(project, 1), 1), pagesOf(5, int32(len(project)))))
	}
	for _, day := range []int{0, 2} {
		all = append(all, Seal(s, Revision(s.key("prj_a", day), 1), pagesOf(5, int32(day))))
	}
	for i, g := range []analytics.Granularity{analytics.Week, analytics.Month, "2d", "28d"} {
		key := s.key("prj_a", 1) // they begin on the same day
		key.Granularity, key.To = g, key.From+analytics.Date(2+i)
		all = append(all, Seal(s, Revision(key, 1), pagesOf(4, int32(i))))
	}
	s.replaceAll(all)
	changed := s.key("prj_a", 1)
	s.shows(s.replace(Seal(s, Revision(changed, 2), pagesOf(2, 9))))
	for _, w := range all {
		if w.Revision().Key != changed {
			s.shows(w)
		}
	}
}

// testNames: rows of one path that differ in one column each, and names of any characters, as such and in
// counts that contradict each other.
func testNames(s *suite) {
	for day, contradicts := range []bool{false, true} {
		var rows []analytics.AgentRow
		for _, path := range []string{"", "/a", "/a\x00", `/\ud800`} {
			for i, agent := range []string{analytics.BrowserAgent, analytics.UnconfirmedAgent} {
				rows = append(rows, analytics.AgentRow{Path: path, Agent: agent, Class: "human", Audience: analytics.Human,
					Found: true, Visitors: 3 + int64(i), Requests: 9})
			}
		}
		for _, name := range []string{"Claude-User", " ", "'; DROP TABLE x--", `a\b\'`, "日本語🦊", "\n\t", "NULL", `\N`,
			strings.Repeat("x", 200)} {
			for _, audience := range []analytics.Audience{analytics.AI, "neither"} {
				site := analytics.AgentRow{Agent: name, Class: name, Audience: audience, Found: true, Visitors: 5, Requests: 9}
				if !contradicts {
					rows = append(rows, site)
				}
				for _, path := range []string{"/a", "/a\x00"} {
					row := site
					row.Path, row.Visitors = path, int64(len(path))
					rows = append(rows, row)
					row.Found, row.Visitors, row.Requests = false, 7, 7
					if contradicts && audience != analytics.AI {
						row.Class, row.Requests = "tool", 1
					}
					rows = append(rows, row)
				}
			}
		}
		slices.SortFunc(rows, analytics.AgentRow.Compare)
		path := filepath.Join(s.TempDir(), "window")
		_, err := archive.Write(path, Revision(s.key("prj_a", day), 2), analytics.Records(List(rows...)))
		Check(s, err)
		w, err := archive.Open(path)
		Check(s, err)
		s.shows(s.replace(w))
		got := s.inspected(sinks.Scope{Rows: true})[w.Revision().Key]
		got.Checksum = ""
		if diff := gocmp.Diff(sinks.Shown{Revision: w.Revision(), Sum: s.sumOf(w)}, got); diff != "" {
			s.Errorf("Inspect (-committed +yielded):\n%s", diff)
		}
	}
}

// testBeside: windows of both reports and of the same dates are replaced one by one, and listed together; windows of
// a report that the sink was not opened for are refused.
func testBeside(s *suite) {
	windows := map[analytics.Key]sinks.Sealed{}
	for number := range int32(2) {
		for _, report := range forms {
			for day := range 2 {
				w := Seal(s, Revision(Of(report, Key("prj_a", day)), number+1), pagesOf(int(9-number), number))
				windows[w.Revision().Key] = s.replace(w)
				for _, other := range windows {
					s.shows(other)
				}
			}
		}
	}
	for _, list := range []iter.Seq2[analytics.Revision, error]{s.sink.Revisions(s.Context()),
		sinks.List(s.Context(), s.sink)} {
		got := s.yields(list)
		for key, w := range windows {
			if !got[key].Same(w.Revision()) || len(got) != len(windows) {
				s.Errorf("%d windows are listed, and of %s %+v", len(got), key, got[key])
			}
		}
	}
	for key := range windows {
		got := s.inspected(sinks.Scope{Keys: map[analytics.Key]bool{key: true}, Rows: true})
		if len(got) != 1 || !got[key].Whole() {
			s.Errorf("of %s Inspect yields %+v", key, got)
		}
	}
}

func testRevisions(s *suite) {
	want := map[analytics.Key]analytics.Revision{}
	commit := func(w sinks.Sealed) { want[w.Revision().Key] = s.replace(w).Revision() }
	if got := s.yields(s.sink.Revisions(s.Context())); len(got) != 0 {
		s.Errorf("an empty sink yields %v", got)
	}
	for day := range 5 {
		commit(Seal(s, Revision(s.key("prj_a", day), 1), pagesOf(day, 1)))
	}
	commit(Seal(s, Revision(s.key("prj_a", 2), 2), pagesOf(1, 2)))
	commit(Seal(s, Revision(s.key("prj_b", 2), 7), pagesOf(3, 2)))
	commit(Seal(s, TotalsOnly(Revision(s.key("prj_c", 31), 1)), nil))
	if diff := gocmp.Diff(want, s.yields(s.sink.Revisions(s.Context()))); diff != "" {
		s.Errorf("Revisions (-committed +yielded):\n%s", diff)
	}
	if diff := gocmp.Diff(want, s.yields(sinks.List(s.Context(), s.sink))); diff != "" {
		s.Errorf("List (-committed +yielded):\n%s", diff)
	}
	for range s.sink.Revisions(s.Context()) { // may be left
		break
	}
}

// inspected returns what Inspect yields, by window.
func (s *suite) inspected(scope sinks.Scope) map[analytics.Key]sinks.Shown {
	s.Helper()
	all := map[analytics.Key]sinks.Shown{}
	for shown, err := range s.sink.Inspect(s.Context(), scope) {
		if err != nil {
			s.Fatalf("Inspect: %v", err)
		}
		if _, twice := all[shown.Key]; twice {
			s.Errorf("Inspect yields %s twice", shown.Key)
		}
		all[shown.Key] = shown
	}
	return all
}

// sumOf adds up the rows of w.
func (s *suite) sumOf(w sinks.Sealed) analytics.Sum {
	s.Helper()
	sum, err := sinks.SumOf(w)
	Check(s, err)
	return sum
}

// variety commits windows of every kind, and returns them by window.
func (s *suite) variety() map[analytics.Key]sinks.Sealed {
	s.Helper()
	s.replace(Seal(s, Revision(s.key("prj_a", 1), 1), pagesOf(21, 1)))
	all := map[analytics.Key]sinks.Sealed{}
	commit := func(w sinks.Sealed) { all[w.Revision().Key] = w }
	for _, day := range []int{0, 2} {
		commit(Seal(s, Revision(s.key("prj_a", day), 1), pagesOf(20+day, 1)))
	}
	commit(Seal(s, Revision(s.key("prj_a", 1), 2), pagesOf(7, 2)))
	commit(Seal(s, Revision(s.key("prj_a", 3), 1), pagesOf(0, 1)))
	commit(Seal(s, TotalsOnly(Revision(s.key("prj_a", 4), 1)), nil))
	commit(Seal(s, Revision(s.key("prj_b", 31), 3), pagesOf(5, 3)))
	rows := []analytics.Row{
		{Path: "", Totals: analytics.Totals{Human: 1, AI: 1, Total: 1}}, {Path: "/\x00", Totals: analytics.Totals{Human: 5,
			AI: 1, Total: 1}},
		{Path: `/\'`, Totals: analytics.Totals{Human: 1, AI: 90, Total: 90}},
		{Path: "/é🦊", Totals: analytics.Totals{Human: 9, AI: 9, Total: 19}}, {Path: "/" + strings.Repeat("x", 3000)},
	}
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(a.Path, b.Path) })
	week := s.key("prj_b", 4)
	week.Granularity, week.To = analytics.Week, week.From+7
	commit(Seal(s, Revision(week, 1), List(rows...)))
	plausible := WindowOf(5, 2, 9).For(s.report)
	file, _, err := sinks.WindowFile(s.TempDir(), plausible.Rev, plausible.Rows())
	Check(s, err)
	commit(file)
	s.replaceAll(slices.Collect(maps.Values(all)))
	return all
}

// testReading reads windows in each way, which changes nothing.
func testReading(s *suite) {
	if got := s.inspected(sinks.Scope{Rows: true}); len(got) != 0 {
		s.Errorf("an empty sink shows %v", got)
	}
	committed := s.variety()
	s.inspects(committed)
	s.inspectsParts(slices.Collect(maps.Keys(committed)))
	if s.report == analytics.VisitorsReport {
		s.tops(committed)
	}
	for _, w := range committed {
		s.shows(w)
	}
	s.opens(committed)
}

func (s *suite) inspects(committed map[analytics.Key]sinks.Sealed) {
	for _, rows := range []bool{false, true} {
		want := map[analytics.Key]sinks.Shown{}
		for key, w := range committed {
			shown := sinks.Shown{Revision: w.Revision()}
			if rows {
				shown.Sum = s.sumOf(w)
			}
			want[key] = shown
		}
		got := s.inspected(sinks.Scope{Rows: rows})
		for key, shown := range got {
			if sum := s.sumOf(committed[key]); shown.Checksum != "" && shown.Checksum != sum.Checksum.String() {
				s.Errorf("%s: keeps the checksum %s, its rows have %s", key, shown.Checksum, sum.Checksum)
			}
			shown.Checksum = ""
			got[key] = shown
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			s.Errorf("Inspect, rows %t (-committed +yielded):\n%s", rows, diff)
		}
	}
	for range s.sink.Inspect(s.Context(), sinks.Scope{Rows: true}) {
		break
	}
}

// inspectsParts limits what is inspected in each way. The two reports take turns at asking for the rows too.
func (s *suite) inspectsParts(committed []analytics.Key) {
	two := map[analytics.Key]bool{s.key("prj_a", 1): true, s.key("prj_b", 31): true, s.key("prj_c", 1): true}
	for i, scope := range []sinks.Scope{
		{Projects: []string{"prj_b"}},
		{Projects: []string{"prj_b", "prj_a"}},
		{Projects: []string{"prj_'"}},
		{Granularities: []analytics.Granularity{analytics.Week}},
		{
			Granularities: []analytics.Granularity{analytics.Day, analytics.Month}, Projects: []string{"prj_a"},
		},
		{Within: analytics.Window{From: Key("", 2).From, To: Key("", 3).To}},
		{Keys: two},
		{Keys: two, Projects: []string{"prj_a"}},
		{Keys: map[analytics.Key]bool{}},
	} {
		scope.Rows = s.report.Shape().Site == (i%2 == 0)
		got := s.inspected(scope)
		for _, key := range committed {
			if _, yielded := got[key]; yielded != scope.Has(key) {
				s.Errorf("%+v: %s yielded %t", scope, key, yielded)
			}
		}
	}
}

// opens opens the windows as sealed ones.
func (s *suite) opens(committed map[analytics.Key]sinks.Sealed) {
	dir := s.TempDir()
	for key, want := range committed {
		got, done, err := s.sink.Window(s.Context(), want.Revision(), dir)
		if err != nil {
			s.Errorf("Window: %v", err)
			continue
		}
		diff := gocmp.Diff(want.Revision(), got.Revision()) + gocmp.Diff(read(s.T, want), read(s.T, got))
		if diff != "" {
			s.Errorf("%s (-committed +given):\n%s", key, diff)
		}
		// It can be committed again, and stays although the sink replaces it.
		s.shows(s.replace(got))
		s.replace(Seal(s, Revision(key, 9), pagesOf(2, 9)))
		if diff := gocmp.Diff(read(s.T, want), read(s.T, got)); diff != "" {
			s.Errorf("%s changed (-committed +given):\n%s", key, diff)
		}
		if err := done(); err != nil {
			s.Errorf("done: %v", err)
		}
	}
	if w, _, err := s.sink.Window(s.Context(), Revision(s.key("prj_z", 0), 1), dir); err == nil {
		s.Errorf("Window of one that is not there = %v", w)
	}
}

// tops asks for the pages of each window with the most visitors.
func (s *suite) tops(committed map[analytics.Key]sinks.Sealed) {
	for key, w := range committed {
		rev := w.Revision()
		for _, n := range []int{1, 3, 1000} {
			if n != 3 && rev.Granularity != analytics.Week { // which has paths of all kinds
				continue
			}
			want, err := analytics.Top(sinks.RowsOf[analytics.Row](w), n)
			Check(s, err)
			got, err := sinks.Top(s.Context(), s.sink, rev, n, s.TempDir())
			if diff := gocmp.Diff(want, got, cmpopts.EquateEmpty()); err != nil || diff != "" {
				s.Errorf("Top %d of %s: %v (-want +got):\n%s", n, key, err, diff)
			}
		}
	}
	later := committed[s.key("prj_a", 1)].Revision()
	later.Number++
	if rows, err := sinks.Top(s.Context(), s.sink, later, 3, s.TempDir()); !errors.Is(err, sinks.ErrOtherRevision) {
		s.Errorf("Top of a revision that is not shown = %v, %v", rows, err)
	}
}

// testUpkeep: a sink can be checked at any time, has nothing to collect that is recent,
// and can be closed twice. None of it changes what readers see.
func testUpkeep(s *suite) {
	if s.sink.Name() == "" || s.sink.Location() == "" {
		s.Errorf("name %q, location %q", s.sink.Name(), s.sink.Location())
	}
	check := func() {
		s.Helper()
		if err := s.sink.Check(s.Context()); err != nil {
			s.Errorf("Check: %v", err)
		}
		for _, dryRun := range []bool{true, false} {
			if found, err := sinks.Collect(s.Context(), s.sink, dryRun); len(found) > 0 || err != nil {
				s.Errorf("Collect, dry run %t = %v, %v", dryRun, found, err)
			}
		}
	}
	check()
	if got := s.yields(s.sink.Revisions(s.Context())); len(got) > 0 {
		s.Errorf("after Check an empty sink yields %v", got)
	}
	s.replace(s.seal(1, 20))
	last := s.replace(s.seal(2, 10))
	check()
	s.shows(last)
	for range 2 {
		if err := s.sink.Close(); err != nil {
			s.Errorf("Close: %v", err)
		}
	}
}
