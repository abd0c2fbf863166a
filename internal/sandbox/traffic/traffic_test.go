package traffic

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
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
	two := driftTraffic{base, Drift{{d, ai}}}.day(d)
	n := len(base.day(d))
	if len(one) != n+1 || one[n].who&1 != human || two[n].who&1 != ai {
		t.Errorf("%d events, %v and %v after %d", len(one), one[n], two[n], n)
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
	if diff := cmp.Diff(map[int]int{1: 1, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}, computed); diff != "" {
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

// bruteForce counts the agents of events: of the traffic, and beside it.
func bruteForce(t Traffic, w analytics.Window) Agents {
	readers := map[analytics.AgentRow]map[string]bool{} // without numbers
	requests := map[analytics.AgentRow]int64{}
	networks := map[string]map[uint32]bool{}
	add := func(r analytics.AgentRow, who string) {
		if readers[r] == nil {
			readers[r] = map[string]bool{}
		}
		readers[r][who] = true
		requests[r]++
	}
	paths := append(slices.Clone(t.Paths()), t.missing()...)
	for d := w.From; d < w.To; d++ {
		for i, e := range slices.Concat(t.day(d), t.beside(d)) {
			visit := i < len(t.day(d))
			r := analytics.AgentRow{Path: paths[e.page], Agent: "unnamed", Class: "coding", Audience: analytics.AI,
				Found: int(e.page) < len(t.Paths())}
			if e.agent > 0 {
				a := t.agents()[e.agent-1]
				r.Agent, r.Class = a.Token, string(a.Class)
				if !visit && (a.Class == agents.Search || a.Class == agents.Training) {
					r.Audience = "neither"
				}
			} else if visit && e.who%2 == 0 {
				r.Agent, r.Class, r.Audience = "browser", "human", analytics.Human
			}
			who := fmt.Sprint(visit, e.who/2)
			add(r, who)
			if r.Found {
				r.Path = ""
				add(r, who)
			} else {
				if networks[r.Path] == nil {
					networks[r.Path] = map[uint32]bool{}
				}
				networks[r.Path][e.who/8] = true
			}
		}
	}
	var a Agents
	for r, who := range readers {
		n := requests[r]
		r.Visitors, r.Requests = int64(len(who)), n
		switch {
		case r.Path == "":
			a.Totals = append(a.Totals, r)
		case r.Found || len(networks[r.Path]) > 1:
			a.Rows = append(a.Rows, r)
		}
	}
	slices.SortFunc(a.Totals, analytics.AgentRow.Compare)
	slices.SortFunc(a.Rows, analytics.AgentRow.Compare)
	return a
}

// TestAgentsAreExact: whether the site grows or not, the report of agents counts exact sets.
func TestAgentsAreExact(t *testing.T) {
	for _, o := range []Options{{Pages: 640}, {Pages: 100, Seed: 3, IsGrowing: true}, {Pages: 30}} {
		site := project(o, "prj_a", 120)
		rng := rand.New(rand.NewPCG(1, 31))
		for range 5 {
			from := analytics.NewDate(2026, 9, 10) + analytics.Date(rng.IntN(20))
			w := analytics.Window{From: from, To: from + analytics.Date(1+rng.IntN(10))}
			got := CountAgents(site, Interval{w.From.Time().Unix(), w.To.Time().Unix()}, w.To.Time().Unix())
			if diff := cmp.Diff(bruteForce(site, w), got); diff != "" {
				t.Errorf("%+v %s (-want, +got): %s", o, w, diff)
			}
			if !slices.IsSortedFunc(got.Rows, analytics.AgentRow.Compare) {
				t.Error("the rows are not in order")
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
	got := CountVisitors(after, Interval{day.Time().Unix(), (day + 1).Time().Unix()}, (day + 1).Time().Unix()).Totals
	if got != (analytics.Totals{Human: 1, AI: 2, Total: 2}) || l.content != content || content.lines != 3 || reading != 2 ||
		len(before.day(day)) != 1 {
		t.Errorf("%+v: %d lines in reading %d; want the two new ones read alone", got, content.lines, reading)
	}
}
