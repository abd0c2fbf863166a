// Package sinktest is the contract of [sinks.Sink] as a test suite. Every sink runs it
// unchanged, each with a [Reader] that sees what users of that sink see.
//
// It tests what readers of one table see of one window: exactly one revision, whole.
// It does not ask two tables of a sink to change at once, as two files cannot; readers
// can tell by the revision.
package sinktest

import (
	"fmt"
	"iter"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Reader sees what users of the sink see, and nothing more: the views of ClickHouse,
// or every file that a glob finds.
type Reader interface {
	// Rows returns the rows of the window, in any order, and each different
	// revision that they carry. Totals and Rows of those revisions may be unset;
	// where the window has no row, so may the list.
	Rows(analytics.Key) ([]analytics.Record, []analytics.Revision, error)
	// Totals returns the rows of site totals of the window, of a report that has them beside its rows; page_count
	// is Rows.
	Totals(analytics.Key) ([]analytics.Revision, error)
}

// forms are one report with totals beside its rows, and one with rows of the site.
var forms = []analytics.Report{analytics.VisitorsReport, analytics.AgentsReport}

// Run runs the contract. Each call of open returns another empty sink with the option Reports.
// The cases run for windows of visitors in a sink without that option, and for windows of agents in one with it; some of
// them run for all other reports too.
func Run(t *testing.T, open func(t *testing.T, reports ...analytics.Report) (sinks.Sink, Reader)) {
	run(t, open, func(turn int) []analytics.Report {
		if cases[turn].every {
			return analytics.Reports
		}
		return forms
	})
}

// RunMixed runs each case once: for windows of visitors and of agents by turns. It is for one more
// server or store of a sink that passes Run.
func RunMixed(t *testing.T, open func(t *testing.T, reports ...analytics.Report) (sinks.Sink, Reader)) {
	run(t, open, func(turn int) []analytics.Report { return forms[turn%2 : turn%2+1] })
}

func run(t *testing.T, open func(*testing.T, ...analytics.Report) (sinks.Sink, Reader),
	of func(turn int) []analytics.Report) {
	one := func(name string, report analytics.Report, test func(*suite), reports ...analytics.Report) {
		t.Run(name, func(t *testing.T) {
			sink, read := open(t, reports...)
			test(&suite{T: t, sink: sink, read: read, report: report})
		})
	}
	for turn, c := range cases {
		for _, report := range of(turn) {
			if report == analytics.VisitorsReport {
				one(c.name, report, c.test)
			} else {
				one(report.String()+"/"+c.name, report, c.test, report)
			}
		}
	}
	one("agents/names", analytics.AgentsReport, testNames, analytics.AgentsReport)
	one("agents/beside visitors", analytics.VisitorsReport, testBeside, analytics.AgentsReport)
}

var cases = []struct {
	name  string
	test  func(*suite)
	every bool // report
}{
	{"replace", testReplace, true},
	{"totals only", testTotalsOnly, true},
	{"odd rows", testOddRows, false},
	{"many rows", testManyRows, false},
	{"many windows at once", testManyWindows, false},
	{"neighbours", testNeighbours, false},
	{"reader during replace", testReaderDuringReplace, false},
	{"cancelled", testCancelled, false},
	{"broken rows", testBrokenRows, false},
	{"damaged file", testDamagedFile, false},
	{"revisions", testRevisions, false},
	{"reading", testReading, true},
	{"check, collect and close", testUpkeep, false},
}

// suite is one empty sink under test, with windows of a report.
type suite struct {
	*testing.T
	sink   sinks.Sink
	read   Reader
	report analytics.Report
}

// key is Key of the report.
func (s *suite) key(project string, day int) analytics.Key { return Of(s.report, Key(project, day)) }

// replace commits w, which must succeed.
func (s *suite) replace(w sinks.Sealed) sinks.Sealed {
	s.Helper()
	if err := s.sink.Replace(s.Context(), w); err != nil {
		s.Fatalf("Replace: %v", err)
	}
	return w
}

// replaceAll commits windows at the same time, which must succeed.
func (s *suite) replaceAll(all []sinks.Sealed) {
	s.Helper()
	var wait sync.WaitGroup
	for _, w := range all {
		wait.Go(func() {
			if err := s.sink.Replace(s.Context(), w); err != nil {
				s.Errorf("Replace of %s: %v", w.Revision().Key, err)
			}
		})
	}
	wait.Wait()
}

// shows fails unless readers see exactly w of its window.
func (s *suite) shows(w sinks.Sealed) {
	s.Helper()
	if diff := s.differs(w); diff != "" {
		s.Errorf("%s (-want +shown):\n%s", w.Revision().Key, diff)
	}
}

// differs returns how what readers see differs from w; "" if it does not.
func (s *suite) differs(w sinks.Sealed) string {
	s.Helper()
	rev := w.Revision()
	shape := rev.Report.Shape()
	rows, carried, err := s.read.Rows(rev.Key)
	if err != nil {
		s.Fatalf("read %s: %v", shape.Name, err)
	}
	want := read(s.T, w)
	diff := rowsDiffer(want, rows, shape.Compare) + carriedDiffer(rev, len(want), carried)
	if shape.Site {
		return diff
	}
	totals, err := s.read.Totals(rev.Key)
	if err != nil {
		s.Fatalf("read totals: %v", err)
	}
	return diff + cmp.Diff([]analytics.Revision{rev}, totals)
}

func rowsDiffer(want, got []analytics.Record, compare func(a, b analytics.Record) int) string {
	slices.SortFunc(got, compare)
	if slices.Equal(want, got) {
		return ""
	}
	if len(want)+len(got) > 100 {
		return cmp.Diff(len(want), len(got)) + "the rows differ\n"
	}
	return cmp.Diff(want, got)
}

// carriedDiffer compares the revision in the columns of the rows with rev.
func carriedDiffer(rev analytics.Revision, rows int, carried []analytics.Revision) string {
	if rows == 0 && len(carried) == 0 {
		return ""
	}
	got := slices.Clone(carried)
	for i := range got {
		got[i] = bare(got[i])
	}
	return cmp.Diff([]analytics.Revision{bare(rev)}, got)
}

// bare is rev as far as the columns of a visitors row have it.
func bare(rev analytics.Revision) analytics.Revision {
	rev.Totals, rev.Humans, rev.Rows = analytics.Totals{}, "", 0
	return rev
}

// read returns the rows of w.
func read(t testing.TB, w sinks.Sealed) (rows []analytics.Record) {
	t.Helper()
	for row, err := range w.Rows() {
		Check(t, err)
		rows = append(rows, row)
	}
	return rows
}

// yields returns what a listing yields, by window.
func (s *suite) yields(list iter.Seq2[analytics.Revision, error]) map[analytics.Key]analytics.Revision {
	s.Helper()
	all := map[analytics.Key]analytics.Revision{}
	for rev, err := range list {
		if err != nil {
			s.Fatalf("listing: %v", err)
		}
		if former, twice := all[rev.Key]; twice {
			s.Errorf("%s is yielded twice: revisions %d and %d", rev.Key, former.Number, rev.Number)
		}
		all[rev.Key] = rev
	}
	return all
}

// Of returns key with another report.
func Of(report analytics.Report, key analytics.Key) analytics.Key {
	key.Report = report
	return key
}

// Seal writes rev and rows to a window file in a temporary directory. A window of another report than visitors gets rows
// that are made of those.
func Seal(t testing.TB, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) *archive.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "window")
	records := analytics.Records(rows)
	if rev.Report.Shape().Site {
		records = rowsLike(rev.Report, agentsOf(rev, rows))
	}
	_, err := archive.Write(path, rev, records)
	Check(t, err)
	f, err := archive.Open(path)
	Check(t, err)
	return f
}

// Key names the day window of project that begins day days after 2026-10-01.
func Key(project string, day int) analytics.Key {
	from := analytics.NewDate(2026, 10, 1+day)
	return analytics.Key{Project: project, Granularity: analytics.Day,
		Window: analytics.Window{From: from, To: from + 1}}
}

// siteAgents are the rows of the site in a window of agents.
func siteAgents(number int32, rows int64) []analytics.AgentRow {
	n := int64(number)
	return []analytics.AgentRow{
		{Agent: "Claude-User", Class: "answers", Audience: analytics.AI, Found: true, Visitors: n, Requests: n + rows,
			Markdown: n, Bytes: math.MaxInt64},
		{Agent: "curl", Class: "tool", Audience: "neither", Found: true, Visitors: n, Requests: n + rows, Bytes: -1},
	}
}

// rowsLike yields rows of agents as rows of a report with rows of the site.
func rowsLike(report analytics.Report, rows iter.Seq2[analytics.AgentRow, error]) iter.Seq2[analytics.Record, error] {
	if report != analytics.SourcesReport {
		return analytics.Records(rows)
	}
	return analytics.Records(func(yield func(analytics.SourceRow, error) bool) {
		for r, err := range rows {
			agent := map[analytics.Audience]string{analytics.AI: analytics.BrowserAgent, "neither": analytics.UnconfirmedAgent}
			if !yield(analytics.SourceRow{Path: r.Path, Source: r.Agent, Class: r.Class, Agent: agent[r.Audience],
				Visitors: r.Visitors, Requests: r.Requests}, err) {
				return
			}
		}
	})
}

// agentsOf are rows of a window of agents: the rows of the site, and one for each row with a path.
func agentsOf(rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) iter.Seq2[analytics.AgentRow, error] {
	return func(yield func(analytics.AgentRow, error) bool) {
		for _, row := range siteAgents(rev.Number, max(rev.Rows, 0)) {
			if !yield(row, nil) {
				return
			}
		}
		if rev.TotalsOnly() {
			return
		}
		i := 0
		for r, err := range rows {
			row := siteAgents(0, 0)[i%2]
			row.Path, row.Found, row.Visitors, row.Requests = r.Path, i%3 > 0, r.Human, r.Total
			if i++; (r.Path != "" || err != nil) && !yield(row, err) {
				return
			}
		}
	}
}

// Revision returns revision number of key. Its totals, flags and time follow from the
// number, so that two revisions differ in everything.
func Revision(key analytics.Key, number int32) analytics.Revision {
	n := int64(number)
	totals := analytics.Totals{Human: 1000 * n, AI: 100 * n, Total: 1050 * n}
	if key.Report.Shape().Site {
		totals = analytics.Totals{} // are rows
	}
	return analytics.Revision{
		Key:        key,
		Number:     number,
		Settled:    number%2 == 0,
		Verified:   number%3 != 0,
		Totals:     totals,
		Humans:     [...]analytics.Humans{analytics.Claimed, analytics.Confirmed, ""}[number%3],
		ExportedAt: time.Date(2026, 11, 1, 0, 0, int(number), 123_456_000, time.UTC),
	}
}

// TotalsOnly returns rev as a revision for which only totals were read.
func TotalsOnly(rev analytics.Revision) analytics.Revision {
	rev.Rows = analytics.TotalsOnlyRows
	return rev
}

// Pages yields n rows.
func Pages(n int) iter.Seq2[analytics.Row, error] { return pagesOf(n, 1) }

// pagesOf yields n rows whose counts show to which revision they belong.
func pagesOf(n int, number int32) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for i := range n {
			human := int64(number)*1_000_000 + int64(i)
			if !yield(analytics.Row{Path: fmt.Sprintf("/docs/page-%07d", i), Totals: analytics.Totals{Human: human, AI: 7,
				Total: human + 3}},
				nil) {
				return
			}
		}
	}
}

// List yields rows.
func List[R any](rows ...R) iter.Seq2[R, error] {
	return func(yield func(R, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// Check ends a test that has an error.
func Check(t interface {
	Helper()
	Fatal(args ...any)
}, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
