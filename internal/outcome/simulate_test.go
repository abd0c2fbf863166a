package outcome

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox"
)

var long = flag.Bool("long", false, "run the simulations of docs/outcomes.md in full (minutes)")

// traffic makes the panel of one simulated site around a merge, by seed.
type traffic func(t testing.TB, seed uint64) *panel

// mergeDate is when every simulated merge happens.
const mergeDate = analytics.Date(20_600)

// sandboxTraffic is that of the sandbox; seeds differ in the noise and in the time of the year.
func sandboxTraffic(scenario sandbox.Scenario, pages int) traffic {
	return func(t testing.TB, seed uint64) *panel {
		at := analytics.NewDate(2026, 5, 1) + analytics.Date(seed*11%180)
		now := (at + 2*Span).Time().Add(time.Hour)
		s, err := sandbox.New(sandbox.Config{Seed: seed, Scenario: scenario, Pages: pages, Days: 4 * Span, Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p := emptyPanel()
		for i := range p.usable {
			d := at - Span + analytics.Date(i)
			_, rows, err := s.Visitors(sandbox.DefaultProject, analytics.Window{From: d, To: d + 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range rows {
				p.add(r.Path)
				p.pages[r.Path][analytics.Human][i] = float64(r.Human)
				p.pages[r.Path][analytics.AI][i] = float64(r.AI)
			}
		}
		return p
	}
}

func emptyPanel() *panel {
	p := &panel{first: mergeDate - Span, usable: make([]bool, 2*Span+1), pages: map[string]map[analytics.Audience][]float64{}}
	for i := range p.usable {
		p.usable[i] = true
	}
	return p
}

// eligible are the pages with at least so many human visitors a day before the merge.
func (p *panel) eligible(least, most float64) (paths []string) {
	for path, visitors := range p.pages {
		if m := mean(visitors[analytics.Human][:Span]); m >= least && m < most && visitors[analytics.Human][0] > 0 {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// simulation counts what became of simulated merges.
type simulation struct {
	merges, lacking, clear, wrong, covered int
	widths, misses                         []float64
	changes                                []float64
}

// run lets one page in a range of daily visitors be changed on each of n sites, with a true
// change of its readers from the merge on.
func run(t testing.TB, from traffic, n int, least, most, change float64) (s simulation) {
	for seed := range uint64(n) {
		p := from(t, seed)
		r := rand.New(rand.NewPCG(seed, 16))
		paths := p.eligible(least, most)
		if len(paths) == 0 {
			continue
		}
		path := paths[r.IntN(len(paths))]
		visitors := p.pages[path][analytics.Human]
		for i := Span; i < len(visitors); i++ {
			visitors[i] = changed(r, visitors[i], change)
		}
		s.add(estimateOne(p, path), change)
	}
	return s
}

func estimateOne(p *panel, path string) Effect {
	m := Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{path}}
	effects := []Effect{newStudy(p, m, []Merge{m}).effect(path, analytics.Human)}
	judge(effects)
	return effects[0]
}

// changed adds to n visitors, or takes away from them, a share that is itself random.
func changed(r *rand.Rand, n, change float64) float64 {
	if change >= 0 {
		return n + float64(poisson(r, n*change))
	}
	left := 0.0
	for range int(n) {
		if r.Float64() < 1+change {
			left++
		}
	}
	return left
}

func poisson(r *rand.Rand, mean float64) int {
	if mean > 50 {
		return max(0, int(math.Round(mean+math.Sqrt(mean)*r.NormFloat64())))
	}
	n, p := 0, r.Float64()
	for limit := math.Exp(-mean); p > limit; n++ {
		p *= r.Float64()
	}
	return n
}

func (s *simulation) add(e Effect, change float64) {
	s.merges++
	switch e.Verdict {
	case Lacking:
		s.lacking++
		return
	case More, Fewer:
		s.clear++
		if (e.Verdict == More) != (change > 0) {
			s.wrong++
		}
	}
	if e.Low <= change && change <= e.High {
		s.covered++
	}
	s.widths = append(s.widths, e.High-e.Low)
	s.changes = append(s.changes, e.Change)
}

func (s *simulation) String() string {
	n := float64(s.merges - s.lacking)
	slices.Sort(s.widths)
	slices.Sort(s.changes)
	if n == 0 {
		return fmt.Sprintf("%d merges, %d lacking", s.merges, s.lacking)
	}
	return fmt.Sprintf("%d merges (%d without enough data): clear %.1f %%, wrong sign or none %.1f %%, covered %.1f %%, median width ±%.1f points, median change %+.1f %%",
		s.merges, s.lacking, 100*float64(s.clear)/n, 100*float64(s.wrong)/n, 100*float64(s.covered)/n, 50*s.widths[len(s.widths)/2], 100*s.changes[len(s.changes)/2])
}

func TestSimulate(t *testing.T) {
	n := 100
	if *long {
		n = 1000
	}
	for _, tc := range []struct {
		name string
		traffic
	}{{"steady", sandboxTraffic(sandbox.Steady, 640)}, {"growth", sandboxTraffic(sandbox.Growth, 640)}} {
		start := time.Now()
		none := run(t, tc.traffic, n, 20, 1e9, 0)
		t.Logf("%s none: %v (%v)", tc.name, &none, time.Since(start))
		more := run(t, tc.traffic, n, 80, 125, 0.3)
		t.Logf("%s +30%%: %v", tc.name, &more)
	}
}
