package query_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// windowOf returns a reading of a window from and up to days after 1 October 2026.
func windowOf(project string, g analytics.Granularity, from, to int) analytics.Revision {
	key := sinktest.Key(project, from)
	key.Granularity, key.To = g, sinktest.Key(project, to).From
	return sinktest.Revision(key, int32(from+1))
}

func put(s *sinktest.Memory, rev analytics.Revision, rows ...analytics.Row) analytics.Revision {
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(a.Path, b.Path) })
	rev.Rows = int64(len(rows))
	s.Put(rev, rows, nil)
	return rev
}

func page(path string, n int64) analytics.Row {
	return analytics.Row{Path: path, Human: n, AI: 1, Total: n + 1}
}

func top(t *testing.T, s sinks.Sink, o query.TopOptions) []query.Pages {
	t.Helper()
	if o.Selection.Granularity == "" {
		o.Selection.Granularity = analytics.Day
	}
	o.Ranking.By, o.Ranking.N = cmp.Or(o.Ranking.By, analytics.Everyone), cmp.Or(o.Ranking.N, 10)
	got, err := query.Top(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func paths(all []analytics.Change) (out []string) {
	for _, c := range all {
		out = append(out, c.Path)
	}
	return out
}

var oddPaths = []string{"", "/", "/a", "/a\n\"b\"", "/guides", "/guides/x", "/guides-old", "=cmd|' /C calc'!A0", "/文档/指南", "\x1b[31m", "-1", "/a,b;c\t"}

// TestTopSorted: whatever the rows, the first n are those of a full sort, and no page of
// one window alone is rising or falling.
func TestTopSorted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.Custom(func(r *rapid.T) (out []analytics.Row) {
			n := rapid.Int64Range(0, 4) // many are equal
			for _, path := range oddPaths {
				if rapid.Bool().Draw(r, "read") {
					out = append(out, analytics.Row{Path: path, Human: n.Draw(r, "human"), AI: n.Draw(r, "ai"), Total: n.Draw(r, "total")})
				}
			}
			return out
		})
		before, after := rows.Draw(r, "before"), rows.Draw(r, "after")
		o := query.TopOptions{
			Selection: query.Selection{Granularity: analytics.Day}, Changed: rapid.Bool().Draw(r, "changed"),
			Ranking: query.Ranking{
				By: rapid.SampledFrom([]analytics.Audience{"total", "human", "ai"}).Draw(r, "by"), N: rapid.IntRange(1, 6).Draw(r, "n"),
				Prefix: rapid.SampledFrom([]string{"", "/", "/guides", "="}).Draw(r, "prefix"),
			},
		}
		s := &sinktest.Memory{}
		put(s, windowOf("prj_a", analytics.Day, 0, 1), before...)
		put(s, windowOf("prj_a", analytics.Day, 1, 2), after...)
		got, err := query.Top(t.Context(), s, o)
		if err != nil || len(got) != 1 {
			r.Fatalf("%v, %v", got, err)
		}
		if diff := gocmp.Diff(sorted(o, before, after), paths(got[0].First)); diff != "" {
			r.Fatalf("-sorted +answered:\n%s", diff)
		}
		m := got[0].Movers
		for _, c := range slices.Concat(m.Rising.First, m.Falling.First) {
			if c.Appeared || c.Vanished {
				r.Fatalf("%+v is rising or falling", c)
			}
		}
	})
}

// sorted ranks the pages in the plain way.
func sorted(o query.TopOptions, before, after []analytics.Row) []string {
	type scored struct {
		path  string
		score int64
	}
	var all []scored
	for _, r := range after {
		i := slices.IndexFunc(before, func(b analytics.Row) bool { return b.Path == r.Path })
		now := r.Totals().Of(o.Ranking.By)
		switch {
		case !strings.HasPrefix(r.Path, o.Ranking.Prefix):
		case !o.Changed:
			all = append(all, scored{r.Path, now})
		case i >= 0 && before[i].Totals().Of(o.Ranking.By) != now:
			change := now - before[i].Totals().Of(o.Ranking.By)
			all = append(all, scored{r.Path, max(change, -change)})
		}
	}
	slices.SortFunc(all, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path)) })
	var out []string
	for _, s := range all[:min(o.Ranking.N, len(all))] {
		out = append(out, s.path)
	}
	return out
}

// TestTopWindow: which window it is, and which one comes before it.
func TestTopWindow(t *testing.T) {
	s := &sinktest.Memory{}
	for day := range 3 {
		put(s, windowOf("prj_a", analytics.Day, day, day+1), page(fmt.Sprint("/day", day), 1))
	}
	put(s, windowOf("prj_b", analytics.Day, 7, 8), page("/b", 1))
	put(s, windowOf("prj_b", analytics.Day, 5, 6))
	put(s, windowOf("prj_a", "2d", 0, 2), page("/rolling", 1))
	put(s, windowOf("prj_a", "2d", 1, 3), page("/rolling", 2))
	put(s, windowOf("prj_a", "2d", 2, 4), page("/rolling", 5))
	day := func(n int) *analytics.Date { d := sinktest.Key("", n).From; return &d }

	got := top(t, s, query.TopOptions{Selection: query.Selection{Order: []string{"prj_b"}}})
	if len(got) != 2 || got[0].Window.Project != "prj_b" || got[0].Before != nil || got[0].Compared {
		t.Errorf("in order, without a window before: %+v", got)
	}
	if a := got[1]; a.First[0].Path != "/day2" || a.Before == nil || a.Before.From != *day(1) || a.Movers.Vanished.Count != 1 {
		t.Errorf("newest: %+v", a)
	}
	one := query.Selection{Projects: []string{"prj_a"}}
	if got := top(t, s, query.TopOptions{Selection: one, At: day(1)}); got[0].First[0].Path != "/day1" {
		t.Errorf("at a day: %+v", got)
	}
	one.Granularity = "2d"
	if got := top(t, s, query.TopOptions{Selection: one, At: day(3)})[0]; got.Window.From != *day(2) || got.Before.From != *day(0) || got.First[0].By("human") != 4 {
		t.Errorf("rolling windows are compared with those that share no day: %+v", got)
	}

	// The rows of the newest are not known yet: the one before has pages.
	s.Put(sinktest.TotalsOnly(windowOf("prj_a", analytics.Day, 3, 4)), nil, nil)
	one.Granularity = analytics.Day
	if got := top(t, s, query.TopOptions{Selection: one})[0]; got.Window.From != *day(2) || got.Newer == nil || got.Newer.From != *day(3) {
		t.Errorf("totals only: %+v", got)
	}
	// Of the window before only the totals are known.
	put(s, windowOf("prj_a", analytics.Day, 4, 5), page("/x", 1))
	if got := top(t, s, query.TopOptions{Selection: one, Changed: true})[0]; got.Before == nil || got.Compared || got.First != nil {
		t.Errorf("compared with totals: %+v", got)
	}
}

// TestErrors: what was asked for and is not there is said, and the rest is answered.
func TestErrors(t *testing.T) {
	s := &sinktest.Memory{}
	ask := func(o query.TopOptions) ([]query.Pages, string) {
		o.Ranking = query.Ranking{By: analytics.Everyone, N: 1}
		got, err := query.Top(t.Context(), s, o)
		return got, fmt.Sprint(err)
	}
	week := query.Selection{Granularity: analytics.Week}
	if _, err := ask(query.TopOptions{Selection: week}); !strings.Contains(err, "has no window: run `docgauge export` first") {
		t.Error(err)
	}
	put(s, windowOf("prj_a", analytics.Day, 0, 1), page("/", 1))
	if _, err := ask(query.TopOptions{Selection: week}); !strings.Contains(err, "has no week window; it has day: --window day") {
		t.Error(err)
	}
	day := query.Selection{Granularity: analytics.Day, Projects: []string{"prj_b"}}
	_, err := query.Top(t.Context(), s, query.TopOptions{Selection: day})
	if unknown, is := errors.AsType[query.UnknownProjectError](err); !is || !strings.Contains(unknown.Error(), "did you mean prj_a?") {
		t.Error(err)
	}
	day.Projects = []string{"product"}
	if _, err := ask(query.TopOptions{Selection: day}); !strings.Contains(err, "there are prj_a") {
		t.Error(err)
	}
	day.Projects = nil
	at := analytics.NewDate(2026, 11, 1)
	if _, err := ask(query.TopOptions{Selection: day, At: &at}); !strings.Contains(err, "no day window of prj_a in the archive contains 2026-11-01; they reach from 2026-10-01 to 2026-10-02 (exclusive)") {
		t.Error(err)
	}
	s.Put(sinktest.TotalsOnly(windowOf("prj_b", analytics.Day, 0, 1)), nil, nil)
	if got, err := ask(query.TopOptions{Selection: day}); len(got) != 1 || !strings.Contains(err, "prj_b day [2026-10-01,2026-10-02): only its totals were read") {
		t.Error(got, err)
	}

	// Damage counts where the answer needs the window, and nowhere else.
	s.Remove(sinktest.Key("prj_b", 0))
	damage := func(n int) {
		rev := windowOf("prj_a", analytics.Day, n, n+1)
		s.Put(rev, nil, sinks.Fault{Sink: "memory", Key: rev.Key, Kind: sinks.Unreadable, Err: errors.New("torn")})
	}
	put(s, windowOf("prj_a", analytics.Day, 3, 4), page("/", 1))
	damage(1)
	if got, err := ask(query.TopOptions{Selection: day}); len(got) != 1 || err != "<nil>" {
		t.Error(got, err)
	}
	for _, n := range []int{2, 4} {
		damage(n)
		if got, err := ask(query.TopOptions{Selection: day}); len(got) != 0 || !strings.Contains(err, "torn") {
			t.Errorf("day %d is damaged: %v %s", n, got, err)
		}
		s.Remove(sinktest.Key("prj_a", n))
	}
}

func histories(t *testing.T, s sinks.Sink, o query.HistoryOptions) []query.History {
	t.Helper()
	o.Last = cmp.Or(o.Last, 30)
	got, err := query.Histories(t.Context(), s, o)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// TestHistory: gaps are gaps, an absent page is not 0, and the change needs both windows.
func TestHistory(t *testing.T) {
	s := &sinktest.Memory{}
	put(s, windowOf("prj_a", analytics.Day, 0, 1), page("/a", 10), page("/b", 1))
	put(s, windowOf("prj_a", analytics.Day, 1, 2), page("/b", 2))
	put(s, windowOf("prj_a", analytics.Day, 4, 5), page("/a", 20), page("/b", 3))
	s.Put(sinktest.TotalsOnly(windowOf("prj_a", analytics.Day, 5, 6)), nil, nil)
	put(s, windowOf("prj_b", analytics.Day, 4, 5), page("/c", 1))
	put(s, windowOf("prj_a", analytics.Week, 4, 11))
	today := sinktest.Key("", 8).From
	tell := func(h query.History) (out string) {
		for _, step := range h.Steps {
			n := func(v *analytics.Totals) string {
				if v == nil {
					return "-"
				}
				return fmt.Sprint(v.Human)
			}
			out += fmt.Sprintf("%d:%s<%s", step.From.Time().Day(), n(step.Visitors), n(step.Before))
			switch {
			case step.Revision == nil:
				out += " missing"
			case step.Absent():
				out += " absent"
			}
			out += "; "
		}
		return out + fmt.Sprint(h.Newer)
	}
	day := query.Selection{Granularity: analytics.Day}
	all := histories(t, s, query.HistoryOptions{Selection: day, Today: today})
	if got, want := tell(all[0]), "1:1000<-; 2:2000<1000; 3:-<2000 missing; 4:-<- missing; 5:5000<-; 6:6000<5000; 2"; got != want || len(all) != 2 {
		t.Errorf("%s, want %s", got, want)
	}
	if got := histories(t, s, query.HistoryOptions{Selection: day, Today: today, Last: 2}); tell(got[0]) != "5:5000<-; 6:6000<5000; 2" {
		t.Error(tell(got[0]))
	}
	one := histories(t, s, query.HistoryOptions{Selection: day, Today: today, Page: "/a"})
	if got, want := tell(one[0]), "1:10<-; 2:-<10 absent; 3:-<- missing; 4:-<- missing; 5:20<-; 6:-<20; 2"; got != want || len(one) != 1 {
		t.Errorf("%s, want %s", got, want)
	}
	if _, err := query.Histories(t.Context(), s, query.HistoryOptions{Selection: day, Page: "/A", Last: 9}); err == nil || !strings.Contains(err.Error(), `page "/A" has no row`) {
		t.Error(err)
	}
	week := query.Selection{Granularity: analytics.Week}
	if got := histories(t, s, query.HistoryOptions{Selection: week, Today: today + 4}); tell(got[0]) != "5:5000<-; 0" {
		t.Error(tell(got[0]))
	}
	rolling := query.Selection{Granularity: "2d"}
	for from := range 4 {
		put(s, windowOf("prj_a", "2d", from, from+2))
	}
	if got := histories(t, s, query.HistoryOptions{Selection: rolling, Today: today, Last: 2}); tell(got[0]) != "3:3000<1000; 4:4000<2000; 3" {
		t.Error(tell(got[0]))
	}
	rev := windowOf("prj_a", analytics.Day, 3, 4)
	s.Put(rev, nil, sinks.Fault{Sink: "memory", Key: rev.Key, Kind: sinks.Unreadable, Err: errors.New("torn")})
	if got, err := query.Histories(t.Context(), s, query.HistoryOptions{Selection: day, Last: 9}); err == nil || len(got) != 1 || got[0].Project != "prj_b" {
		t.Errorf("a window is damaged: %v, %v", got, err)
	}
}

// TestMemory: two windows of 300,000 pages are compared in a few megabytes, and nothing
// is left behind.
func TestMemory(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	sink, err := parquet.New(filepath.Join(t.TempDir(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	for day := range 2 {
		rows := func(yield func(analytics.Row, error) bool) {
			for i := range 300_000 {
				if !yield(page(fmt.Sprintf("/guides/chapter-%03d/a-long-page-name-%07d", i/1000, i), int64(i*(day+1)%997)), nil) {
					return
				}
			}
		}
		if err := sink.Replace(t.Context(), sinktest.Seal(t, windowOf("prj_a", analytics.Day, day, day+1), iter.Seq2[analytics.Row, error](rows))); err != nil {
			t.Fatal(err)
		}
	}
	g := &gauged{Sink: sink}
	g.look()
	before := g.most
	got := top(t, g, query.TopOptions{Selection: query.Selection{Granularity: analytics.Day}, Ranking: query.Ranking{N: 20}})
	used := g.most - before
	if got[0].Movers.Pages != 300_000 || len(got[0].First) != 20 || got[0].Movers.Rising.Count == 0 {
		t.Errorf("%+v", got[0].Movers.Top)
	}
	if t.Logf("%d KiB at most", used>>10); used > 16<<20 {
		t.Errorf("%d MiB for two windows of 300,000 rows", used>>20)
	}
	if left, err := filepath.Glob(filepath.Join(temp, "docgauge-*")); err != nil || len(left) > 0 {
		t.Error(left, err)
	}
}

// gauged looks at the memory in use while rows are read.
type gauged struct {
	sinks.Sink
	most uint64
}

func (g *gauged) look() {
	runtime.GC()
	runtime.GC() // what pools held until the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g.most = max(g.most, m.HeapAlloc)
}

func (g *gauged) Window(ctx context.Context, rev analytics.Revision, dir string) (sinks.Sealed, func() error, error) {
	w, done, err := g.Sink.Window(ctx, rev, dir)
	return looked{w, g}, done, err
}

type looked struct {
	sinks.Sealed
	gauge *gauged
}

func (l looked) Rows() iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		n := 0
		for row, err := range l.Sealed.Rows() {
			if n++; n%50_000 == 0 {
				l.gauge.look()
			}
			if !yield(row, err) {
				return
			}
		}
	}
}
