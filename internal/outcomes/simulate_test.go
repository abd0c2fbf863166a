package outcomes

import (
	"cmp"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/sandbox"
	"github.com/docgauge/docgauge/internal/view"
)

var long = flag.Bool("long", false, "run the simulations of docs/dev/outcomes-method.md in full (minutes)")

// traffic makes the panel of one simulated site around a merge, by seed.
type traffic func(t testing.TB, seed uint64) *panel

// mergeDate is when every simulated merge happens.
const mergeDate = analytics.Date(20_600)

// sandboxTraffic is the traffic of the sandbox; seeds differ in the noise and in the time of the year.
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
		humans: make([]analytics.Humans, 3*span+1), pages: map[string]map[analytics.Audience][]float64{}}
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

// world is a kind of site: what its pages and its days do without any merge.
type world struct {
	pages         int
	lowest, most  float64 // visitors a day of the least and the most read page, by Zipf's law between
	own           float64 // sd of the noise of a page's days, as logarithms; the rest is Poisson
	lasting, keep float64 // sd of a noise of the page that lasts, and its share that lasts a day
	mixed         bool    // pages differ in those from none to twice as much
	walk, trend   float64 // sd of a page's daily steps, and of its steady growth a day
	common        float64 // sd of a noise that all pages share, a day
	growth        float64 // of the site, a day
	jump          float64 // factor of the site from the merge on, 0: 1
	spike         float64 // factor of the site in the five days after the merge, 0: 1
	loading       float64 // sd of how strongly a page takes part in those two
	pulses        float64 // pulses a page in the 85 days, each four to ten days of up to four times the readers
	sweeps        float64 // of crawlers a day, each 2 to 12 more readers on one page in three
	edited        float64 // sd of what people did to three pages in ten in the days after the merge
}

// The ways to choose pages: by the readers lost from week to week, or from 28 days to 28 days.
func fellWeek(v []float64) float64  { return mean(v[2*span-14:2*span-7]) - mean(v[2*span-7:2*span]) }
func fellMonth(v []float64) float64 { return mean(v[:span]) - mean(v[span:2*span]) }

func (w world) site(_ testing.TB, seed uint64) *panel {
	r := rand.New(rand.NewPCG(seed, 27))
	p := emptyPanel()
	days := len(p.usable)
	common, sweep := make([]float64, days), make([]float64, days)
	for i := range common {
		common[i] = w.growth*float64(i) + w.common*r.NormFloat64()
		if r.Float64() < w.sweeps {
			sweep[i] = 2 + 10*r.Float64()
		}
	}
	orOne := func(x float64) float64 { return map[bool]float64{true: 1, false: x}[x == 0] }
	for n := range w.pages {
		path := fmt.Sprintf("/page-%04d", n)
		p.add(path)
		visitors := p.pages[path][analytics.Human]
		rank := float64(n) / float64(max(1, w.pages-1))
		base := math.Log(w.most) - rank*math.Log(w.most/w.lowest)
		loading := max(0, 1+w.loading*r.NormFloat64())
		noisy := 1.0
		if w.mixed {
			noisy = 2 * r.Float64()
		}
		edit := 0.0
		if r.Float64() < 0.3 {
			edit = w.edited * r.NormFloat64()
		}
		edited := 2*span + r.IntN(span)
		trend, level := w.trend*r.NormFloat64(), 0.0
		lasting := noisy * w.lasting * r.NormFloat64()
		pulse := make([]float64, days)
		for range poisson(r, w.pulses) {
			at, size := r.IntN(days), 3*r.Float64()
			for i := at; i < min(days, at+4+r.IntN(7)); i++ {
				pulse[i] += size
			}
		}
		weekend := -0.7 + 0.2*r.NormFloat64()
		for i := range visitors {
			level += w.walk*r.NormFloat64() + trend
			lasting = w.keep*lasting + noisy*w.lasting*math.Sqrt(1-w.keep*w.keep)*r.NormFloat64()
			x := base + common[i] + level + lasting + noisy*w.own*r.NormFloat64()
			if (int(p.first)+i)%7 < 2 {
				x += weekend
			}
			if i > 2*span {
				x += loading * math.Log(orOne(w.jump))
				if i <= 2*span+5 {
					x += loading * math.Log(orOne(w.spike))
				}
			}
			if i >= edited {
				x += edit
			}
			visitors[i] = float64(poisson(r, math.Exp(min(x, 12))*(1+pulse[i])))
			if sweep[i] > 0 && r.IntN(3) == 0 {
				visitors[i] += math.Round(sweep[i])
			}
		}
	}
	return p
}

// tally is what became of the simulated merges of a world.
type tally struct {
	merges, lacking int
	false, more     int             // merges without an effect with a verdict, and with the verdict more readers
	covered, outOf  int             // intervals with the true change
	found           map[float64]int // merges whose page has a verdict in the right direction, by the change
	changes, widths []float64       // of pages without an effect
	nulls           []view.Outcome  // a merge without an effect each, all of a site at one date
}

func newTally() *tally { return &tally{found: map[float64]int{}} }

// shares returns the share of merges with a false verdict, and the share of intervals with the true change.
func (o *tally) shares() (wrong, covered float64) {
	return float64(o.false) / float64(max(1, o.merges-o.lacking)), float64(o.covered) / float64(max(1, o.outOf))
}

var trueChanges = []float64{0, -0.2, 0.1, 0.3, 1}

// sizes are the pages of a merge, with how often a site has a merge of that size. On a small site each
// merge is alone, on others all are on one day, and share what they are compared with.
var sizes = []struct{ pages, merges int }{{1, 5}, {2, 4}, {5, 2}, {10, 1}}

const smallSite = 40

// run returns what became of merges by their number of pages, of which the first changes.
func run(t testing.TB, site traffic, sites int, choose func([]float64) float64) map[int]*tally {
	out := map[int]*tally{}
	for seed := range uint64(sites) {
		p := site(t, seed)
		r := rand.New(rand.NewPCG(seed, 28))
		paths := p.eligible(leastVisitors, 1e9)
		r.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		if choose != nil {
			slices.SortStableFunc(paths, func(a, b string) int {
				return cmp.Compare(choose(p.pages[b][analytics.Human]), choose(p.pages[a][analytics.Human]))
			})
		}
		var shared *study
		if len(p.pages) >= smallSite {
			all := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: paths[:min(10, len(paths))]}
			shared = newStudy(p, all, []view.Merge{all})
		}
		for _, size := range sizes {
			of := out[size.pages]
			if of == nil {
				of = newTally()
				out[size.pages] = of
			}
			for chunk := range slices.Chunk(paths[:min(len(paths), size.merges*size.pages)], size.pages) {
				m := view.Merge{Project: "prj_a", At: mergeDate.Time(), Pages: chunk}
				s := shared
				if s == nil {
					s = newStudy(p, m, []view.Merge{m})
				}
				visitors := p.pages[chunk[0]][analytics.Human]
				former := slices.Clone(visitors)
				for _, change := range trueChanges {
					for i := 2*span + 1; i < len(visitors); i++ {
						visitors[i] = changed(r, former[i], change)
					}
					effects := []view.Effect{}
					for _, path := range chunk {
						effects = append(effects, s.effect(path, analytics.Human))
					}
					judge(effects, true)
					m.At = (mergeDate + analytics.Date(seed)).Time() // in the pool, sites are as different dates
					of.add(m, effects, change)
				}
				copy(visitors, former)
			}
			if len(p.pages) < 2*smallSite/3 {
				break
			}
		}
	}
	return out
}

func (o *tally) add(m view.Merge, effects []view.Effect, change float64) {
	first := effects[0]
	if change == 0 {
		o.merges++
		wrong, more := false, false
		for _, e := range effects {
			wrong = wrong || e.Tone() != ""
			more = more || e.Verdict == view.MoreReaders
		}
		if wrong {
			o.false++
		}
		if more {
			o.more++
		}
		if first.Verdict == view.NotEnoughData {
			o.lacking++
			return
		}
		o.changes = append(o.changes, first.Change)
		o.widths = append(o.widths, (first.High-first.Low)/2)
		o.nulls = append(o.nulls, view.Outcome{Merge: m, Effects: effects[:1]})
	}
	if first.Verdict == view.NotEnoughData {
		return
	}
	if first.Tone() != "" && (first.Change > 0) == (change > 0) {
		o.found[change]++
	}
	o.outOf++
	if first.Low <= change && change <= first.High {
		o.covered++
	}
}

// pooled returns the share of draws of 40 merges whose mean change excludes zero.
func (o *tally) pooled() (excludes float64) {
	r := rand.New(rand.NewPCG(1, 29))
	dates := map[analytics.Date][]view.Outcome{}
	var order []analytics.Date
	for _, n := range o.nulls {
		if dates[n.Date()] == nil {
			order = append(order, n.Date())
		}
		dates[n.Date()] = append(dates[n.Date()], n)
	}
	const draws = 200
	for range draws {
		r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
		var drawn []view.Outcome
		for _, d := range order {
			if drawn = append(drawn, dates[d]...); len(drawn) >= 40 {
				break
			}
		}
		if s := summarize(drawn); len(s) > 0 && s[0].Mean != nil && (s[0].Mean.Low > 0 || s[0].Mean.High < 0) {
			excludes++
		}
	}
	return excludes / draws
}

func (o *tally) String() string {
	middle := func(all []float64) float64 {
		if len(all) == 0 {
			return math.NaN()
		}
		return 100 * median(all)
	}
	tested := float64(max(1, o.merges-o.lacking))
	share := func(n int) float64 { return 100 * float64(n) / tested }
	return fmt.Sprintf("%d (%d) | %.1f (%.1f+) | %.0f | %+.1f ± %.0f | %.0f | %.0f | %.0f | %.0f | %.0f", o.merges,
		o.lacking, share(o.false), share(o.more), 100*float64(o.covered)/float64(max(1, o.outOf)), middle(o.changes),
		middle(o.widths), share(o.found[-0.2]), share(o.found[0.1]), share(o.found[0.3]), share(o.found[1]),
		100*o.pooled())
}

// restless is a site whose pages have noise that lasts for days, some of them more than others.
var restless = world{pages: 80, lowest: 25, most: 900, own: .15, lasting: .25, keep: .5, mixed: true}

// worlds are the worlds of docs/dev/outcomes-method.md.
var worlds = []struct {
	name string
	traffic
	choose func([]float64) float64
}{
	{"steady", world{pages: 80, lowest: 25, most: 900}.site, nil},
	{"noise that lasts", restless.site, nil},
	{"long memory", world{pages: 80, lowest: 25, most: 900, own: .1, lasting: .3, keep: .93}.site, nil},
	{"launch", world{pages: 80, lowest: 25, most: 900, lasting: .2, keep: .5, spike: 3, loading: .5}.site, nil},
	{"fell last week, steady", world{pages: 80, lowest: 25, most: 900}.site, fellWeek},
	{"fell last week, noise that lasts", restless.site, fellWeek},
	{"fell last week, pulses", world{pages: 80, lowest: 25, most: 900, lasting: .1, keep: .5, pulses: 0.7}.site,
		fellWeek},
	{"fell in a month, noise that lasts", restless.site, fellMonth},
	{"fell in a month, long memory", world{pages: 80, lowest: 25, most: 900, own: .1, lasting: .3, keep: .93}.site,
		fellMonth},
	{"fell in a month, pulses", world{pages: 80, lowest: 25, most: 900, lasting: .1, keep: .5,
		pulses: 0.7}.site, fellMonth},
	{"fell in a month, small pages", world{pages: 80, lowest: 3, most: 40, lasting: .15, keep: .5}.site, fellMonth},
	{"pulses", world{pages: 80, lowest: 25, most: 900, lasting: .1, keep: .5, pulses: 0.7}.site, nil},
	{"trends", world{pages: 80, lowest: 25, most: 900, lasting: .1, keep: .5, trend: .008, growth: .005}.site, nil},
	{"wandering", world{pages: 80, lowest: 25, most: 900, walk: .03, lasting: .1, keep: .5}.site, nil},
	{"site halves", world{pages: 80, lowest: 25, most: 900, lasting: .15, keep: .5, jump: .5}.site, nil},
	{"site halves, pages differ", world{pages: 80, lowest: 25, most: 900, lasting: .15, keep: .5, jump: .5,
		loading: .25}.site,
		nil},
	{"crawlers", world{pages: 80, lowest: 4, most: 100, lasting: .1, keep: .5, sweeps: .2}.site, nil},
	{"people edit", world{pages: 80, lowest: 25, most: 900, lasting: .15, keep: .5, edited: .3}.site, nil},
	{"small pages", world{pages: 80, lowest: 3, most: 15, own: .1, lasting: .15, keep: .5}.site, nil},
	{"small and large pages", world{pages: 80, lowest: 2, most: 400, own: .1, lasting: .15, keep: .5}.site, nil},
	{"22 pages", world{pages: 22, lowest: 10, most: 400, lasting: .15, keep: .5}.site, nil},
	{"36 pages, steady", world{pages: 36, lowest: 10, most: 400}.site, nil},
	{"15 pages", world{pages: 15, lowest: 25, most: 900, lasting: .15, keep: .5}.site, nil},
	{"15 pages, site halves", world{pages: 15, lowest: 25, most: 900, lasting: .1, keep: .5, jump: .5}.site, nil},
	{"15 pages, launch", world{pages: 15, lowest: 25, most: 900, lasting: .1, keep: .5, spike: 3,
		loading: .3}.site, nil},
	{"15 pages, fell in a month", world{pages: 15, lowest: 25, most: 900, lasting: .2, keep: .5}.site, fellMonth},
	{"4 pages, site loses a third", world{pages: 4, lowest: 40, most: 400, lasting: .1, keep: .5, jump: .67}.site, nil},
	{"8 pages, long memory", world{pages: 8, lowest: 25, most: 900, own: .1, lasting: .3, keep: .93}.site, nil},
	{"1 page", world{pages: 1, lowest: 100, most: 100, lasting: .1, keep: .5}.site, nil},
	{"sandbox, steady", sandboxTraffic(sandbox.Steady, 640), nil},
	{"sandbox, growth", sandboxTraffic(sandbox.Growth, 640), nil},
}

// TestWorlds: in no world many verdicts on merges without an effect, or intervals without the true
// change. The full run makes the table of docs/dev/outcomes-method.md.
func TestWorlds(t *testing.T) {
	short := []string{"steady", "noise that lasts", "fell in a month, noise that lasts", "36 pages, steady",
		"15 pages, site halves", "1 page"}
	bySize := map[int]*tally{}
	for _, size := range sizes {
		bySize[size.pages] = newTally()
	}
	var together sync.Mutex
	t.Run("all", func(t *testing.T) {
		for _, w := range worlds {
			t.Run(w.name, func(t *testing.T) {
				t.Parallel()
				sites := 12
				if *long {
					sites = 125
				} else if !slices.Contains(short, w.name) {
					t.Skip("only with -long")
				}
				got := run(t, w.traffic, sites, w.choose)
				for _, size := range sizes {
					of := got[size.pages]
					if of == nil {
						continue
					}
					t.Logf("| %s | %d | %v |", w.name, size.pages, of)
					wrong, covered := of.shares()
					if worst := map[bool]float64{true: .08, false: .12}[of.merges >= 400]; wrong > worst ||
						covered < .8 {
						t.Errorf("%.3f of %d merges of %d pages have a false verdict, %.3f intervals the "+
							"true change", wrong,
							of.merges, size.pages, covered)
					}
					together.Lock()
					all := bySize[size.pages]
					all.merges, all.false = all.merges+of.merges, all.false+of.false
					all.covered, all.outOf = all.covered+of.covered, all.outOf+of.outOf
					together.Unlock()
				}
			})
		}
	})
	for pages, of := range bySize {
		wrong, covered := of.shares()
		t.Logf("%d pages: %.3f of %d merges have a false verdict, %.3f intervals the true change", pages, wrong,
			of.merges, covered)
		if wrong > .05 || covered < .87 {
			t.Errorf("%d pages: %.3f, %.3f", pages, wrong, covered)
		}
	}
}

// TestRedirectedSites: of 200 sites with a redirect, 95 % have the right verdict if the readers of the target double by
// it, and at most 7 % have one if nothing happens.
func TestRedirectedSites(t *testing.T) {
	t.Parallel()
	kinds := []string{"steady", "noise that lasts", "trends", "site halves", "small and large pages"}
	const each = 40
	sites, right, wrong := 0, 0, 0
	for _, w := range worlds {
		if !slices.Contains(kinds, w.name) {
			continue
		}
		for seed := range uint64(each) {
			sites++
			p := w.traffic(t, seed)
			r := rand.New(rand.NewPCG(seed, 30))
			paths := p.eligible(leastVisitors, 1e9)
			rule := view.Redirect{Redirect: journal.Redirect{Project: "prj_a", Path: "/gone",
				Target: paths[r.IntN(len(paths))], Since: mergeDate.Time()}}
			m := redirectMerges([]view.Redirect{rule}, nil)[0]
			s := newStudy(p, m, []view.Merge{m})
			visitors := p.pages[rule.Target][analytics.Human]
			for _, gain := range []float64{0, 1} {
				for i := 2*span + 1; i < len(visitors); i++ {
					visitors[i] = changed(r, visitors[i], gain)
				}
				of := view.Outcome{Merge: m, Final: true, Effects: []view.Effect{s.effect(rule.Target, analytics.Human)}}
				judge(of.Effects, true)
				all := []view.Redirect{rule}
				addEffects(all, []view.Outcome{of})
				switch verdict := all[0].Effects[0].Verdict; {
				case gain > 0 && verdict == view.MoreReaders:
					right++
				case gain == 0 && verdict != view.NoClearChange:
					wrong++
				}
			}
		}
	}
	t.Logf("%d sites: right for %d with an effect, wrong for %d without", sites, right, wrong)
	if sites != 200 || right*100 < 95*sites || wrong*100 > 7*sites {
		t.Errorf("%d sites: right for %d with an effect, wrong for %d without", sites, right, wrong)
	}
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
