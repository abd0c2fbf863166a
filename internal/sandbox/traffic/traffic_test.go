package traffic

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// project returns the traffic of a project until the 14th of October 2026.
func project(o Options, name string, days int) *Synthetic {
	return NewWebsite(o).Project(name, analytics.NewDate(2026, 10, 14)-analytics.Date(days))
}

// The last event of a day arrives in the very last minute of the late days.
func TestArrivalBounds(t *testing.T) {
	for luck := range uint32(5_000_000) {
		a := arrival(7, luck, 2)
		if luck%lateShare != 0 && a != 7 || luck%lateShare == 0 && (a <= daySeconds || a > 3*daySeconds) {
			t.Fatalf("luck %d arrives at %d", luck, a)
		}
	}
}

// A counted answer never sees the drift that comes while it is counted.
func TestDriftLeavesTheDayAlone(t *testing.T) {
	d := analytics.NewDate(2026, 10, 14)
	base := project(Options{Pages: 640}, "prj_a", 120)
	one := driftTraffic{base, Drift{{d, human}}}.day(d)
	two := driftTraffic{base, Drift{{d, human}, {d, ai}}}.day(d)
	n := len(base.day(d))
	if len(one) != n+1 || one[n].who&1 != human || two[n+1].who&1 != ai {
		t.Errorf("%d events, %v and %v after %d", len(one), one[n], two[n+1], n)
	}
	for i, e := range two[n:] {
		if int(e.who>>1) != base.visitors()+i {
			t.Errorf("event %d is of visitor %d, want the new visitor %d", i, e.who>>1, base.visitors()+i)
		}
	}
}

func TestPathsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range docPaths(2000) {
		if seen[p] || p[0] != '/' {
			t.Errorf("path %q comes twice or is no path", p)
		}
		seen[p] = true
	}
	for i, p := range startPaths {
		if isOdd := (&url.URL{Path: p}).EscapedPath() != p; isOdd != (i >= firstOdd) {
			t.Errorf("path %d, %q: needs escaping: %v", i, p, isOdd)
		}
	}
	if len(docPaths(3)) != 3 || len(seen) != 2000 {
		t.Error("not as many paths as asked for")
	}
}

func TestLatecomersAreNumberedDensely(t *testing.T) {
	today := analytics.NewDate(2026, 10, 14)
	site := project(Options{Pages: 10}, "prj_a", 3)
	late := WithLatecomers(site, site, 7*time.Hour, 2, today) // six or seven a day
	days := map[uint32]analytics.Date{}
	for d := today - 3; d <= today; d++ {
		before := len(site.day(d))
		for _, e := range late.day(d)[before:] {
			visitor := e.who >> 1
			if first, known := days[visitor]; known && first != d || int(visitor) < site.visitors() ||
				int(visitor) >= late.visitors() {
				t.Errorf("%s: latecomer %d, also of %s; want separate numbers from %d to below %d", d, visitor,
					first, site.visitors(), late.visitors())
			}
			days[visitor] = d
		}
		if len(site.day(d)) != before {
			t.Error("the kept day has changed")
		}
	}
}

func TestLatecomersDependOnSeedProjectAndDate(t *testing.T) {
	read := func(site *Synthetic, d analytics.Date) (pages []uint32) {
		for _, e := range WithLatecomers(site, site, time.Hour, 3, d).day(d)[len(site.day(d)):] {
			pages = append(pages, e.page)
		}
		return pages
	}
	d, o := analytics.NewDate(2026, 10, 13), Options{Pages: 50}
	want := read(project(o, "prj_a", 120), d)
	if again := read(project(o, "prj_a", 7), d); !slices.Equal(want, again) {
		t.Error("the same seed, project and date have other latecomers")
	}
	if slices.Equal(want, read(project(Options{Pages: 50, Seed: 1}, "prj_a", 120), d)) ||
		slices.Equal(want, read(project(o, "prj_b", 120), d)) || slices.Equal(want, read(project(o, "prj_a", 120), d-1)) {
		t.Error("another seed, project or date has the same latecomers")
	}
}

func TestCache(t *testing.T) {
	computed := map[int]int{}
	l := NewCache[int](10, func(v int) int { return 1 })
	ask := func(key int) int {
		return l.Get(key, func() int { computed[key]++; return key * key })
	}
	for _, key := range []int{1, 2, 3, 4, 5, 1, 6} { // each weighs 2: five fit
		if got := ask(key); got != key*key {
			t.Fatalf("get(%d) = %d", key, got)
		}
	}
	ask(1)
	ask(2)
	if diff := gocmp.Diff(map[int]int{1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}, computed); diff != "" {
		t.Error(diff)
	}
	if len(l.byKey) != 5 || l.recent.Len() != 5 || l.weight != 10 {
		t.Errorf("%d keys, %d entries, weight %d", len(l.byKey), l.recent.Len(), l.weight)
	}
}

// TestCourses: whatever the date, shares rise to 1 and volumes stay in bounds.
func TestCourses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, isGrowing := range []bool{false, true} {
		for _, pages := range []int{1, 2, 15, 20, 27, 28, 640} {
			c, _ := courseOf(isGrowing, pages)
			last := c.newcomers(scenarioStart - 5001)
			for d := scenarioStart - 5000; d < scenarioStart+9000; d += analytics.Date(1 + r.IntN(40)) {
				if shares := c.shares(d); !slices.IsSorted(shares) || shares[0] <= 0 || shares[pages-1] != 1 {
					t.Fatalf("growing %t, %d pages, %s: %v", isGrowing, pages, d, shares)
				}
				if n := c.newcomers(d); n < last || c.volume(d) < 0.3 || c.volume(d) > 4 {
					t.Fatalf("growing %t, %s: volume %v, %v newcomers after %v", isGrowing, d, c.volume(d), n, last)
				} else {
					last = n
				}
			}
		}
	}
}

// answers are all reports of a window.
type answers struct {
	Visitors facts.Visitors
	Agents   facts.Agents
	Sources  facts.Sources
	Views    facts.Views
}

// bruteForce counts the events of days: of the traffic, and beside it.
func bruteForce(t Traffic, w analytics.Window, humans analytics.Humans) (all answers) {
	readers := map[any]map[string]bool{} // by rows without numbers
	requests, markdowns, bytes := map[any]int64{}, map[any]int64{}, map[any]int64{}
	networks := map[string]map[uint32]bool{}
	add := func(r any, who string, e event) {
		if readers[r] == nil {
			readers[r] = map[string]bool{}
		}
		readers[r][who] = true
		requests[r]++
		bytes[r] += int64(e.bytes)
		if e.flags&markdown != 0 {
			markdowns[r]++
		}
	}
	shown := map[uint32]bool{}
	for d := analytics.NewDate(2026, w.From.Time().Month(), 1); d < w.To; d++ {
		for _, e := range t.day(d) {
			shown[e.who/2] = shown[e.who/2] || e.flags&evidence != 0
		}
	}
	views := map[string]*analytics.ViewRow{"": {}}
	paths := append(slices.Clone(t.Paths()), t.missing()...)
	for d := w.From; d < w.To; d++ {
		for i, e := range slices.Concat(t.day(d), t.beside(d)) {
			visit, isHuman := i < len(t.day(d)), e.who%2 == 0
			r := analytics.AgentRow{Path: paths[e.page], Agent: "unnamed", Class: "coding", Audience: analytics.AI,
				Found: int(e.page) < len(t.Paths())}
			who, from := fmt.Sprint(visit, e.who/2), sources[e.source]
			if e.agent > 0 {
				a := t.agents()[e.agent-1]
				r.Agent, r.Class = a.Token, string(a.Class)
				if !visit && (a.Class == agents.Search || a.Class == agents.Training) {
					r.Audience = "neither"
				}
			} else if visit && isHuman {
				r.Agent, r.Class, r.Audience = "browser", "human", analytics.Human
				if !shown[e.who/2] {
					r.Agent = "unconfirmed"
					if humans == analytics.Confirmed {
						r.Audience = "neither"
					}
				}
				for _, path := range []string{"", r.Path} {
					add(analytics.SourceRow{Path: path, Source: from.Name, Class: from.Class, Agent: r.Agent}, who, e)
				}
			}
			if visit {
				for _, path := range []string{"", r.Path} {
					if views[path] == nil {
						views[path] = &analytics.ViewRow{Path: path}
					}
					if views[path].Total++; isHuman {
						views[path].Human++
					} else {
						views[path].AI++
					}
					if r.Audience != "neither" {
						add([2]string{path, "any"}, who, e)
						add([2]string{path, string(r.Audience)}, who, e)
					}
				}
			}
			add(r, who, e)
			if r.Found {
				r.Path = ""
				add(r, who, e)
			} else {
				if networks[r.Path] == nil {
					networks[r.Path] = map[uint32]bool{}
				}
				networks[r.Path][e.who/8] = true
			}
		}
	}
	for key, who := range readers {
		n := int64(len(who))
		switch r := key.(type) {
		case analytics.AgentRow:
			r.Visitors, r.Requests, r.Markdown, r.Bytes = n, requests[key], markdowns[key], bytes[key]
			if r.Path == "" {
				all.Agents.Totals = append(all.Agents.Totals, r)
			} else if r.Found || len(networks[r.Path]) > 1 {
				all.Agents.Rows = append(all.Agents.Rows, r)
			}
		case analytics.SourceRow:
			r.Visitors, r.Requests = n, requests[key]
			if r.Path == "" {
				all.Sources.Totals = append(all.Sources.Totals, r)
			} else {
				all.Sources.Rows = append(all.Sources.Rows, r)
			}
		case [2]string:
			if r[1] == "any" {
				count := func(audience string) int64 { return int64(len(readers[[2]string{r[0], audience}])) }
				totals := analytics.Totals{Human: count("human"), AI: count("ai"), Total: n}
				if r[0] == "" {
					all.Visitors.Totals = totals
				} else {
					all.Visitors.Rows = append(all.Visitors.Rows, analytics.Row{Path: r[0], Totals: totals})
				}
			}
		}
	}
	site := views[""]
	all.Views.Totals = analytics.Totals{Human: site.Human, AI: site.AI, Total: site.Total}
	delete(views, "")
	for _, row := range views {
		all.Views.Rows = append(all.Views.Rows, *row)
	}
	slices.SortFunc(all.Views.Rows, func(a, b analytics.ViewRow) int {
		return cmp.Or(int(b.Total-a.Total), strings.Compare(a.Path, b.Path))
	})
	slices.SortFunc(all.Visitors.Rows, analytics.ByVisitors)
	slices.SortFunc(all.Agents.Totals, analytics.AgentRow.Compare)
	slices.SortFunc(all.Agents.Rows, analytics.AgentRow.Compare)
	slices.SortFunc(all.Sources.Totals, analytics.SourceRow.Compare)
	slices.SortFunc(all.Sources.Rows, analytics.SourceRow.Compare)
	return all
}

// TestReportsAreExact: whether the site grows or not, each report counts exact sets, and people are at least the
// confirmed and at most the claimed ones.
func TestReportsAreExact(t *testing.T) {
	for _, o := range []Options{{Pages: 200}, {Pages: 100, Seed: 3, IsGrowing: true, Forged: 0.3},
		{Pages: 30, Forged: 0.95}} {
		site := project(o, "prj_a", 120)
		rng := rand.New(rand.NewPCG(1, 31))
		for range 3 {
			from := analytics.NewDate(2026, 9, 10) + analytics.Date(rng.IntN(20))
			w := analytics.Window{From: from, To: from + analytics.Date(1+rng.IntN(10))}
			in, horizon := Interval{w.From.Time().Unix(), w.To.Time().Unix()}, w.To.Time().Unix()
			var human [2]int64
			for i, humans := range []analytics.Humans{analytics.Confirmed, analytics.Claimed} {
				got := answers{CountVisitors(site, in, horizon, humans), CountAgents(site, in, horizon, humans),
					CountSources(site, in, horizon, humans), CountViews(site, in, horizon, humans)}
				if diff := gocmp.Diff(bruteForce(site, w, humans), got); diff != "" {
					t.Errorf("%+v %s %s (-want, +got): %s", o, w, humans, diff)
				}
				human[i] = got.Visitors.Totals.Human
			}
			people := map[uint32]bool{}
			for d := w.From; d < w.To; d++ {
				for _, e := range site.day(d) {
					if e.who&1 == 0 && !site.isForged(e.who>>1) {
						people[e.who>>1] = true
					}
				}
			}
			if n := int64(len(people)); human[0] > n || n > human[1] || human[0]*10 < n*8 {
				t.Errorf("%+v %s: %d confirmed, %d people, %d claimed", o, w, human[0], n, human[1])
			}
		}
	}
}

// TestAppendedLinesAreReadAlone: earlier lines are not read again, and do not change for their
// readers.
func TestAppendedLinesAreReadAlone(t *testing.T) {
	dir := t.TempDir()
	appendLine := func(visitor, kind, path string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, EventLogName), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(f, `{"time":"2026-10-05T10:00:00Z","visitor":%q,"kind":%q,"path":%q}`+"\n", visitor, kind, path)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	appendLine("a", "human", "/x")
	l, err := OpenEventLog(dir, []string{"prj_a"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	before, _, err := l.Read("prj_a")
	if err != nil {
		t.Fatal(err)
	}
	content := l.content
	appendLine("a", "ai", "/x")
	appendLine("b", "ai", "/y")
	after, reading, err := l.Read("prj_a")
	if err != nil {
		t.Fatal(err)
	}
	day := analytics.NewDate(2026, 10, 5)
	end := (day + 1).Time().Unix()
	got := CountVisitors(after, Interval{day.Time().Unix(), end}, end, analytics.Claimed).Totals
	if got != (analytics.Totals{Human: 1, AI: 2, Total: 2}) || l.content != content || content.lines != 3 || reading != 2 ||
		len(before.day(day)) != 1 {
		t.Errorf("%+v: %d lines in reading %d; want the two new ones read alone", got, content.lines, reading)
	}
}
