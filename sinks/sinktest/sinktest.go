package sinktest

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// Reader sees what users of the sink see, and nothing more: the views of
// ClickHouse, every file that a glob finds.
type Reader interface {
	// Visitors returns the rows of the window, in any order, and each different
	// revision that they carry. Totals and Rows of those revisions may be unset;
	// where the window has no row, so may the list.
	Visitors(analytics.Key) ([]analytics.Row, []analytics.Revision, error)
	// Totals returns the rows of site totals of the window; page_count is Rows.
	Totals(analytics.Key) ([]analytics.Revision, error)
}

// Run runs the contract. Each call of open returns an empty sink of its own.
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
		{"list", testList},
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

// differs returns in what readers see another thing than w, "" if in nothing.
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

// bare is rev as the columns of a visitors row tell it.
func bare(rev analytics.Revision) analytics.Revision {
	rev.Totals, rev.Rows = analytics.Totals{}, 0
	return rev
}

func collect(t testing.TB, w sinks.Sealed) []analytics.Row {
	t.Helper()
	var rows []analytics.Row
	for r, err := range w.Rows() {
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, r)
	}
	return rows
}

// revisions returns what the sink tells of itself, by window.
func (s *suite) revisions() map[analytics.Key]analytics.Revision {
	s.Helper()
	all := map[analytics.Key]analytics.Revision{}
	for rev, err := range s.sink.Revisions(s.Context()) {
		if err != nil {
			s.Fatalf("Revisions: %v", err)
		}
		if former, twice := all[rev.Key]; twice {
			s.Errorf("Revisions yields %s twice: revisions %d and %d", rev.Key, former.Number, rev.Number)
		}
		all[rev.Key] = rev
	}
	return all
}
