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
	"path/filepath"
	"slices"
	"strings"
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
	// Visitors returns the rows of the window, in any order, and each different
	// revision that they carry. Totals and Rows of those revisions may be unset;
	// where the window has no row, so may the list.
	Visitors(analytics.Key) ([]analytics.Row, []analytics.Revision, error)
	// Totals returns the rows of site totals of the window; page_count is Rows.
	Totals(analytics.Key) ([]analytics.Revision, error)
}

// Run runs the contract. Each call of open returns another empty sink.
func Run(t *testing.T, open func(t *testing.T) (sinks.Sink, Reader)) {
	for _, c := range []struct {
		name string
		test func(*suite)
	}{
		{"replace", testReplace},
		{"fewer rows", testFewerRows},
		{"same revision twice", testSameRevisionTwice},
		{"empty window", testEmptyWindow},
		{"totals only", testTotalsOnly},
		{"weird paths", testWeirdPaths},
		{"big counts", testBigCounts},
		{"many rows", testManyRows},
		{"many windows at once", testManyWindows},
		{"neighbours", testNeighbours},
		{"granularities", testGranularities},
		{"reader during replace", testReaderDuringReplace},
		{"cancelled", testCancelled},
		{"broken rows", testBrokenRows},
		{"damaged file", testDamagedFile},
		{"revisions", testRevisions},
		{"revisions stop", testRevisionsStop},
		{"inspect", testInspect},
		{"inspect a part", testInspectScope},
		{"inspect changes nothing", testInspectNothing},
		{"window", testWindow},
		{"top", testTop},
		{"check, collect and close", testUpkeep},
	} {
		t.Run(c.name, func(t *testing.T) {
			sink, read := open(t)
			c.test(&suite{T: t, sink: sink, read: read})
		})
	}
}

// suite is one empty sink under test.
type suite struct {
	*testing.T
	sink sinks.Sink
	read Reader
}

// replace commits w, which must succeed.
func (s *suite) replace(w sinks.Sealed) sinks.Sealed {
	s.Helper()
	if err := s.sink.Replace(s.Context(), w); err != nil {
		s.Fatalf("Replace: %v", err)
	}
	return w
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
	rows, carried, err := s.read.Visitors(rev.Key)
	if err != nil {
		s.Fatalf("read visitors: %v", err)
	}
	totals, err := s.read.Totals(rev.Key)
	if err != nil {
		s.Fatalf("read totals: %v", err)
	}
	want := collect(s.T, w)
	return rowsDiffer(want, rows) + carriedDiffer(rev, len(want), carried) +
		cmp.Diff([]analytics.Revision{rev}, totals)
}

func rowsDiffer(want, got []analytics.Row) string {
	slices.SortFunc(got, func(a, b analytics.Row) int { return strings.Compare(a.Path, b.Path) })
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
	rev.Totals, rev.Rows = analytics.Totals{}, 0
	return rev
}

func collect(t testing.TB, w sinks.Sealed) []analytics.Row {
	t.Helper()
	var rows []analytics.Row
	for r, err := range w.Rows() {
		check(t, err)
		rows = append(rows, r)
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

// Seal writes rev and rows to a window file in a temporary directory.
func Seal(t testing.TB, rev analytics.Revision, rows iter.Seq2[analytics.Row, error]) *archive.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "window")
	if _, err := archive.Write(path, rev, rows); err != nil {
		t.Fatal(err)
	}
	f, err := archive.Open(path)
	check(t, err)
	return f
}

// Key names the day window of project that begins day days after 2026-10-01.
func Key(project string, day int) analytics.Key {
	from := analytics.NewDate(2026, 10, 1+day)
	return analytics.Key{Project: project, Granularity: analytics.Day,
		Window: analytics.Window{From: from, To: from + 1}}
}

// Revision returns revision number of key. Its totals, flags and time follow from the
// number, so that two revisions differ in everything.
func Revision(key analytics.Key, number int32) analytics.Revision {
	n := int64(number)
	return analytics.Revision{
		Key:        key,
		Number:     number,
		Settled:    number%2 == 0,
		Verified:   number%3 != 0,
		Totals:     analytics.Totals{Human: 1000 * n, AI: 100 * n, Total: 1050 * n},
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
			if !yield(analytics.Row{Path: fmt.Sprintf("/docs/page-%07d", i), Human: human, AI: 7, Total: human + 3},
				nil) {
				return
			}
		}
	}
}

func list(rows ...analytics.Row) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
