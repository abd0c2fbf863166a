package report_test

import (
	"cmp"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/report"
)

// TestCompare: what is kept of two windows is what sorting all of them finds.
func TestCompare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before, after := drawRows(t, "before"), drawRows(t, "after")
		n := rapid.IntRange(0, 6).Draw(t, "n")
		got, err := report.Compare(rowsOf(before...), rowsOf(after...), n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(naive(before, after, n), got); diff != "" {
			t.Errorf("%v, %v (-want +got):\n%s", before, after, diff)
		}
	})
}

func drawRows(t *rapid.T, name string) []analytics.Row {
	counts := rapid.MapOf(rapid.StringMatching(`[ab/]{0,3}`), rapid.Int64Range(0, 4)).Draw(t, name)
	var out []analytics.Row
	for _, path := range slices.Sorted(maps.Keys(counts)) {
		out = append(out, analytics.Row{Path: path, Human: counts[path], Total: counts[path]})
	}
	return out
}

func naive(before, after []analytics.Row, n int) (p report.Pages) {
	all := map[string]*report.Move{}
	was, is := map[string]bool{}, map[string]bool{}
	for _, r := range before {
		all[r.Path], was[r.Path] = &report.Move{Path: r.Path, Before: r}, true
	}
	for _, r := range after {
		if all[r.Path] == nil {
			all[r.Path] = &report.Move{Path: r.Path}
		}
		all[r.Path].After, is[r.Path] = r, true
	}
	first := func(keep func(report.Move) bool, order func(report.Move) int64) (m report.Moves) {
		for _, path := range slices.Sorted(maps.Keys(all)) {
			if keep(*all[path]) {
				m.Largest = append(m.Largest, *all[path])
			}
		}
		slices.SortStableFunc(m.Largest, func(a, b report.Move) int { return cmp.Compare(order(b), order(a)) })
		m.Count = int64(len(m.Largest))
		m.Largest = m.Largest[:min(n, len(m.Largest))]
		if len(m.Largest) == 0 {
			m.Largest = nil
		}
		return m
	}
	change := func(m report.Move) int64 { return m.After.Total - m.Before.Total }
	both := func(m report.Move) bool { return was[m.Path] && is[m.Path] }
	top := first(func(m report.Move) bool { return is[m.Path] }, func(m report.Move) int64 { return m.After.Total })
	return report.Pages{
		Top: top.Largest, Count: top.Count,
		Risen:    first(func(m report.Move) bool { return both(m) && change(m) > 0 }, change),
		Fallen:   first(func(m report.Move) bool { return both(m) && change(m) < 0 }, func(m report.Move) int64 { return -change(m) }),
		Appeared: first(func(m report.Move) bool { return !was[m.Path] }, func(m report.Move) int64 { return m.After.Total }),
		Vanished: first(func(m report.Move) bool { return !is[m.Path] }, func(m report.Move) int64 { return m.Before.Total }),
	}
}

// TestCompareRefuses: what cannot be read or is not sorted is an error.
func TestCompareRefuses(t *testing.T) {
	sorted := rowsOf(analytics.Row{Path: "/a"}, analytics.Row{Path: "/b"})
	broken := errors.New("broken")
	failing := func(yield func(analytics.Row, error) bool) { yield(analytics.Row{}, broken) }
	for name, tc := range map[string]struct {
		before, after iter.Seq2[analytics.Row, error]
		want          string
	}{
		"the older":      {failing, sorted, "broken"},
		"the newer":      {sorted, failing, "broken"},
		"not sorted":     {sorted, rowsOf(analytics.Row{Path: "/b"}, analytics.Row{Path: "/a"}), `path "/a" comes after "/b": the rows are not sorted`},
		"twice":          {rowsOf(analytics.Row{Path: "/a"}, analytics.Row{Path: "/a"}), sorted, `path "/a" comes after "/a": the rows are not sorted`},
		"twice, no name": {rowsOf(analytics.Row{}, analytics.Row{}), sorted, `path "" comes after "": the rows are not sorted`},
	} {
		if _, err := report.Compare(tc.before, tc.after, 5); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// TestCompareIsSmall: what is kept does not grow with the rows.
func TestCompareIsSmall(t *testing.T) {
	const rows = 20_000
	list := func(step int64) iter.Seq2[analytics.Row, error] {
		return func(yield func(analytics.Row, error) bool) {
			for i := range int64(rows) {
				path := [5]byte{byte('a' + i/10000%10), byte('a' + i/1000%10), byte('a' + i/100%10), byte('a' + i/10%10), byte('a' + i%10)}
				if !yield(analytics.Row{Path: string(path[:]), Total: i * step % 7919}, nil) {
					return
				}
			}
		}
	}
	p, err := report.Compare(list(3), list(5), 10)
	if err != nil {
		t.Fatal(err)
	}
	if p.Count != rows || cap(p.Top) > 32 || cap(p.Risen.Largest) > 32 || len(p.Fallen.Largest) != 10 {
		t.Errorf("%d pages; room for %d, %d; %d", p.Count, cap(p.Top), cap(p.Risen.Largest), len(p.Fallen.Largest))
	}
}
