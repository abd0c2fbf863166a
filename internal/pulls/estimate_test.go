package pulls

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
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
			if row := (analytics.Row{Path: path, Human: int64(n), AI: int64(n / 10), Total: int64(n)}); n >= 1 {
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

func of(t *testing.T, s *site, merges ...view.Merge) []view.Outcome {
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
	got := of(t, s.fill("prj_a"), merge(merged, touched))[0]
	e := got.Effects[0]
	if len(got.Effects) != 2 || !got.Final || e.Audience != analytics.Human ||
		got.Effects[1].Audience != analytics.AI {
		t.Fatalf("%+v", got)
	}
	if e.Verdict != view.MoreReaders || e.Method != view.SyntheticControl || e.DaysBefore != 28 || e.DaysAfter != 28 ||
		e.Placebos != 39 || e.P != 1.0/40 ||
		e.Reason != "" {
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
	if ai := got.Effects[1]; ai.Verdict != view.NotEnoughData || !strings.Contains(ai.Reason, "visitors a day") {
		t.Errorf("%+v", ai)
	}
	// With few pages the level of the page itself is taken, and the reason says so.
	s = newSite()
	s.pages, s.readers = 15, doubled
	e = of(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
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
		e := of(t, s.fill("prj_a"), merge(merged, touched))[0].Effects[0]
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
	const enough, lacks = view.NoClearChange, view.NotEnoughData
	for _, tc := range []struct {
		name          string
		change        func(*site)
		merges        []view.Merge
		verdict       view.Verdict
		reason        string
		before, after int
	}{
		{"14 days before", without(func(d analytics.Date) bool { return d < merged-14 }), nil, enough, "", 14, 28},
		{"13 days before", without(func(d analytics.Date) bool { return d < merged-13 }), nil, lacks,
			"13 days with readers before", 13, 28},
		{"7 days after", without(func(d analytics.Date) bool { return d > merged+7 }), nil, enough, "", 28, 7},
		{"6 days after", without(func(d analytics.Date) bool { return d > merged+6 }), nil, lacks,
			"6 verified, settled days after", 28, 6},
		{"nothing after", without(func(d analytics.Date) bool { return d > merged }), nil, lacks,
			"0 verified, settled days", 28, 0},
		{"every eighth day missing", without(func(d analytics.Date) bool { return (d-merged+28)%8 == 0 }), nil, enough,
			"", 24, 24},
		{"no archive", without(always), nil, lacks, "0 days", 0, 0},
		{"few readers", fewer(.1, always), nil, lacks, "visitors a day before the merge, 20 are needed", 28, 28},
		{"a new page", fewer(0, func(d analytics.Date) bool { return d < merged-5 }), nil, lacks,
			"5 days with readers before", 5, 28},
		{"a page removed", fewer(0, func(d analytics.Date) bool { return d > merged+3 }), nil, lacks,
			"no reader since " + (merged + 4).String(), 28, 28},
		{"an unknown page", fewer(0, always), nil, lacks, "`pages:`", 0, 28},
		{"two merges on one day", nil, []view.Merge{merge(merged, touched, "/page-00001")}, lacks,
			"2 merges touched the page on " + merged.String(), 28, 28},
		{"a merge long before", nil, []view.Merge{merge(merged-15, touched)}, enough, "", 14, 28},
		{"a merge shortly before", nil, []view.Merge{merge(merged-14, touched)}, lacks, "after any other merge", 13,
			28},
		{"a merge long after", nil, []view.Merge{merge(merged+8, touched)}, enough, "", 28, 7},
		{"a merge shortly after", nil, []view.Merge{merge(merged+7, touched)}, lacks, "before any other merge", 28, 6},
		{"a merge on another page", nil, []view.Merge{merge(merged, "/page-00001")}, enough, "", 28, 28},
		{"a merge out of sight", nil, []view.Merge{merge(merged-29, touched), merge(merged+29, touched)}, enough, "",
			28, 28},
	} {
		s := newSite()
		s.pages = 25 // enough for placebos
		if tc.change != nil {
			tc.change(s)
		}
		e := of(t, s.fill("prj_a"), append([]view.Merge{merge(merged, touched)}, tc.merges...)...)[0].Effects[0]
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
	want := of(t, missing.fill("prj_a"), merge(merged, touched))
	if want[0].Final || want[0].Effects[0].DaysBefore >= 28 {
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
		if diff := gocmp.Diff(want, of(t, s.fill("prj_a"), merge(merged, touched))); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

// TestDamagedWindow: it counts as missing, and its error is returned.
func TestDamagedWindow(t *testing.T) {
	missing := newSite()
	missing.window = func(rev *analytics.Revision) bool { return rev.From != merged-3 }
	want := of(t, missing.fill("prj_a"), merge(merged, touched))
	missing.Put(dayOf("prj_a", merged-3, 1), []analytics.Row{{Path: touched, Human: 1, Total: 1}}, errDamaged)
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
		return of(t, s.fill("prj_a"), merge(merged-2, other...), merge(merged, touched))[1]
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
	got := of(t, s, merges...)
	for i, m := range merges {
		if got[i].Link != m.Link || len(got[i].Effects) != 2 {
			t.Errorf("%d: %+v", i, got[i])
		}
	}
	for _, i := range []int{1, 2} {
		if diff := gocmp.Diff(of(t, s, merges[i])[0], got[i]); diff != "" {
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
	for _, e := range of(t, s.fill("prj_a"), merge(merged, pages...))[0].Effects {
		if e.Verdict == view.NotEnoughData {
			continue
		}
		if e.P <= 0.05 {
			strong++
			if e.Verdict == view.NoClearChange && !strings.Contains(e.Reason, "by chance") {
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

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDamaged)
	got, err := estimate(ctx, newSite().fill("prj_a"), []view.Merge{merge(merged, touched)})
	if got != nil || !errors.Is(err, errDamaged) {
		t.Errorf("%v, %v", got, err)
	}
}
