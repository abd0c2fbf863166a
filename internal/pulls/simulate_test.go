package pulls

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
	"github.com/docgauge/docgauge/internal/view"
)

var long = flag.Bool("long", false, "run the simulations of docs/outcomes-method.md in full (minutes)")

// traffic makes the panel of one simulated site around a merge, by seed.
type traffic func(t testing.TB, seed uint64) *panel

// mergeDate is when every simulated merge happens.
const mergeDate = analytics.Date(20_600)

// sandboxTraffic is that of the sandbox; seeds differ in the noise and in the time of the year.
func sandboxTraffic(scenario sandbox.Scenario, pages int) traffic {
	return func(t testing.TB, seed uint64) *panel {
		at := analytics.NewDate(2026, 5, 1) + analytics.Date(seed*11%180)
		now := (at + 2*span).Time().Add(time.Hour)
		s, err := sandbox.New(sandbox.Config{Seed: seed, Scenario: scenario, Pages: pages, Days: 5 * span,
			Now: func() time.Time { return now }})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		p := emptyPanel()
		for i := range p.usable {
			d := at - 2*span + analytics.Date(i)
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
	return &panel{first: mergeDate - 2*span, newest: mergeDate + span, usable: slices.Repeat([]bool{true}, 3*span+1),
		pages: map[string]map[analytics.Audience][]float64{}}
}

// eligible are the pages with at least so many human visitors a day before the merge.
func (p *panel) eligible(least, most float64) (paths []string) {
	for path, visitors := range p.pages {
		if m := mean(visitors[analytics.Human][span : 2*span]); m >= least && m < most {
			paths = append(paths, path)
		}
	}
	slices.Sort(paths)
	return paths
}

// restlessTraffic is that of a site of so many pages that is harder than the sandbox: it grows or
// shrinks by up to 1 % a day; its days have a noise in common; weekends differ from page to
// page; each page wanders (a random walk), has noise that lasts some days, and one in ten is
// mentioned somewhere and has up to four times its readers for a few days.
func restlessTraffic(pages int) traffic {
	return func(_ testing.TB, seed uint64) *panel {
		r := rand.New(rand.NewPCG(seed, 1))
		p := emptyPanel()
		site := make([]float64, len(p.usable))
		growth := 0.02*r.Float64() - 0.01
		for i := range site {
			site[i] = growth*float64(i) + 0.08*r.NormFloat64()
		}
		for n := range pages {
			path := fmt.Sprintf("/page-%04d", n)
			p.add(path)
			base := math.Log(25) + 3*r.Float64()*r.Float64()
			weekend := -0.8 + 0.3*r.NormFloat64()
			walk, noise, mention := 0.0, 0.0, 0.0
			mentioned := -1
			if r.IntN(10) == 0 {
				mentioned = r.IntN(len(site))
			}
			for i := range site {
				walk += 0.015 * r.NormFloat64()
				noise = 0.5*noise + 0.1*r.NormFloat64()
				mention *= 0.7
				if i == mentioned {
					mention = 3 * r.Float64()
				}
				level := base + site[i] + walk + noise
				if (int(p.first)+i)%7 < 2 {
					level += weekend
				}
				p.pages[path][analytics.Human][i] = float64(poisson(r, math.Exp(level)*(1+mention)))
			}
		}
		return p
	}
}

// simulation is a number of merges with a true change of the readers of one page.
type simulation struct {
	traffic traffic
	// sites is how many sites are made, each its comparisons: on each, perSite pages with a
	// mean of daily visitors in [least, most) before the merge are changed, one at a time.
	sites, perSite int
	least, most    float64
	change         float64
}

// tally is what became of simulated merges.
type tally struct {
	merges, lacking, clear, covered int
	widths, changes                 []float64
	methods                         map[view.Method]int
}

func (s simulation) run(t testing.TB) *tally {
	out := &tally{methods: map[view.Method]int{}}
	for seed := range uint64(s.sites) {
		p := s.traffic(t, seed)
		r := rand.New(rand.NewPCG(seed, 16))
		paths := p.eligible(s.least, s.most)
		r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		for _, path := range paths[:min(s.perSite, len(paths))] {
			visitors := p.pages[path][analytics.Human]
			former := slices.Clone(visitors)
			for i := 2 * span; i < len(visitors); i++ {
				visitors[i] = changed(r, visitors[i], s.change)
			}
			out.add(estimateOne(p, path), s.change)
			copy(visitors, former)
		}
	}
	return out
}

func estimateOne(p *panel, path string) view.Effect {
	m := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: []string{path}}
	effects := []view.Effect{newStudy(p, m, []view.Merge{m}).effect(path, analytics.Human)}
	judge(effects, true)
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

func (o *tally) add(e view.Effect, change float64) {
	o.merges++
	if e.Verdict == view.NotEnoughData {
		o.lacking++
		return
	}
	o.methods[e.Method]++
	if e.Verdict != view.NoClearChange {
		o.clear++
	}
	if e.Low <= change && change <= e.High {
		o.covered++
	}
	o.widths = append(o.widths, (e.High-e.Low)/2)
	o.changes = append(o.changes, e.Change)
}

func (o *tally) share(n int) float64 { return float64(n) / float64(max(1, o.merges-o.lacking)) }

func (o *tally) String() string {
	middle := func(all []float64) float64 {
		slices.Sort(all)
		return 100 * all[len(all)/2]
	}
	return fmt.Sprintf("| %d | %.1f %% | %.1f %% | %+.0f %% ± %.0f |", o.merges-o.lacking, 100*o.share(o.clear),
		100*o.share(o.covered), middle(o.changes), middle(o.widths))
}

// TestSimulate has the bars of the method on the sandbox's traffic: false effects, found
// ones, and the coverage of the interval. With -long it makes the table of docs/outcomes-method.md.
func TestSimulate(t *testing.T) {
	steady, growth := sandboxTraffic(sandbox.Steady, 640), sandboxTraffic(sandbox.Growth, 640)
	restless, level := restlessTraffic(120), sandboxTraffic(sandbox.Steady, 80)
	const most, any = 1e9, leastVisitors
	usual, wide, few, found := [2]float64{.85, .95}, [2]float64{.85, .99}, [2]float64{0, .064}, [2]float64{.8, 1}
	whatever, half := [2]float64{0, 1}, [2]float64{.5, 1}
	for _, tc := range []struct {
		name string
		simulation
		clear, covered [2]float64 // bars of a full run
		short          int        // sites of a run of seconds, in which all their pages are changed
	}{
		{"sandbox, steady, nothing changed", simulation{steady, 250, 4, any, most, 0}, few, usual, 3},
		{"sandbox, steady, +30 %, 80 to 125 readers", simulation{steady, 250, 2, 80, 125, .3}, found, usual, 4},
		{"sandbox, steady, -20 %, any page", simulation{steady, 125, 4, any, most, -.2}, found, usual, 0},
		{"sandbox, growth, nothing changed", simulation{growth, 250, 4, any, most, 0}, few, usual, 0},
		{"sandbox, growth, +30 %, 80 to 125 readers", simulation{growth, 150, 3, 80, 125, .3}, whatever,
			[2]float64{.85, .97}, 0},
		{"sandbox, growth, +100 %, any page", simulation{growth, 125, 4, any, most, 1}, whatever, usual, 0},
		{"restless, 120 pages, nothing changed", simulation{restless, 250, 4, any, most, 0}, few, usual, 0},
		{"restless, 120 pages, +30 %, any page", simulation{restless, 125, 4, any, most, .3}, half, usual, 0},
		{"restless, 30 pages, nothing changed", simulation{restlessTraffic(30), 250, 4, any, most, 0}, few, usual, 4},
		{"level: sandbox, steady, 80 pages, nothing changed", simulation{level, 250, 4, any, most, 0}, few, wide, 4},
		{"level: sandbox, steady, 80 pages, +30 %", simulation{level, 125, 4, any, most, .3}, [2]float64{.4, 1},
			wide, 0},
		{"level: restless, 12 pages, nothing changed", simulation{restlessTraffic(12), 250, 4, any, most, 0},
			[2]float64{0, .07}, usual, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if !*long {
				if tc.short == 0 {
					t.Skip("only with -long")
				}
				tc.sites, tc.perSite = tc.short, math.MaxInt
			}
			got := tc.run(t)
			t.Logf("| %s %v %v", tc.name, got, got.methods)
			slack := map[bool]float64{true: 0, false: .06}[*long]
			for i, bars := range [][2]float64{tc.clear, tc.covered} {
				s := got.share([]int{got.clear, got.covered}[i])
				if s < bars[0]-slack || s > bars[1]+slack {
					t.Errorf("%.3f of the %s, want %v", s, []string{"merges have a clear effect",
						"intervals have the true change"}[i], bars)
				}
			}
		})
	}
}
