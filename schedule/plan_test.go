package schedule

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
)

// ledger is the newest revision of each window.
type ledger map[analytics.Key]analytics.Revision

func (l ledger) known(k analytics.Key) (analytics.Revision, bool) {
	r, ok := l[k]
	return r, ok
}

func (l ledger) provisional() []analytics.Key {
	var keys []analytics.Key
	for k, r := range l {
		if !r.Settled {
			keys = append(keys, k)
		}
	}
	return keys
}

func specs(t testing.TB, names ...string) []analytics.Spec {
	t.Helper()
	var list []analytics.Spec
	for _, name := range names {
		s, err := analytics.ParseSpec(name)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, s)
	}
	return list
}

func due(in Input) []Item {
	items, _ := Plan(in)
	return items
}

// lines formats items for people.
func lines(items []Item) []string {
	var out []string
	for _, i := range items {
		line := string(i.Reason) + " " + i.Key.String()
		if i.TotalsOnly {
			line += " totals"
		}
		if i.Newest {
			line += " newest"
		}
		out = append(out, line)
	}
	return out
}

func diffLines(t *testing.T, got []Item, want ...string) {
	t.Helper()
	if diff := gocmp.Diff(want, lines(got)); diff != "" {
		t.Error(diff)
	}
}

// TestDataFrom: no window that begins before the service has data is due or missing, known or not, but those that are
// named; while there is no data at all, the newest are.
func TestDataFrom(t *testing.T) {
	from, known := analytics.NewDate(2027, 1, 2), true
	old := analytics.Key{Project: "a", Granularity: analytics.Month,
		Window: analytics.Window{From: analytics.NewDate(2026, 11, 1), To: analytics.NewDate(2026, 12, 1)}}
	l := ledger{old: {Key: old}}
	in := Input{
		Now: time.Date(2027, 1, 5, 6, 0, 0, 0, time.UTC), Projects: []string{"a"}, Since: analytics.NewDate(2026, 12, 30),
		Specs: specs(t, "day", "week", "month"), Open: []analytics.Granularity{analytics.Month}, Known: l.known,
		Provisional: l.provisional(), DataFrom: func(string) (analytics.Date, bool) { return from, known },
	}
	newest := []string{"missing a day [2027-01-04,2027-01-05) newest", "missing a week [2026-12-28,2027-01-04) newest",
		"missing a month [2026-12-01,2027-01-01) newest", "open a month [2027-01-01,2027-02-01) totals"}
	days := []string{newest[0], newest[3], "missing a day [2027-01-03,2027-01-04)",
		"missing a day [2027-01-02,2027-01-03)"}
	diffLines(t, due(in), days...)
	if n := Early(in, Wanted{Source{Project: "a"}, in.Specs[0]}); n != 3 {
		t.Errorf("%d days are left out, want 3", n)
	}
	if items, _, _, err := Asked(in, from-2, from+1); err != nil || len(items) != 3 {
		t.Errorf("named: %v, %v", items, err)
	}
	for _, none := range []analytics.Date{analytics.NoData, analytics.NewDate(2027, 1, 6)} {
		from = none
		diffLines(t, due(in), newest...)
		if n := Early(in, Wanted{Source{Project: "a"}, in.Specs[0]}); n != 6 {
			t.Errorf("%d days are left out, want 6", n)
		}
	}
	if known = false; len(due(in)) != 6+2+2+1 {
		t.Errorf("not known: %v", lines(due(in)))
	}
}

// TestOnlyDays: a report whose counts add up has no windows but days: none is due, missing, or read because it was named.
func TestOnlyDays(t *testing.T) {
	l := ledger{}
	in := Input{
		Now: time.Date(2027, 1, 5, 6, 0, 0, 0, time.UTC), Projects: []string{"a"}, Since: analytics.NewDate(2027, 1, 3),
		Specs: specs(t, "week", "day", "7d", "month"), Known: l.known, Reports: []analytics.Report{analytics.ViewsReport},
	}
	diffLines(t, due(in), "missing a views day [2027-01-04,2027-01-05) newest",
		"missing a views day [2027-01-03,2027-01-04)")
	items, _, all, err := Asked(in, analytics.NewDate(2026, 12, 27), analytics.NewDate(2027, 1, 5))
	if err != nil || len(items) != 9 || all != 9 {
		t.Errorf("named: %v, %d, %v", lines(items), all, err)
	}
	in.Specs = specs(t, "week")
	if gaps := Gaps(in, Wanted{Source{"a", analytics.ViewsReport}, in.Specs[0]}); gaps != nil {
		t.Errorf("gaps: %v", gaps)
	}
}

func TestDueOrder(t *testing.T) {
	l := ledger{}
	in := Input{
		Now:      time.Date(2027, 1, 5, 6, 0, 0, 0, time.UTC),
		Projects: []string{"a", "b"},
		Specs:    specs(t, "day", "week", "month", "3d:totals"),
		Open:     []analytics.Granularity{"day", "3d"},
		Since:    date(t, "2026-12-30"),
		Settle:   72 * time.Hour,
		Known:    l.known,
		Rotate:   3,
	}
	put := func(project, g, from, to string, r analytics.Revision) {
		r.Key = analytics.Key{Project: project, Granularity: analytics.Granularity(g), Window: window(t, from, to)}
		l[r.Key] = r
	}
	for _, project := range in.Projects {
		put(project, "day", "2027-01-03", "2027-01-04",
			analytics.Revision{Verified: true}) // can still change
		put(project, "day", "2027-01-02", "2027-01-03", analytics.Revision{Settled: true, Verified: true}) // done
		put(project, "day", "2027-01-01", "2027-01-02", analytics.Revision{})                              // drifted
	}
	put("a", "month", "2026-12-01", "2027-01-01", analytics.Revision{Verified: true})
	put("a", "day", "2026-12-20", "2026-12-21", analytics.Revision{Verified: true}) // from before Since
	put("a", "3d", "2026-12-20", "2026-12-23", analytics.Revision{Verified: true, Rows: analytics.TotalsOnlyRows})
	put("c", "day", "2026-12-20", "2026-12-21", analytics.Revision{Verified: true})  // no such project
	put("a", "week", "2026-12-07", "2026-12-14", analytics.Revision{Settled: true})  // nothing to do
	put("a", "9d", "2026-12-07", "2026-12-16", analytics.Revision{Verified: true})   // no such spec
	put("a", "day", "2027-01-05", "2027-01-06", analytics.Revision{Verified: true})  // from a clock ahead of ours
	put("b", "month", "2026-11-01", "2026-12-01", analytics.Revision{Verified: true, // rows wanted since
		Rows: analytics.TotalsOnlyRows})
	in.Provisional = append(l.provisional(), l.provisional()...)
	in.Provisional = append(in.Provisional, // no longer in the ledger
		analytics.Key{Project: "a", Granularity: "day", Window: window(t, "2026-12-01", "2026-12-02")})

	diffLines(t, due(in),
		"missing b day [2027-01-04,2027-01-05) newest",
		"missing a day [2027-01-04,2027-01-05) newest",
		"missing b week [2026-12-28,2027-01-04) newest",
		"missing a week [2026-12-28,2027-01-04) newest",
		"missing b month [2026-12-01,2027-01-01) newest",
		"missing a 3d [2027-01-02,2027-01-05) totals newest",
		"missing b 3d [2027-01-02,2027-01-05) totals newest",
		"open b day [2027-01-05,2027-01-06) totals",
		"open a day [2027-01-05,2027-01-06) totals",
		"missing b week [2026-12-21,2026-12-28)",
		"missing a week [2026-12-21,2026-12-28)",
		"missing b month [2026-11-01,2026-12-01)",
		"missing a month [2026-11-01,2026-12-01)",
		"missing b 3d [2026-12-30,2027-01-02) totals",
		"missing a 3d [2026-12-30,2027-01-02) totals",
		"unverified b day [2027-01-01,2027-01-02)",
		"unverified a day [2027-01-01,2027-01-02)",
		"settle a month [2026-12-01,2027-01-01) newest",
		"settle a day [2026-12-20,2026-12-21)",
		"settle a 3d [2026-12-20,2026-12-23) totals",
		"missing b day [2026-12-31,2027-01-01)",
		"missing a day [2026-12-31,2027-01-01)",
		"missing b day [2026-12-30,2026-12-31)",
		"missing a day [2026-12-30,2026-12-31)",
		"missing b 3d [2027-01-01,2027-01-04) totals",
		"missing a 3d [2027-01-01,2027-01-04) totals",
		"missing b 3d [2026-12-31,2027-01-03) totals",
		"missing a 3d [2026-12-31,2027-01-03) totals",
	)
}

// TestLostWindows are read again, whatever their age, if they are configured.
func TestLostWindows(t *testing.T) {
	parseKey := func(text string) analytics.Key {
		key, err := analytics.ParseKey(text)
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	old, recent := parseKey("a day [2026-01-10,2026-01-11)"), parseKey("a day [2026-03-01,2026-03-02)")
	other := parseKey("a week [2026-01-05,2026-01-12)")
	l := ledger{}
	for _, key := range []analytics.Key{old, recent, other, parseKey("a day [2026-02-28,2026-03-01)")} {
		l[key] = analytics.Revision{Key: key, Number: 3, Verified: true, Settled: true}
	}
	in := Input{
		Now: recent.To.Time(), Projects: []string{"a"}, Specs: specs(t, "day"), Since: recent.From, Known: l.known,
		Lost:        func(k analytics.Key) bool { return k == old || k == recent || k == other },
		Provisional: []analytics.Key{old, recent, other},
	}
	diffLines(t, due(in), "missing a day [2026-03-01,2026-03-02) newest", "missing a day [2026-01-10,2026-01-11)")
	of := Wanted{Source: Source{Project: "a"}, Spec: in.Specs[0]}
	if gaps := Gaps(in, of); len(gaps) != 2 {
		t.Errorf("gaps: %v", gaps)
	}
}

func TestNothingIsDueOfNothing(t *testing.T) {
	in := Input{Now: time.Unix(0, 0), Since: 1, Known: ledger{}.known, Rotate: -1}
	if got := due(in); got != nil {
		t.Errorf("no project, no spec: %v", got)
	}
	in.Projects = []string{"a"}
	in.Specs = []analytics.Spec{{}, {Granularity: "fortnight"}}
	in.Open = []analytics.Granularity{"fortnight"}
	if got := due(in); got != nil {
		t.Errorf("no granularity that is known: %v", got)
	}
}

func TestSettles(t *testing.T) {
	w := analytics.Window{From: 100, To: 101}
	end, settle := w.To.Time(), 72*time.Hour
	early, late, never := end.Add(settle-time.Microsecond), end.Add(settle), time.Time{}
	for _, tc := range []struct {
		name     string
		after    time.Duration
		verified bool
		previous time.Time
		want     bool
	}{
		{"too early", settle - 1, true, late, false},
		{"at the settle time, verified", settle, true, never, true},
		{"drifted at the first reading", settle, false, never, false},
		{"drifted at the first late reading", settle, false, early, false},
		{"drifted at the second late reading", settle, false, late, true},
	} {
		if got := Settles(w, settle, end.Add(tc.after), tc.verified, tc.previous); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

var allSpecs = []string{"day", "day:totals", "week", "week:totals", "month", "month:totals", "2d", "7d:totals",
	"28d:totals"}

func drawInput(t *rapid.T) (Input, ledger) {
	l := ledger{}
	in := Input{
		Now:      time.Unix(rapid.Int64Range(1.7e9, 1.9e9).Draw(t, "now"), 0),
		Projects: rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 5).Draw(t, "projects"),
		Open:     rapid.SliceOf(rapid.SampledFrom(calendar)).Draw(t, "open"),
		Settle:   time.Duration(rapid.IntRange(0, 240).Draw(t, "settle")) * time.Hour,
		Rotate:   rapid.Int().Draw(t, "rotate"),
		Known:    l.known,
	}
	for _, name := range rapid.SliceOfN(rapid.SampledFrom(allSpecs), 1, 6).Draw(t, "specs") {
		s, err := analytics.ParseSpec(name)
		if err != nil {
			t.Fatal(err)
		}
		in.Specs = append(in.Specs, s)
	}
	in.Since = analytics.DateOf(in.Now) - analytics.Date(rapid.IntRange(-5, 60).Draw(t, "since"))
	fillLedger(t, in, l)
	in.Provisional = rapid.Permutation(l.sortedProvisional()).Draw(t, "provisional")
	return in, l
}

// fillLedger enters some of the windows of the last 90 days.
func fillLedger(t *rapid.T, in Input, l ledger) {
	today := analytics.DateOf(in.Now)
	states := rapid.SliceOfN(rapid.IntRange(0, 9), 16, 16).Draw(t, "states")
	n := 0
	for _, project := range in.Projects {
		for _, s := range in.Specs {
			for w := range Within(s.Granularity, today-90, today) {
				k := analytics.Key{Project: project, Granularity: s.Granularity, Window: w}
				n = n*31 + 7 // spreads few drawn states over many windows
				switch state := states[uint32(n)>>13%16]; {
				case state < 4:
					l[k] = analytics.Revision{Key: k, Settled: state&1 > 0, Verified: state&2 > 0}
				case state < 6:
					l[k] = analytics.Revision{Key: k, Settled: state == 4, Verified: true,
						Rows: analytics.TotalsOnlyRows}
				}
			}
		}
	}
}

func (l ledger) sortedProvisional() []analytics.Key {
	return slices.SortedFunc(slices.Values(l.provisional()), func(a, b analytics.Key) int {
		return strings.Compare(a.String(), b.String())
	})
}

func TestDueIsWhatTheRulesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in, l := drawInput(t)
		items := due(in)
		got := map[analytics.Key]Reason{}
		for _, i := range items {
			if _, twice := got[i.Key]; twice {
				t.Fatalf("%s comes twice", i.Key)
			}
			got[i.Key] = i.Reason
			if i.Reason == ReasonOpen {
				continue
			}
			if !i.Complete(in.Now) {
				t.Fatalf("%s is not complete at %s", i.Key, in.Now)
			}
			if i.TotalsOnly == wantsRows(in, i.Granularity) {
				t.Fatalf("totals only of %s: %v", i.Key, i.TotalsOnly)
			}
		}
		for _, spec := range in.Specs {
			spec.TotalsOnly = !wantsRows(in, spec.Granularity)
			project := in.Projects[0]
			var missing []analytics.Window
			for _, i := range items {
				if i.Reason == ReasonMissing && i.Project == project && i.Granularity == spec.Granularity {
					missing = append(missing, i.Window)
				}
			}
			slices.SortFunc(missing, func(a, b analytics.Window) int { return cmp.Compare(b.To, a.To) })
			of := Wanted{Source: Source{Project: project}, Spec: spec}
			if diff := gocmp.Diff(missing, Gaps(in, of)); diff != "" {
				t.Fatalf("gaps of %s: %s", spec, diff)
			}
		}
		if diff := gocmp.Diff(expected(in, l), got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// expected decides for each window that could be due whether it is.
func expected(in Input, l ledger) map[analytics.Key]Reason {
	want := map[analytics.Key]Reason{}
	today := analytics.DateOf(in.Now)
	for _, project := range in.Projects {
		for _, g := range in.Open {
			w, _ := Open(g, today)
			want[analytics.Key{Project: project, Granularity: g, Window: w}] = ReasonOpen
		}
		for _, s := range in.Specs {
			for w := range Within(s.Granularity, today-200, today) {
				k := analytics.Key{Project: project, Granularity: s.Granularity, Window: w}
				if reason := expectedReason(in, l, k); reason != "" {
					want[k] = reason
				}
			}
		}
	}
	return want
}

func expectedReason(in Input, l ledger, k analytics.Key) Reason {
	newest := isNewest(in, k) || isPrevious(in, k)
	r, ok := l[k]
	has := ok && (!wantsRows(in, k.Granularity) || !r.TotalsOnly())
	switch {
	case !has && (newest || k.From >= in.Since):
		return ReasonMissing
	case !ok || r.Settled || in.Now.Sub(k.To.Time()) < in.Settle:
		return ""
	case r.Verified:
		return ReasonSettle
	}
	return ReasonUnverified
}

func wantsRows(in Input, g analytics.Granularity) bool {
	return slices.Contains(in.Specs, analytics.Spec{Granularity: g})
}

func isNewest(in Input, k analytics.Key) bool {
	return k.Window == Newest(k.Granularity, analytics.DateOf(in.Now))
}

// isPrevious reports whether k is the window that ends where the newest begins.
func isPrevious(in Input, k analytics.Key) bool {
	return k.To == Newest(k.Granularity, analytics.DateOf(in.Now)).From
}

func askedInput(t *testing.T) Input {
	return Input{
		Now:      time.Date(2026, 3, 10, 23, 59, 0, 0, time.UTC),
		Projects: []string{"a", "b"},
		Specs:    specs(t, "day:totals", "week", "7d"),
		Since:    date(t, "2026-03-10"), // does not limit what is asked for
		Known:    ledger{}.known,
		Rotate:   1,
	}
}

func TestAsked(t *testing.T) {
	in := askedInput(t)
	got, _, _, err := Asked(in, date(t, "2026-03-02"), date(t, "2026-03-10"))
	if err != nil {
		t.Fatal(err)
	}
	diffLines(t, got[:10],
		"asked b day [2026-03-09,2026-03-10) totals newest",
		"asked a day [2026-03-09,2026-03-10) totals newest",
		"asked b 7d [2026-03-03,2026-03-10) newest",
		"asked a 7d [2026-03-03,2026-03-10) newest",
		"asked b day [2026-03-08,2026-03-09) totals",
		"asked a day [2026-03-08,2026-03-09) totals",
		"asked b week [2026-03-02,2026-03-09) newest",
		"asked a week [2026-03-02,2026-03-09) newest",
		"asked b 7d [2026-03-02,2026-03-09)",
		"asked a 7d [2026-03-02,2026-03-09)",
	)
	if len(got) != 2*(8+1+2) {
		t.Errorf("%d windows: %q", len(got), lines(got))
	}
}

func TestAskedInVain(t *testing.T) {
	for _, tc := range []struct {
		from, to string
		specs    []string
		want     string
	}{
		{"2026-03-02", "2026-03-02", nil, "for the single day 2026-03-02 give the end 2026-03-03"},
		{"2026-03-03", "2026-03-02", nil, "window [2026-03-03,2026-03-02) is empty"},
		{"2026-03-02", "2026-03-11", nil, "give an end up to 2026-03-10"},
		{"2026-03-03", "2026-03-09", []string{"week", "28d:totals"},
			"no window of week, 28d lies wholly inside [2026-03-03,2026-03-09)"},
	} {
		in := askedInput(t)
		if tc.specs != nil {
			in.Specs = specs(t, tc.specs...)
		}
		got, _, _, err := Asked(in, date(t, tc.from), date(t, tc.to))
		if err == nil || !strings.Contains(err.Error(), tc.want) || got != nil {
			t.Errorf("Asked(%s, %s) = %v, %v\nwant %s", tc.from, tc.to, got, err, tc.want)
		}
	}
}

// TestAskedSince: of windows that are named by their dates those are left that were not read
// since the reading began, or were lost, and those that failed since then wait.
func TestAskedSince(t *testing.T) {
	began := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	now := began.Add(2 * time.Hour)
	first := analytics.NewDate(2026, 3, 1)
	at := func(n int) analytics.Key {
		from := first + analytics.Date(n)
		return analytics.Key{Project: "a", Granularity: analytics.Day,
			Window: analytics.Window{From: from, To: from + 1}}
	}
	aside := func(k analytics.Key, reason analytics.AsideReason, failures int, failed time.Time) analytics.Aside {
		a := analytics.Aside{Key: k, Reason: reason, Failures: failures, Since: failed}
		a.Until = failed.Add(Rest(a))
		return a
	}
	l := ledger{
		at(0): {ExportedAt: began},
		at(1): {ExportedAt: began.Add(-time.Microsecond)},
		at(2): {ExportedAt: now},
		at(3): {ExportedAt: now.Add(time.Second)}, // by a clock that was wrong
		at(4): {ExportedAt: now, Rows: analytics.TotalsOnlyRows},
		at(8): {ExportedAt: now},
	}
	asides := map[analytics.Key]analytics.Aside{
		at(1): aside(at(1), analytics.AsideMalformed, 9, began.Add(-time.Hour)),
		at(5): aside(at(5), analytics.AsideMalformed, 2, began.Add(time.Hour)),
		at(6): aside(at(6), analytics.AsideMalformed, 1, began.Add(time.Minute)), // is over
		at(7): aside(at(7), analytics.AsideEmpty, 9, began),
	}
	in := Input{
		Now: now, Projects: []string{"a"}, Specs: specs(t, "day"), Known: l.known, Began: began,
		Aside: func(k analytics.Key) (analytics.Aside, bool) { a, ok := asides[k]; return a, ok },
		Lost:  func(k analytics.Key) bool { return k == at(8) },
	}
	days := func(items []Item) (n []int) {
		for _, i := range items {
			n = append(n, int(i.From-first))
			if !i.NotBefore.Equal(in.Began) {
				t.Errorf("%s may have begun before the reading", i.Key)
			}
		}
		slices.Sort(n)
		return n
	}
	for _, c := range []struct {
		began        time.Time
		due, waiting []int
	}{
		{began, []int{1, 3, 4, 6, 8}, []int{5, 7}},
		{time.Time{}, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}, nil}, // it has not begun
		{now.Add(-time.Microsecond), []int{0, 1, 3, 4, 5, 6, 7, 8}, nil},
	} {
		in.Began = c.began
		due, waiting, all, err := Asked(in, first, first+9)
		if err != nil || all != 9 || !slices.Equal(days(due), c.due) || !slices.Equal(days(waiting), c.waiting) {
			t.Errorf("since %v: %v due, %v waiting of %d, %v", c.began, days(due), days(waiting), all, err)
		}
	}
}
