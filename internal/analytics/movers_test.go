package analytics_test

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

func ExampleFindMovers() {
	lastWeek := []analytics.Row{
		{Path: "/", Totals: analytics.Totals{Human: 80, AI: 20, Total: 95}},
		{Path: "/install", Totals: analytics.Totals{Human: 40, AI: 10, Total: 48}},
		{Path: "/v1", Totals: analytics.Totals{Human: 7, AI: 0, Total: 7}},
	}
	thisWeek := []analytics.Row{
		{Path: "/", Totals: analytics.Totals{Human: 84, AI: 31, Total: 110}},
		{Path: "/install", Totals: analytics.Totals{Human: 30, AI: 10, Total: 38}},
		{Path: "/mcp", Totals: analytics.Totals{Human: 5, AI: 12, Total: 16}},
	}
	m, err := analytics.FindMovers(analytics.ByPath(lastWeek), analytics.ByPath(thisWeek), analytics.Everyone, 10)
	if err != nil {
		fmt.Println(err)
	}
	for _, c := range m.Rising.First {
		fmt.Printf("%s rose by %d\n", c.Path, c.By(analytics.Everyone))
	}
	for _, c := range m.Falling.First {
		fmt.Printf("%s fell by %d\n", c.Path, -c.By(analytics.Everyone))
	}
	for _, c := range m.Appeared.First {
		fmt.Printf("%s appeared with %d\n", c.Path, c.After.Total)
	}
	for _, c := range m.Vanished.First {
		fmt.Printf("%s vanished, it had %d\n", c.Path, c.Before.Total)
	}
	// Output:
	// / rose by 15
	// /install fell by 10
	// /mcp appeared with 16
	// /v1 vanished, it had 7
}

// TestFindMovers: the lists equal the result of sorting all the pages.
func TestFindMovers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		earlier, later := drawRows(t, "earlier"), drawRows(t, "later")
		by := rapid.SampledFrom([]analytics.Audience{analytics.Everyone, analytics.Human, analytics.AI}).Draw(t, "by")
		n := rapid.IntRange(-1, 6).Draw(t, "n")
		got, err := analytics.FindMovers(analytics.ByPath(earlier), analytics.ByPath(later), by, n)
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(allMovers(earlier, later, by, n), got); diff != "" {
			t.Errorf("%v, %v (-want +got):\n%s", earlier, later, diff)
		}
	})
}

func drawRows(t *rapid.T, name string) []analytics.Row {
	paths := rapid.SliceOfDistinct(rapid.StringMatching(`[ab/]{0,3}`), rapid.ID).Draw(t, name)
	count := rapid.Int64Range(0, 4)
	var out []analytics.Row
	for _, path := range paths {
		out = append(out, analytics.Row{Path: path, Totals: analytics.Totals{Human: count.Draw(t, "human"),
			AI:    count.Draw(t, "ai"),
			Total: count.Draw(t, "total")}})
	}
	return out
}

func allMovers(earlier, later []analytics.Row, by analytics.Audience, n int) (m analytics.Movers) {
	all := map[string]analytics.Change{}
	for _, r := range earlier {
		all[r.Path] = analytics.Change{Path: r.Path, Before: r.Totals, Vanished: true}
	}
	for _, r := range later {
		c, both := all[r.Path]
		all[r.Path] = analytics.Change{Path: r.Path, Before: c.Before, After: r.Totals, Appeared: !both}
	}
	ranking := func(score func(analytics.Change) int64, keep func(analytics.Change) bool) (r analytics.Ranking) {
		for _, path := range slices.Sorted(maps.Keys(all)) {
			if keep(all[path]) {
				r.First = append(r.First, all[path])
			}
		}
		slices.SortStableFunc(r.First, func(a, b analytics.Change) int { return cmp.Compare(score(b), score(a)) })
		r.Count = int64(len(r.First))
		if r.First = r.First[:max(0, min(n, len(r.First)))]; len(r.First) == 0 {
			r.First = nil
		}
		return r
	}
	inBoth := func(c analytics.Change) bool { return !c.Appeared && !c.Vanished }
	after := func(c analytics.Change) int64 { return c.After.Of(by) }
	top := ranking(after, func(c analytics.Change) bool { return !c.Vanished })
	return analytics.Movers{
		Top: top.First, Pages: top.Count,
		Rising: ranking(func(c analytics.Change) int64 { return c.By(by) },
			func(c analytics.Change) bool { return inBoth(c) && c.By(by) > 0 }),
		Falling: ranking(func(c analytics.Change) int64 { return -c.By(by) },
			func(c analytics.Change) bool { return inBoth(c) && c.By(by) < 0 }),
		Appeared: ranking(after, func(c analytics.Change) bool { return c.Appeared }),
		Vanished: ranking(func(c analytics.Change) int64 { return c.Before.Of(by) },
			func(c analytics.Change) bool { return c.Vanished }),
	}
}

// TestFindMoversRefuses: rows that cannot be read or are not sorted are an error.
func TestFindMoversRefuses(t *testing.T) {
	listed := func(paths ...string) iter.Seq2[analytics.Row, error] {
		return func(yield func(analytics.Row, error) bool) {
			for _, path := range paths {
				if !yield(analytics.Row{Path: path}, nil) {
					return
				}
			}
		}
	}
	broken := errors.New("broken")
	failing := func(yield func(analytics.Row, error) bool) { yield(analytics.Row{}, broken) }
	sorted := listed("/a", "/b")
	for name, tc := range map[string]struct {
		earlier, later iter.Seq2[analytics.Row, error]
		want           string
	}{
		"the earlier":    {failing, sorted, "broken"},
		"the later":      {sorted, failing, "broken"},
		"not sorted":     {sorted, listed("/b", "/a"), `"/a" comes after "/b"`},
		"twice":          {listed("/a", "/a"), sorted, `"/a" comes after "/a"`},
		"twice, no name": {listed("", ""), sorted, `"" comes after ""`},
	} {
		_, err := analytics.FindMovers(tc.earlier, tc.later, analytics.Everyone, 5)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", name, err, tc.want)
		}
	}
}

// TestFindMoversIsSmall: the memory of the lists does not grow with the rows.
func TestFindMoversIsSmall(t *testing.T) {
	const rows = 20_000
	list := func(step int64) iter.Seq2[analytics.Row, error] {
		return func(yield func(analytics.Row, error) bool) {
			for i := range int64(rows) {
				if !yield(analytics.Row{Path: fmt.Sprintf("%05d", i), Totals: analytics.Totals{Total: i * step % 7919}}, nil) {
					return
				}
			}
		}
	}
	m, err := analytics.FindMovers(list(3), list(5), analytics.Everyone, 10)
	if err != nil {
		t.Fatal(err)
	}
	if m.Pages != rows || cap(m.Top) > 32 || cap(m.Rising.First) > 32 || len(m.Falling.First) != 10 {
		t.Errorf("%d pages; room for %d, %d; %d", m.Pages, cap(m.Top), cap(m.Rising.First), len(m.Falling.First))
	}
}
