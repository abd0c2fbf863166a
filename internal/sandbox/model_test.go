package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

type modelEvent struct {
	at                  time.Time
	visitor, kind, path string
}

func (e modelEvent) line() string {
	return fmt.Sprintf(`{"time":%q,"visitor":%q,"kind":%q,"path":%q}`, e.at.Format(time.RFC3339), e.visitor, e.kind, e.path)
}

func (e modelEvent) arrived(lateDays int) time.Time {
	day := e.at.UTC().Truncate(24 * time.Hour)
	chance := logLine{Time: e.at.Format(time.RFC3339), Visitor: e.visitor, Kind: e.kind, Path: e.path}.luck()
	return day.Add(time.Duration(arrival(uint32(e.at.Sub(day)/time.Second), chance, lateDays)) * time.Second)
}

// count is the specification in the plainest words: sets of names.
func count(events []modelEvent) (totals analytics.Totals) {
	seen := map[string]map[string]bool{"human": {}, "ai": {}, "total": {}}
	for _, e := range events {
		seen[e.kind][e.visitor] = true
		seen["total"][e.visitor] = true
	}
	return analytics.Totals{Human: int64(len(seen["human"])), AI: int64(len(seen["ai"])), Total: int64(len(seen["total"]))}
}

func model(events []modelEvent, from, to, now time.Time, lateDays int) answer {
	var visible []modelEvent
	byPath := map[string][]modelEvent{}
	for _, e := range events {
		if e.at.Before(from) || !e.at.Before(to) || e.arrived(lateDays).After(now.Truncate(time.Minute)) {
			continue
		}
		visible = append(visible, e)
		byPath[e.path] = append(byPath[e.path], e)
	}
	a := answer{totals: count(visible)}
	for path, events := range byPath {
		n := count(events)
		a.rows = append(a.rows, analytics.Row{Path: path, Human: n.Human, AI: n.AI, Total: n.Total})
	}
	sort.Slice(a.rows, func(i, j int) bool {
		x, y := a.rows[i], a.rows[j]
		return x.Total > y.Total || x.Total == y.Total && x.Path < y.Path
	})
	return a
}

var modelStart = time.Date(2026, 2, 27, 0, 0, 0, 0, time.UTC)

func drawInstant(t *rapid.T, label string) time.Time {
	quarter := rapid.IntRange(-4, 4*4*24).Draw(t, label)
	return modelStart.Add(time.Duration(quarter) * 15 * time.Minute)
}

func drawEvent(t *rapid.T) modelEvent {
	zone := time.FixedZone("", 3600*rapid.IntRange(-5, 5).Draw(t, "zone"))
	return modelEvent{
		at:      drawInstant(t, "at").In(zone),
		visitor: rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "visitor"),
		kind:    rapid.SampledFrom([]string{"human", "ai"}).Draw(t, "kind"),
		path:    rapid.SampledFrom([]string{"/", "/x", "/ü", `/"q"`, "/z"}).Draw(t, "path"),
	}
}

func TestCountsAreExactSets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := rapid.SliceOfN(rapid.Custom(drawEvent), 0, 60).Draw(t, "events")
		lateDays := rapid.IntRange(0, 2).Draw(t, "late days")
		dir, err := os.MkdirTemp("", "sandbox") //nolint:usetesting // rapid's T has no TempDir
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		var lines []string
		for _, e := range events {
			lines = append(lines, e.line())
		}
		if err := os.WriteFile(filepath.Join(dir, EventLogName), []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		now := modelStart
		s, err := New(Config{DataDir: dir, Faults: Faults{LateDays: lateDays}, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			now = drawInstant(t, "now").Add(48 * time.Hour)
			from, to := drawInstant(t, "from"), drawInstant(t, "to")
			if to.Before(from) {
				from, to = to, from
			}
			limit := rapid.IntRange(1, 6).Draw(t, "limit")
			got := all(t, s, from.Format(time.RFC3339), to.Format(time.RFC3339), limit)
			want := model(events, from, to, now, lateDays)
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(answer{})); diff != "" {
				t.Fatalf("[%s,%s) at %s: %s", from, to, now, diff)
			}
		}
	})
}

// A late event is in no answer before the minute that begins after its arrival.
func TestLateEventArrivesOnTime(t *testing.T) {
	e := modelEvent{at: noon.AddDate(0, 0, -3), kind: "human", path: "/x"}
	for i := 0; e.arrived(2).Sub(e.at) < 24*time.Hour || e.arrived(2).Second() == 0; i++ {
		e.visitor = fmt.Sprint("visitor ", i)
	}
	now := e.arrived(2).Truncate(time.Minute).Add(59 * time.Second)
	f := newLogFile(t, e.line()+"\n")
	s := newTest(t, Config{DataDir: f.dir, Faults: Faults{LateDays: 2}, Now: func() time.Time { return now }})
	if got := totals(t, s); got.Total != 0 {
		t.Errorf("visible at %s, arrives at %s", now, e.arrived(2))
	}
	now = now.Add(time.Second)
	if got := totals(t, s); got.Total != 1 {
		t.Errorf("not visible at %s, arrived at %s", now, e.arrived(2))
	}
}

func TestCache(t *testing.T) {
	computed := map[int]int{}
	l := newCache[int](10, func(v int) int { return 1 })
	ask := func(key int) int {
		return l.get(key, func() int { computed[key]++; return key * key })
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
