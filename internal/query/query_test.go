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
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/internal/query"
	"github.com/docgauge/docgauge/sinks"
	"github.com/docgauge/docgauge/sinks/parquet"
	"github.com/docgauge/docgauge/sinks/sinktest"
)

// windowOf returns a reading of a window from and up to days after 1 October 2026.
func windowOf(project string, g analytics.Granularity, from, to int) analytics.Revision {
	key := sinktest.Key(project, from)
	key.Granularity, key.To = g, sinktest.Key(project, to).From
	rev := sinktest.Revision(key, int32(from+1))
	rev.Humans = ""
	return rev
}

func put(s *sinktest.Memory, rev analytics.Revision, rows ...analytics.Row) analytics.Revision {
	slices.SortFunc(rows, func(a, b analytics.Row) int { return cmp.Compare(a.Path, b.Path) })
	rev.Rows = int64(len(rows))
	s.Put(rev, rows, nil)
	return rev
}

func page(path string, n int64) analytics.Row {
	return analytics.Row{Path: path, Totals: analytics.Totals{Human: n, AI: 1, Total: n + 1}}
}

// daily chooses the newest day of each project.
var daily = query.Choice{Selection: query.Selection{Granularity: analytics.Day}}

func top(t *testing.T, s sinks.Sink, o query.Choice, by query.Ranking) []query.TopReport {
	t.Helper()
	if o.Selection.Granularity == "" {
		o.Selection.Granularity = analytics.Day
	}
	by.By, by.N = cmp.Or(by.By, analytics.Everyone), cmp.Or(by.N, 10)
	got, err := query.Top(t.Context(), s, o, by)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func paths(all []query.RankedPage) (out []string) {
	for _, p := range all {
		out = append(out, p.Path)
	}
	return out
}

var oddPaths = []string{
	"", "/", "/a", "/a\n\"b\"", "/guides", "/guides/x", "/guides-old", "=cmd|' /C calc'!A0", "/文档/指南", "\x1b[31m",
	"-1", "/a,b;c\t",
}

// TestTopSorted: whatever the rows, the first n are the first n of a full sort, and no page of one window alone is
// rising or falling.
func TestTopSorted(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.Custom(func(r *rapid.T) (out []analytics.Row) {
			n := rapid.Int64Range(0, 4) // many are equal
			for _, path := range oddPaths {
				if rapid.Bool().Draw(r, "read") {
					human, ai, total := n.Draw(r, "human"), n.Draw(r, "ai"), n.Draw(r, "total")
					out = append(out, analytics.Row{Path: path, Totals: analytics.Totals{Human: human, AI: ai, Total: total}})
				}
			}
			return out
		})
		before, after := rows.Draw(r, "before"), rows.Draw(r, "after")
		o := query.Ranking{
			By:     rapid.SampledFrom([]analytics.Audience{"total", "human", "ai", query.ByChange}).Draw(r, "by"),
			N:      rapid.IntRange(1, 6).Draw(r, "n"),
			Prefix: rapid.SampledFrom([]string{"", "/", "/guides", "="}).Draw(r, "prefix"),
		}
		s := &sinktest.Memory{}
		put(s, windowOf("prj_a", analytics.Day, 0, 1), before...)
		put(s, windowOf("prj_a", analytics.Day, 7, 8), after...)
		got, err := query.Top(t.Context(), s, daily, o)
		if err != nil || len(got) != 1 {
			r.Fatalf("%v, %v", got, err)
		}
		if diff := gocmp.Diff(sorted(o, before, after), paths(got[0].Pages)); diff != "" {
			r.Fatalf("-sorted +answered:\n%s", diff)
		}
		everything := o
		everything.N = len(oddPaths)
		all := sorted(everything, before, after)
		if got[0].Listed != int64(len(all)) {
			r.Fatalf("%d pages are listed, want %q", got[0].Listed, all)
		}
		later := o
		later.Offset = rapid.IntRange(0, 6).Draw(r, "offset")
		rest, err := query.Top(t.Context(), s, daily, later)
		want := all[min(len(all), later.Offset):]
		if err != nil || gocmp.Diff(want[:min(len(want), o.N)], paths(rest[0].Pages), cmpopts.EquateEmpty()) != "" {
			r.Fatalf("%v, %v, want %q", rest, err, want)
		}
		for i, path := range all {
			alone := o
			alone.Path, alone.Prefix = &path, ""
			if o.Prefix != "" {
				continue
			}
			r2, err := query.Top(t.Context(), s, daily, alone)
			if err != nil || len(r2[0].Pages) != 1 || r2[0].Pages[0].Path != path || r2[0].Pages[0].Rank != i+1 {
				r.Fatalf("%q: %v, %v, want rank %d", path, r2, err, i+1)
			}
		}
		changes := got[0].Changes
		lists := map[query.List]query.PageList{query.Rising: changes.Rising, query.Falling: changes.Falling}
		for list, want := range lists {
			asked := o
			asked.List = list
			r2, err := query.Top(t.Context(), s, daily, asked)
			if refused := o.By == query.ByChange; refused != (err != nil) ||
				!refused && gocmp.Diff(want.Pages, r2[0].Pages) != "" {
				r.Fatalf("%s: %v, %v, want %v", list, r2, err, want)
			}
		}
		for _, c := range slices.Concat(changes.Rising.Pages, changes.Falling.Pages) {
			if c.Change == nil {
				r.Fatalf("%+v is rising or falling", c)
			}
		}
	})
}

// sorted ranks the pages in the plain way.
func sorted(o query.Ranking, before, after []analytics.Row) []string {
	type scored struct {
		path  string
		score int64
	}
	var all []scored
	for _, r := range after {
		i := slices.IndexFunc(before, func(b analytics.Row) bool { return b.Path == r.Path })
		now := r.Totals.Of(o.Audience())
		switch {
		case !strings.HasPrefix(r.Path, o.Prefix):
		case o.By != query.ByChange:
			all = append(all, scored{r.Path, now})
		case i >= 0 && before[i].Totals.Of(o.Audience()) != now:
			change := now - before[i].Totals.Of(o.Audience())
			all = append(all, scored{r.Path, max(change, -change)})
		}
	}
	slices.SortFunc(all, func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.path, b.path))
	})
	var out []string
	for _, s := range all[:min(o.N, len(all))] {
		out = append(out, s.path)
	}
	return out
}

// TestTopWindow: which window it is, and which one comes before it.
func TestTopWindow(t *testing.T) {
	s := &sinktest.Memory{}
	for _, day := range []int{0, 7, 13, 14} { // a day is compared with the day a week before
		put(s, windowOf("prj_a", analytics.Day, day, day+1), page(fmt.Sprint("/day", day), 1))
	}
	put(s, windowOf("prj_b", analytics.Day, 7, 8), page("/b", 1))
	put(s, windowOf("prj_b", analytics.Day, 5, 6))
	put(s, windowOf("prj_a", "2d", 0, 2), page("/rolling", 1))
	put(s, windowOf("prj_a", "2d", 1, 3), page("/rolling", 2))
	put(s, windowOf("prj_a", "2d", 2, 4), page("/rolling", 5))
	day := func(n int) *analytics.Date { d := sinktest.Key("", n).From; return &d }

	got := top(t, s, query.Choice{Selection: query.Selection{Order: []string{"prj_b"}}}, query.Ranking{})
	if len(got) != 2 || got[0].Project != "prj_b" || got[0].Previous != nil || got[0].Changes != nil {
		t.Errorf("in order, without a window before: %+v", got)
	}
	// check asks for prj_a: the first page, and the days from which the windows are.
	check := func(name string, o query.Choice, g analytics.Granularity, path string, from, previous,
		newer int) query.TopReport {
		t.Helper()
		o.Selection = query.Selection{Projects: []string{"prj_a"}, Granularity: g}
		r := top(t, s, o, query.Ranking{})[0]
		is := func(rev *analytics.Revision, n int) bool {
			return (rev == nil) == (n < 0) &&
				(n < 0 || rev.From == *day(n))
		}
		if r.Pages[0].Path != path || r.From != *day(from) || !is(r.Previous, previous) || !is(r.Newer, newer) {
			t.Errorf("%s: %+v", name, r)
		}
		return r
	}
	if r := check("newest", query.Choice{}, analytics.Day, "/day14", 14, 7, -1); r.Changes.Vanished.Count != 1 {
		t.Errorf("%+v", r.Changes)
	}
	check("at a day", query.Choice{At: day(7)}, analytics.Day, "/day7", 7, 0, -1)
	check("with a day", query.Choice{With: day(13)}, analytics.Day, "/day14", 14, 13, -1)
	if r := check("rolling windows share no day", query.Choice{At: day(3)}, "2d", "/rolling", 2, 0,
		-1); *r.Pages[0].Change != 4 {
		t.Errorf("%+v", r.Pages)
	}
	s.Put(sinktest.TotalsOnly(windowOf("prj_a", analytics.Day, 21, 22)), nil, nil)
	check("the newest has only totals", query.Choice{}, analytics.Day, "/day14", 14, 7, 21)
	put(s, windowOf("prj_a", analytics.Day, 28, 29), page("/x", 1))
	if r := check("the one before has only totals", query.Choice{}, analytics.Day, "/x", 28, 21,
		-1); r.Changes != nil {
		t.Errorf("%+v", r.Changes)
	}
	one := query.Choice{Selection: query.Selection{Projects: []string{"prj_a"}}}
	if r := top(t, s, one, query.Ranking{By: query.ByChange})[0]; len(r.Pages) > 0 {
		t.Errorf("ranked by an unknown change: %+v", r.Pages)
	}
}

// TestErrors: an error names what the archive lacks, and the rest is answered.
func TestErrors(t *testing.T) {
	s := &sinktest.Memory{}
	// ask wants some reports, and an error that contains a text; empty: none.
	ask := func(g analytics.Granularity, project string, at *analytics.Date, reports int, want string) {
		t.Helper()
		o := query.Choice{Selection: query.Selection{Granularity: g}, At: at}
		if project != "" {
			o.Selection.Projects = []string{project}
		}
		got, err := query.Top(t.Context(), s, o, query.Ranking{By: analytics.Everyone, N: 1})
		_, unknown := errors.AsType[query.UnknownProjectError](err)
		if len(got) != reports || (err == nil) != (want == "") || !strings.Contains(fmt.Sprint(err), want) ||
			unknown != (project != "") {
			t.Errorf("%s %s: %v, %v, want %q", g, project, got, err, want)
		}
	}
	ask("week", "", nil, 0, "has no window: run `docgauge export` first")
	put(s, windowOf("prj_a", analytics.Day, 0, 1), page("/", 1))
	ask("week", "", nil, 0, "has no week window; ask for a kind that it has: day")
	ask("day", "prj_b", nil, 0, "did you mean prj_a?")
	ask("day", "product", nil, 0, "there are prj_a")
	at := analytics.NewDate(2026, 11, 1)
	ask("day", "", &at, 0, "contains 2026-11-01; they reach from 2026-10-01 to 2026-10-02 (exclusive), and "+
		"the nearest from 2026-10-01 to 2026-10-02")
	s.Put(sinktest.TotalsOnly(windowOf("prj_b", analytics.Day, 0, 1)), nil, nil)
	ask("day", "", nil, 1, "prj_b day [2026-10-01,2026-10-02): only its totals were read")
	var rows []analytics.Row
	for i := range 2*analytics.PageRows + 1 {
		rows = append(rows, page(fmt.Sprint("/", i), 1))
	}
	many := put(s, windowOf("prj_b", analytics.Day, 5, 6), rows...)
	week := sinktest.TotalsOnly(windowOf("prj_b", analytics.Week, 4, 11))
	s.Put(week, nil, nil)
	ask("week", "", nil, 0, "it costs 3 requests or more")
	s.Remove(many.Key)
	s.Remove(week.Key)

	// Damage counts where the answer needs the window, and nowhere else.
	s.Remove(sinktest.Key("prj_b", 0))
	put(s, windowOf("prj_a", analytics.Day, 10, 11), page("/", 1))
	damage(s, 1)
	ask("day", "", nil, 1, "")
	tearing := &tornAgain{Sink: s, reads: 1}
	path := query.Ranking{By: analytics.Everyone, N: 1, Path: new("/")}
	got, err := query.Top(t.Context(), tearing, daily, path)
	if len(got) != 0 || !strings.Contains(fmt.Sprint(err), "torn") {
		t.Errorf("damaged before its rank was read: %+v, %v", got, err)
	}
	for _, n := range []int{3, 11} {
		damage(s, n)
		ask("day", "", nil, 0, "torn")
		s.Remove(sinktest.Key("prj_a", n))
	}
}

// damage makes the window of a day unreadable.
func damage(s *sinktest.Memory, n int) {
	rev := windowOf("prj_a", analytics.Day, n, n+1)
	s.Put(rev, nil, sinks.Fault{Sink: "memory", Key: rev.Key, Kind: sinks.Unreadable, Err: errors.New("torn")})
}

// tornAgain is a sink whose windows cannot be read after some reads.
type tornAgain struct {
	sinks.Sink
	reads int
}

func (s *tornAgain) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (sinks.Sealed, func() error, error) {
	if s.reads--; s.reads < 0 {
		return nil, nil, errors.New("torn")
	}
	return s.Sink.Window(ctx, rev, dir)
}

// TestHistory: gaps are gaps, an absent page is not 0, and the change needs both windows.
func TestHistory(t *testing.T) {
	s := &sinktest.Memory{}
	put(s, windowOf("prj_a", analytics.Day, 0, 1), page("/a", 10), page("/b", 1))
	put(s, windowOf("prj_a", analytics.Day, 1, 2), page("/b", 2))
	put(s, windowOf("prj_a", analytics.Day, 4, 5), page("/a", 20), page("/b", 3))
	s.Put(sinktest.TotalsOnly(windowOf("prj_a", analytics.Day, 5, 6)), nil, nil)
	put(s, windowOf("prj_a", analytics.Day, 7, 8), page("", 4), page("/a", 30))
	put(s, windowOf("prj_b", analytics.Day, 4, 5), page("/c", 1))
	put(s, windowOf("prj_a", analytics.Week, 4, 11))
	tell := func(h query.HistoryReport) (out string) {
		for _, w := range h.Windows {
			out += fmt.Sprint(w.From.Time().Day(), ":")
			switch {
			case w.Visitors != nil && w.Change != nil:
				out += fmt.Sprintf("%d%+d", w.Visitors.Human, *w.Change)
			case w.Visitors != nil:
				out += fmt.Sprint(w.Visitors.Human)
			case w.Absent:
				out += "absent"
			default:
				out += w.State
			}
			out += " "
		}
		return out + fmt.Sprint(h.NewerMissing)
	}
	for from := range 4 {
		put(s, windowOf("prj_a", "2d", from, from+2))
	}
	for _, tc := range []struct {
		granularity analytics.Granularity
		page        *string
		last, days  int // of October that are over
		want        []string
	}{
		{"day", nil, 30, 8, []string{
			"1:1000 2:2000 3:missing 4:missing 5:5000 6:6000 7:missing 8:8000+7350 0", "5:5000 3",
		}},
		{"day", nil, 2, 8, []string{"7:missing 8:8000+7350 0", "5:5000 3"}},
		{"day", new("/a"), 30, 8, []string{"1:10 2:absent 3:missing 4:missing 5:20 6:settled 7:missing 8:30+20 0"}},
		{"day", new(""), 2, 8, []string{"7:missing 8:4 0"}},
		{"week", nil, 30, 12, []string{"5:5000 0"}},
		{"2d", nil, 2, 8, []string{"3:3000+2100 4:4000+2100 3"}},
	} {
		o := query.HistoryOptions{
			Selection: query.Selection{Granularity: tc.granularity}, Page: tc.page, Last: tc.last,
			Today: sinktest.Key("", tc.days).From,
		}
		all, err := query.Histories(t.Context(), s, o)
		var got []string
		for _, h := range all {
			got = append(got, tell(h))
		}
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%+v: %q, %v", tc, got, err)
		}
	}
	day := query.Selection{Granularity: analytics.Day}
	_, err := query.Histories(t.Context(), s, query.HistoryOptions{Selection: day, Page: new("/A"), Last: 9})
	if err == nil || !strings.Contains(err.Error(), `page "/A" has no row`) {
		t.Error(err)
	}
	damage(s, 3)
	got, err := query.Histories(t.Context(), s, query.HistoryOptions{Selection: day, Last: 9})
	if err == nil || len(got) != 1 || got[0].Project != "prj_b" {
		t.Errorf("a window is damaged: %v, %v", got, err)
	}
}

// TestModes: windows that count people by two modes are not compared, and each says its mode and its interval.
func TestModes(t *testing.T) {
	s := &sinktest.Memory{}
	for day, by := range map[int]analytics.Humans{0: "claimed", 7: "claimed", 14: "confirmed", 21: "confirmed"} {
		rev := windowOf("prj_a", analytics.Day, day, day+1)
		rev.Humans = by
		put(s, rev, page("/a", int64(100-day)))
		rev.Report, rev.Rows = analytics.AgentsReport, analytics.TotalsOnlyRows
		unconfirmed := analytics.AgentRow{Agent: "unconfirmed", Class: "human", Audience: analytics.Human, Found: true,
			Visitors: 4200, Requests: 4200}
		if by == analytics.Confirmed {
			unconfirmed.Audience = "neither"
		}
		browser := unconfirmed
		browser.Agent, browser.Audience, browser.Visitors = "browser", analytics.Human, 300+int64(day)
		file, err := archive.Encode(rev, analytics.Records(sinktest.List(browser, unconfirmed)))
		if err := cmp.Or(err, s.Replace(t.Context(), file)); err != nil {
			t.Fatal(err)
		}
	}
	day := func(n int) *analytics.Date { d := sinktest.Key("", n).From; return &d }
	for at, want := range map[int]string{
		7:  "claimed [] people 307 (confirmed) to 4,507 (claimed)",
		14: "confirmed [claimed] people 314 (confirmed) to 4,514 (claimed)",
		21: "confirmed [] people 321 (confirmed) to 4,521 (claimed)",
	} {
		r := top(t, s, query.Choice{At: day(at)}, query.Ranking{})[0]
		var before []analytics.Humans
		if r.HumansBefore != nil {
			before = append(before, *r.HumansBefore)
		}
		if got := fmt.Sprint(r.Humans, " ", before, " ", r.People); got != want ||
			(r.Previous == nil) != (at == 14) || (r.Changes == nil) != (at == 14) {
			t.Errorf("day %d: %s, want %s; %+v", at, got, want, r)
		}
	}
	for _, c := range []struct {
		query.Choice
		query.Ranking
	}{{query.Choice{At: day(14)}, query.Ranking{List: query.Falling}}, {query.Choice{At: day(21), With: day(7)},
		query.Ranking{}}} {
		c.Selection.Granularity, c.By, c.N = analytics.Day, analytics.Everyone, 9
		_, err := query.Top(t.Context(), s, c.Choice, c.Ranking)
		if err == nil || !strings.Contains(err.Error(), "they cannot be compared") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	all, err := query.Histories(t.Context(), s, query.HistoryOptions{Selection: daily.Selection, Last: 99,
		Today: sinktest.Key("", 22).From})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range all[0].Windows {
		if w.State != query.Missing {
			got = append(got, fmt.Sprint(w.From.Time().Day(), " ", w.Humans, " ", w.Change != nil, " ", w.People.Confirmed))
		}
	}
	if want := []string{"1 claimed false 300", "8 claimed true 307", "15 confirmed false 314",
		"22 confirmed true 321"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestMemory: two windows of 100,000 pages are compared in a few megabytes, and nothing
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
			for i := range 100_000 {
				path := fmt.Sprintf("/guides/chapter-%03d/a-long-page-name-%07d", i/1000, i)
				if !yield(page(path, int64(i*(day+1)%997)), nil) {
					return
				}
			}
		}
		rev := windowOf("prj_a", analytics.Day, 7*day, 7*day+1)
		if err := sink.Replace(t.Context(), sinktest.Seal(t, rev, iter.Seq2[analytics.Row, error](rows))); err != nil {
			t.Fatal(err)
		}
	}
	g := &gauged{Sink: sink}
	g.look()
	before := g.most
	got := top(t, g, daily, query.Ranking{N: 20})
	used := g.most - before
	if got[0].Count != 100_000 || len(got[0].Pages) != 20 || got[0].Changes.Rising.Count == 0 {
		t.Errorf("%+v", got[0].Pages)
	}
	if t.Logf("%d KiB at most", used>>10); used > 4<<20 {
		t.Errorf("%d MiB for two windows of 100,000 rows", used>>20)
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

func (l looked) Rows() iter.Seq2[analytics.Record, error] {
	return func(yield func(analytics.Record, error) bool) {
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

// TestPercentOfNearlyNothing: a change that is rounded to nothing has no sign, which JSON and CSV would show.
func TestPercentOfNearlyNothing(t *testing.T) {
	for _, to := range []int64{99_999, 100_000, 100_001} {
		if p := query.Percent(100_000, to); p == nil || fmt.Sprint(*p) != "0" {
			t.Errorf("from 100,000 to %d: %v", to, *p)
		}
	}
}
