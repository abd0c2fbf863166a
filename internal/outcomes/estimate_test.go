package outcomes

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/view"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// merged is the day of the merge.
var merged = analytics.NewDate(2026, 6, 10)

// site is a made-up archive around the merge: 40 pages with 30 to 420 readers a day, of whom
// a tenth as many are AI, with weekends, and a noise that is the same in every run.
type site struct {
	*sinktest.Memory
	// readers changes the readers of a page on a day.
	readers func(path string, d analytics.Date, n float64) float64
	// window changes the reading of a day; false drops it.
	window func(rev *analytics.Revision) bool
	pages  int
}

func newSite() *site {
	return &site{
		Memory: sinktest.NewMemory(), pages: 40,
		readers: func(_ string, _ analytics.Date, n float64) float64 { return n },
		window:  func(*analytics.Revision) bool { return true },
	}
}

func (s *site) fill(project string) *site {
	for d := merged - 60; d <= merged+60; d++ {
		var rows []analytics.Row
		for i := range s.pages {
			path := fmt.Sprintf("/page-%05d", i)
			noise := math.Mod(math.Abs(math.Sin(float64(int(d)*7919+i*104729)))*1000, 1) - 0.5
			n := float64(30 + 10*(i%40))
			if wd := d.Weekday(); wd == time.Saturday || wd == time.Sunday {
				n /= 2
			}
			n = s.readers(path, d, n+3*math.Sqrt(n)*noise)
			if row := (analytics.Row{Path: path, Totals: analytics.Totals{Human: int64(n), AI: int64(n / 10),
				Total: int64(n)}}); n >= 1 {
				rows = append(rows, row)
			}
		}
		if rev := dayOf(project, d, len(rows)); s.window(&rev) {
			s.Put(rev, rows, nil)
		}
	}
	return s
}

func dayOf(project string, d analytics.Date, rows int) analytics.Revision {
	key := analytics.Key{Project: project, Granularity: analytics.Day, Window: analytics.Window{From: d, To: d + 1}}
	return analytics.Revision{Key: key, Number: 1, Settled: true, Verified: true, Rows: int64(rows),
		ExportedAt: (d + 9).Time()}
}

func merge(at analytics.Date, pages ...string) view.Merge {
	return view.Merge{Project: "prj_a", Link: fmt.Sprintf("https://code.example/%d", at),
		At: at.Time().Add(15 * time.Hour), Pages: pages}
}

// touched is the page of most tests; it has 130 readers on a working day.
const touched = "/page-00010"

// doubled lets the readers of the page double from the day after the merge on.
func doubled(path string, d analytics.Date, n float64) float64 {
	if path == touched && d > merged {
		n *= 2
	}
	return n
}

func outcomesOf(t *testing.T, s *site, merges ...view.Merge) []view.Outcome {
	t.Helper()
	got, err := estimate(t.Context(), s, merges)
	if err != nil || len(got) != len(merges) {
		t.Fatalf("%+v, %v", got, err)
	}
	return got
}

// brief is an effect without its days.
func brief(e view.Effect) view.Effect {
	e.Days = nil
	return e
}

// TestOf: one merge that doubles the readers of its page.
func TestOf(t *testing.T) {
	s := newSite()
	s.readers = doubled
	got := outcomesOf(t, s.fill("prj_a"), merge(merged, touched))[0]
	e := got.Effects[0]
	if len(got.Effects) != 2 || !got.Final || e.Audience != analytics.Human ||
		got.Effects[1].Audience != analytics.AI {
		t.Fatalf("%+v", got)
	}
	if e.Verdict != view.MoreReaders || e.Method != view.SyntheticControl || e.DaysBefore != 28 || e.DaysAfter != 28 ||
		e.Placebos != 39 || e.P != 1.0/400 || !e.Corrected || e.Reason != "" {
		t.Errorf("%+v", brief(e))
	}
	if math.Abs(e.Change-1) > 0.1 || e.Low >= e.Change || e.High <= e.Change || e.Low < 0.5 ||
		math.Abs(e.Actual/e.Expected-1-e.Change) > 0.01 {
		t.Errorf("%+v", brief(e))
	}
	if d := e.Days; len(d) != 56 || d[0].Date != merged-28 || d[28].Date != merged+1 || d[27].Low != d[27].Expected ||
		d[28].Low >= d[28].Expected {
		t.Errorf("%+v", d)
	}
	if ai := got.Effects[1]; ai.Verdict != view.MoreReaders || math.Abs(ai.Change-1) > 0.1 {
		t.Errorf("%+v", brief(ai))
	}
	// With few pages the level of the page itself is taken, and the reason says so.
	s = newSite()
	s.pages, s.readers = 15, doubled
	e = outcomesOf(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
	if e.Verdict != view.MoreReaders || e.Method != view.LevelChange || e.Placebos != 0 ||
		math.Abs(e.Change-1) > 0.15 || !strings.Contains(e.Reason, "14 untouched pages") {
		t.Errorf("%+v", brief(e))
	}
}

// TestGrowthIsNoEffect: a page that grows with the site, by 2 % a day, has no effect.
func TestGrowthIsNoEffect(t *testing.T) {
	for pages, method := range map[int]view.Method{40: view.SyntheticControl, 15: view.LevelChange} {
		s := newSite()
		s.pages = pages
		s.readers = func(_ string, d analytics.Date, n float64) float64 { return n * math.Exp(0.02*float64(d-merged)) }
		e := outcomesOf(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
		if e.Verdict != view.NoClearChange || e.Method != method || e.Actual < 1.6*e.Before ||
			math.Abs(e.Change) > 0.1 {
			t.Errorf("%d pages: %+v", pages, brief(e))
		}
	}
}

// TestLacking: which data do not suffice, and the reason given.
func TestLacking(t *testing.T) {
	type test func(d analytics.Date) bool
	without := func(bad test) func(*site) {
		return func(s *site) { s.window = func(rev *analytics.Revision) bool { return !bad(rev.From) } }
	}
	// fewer has a share of the readers of the page on some days.
	fewer := func(share float64, when test) func(*site) {
		return func(s *site) {
			s.readers = func(path string, d analytics.Date, n float64) float64 {
				if path == touched && when(d) {
					n *= share
				}
				return n
			}
		}
	}
	always := func(analytics.Date) bool { return true }
	const enough, lacks, early = view.NoClearChange, view.NotEnoughData, view.TooEarly
	const uncorrected = "not corrected"
	for _, tc := range []struct {
		name          string
		change        func(*site)
		merges        []view.Merge
		verdict       view.Verdict
		reason        string
		before, after int
	}{
		{"14 days before", without(func(d analytics.Date) bool { return d < merged-14 }), nil, enough, uncorrected,
			14, 28},
		{"13 days before", without(func(d analytics.Date) bool { return d < merged-13 }), nil, lacks,
			"13 verified, settled days before", 13, 28},
		{"7 days after", without(func(d analytics.Date) bool { return d > merged+7 }), nil, early, "", 28, 7},
		{"6 days after", without(func(d analytics.Date) bool { return d > merged+6 }), nil, lacks,
			"6 verified, settled days after", 28, 6},
		{"nothing after", without(func(d analytics.Date) bool { return d > merged }), nil, lacks,
			"0 verified, settled days", 28, 0},
		{"every eighth day missing", without(func(d analytics.Date) bool { return (d-merged+28)%8 == 0 }), nil, enough,
			"", 24, 24},
		{"no archive", without(always), nil, lacks, "0 verified, settled days before", 0, 0},
		{"the last window missing", without(func(d analytics.Date) bool { return d == merged+28 }), nil, enough, "", 28,
			27},
		{"few readers", fewer(.02, always), nil, lacks, "visitors a day before the merge, 3 are needed", 28, 28},
		{"a new page", fewer(0, func(d analytics.Date) bool { return d < merged-5 }), nil, lacks,
			"the page is 5 days old", 28, 28},
		{"a young page", fewer(0, func(d analytics.Date) bool { return d < merged-27 }), nil, lacks,
			"the page is 27 days old", 28, 28},
		{"a page a month old", fewer(0, func(d analytics.Date) bool { return d < merged-29 }), nil, enough, "", 28, 28},
		{"a page that the merge brought", fewer(0, func(d analytics.Date) bool { return d <= merged }), nil, lacks,
			"it is new", 28, 28},
		{"an archive that begins with few readers", func(s *site) {
			without(func(d analytics.Date) bool { return d < merged-20 })(s)
			fewer(0, func(d analytics.Date) bool { return d < merged-19 })(s)
		}, nil, lacks, "the page is 19 days old", 20, 28},
		{"a page removed", fewer(0, func(d analytics.Date) bool { return d > merged+3 }), nil, lacks,
			"no reader since " + (merged + 4).String(), 28, 28},
		{"an unknown page", fewer(0, always), nil, lacks, "`pages:`", 28, 28},
		{"two merges on one day", nil, []view.Merge{merge(merged, touched, "/page-00001")}, lacks,
			"2 merges touched the page on " + merged.String(), 28, 28},
		{"a merge long before", nil, []view.Merge{merge(merged-15, touched)}, enough, uncorrected, 14,
			28},
		{"a merge shortly before", nil, []view.Merge{merge(merged-14, touched)}, lacks, "after any other merge", 13,
			28},
		{"a merge long after", nil, []view.Merge{merge(merged+8, touched)}, enough, "", 28, 7},
		{"a merge shortly after", nil, []view.Merge{merge(merged+7, touched)}, lacks, "before any other merge", 28, 6},
		{"a merge on another page", nil, []view.Merge{merge(merged, "/page-00001")}, enough, "", 28, 28},
		{"a merge in the month before", nil, []view.Merge{merge(merged-29, touched)}, enough, uncorrected, 28, 28},
		{"a merge out of sight", nil, []view.Merge{merge(merged-57, touched), merge(merged+29, touched)}, enough, "",
			28, 28},
	} {
		s := newSite()
		s.pages = 25 // enough for placebos
		if tc.change != nil {
			tc.change(s)
		}
		e := outcomesOf(t, s.fill("prj_a"), append([]view.Merge{merge(merged, touched)}, tc.merges...)...)[0].Effects[0]
		if e.Verdict != tc.verdict || !strings.Contains(e.Reason, tc.reason) ||
			(e.Reason == "") != (tc.reason == "") || e.DaysBefore != tc.before || e.DaysAfter != tc.after {
			t.Errorf("%s: %s, %q, %d and %d days", tc.name, e.Verdict, e.Reason, e.DaysBefore, e.DaysAfter)
		}
	}
}

// TestWindowsNotUsed: a window that may be wrong is as if it were not there.
func TestWindowsNotUsed(t *testing.T) {
	odd := func(d analytics.Date) bool { return d%5 == 0 }
	missing := newSite()
	missing.window = func(rev *analytics.Revision) bool { return !odd(rev.From) }
	want := outcomesOf(t, missing.fill("prj_a"), merge(merged, touched))
	if want[0].Effects[0].DaysBefore >= 28 {
		t.Fatalf("%+v", want)
	}
	for name, spoil := range map[string]func(*analytics.Revision){
		"provisional": func(rev *analytics.Revision) { rev.Settled = false },
		"unverified":  func(rev *analytics.Revision) { rev.Verified = false },
		"totals only": func(rev *analytics.Revision) { rev.Rows = analytics.TotalsOnlyRows },
		"of a week":   func(rev *analytics.Revision) { rev.Granularity, rev.To = analytics.Week, rev.From+7 },
		"elsewhere":   func(rev *analytics.Revision) { rev.Project = "prj_b" },
	} {
		s := newSite()
		s.readers = func(_ string, d analytics.Date, n float64) float64 {
			if odd(d) {
				n *= 7
			}
			return n
		}
		s.window = func(rev *analytics.Revision) bool {
			if odd(rev.From) {
				spoil(rev)
			}
			return true
		}
		got := outcomesOf(t, s.fill("prj_a"), merge(merged, touched))
		if name == "provisional" { // the only one that will be read again
			if got[0].Final || got[0].Effects[0].Verdict != view.TooEarly {
				t.Errorf("final before all days are settled: %+v", brief(got[0].Effects[0]))
			}
			got[0].Final = true
			for i := range got[0].Effects {
				got[0].Effects[i].Verdict = want[0].Effects[i].Verdict
			}
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestMode: people counted by another mode than before the merge are not compared; AI readers are.
func TestMode(t *testing.T) {
	s := newSite()
	const claimedUntil = 10
	s.readers = func(_ string, d analytics.Date, n float64) float64 {
		if d > merged+claimedUntil {
			n /= 4
		}
		return n
	}
	s.window = func(rev *analytics.Revision) bool {
		if rev.Humans = analytics.Claimed; rev.From > merged+claimedUntil {
			rev.Humans = analytics.Confirmed
		}
		return true
	}
	s.fill("prj_a")
	got := outcomesOf(t, s, merge(merged, touched), merge(merged+claimedUntil-3, "/page-00020"))
	people, ai := got[0].Effects[0], got[0].Effects[1]
	if people.DaysAfter != claimedUntil || ai.DaysAfter != 28 || people.Actual < ai.Actual*10*2 {
		t.Errorf("%+v, AI %+v", brief(people), brief(ai))
	}
	if late := got[1].Effects[0]; !strings.Contains(late.Reason, "another mode") {
		t.Errorf("%+v", brief(late))
	}

	// Without a day before the merge, there is no other mode.
	s = newSite()
	s.window = func(rev *analytics.Revision) bool {
		rev.Humans = analytics.Claimed
		return rev.From > merged
	}
	e := outcomesOf(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
	if e.DaysAfter != 28 || e.Verdict != view.NotEnoughData || strings.Contains(e.Reason, "mode") {
		t.Errorf("no day before the merge: %+v", brief(e))
	}
}

// TestDamagedWindow: it counts as missing, and its error is returned.
func TestDamagedWindow(t *testing.T) {
	missing := newSite()
	missing.window = func(rev *analytics.Revision) bool { return rev.From != merged-3 }
	want := outcomesOf(t, missing.fill("prj_a"), merge(merged, touched))
	missing.Put(dayOf("prj_a", merged-3, 1), []analytics.Row{{Path: touched, Totals: analytics.Totals{Human: 1,
		Total: 1}}}, errDamaged)
	got, err := estimate(t.Context(), missing, []view.Merge{merge(merged, touched)})
	if diff := gocmp.Diff(want, got); diff != "" || !errors.Is(err, errDamaged) {
		t.Errorf("error %v\n%s", err, diff)
	}
}

var errDamaged = errors.New("damaged")

// TestOthersAreNoComparison: that other pages rise after their own merges changes nothing.
func TestOthersAreNoComparison(t *testing.T) {
	other := []string{"/page-00001", "/page-00003", "/page-00020", "/page-00039"}
	run := func(factor float64) view.Outcome {
		s := newSite()
		s.readers = func(path string, d analytics.Date, n float64) float64 {
			if slices.Contains(other, path) && d > merged-2 {
				n *= factor
			}
			return n
		}
		return outcomesOf(t, s.fill("prj_a"), merge(merged-2, other...), merge(merged, touched))[1]
	}
	if diff := gocmp.Diff(run(1), run(5)); diff != "" {
		t.Error(diff)
	}
}

// TestManyMerges: outcomes come in the order of the merges, each as if its project were alone
// and far merges were not read with it.
func TestManyMerges(t *testing.T) {
	s := newSite()
	s.fill("prj_a")
	s.fill("prj_b")
	b := merge(merged+1, "/page-00002")
	b.Project = "prj_b"
	merges := []view.Merge{merge(merged+30, touched), b, merge(merged-30, touched), merge(merged, "/page-00004"),
		{Project: "prj_none", Pages: []string{"/x"}}}
	got := outcomesOf(t, s, merges...)
	for i, m := range merges {
		if got[i].Link != m.Link || len(got[i].Effects) != 2 {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	for _, i := range []int{1, 2} {
		if diff := gocmp.Diff(outcomesOf(t, s, merges[i])[0], got[i]); diff != "" {
			t.Error(diff)
		}
	}
}

// TestManyPages: of 60 pages of a merge that changed nothing, none is called clear only
// because there are many.
func TestManyPages(t *testing.T) {
	s := newSite()
	s.pages = 300
	var pages []string
	for i := range 60 {
		pages = append(pages, fmt.Sprintf("/page-%05d", i*5))
	}
	strong, clear := 0, 0
	for _, e := range outcomesOf(t, s.fill("prj_a"), merge(merged, pages...))[0].Effects {
		if e.Verdict == view.NotEnoughData {
			continue
		}
		if e.P <= 0.05 {
			strong++
			if e.Verdict == view.NoClearChange && !strings.Contains(e.Reason, "chance") {
				t.Errorf("%+v", brief(e))
			}
		}
		if e.Verdict != view.NoClearChange {
			clear++
		}
	}
	if strong == 0 || clear > 0 {
		t.Errorf("%d strong changes, %d clear ones", strong, clear)
	}
}

// TestSeveralPages: one changed page of a merge is found among others, unless there are too few
// untouched pages to tell.
func TestSeveralPages(t *testing.T) {
	for _, tc := range []struct {
		site, pages int
		verdict     view.Verdict
		reason      string
	}{
		{36, 2, view.MoreReaders, ""},
		{36, 5, view.MoreReaders, ""},
		{32, 12, view.NoClearChange, "20 untouched pages are too few to tell one of 12 pages"},
	} {
		s := newSite()
		s.pages, s.readers = tc.site, doubled
		pages := []string{touched}
		for i := range tc.pages - 1 {
			pages = append(pages, fmt.Sprintf("/page-%05d", tc.site-1-i))
		}
		for i, e := range outcomesOf(t, s.fill("prj_a"), merge(merged, pages...))[0].Effects {
			if i == 0 && (e.Verdict != tc.verdict || !strings.Contains(e.Reason, tc.reason)) || e.Path != touched &&
				e.Tone() != "" {
				t.Errorf("%+v: %+v", tc, brief(e))
			}
		}
	}
}

// TestJudge: Benjamini and Hochberg call clear what is at their limit, and all that are before it.
func TestJudge(t *testing.T) {
	const more = 1e-9
	for _, tc := range []struct {
		p    []float64
		want int
	}{{[]float64{level}, 1}, {[]float64{level + more}, 0}, {[]float64{level / 2, level + more}, 1},
		{[]float64{level, level/2 + more}, 2}, {[]float64{level + more, level/2 + more}, 0}} {
		effects, clear := []view.Effect{}, 0
		for _, p := range tc.p {
			effects = append(effects, view.Effect{Audience: analytics.Human, P: p, Change: 1})
		}
		judge(effects, true)
		for _, e := range effects {
			if e.Verdict == view.MoreReaders {
				clear++
			}
		}
		chance := summarize([]view.Outcome{{Effects: effects, Final: true}})[0].ByChance
		if clear != tc.want || chance != level {
			t.Errorf("P of %v: %d clear, want %d, and %v by chance", tc.p, clear, tc.want, chance)
		}
	}
}

// TestSiteHalves: where untouched pages are few, a change is what the page did beyond them.
func TestSiteHalves(t *testing.T) {
	for change, want := range map[float64]view.Verdict{1: view.NoClearChange, 2: view.MoreReaders} {
		for _, pages := range []int{4, 15} {
			s := newSite()
			s.pages = pages
			s.readers = func(path string, d analytics.Date, n float64) float64 {
				if d > merged {
					n /= 2
					if path == "/page-00001" {
						n *= change
					}
				}
				return n
			}
			e := outcomesOf(t, s.fill("prj_a"), merge(merged, "/page-00001"))[0].Effects[0]
			if e.Verdict != want || math.Abs(e.Change+1-change) > 0.2 ||
				math.Abs(e.Actual/e.Expected-1-e.Change) > 0.05 {
				t.Errorf("%d pages, x%v: %+v", pages, change, brief(e))
			}
		}
	}
}

// TestLeastPlacebos: the estimate is made of untouched pages from the number on that can tell one change
// in twenty from the others.
func TestLeastPlacebos(t *testing.T) {
	for others, placebos := range map[int]int{leastPlacebos: leastPlacebos, leastPlacebos - 1: 0} {
		s := newSite()
		s.pages = others + 1
		e := outcomesOf(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
		if e.Placebos != placebos || (e.Method == view.SyntheticControl) != (placebos > 0) {
			t.Errorf("%d untouched pages: %+v", others, brief(e))
		}
	}
}

// TestCorrection: placebos that come back by half of what they lost, and fall by a tenth like all
// others, have little change left, but for the one that rose for another reason, which does not bend
// the line.
func TestCorrection(t *testing.T) {
	for _, knows := range []bool{true, false} {
		var placebos []pageChange
		for i := range 31 {
			g := pageChange{log: -0.1, noise: 0.001}
			if g.past.known = knows && i != 4; g.past.known {
				g.past.moved = float64(i-15) / 20
				g.log -= 0.5 * g.past.moved
			}
			placebos = append(placebos, g)
		}
		placebos[3].log += 3
		c := correct(placebos)
		if c.known != knows || math.Abs(c.usualOf(pageChange{})+0.1) > 0.02 {
			t.Errorf("%+v", c)
		}
		for i, g := range placebos {
			if want := map[bool]float64{true: 3}[i == 3]; math.Abs(g.log-want) > 0.1 {
				t.Errorf("%v, %d: %+v", knows, i, g)
			}
		}
	}
}

// TestMeanChange: the mean and its deviation equal the results of combine_effects(…, method_re="chi2") in
// statsmodels 0.14, the larger of its two deviations; merges of a date are one.
func TestMeanChange(t *testing.T) {
	for _, tc := range []struct {
		changes, variances []float64
		mean, deviation    float64
	}{
		{[]float64{.1, .3, -.05, .2, .15}, []float64{.01, .02, .005, .03, .015}, 0.10195873722, 0.06502380739},
		{[]float64{.1, .9, -.3, .2, .05, .4}, []float64{.0004, .0009, .01, .0025, .04, .0016}, 0.23483138958,
			0.17510903143},
		{[]float64{.02, .05, .03}, []float64{.0004, .0001, .0009}, 0.04285714286, 0.00857142857},
	} {
		for _, copies := range []int{1, 3} {
			var all []pooledChange
			for i, change := range tc.changes {
				for range copies {
					all = append(all, pooledChange{merged + analytics.Date(i), change,
						math.Sqrt(tc.variances[i] * float64(copies))})
				}
			}
			got := meanChange(all)
			width := quantile(outside, float64(len(tc.changes)-1)) * tc.deviation
			if math.Abs(math.Log1p(got.Change)-tc.mean) > 1e-9 || math.Abs(math.Log1p(got.High)-tc.mean-width) > 1e-9 ||
				math.Abs(math.Log1p(got.Low)-tc.mean+width) > 1e-9 || got.Dates != len(tc.changes) ||
				got.Comparisons != len(all) {
				t.Errorf("%v: %+v, want %v ± %v", tc.changes, got, tc.mean, width)
			}
		}
	}
	if got := meanChange([]pooledChange{{1, .1, .1}, {2, .2, .1}, {2, .3, .1}}); got != nil {
		t.Errorf("a mean of two dates: %+v", got)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDamaged)
	got, err := estimate(ctx, newSite().fill("prj_a"), []view.Merge{merge(merged, touched)})
	if got != nil || !errors.Is(err, errDamaged) {
		t.Errorf("%v, %v", got, err)
	}
}

// redirectState has redirects, and a job with a pull request that merged on the same day.
type redirectState []journal.Redirect

func (redirectState) Jobs(context.Context) ([]journal.Job, error) {
	return []journal.Job{{PRLink: "https://x/1", Pages: []string{"/page-00020"}}}, nil
}

func (redirectState) PullRequests(context.Context) ([]journal.PullRequest, error) {
	return []journal.PullRequest{{Link: "https://x/1", Project: "prj_a", State: journal.PullMerged, Merged: merged.Time()}}, nil
}

func (s redirectState) Redirects(context.Context) ([]journal.Redirect, error) {
	return slices.Clone(s), nil
}

// TestRedirects: a redirect has how often its path was missed before and after, and the change of its target's readers.
// If a merge touched the target on the same day, the redirect has the effect of the merge. A redirect is left out if
// nobody missed its path, or if it began on a day that is not selected.
func TestRedirects(t *testing.T) {
	s := newSite()
	s.readers = doubled
	s.fill("prj_a")
	for d := merged - 60; d <= merged+60; d++ {
		missed := int64(6)
		if d > merged {
			missed = 1
		}
		rows := []analytics.AgentRow{
			{Path: "/old", Agent: "ChatGPT-User", Class: "answers", Audience: "ai", Visitors: 1, Requests: missed},
			{Path: "/old", Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 1, Requests: missed},
			{Path: "/other", Agent: "Claude-User", Class: "answers", Audience: "ai", Found: true, Visitors: 1, Requests: 9},
			{Path: "/same", Agent: "Claude-User", Class: "answers", Audience: "ai", Visitors: 1, Requests: 1},
		}
		rev := dayOf("prj_a", d, len(rows))
		if rev.Report = analytics.AgentsReport; d == merged-3 {
			rev.Settled = false // its numbers may change
			rows[0].Requests = 1e6
		}
		file, err := archive.Encode(rev, analytics.Records(sinktest.List(rows...)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(t.Context(), file); err != nil {
			t.Fatal(err)
		}
	}
	state := redirectState{
		{Project: "prj_a", Path: "/never", Target: "/page-00030", Since: merged.Time()},
		{Project: "prj_a", Path: "/old", Target: touched, Since: merged.Time().Add(time.Hour)},
		{Project: "prj_a", Path: "/other", Target: touched, Since: merged.Time()},
		{Project: "prj_a", Path: "/same", Target: "/page-00020", Since: merged.Time()},
		{Project: "prj_b", Path: "/old", Target: touched, Since: merged.Time()},
	}
	got, err := Estimate(t.Context(), state, s, Selection{})
	if err != nil || len(got.Redirects) != 2 || len(got.Merges) != 1 {
		t.Fatalf("%+v, %v", got.Redirects, err)
	}
	old, same := got.Redirects[0], got.Redirects[1]
	if old.Path != "/old" || old.Project != "prj_a" || *old.MissedBefore != 12 || *old.MissedAfter != 2 || !old.Final {
		t.Errorf("%+v", old)
	}
	if e := old.Effects; len(e) != 2 || e[0].Path != touched || e[0].Verdict != view.MoreReaders ||
		e[1].Audience != analytics.AI || e[1].Verdict != view.MoreReaders {
		t.Errorf("%+v", e)
	}
	if !reflect.DeepEqual(same.Effects, got.Merges[0].Effects) || same.Effects[0].Verdict != view.NoClearChange {
		t.Errorf("%+v, of the merge %+v", same.Effects, got.Merges[0].Effects)
	}
	for _, selected := range []Selection{{Since: (merged + 1).Time()}, {Until: merged.Time()}, {Projects: []string{"prj_b"}}} {
		got, err := Estimate(t.Context(), state, s, selected)
		if err != nil || got.Redirects == nil || len(got.Redirects) != 0 {
			t.Errorf("%+v: %+v, %v", selected, got.Redirects, err)
		}
	}
}
