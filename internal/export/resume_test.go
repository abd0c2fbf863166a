package export

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/dev/faults"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/schedule"
)

// dirOf returns a new directory for one case of a property.
func dirOf(t tb, root string) string {
	dir, err := os.MkdirTemp(root, "case-")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestResume: however a budget cuts windows of two projects into runs, and whatever was predicted
// of a window that is alone, all runs together send no request too many.
func TestResume(t *testing.T) {
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t, dirOf(t, root))
		w.now = noon(10)
		w.concurrency = rapid.SampledFrom([]int{1, 4, 16}).Draw(t, "concurrency")
		rows := rapid.OneOf(rapid.IntRange(0, 3000), rapid.Map(rapid.IntRange(0, 12),
			func(n int) int { return n * analytics.PageRows }))
		items, want := asked(), 0
		for n := range rapid.IntRange(1, 10).Draw(t, "windows") {
			k, rows := day([]string{"prj_a", "prj_b"}[n%2], n), rows.Draw(t, "rows")
			k.Report = rapid.SampledFrom(analytics.Reports).Draw(t, "report")
			w.service.put(k, rows, 1)
			items, want = append(items, asked(k)...), want+pagesOf(rows)
		}
		if len(items) == 1 {
			if w.predict = rapid.IntRange(0, 14).Draw(t, "predicted"); w.predict > want {
				want++
			}
		}
		w.service.limited = true
		for runs := 0; len(w.ledger.keys()) < len(items); runs++ {
			if runs > 100 {
				t.Fatal("does not end")
			}
			w.service.budget = rapid.IntRange(1, 20).Draw(t, "budget")
			left := asked(w.lacking(items)...)
			r := w.clean(w.run(left...))
			if r.Committed+r.Left != len(left) || r.Left > 0 && !r.BudgetSpent {
				t.Fatalf("%d windows: %+v", len(left), r)
			}
		}
		w.sent(want)
		for _, item := range items {
			w.verified(item.Key, 1)
		}
		if len(items) == 1 {
			w.charged(items[0].Key, want)
		}
		w.emptySpool()
	})
}

// TestResumeOfUselessPages: pages of a window that has changed, or that could settle since, are not
// continued. Where it changed, one request finds that out, and its page is the first of the new
// reading.
func TestResumeOfUselessPages(t *testing.T) {
	for _, settles := range []bool{false, true} {
		w, k := oneWindow(t, 1000, 1)
		w.service.limited, w.service.budget = true, 2
		w.clean(w.run(asked(k)...))
		if w.service.budget = 9; settles {
			w.now = noon(5)
		} else {
			w.service.put(k, 1000, 2)
		}
		if r := w.clean(w.run(asked(k)...)); (r.Drifted == 0) != settles {
			t.Errorf("settles %t: %+v", settles, r)
		}
		w.sent(2 + 4)
		w.verified(k, 1)
		if rev := w.shown(k); rev.Settled != settles {
			t.Errorf("%+v", rev)
		}
	}
}

// The last reading accepts what comes, also over several runs.
func TestResumeOfTolerantReading(t *testing.T) {
	w := newWorld(t, t.TempDir())
	k := day("prj_a", 0)
	w.predict = 4
	w.service.limited = true
	version := 0
	for runs := 0; len(w.ledger.keys()) == 0; runs++ {
		if runs > 20 {
			t.Fatal("does not end")
		}
		version++
		w.service.put(k, 1000, version)
		w.service.budget = 1
		w.clean(w.run(asked(k)...))
	}
	// Two requests for each of the readings that drifted, four for the last.
	w.sent(2 + 2 + 4)
	if rev := w.shown(k); rev.Verified || rev.Rows != 1000 || rev.Totals != totalsOf(w.service.all(k)) {
		t.Errorf("revision %+v", rev)
	}
	w.emptySpool()
}

// TestSameDays: windows of several granularities that have the same days are read once.
func TestSameDays(t *testing.T) {
	from := analytics.NewDate(2026, 2, 2) // a Monday
	for name, c := range map[string]struct {
		specs    string
		requests int // of the windows that begin on that day, of three pages
		kill     string
	}{
		"rows":                        {"week,7d", 3, ""},
		"one with its totals":         {"week,7d:totals", 3, ""},
		"totals":                      {"week:totals,7d:totals", 1, ""},
		"totals first":                {"week:totals,7d", 3 + 1, ""},
		"killed when one is sealed":   {"week,7d", 3, stepSealed},
		"killed when one is recorded": {"week,7d", 3, StepRecorded},
		"killed before it is sealed":  {"week,7d", 3, stepFetched},
		"rows of agents":              {"week,7d", 3, ""},
		"totals of agents":            {"week,7d:totals", 3, ""},
	} {
		for _, concurrency := range []int{1, 4} {
			for _, limited := range []bool{true, false} {
				if testing.Short() && (concurrency == 1 || !limited) { // for the race detector
					continue
				}
				t.Run(fmt.Sprintf("%s, concurrency %d, limited %t", name, concurrency, limited), func(t *testing.T) {
					w := newWorld(t, t.TempDir())
					w.concurrency = concurrency
					if strings.HasSuffix(name, "agents") {
						w.report = analytics.AgentsReport
					}
					w.service.limited, w.service.budget = limited, c.requests
					var keys []analytics.Key
					in := schedule.Input{Now: (from + 7).Time(), Projects: []string{"prj_a"}, Known: w.ledger.known,
						Reports: []analytics.Report{analytics.VisitorsReport, w.report}}
					for text := range strings.SplitSeq(c.specs, ",") {
						spec, err := analytics.ParseSpec(text)
						if err != nil {
							t.Fatal(err)
						}
						in.Specs = append(in.Specs, spec)
						keys = append(keys, analytics.Key{Project: "prj_a", Granularity: spec.Granularity,
							Window: analytics.Window{From: from, To: from + 7}, Report: w.report})
					}
					w.now = in.Now
					w.service.put(keys[0], 600, 1)
					plan := func() (items []schedule.Item, cost int) {
						items, _, _, err := schedule.Asked(in, from, from+7)
						if err != nil {
							t.Fatal(err)
						}
						items = slices.DeleteFunc(items, func(i schedule.Item) bool {
							return w.shown(i.Key).Number > 0 || i.Report != w.report
						})
						for _, i := range items {
							n, _ := w.work(items).Sizes.Requests(i)
							cost += n
						}
						return items, cost
					}
					items, cost := plan()
					if shared := c.requests <= 3; shared != items[1].Shared ||
						cost != 2-len(slices.DeleteFunc(slices.Clone(items),
							func(i schedule.Item) bool { return !i.Shared })) {
						t.Errorf("the plan says %+v, %d requests", items, cost)
					}
					if c.kill != "" {
						w.failing(c.kill, 1, faults.KilledAfter)
					}
					w.run(items...)
					if w.faults = nil; c.kill != "" {
						w.recovered()
						items, _ = plan()
						w.clean(w.run(items...))
					}
					for i, k := range keys {
						rev := w.shown(k)
						if rev.Number != 1 || !rev.Verified || rev.TotalsOnly() != in.Specs[i].TotalsOnly ||
							rev.Totals != w.totals(k) || rev.Humans != analytics.Claimed {
							t.Errorf("%s: %+v", k, rev)
						}
						if !rev.TotalsOnly() {
							w.shows(k, 1)
						}
					}
					inVain := int(w.ledger.counters["pages_mispredicted_total project prj_a"])
					if got := w.service.requests() - inVain; got != c.requests {
						t.Errorf("%d requests, want %d", got, c.requests)
					}
					w.emptySpool()
				})
			}
		}
	}
}

// A window whose days another one has, which fails, is read by itself.
func TestSameDaysAfterAFailure(t *testing.T) {
	w := newWorld(t, t.TempDir())
	first := analytics.Key{Project: "prj_a", Granularity: analytics.Week,
		Window: analytics.Window{From: day("", 0).From, To: day("", 0).From + 7}}
	second := first
	second.Granularity = "7d"
	w.now = noon(20)
	w.service.put(first, 600, 1)
	w.answers(func(nth int, _ docsapi.PageQuery) error { return when(nth == 2, malformedError()) })
	items := asked(first, second)
	items[1].Shared = true
	if r := w.run(items...); r.SetAside != 1 || r.Committed != 1 || w.service.requests() != 2+3 {
		t.Errorf("%d requests, %+v", w.service.requests(), r)
	}
	w.shows(second, 1)
}
