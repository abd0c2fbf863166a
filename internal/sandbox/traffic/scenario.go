package traffic

import (
	"math"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	popularityFall = 0.8 // page of rank r is visited in proportion to r^-popularityFall
	// newcomersPerSession is the number of visitors that come for the first time.
	newcomersPerSession = 0.3
)

// scenarioStart is the date that all developments are counted from.
var scenarioStart = analytics.NewDate(2026, 1, 1)

// course decides about the days of a site in a scenario.
type course interface {
	// volume is the number of sessions, in multiples of a usual day.
	volume(analytics.Date) float64
	// newcomers is the number of visitors who came before a date, in sessions of a
	// usual day; only differences mean anything.
	newcomers(analytics.Date) float64
	// pool is the number of visitors who may come on a date, in sessions of a usual day.
	pool(analytics.Date) float64
	// aiShare is the share of AI views of a visitor.
	aiShare(visitor uint32, d analytics.Date) float64
	// coding is the weight of coding agents among the assistants on a date.
	coding(analytics.Date) float64
	// shares rises to 1: the share of visits that pages 0 to i have together on a date.
	shares(analytics.Date) []float64
}

// courseOf returns the course of a site, and the visitor numbers in use, in sessions
// of a usual day.
func courseOf(isGrowing bool, pages int) (c course, ring int) {
	usual := make([]float64, pages)
	for i := range usual {
		rank := i + 1
		if isGrowing && firstOdd <= i && i < len(startPaths) {
			rank += oddRanks
		}
		usual[i] = math.Pow(float64(rank), -popularityFall)
	}
	if isGrowing {
		return growth{usual}, growthRing
	}
	return steady{cumulated(usual)}, steadyRing
}

// cumulated adds up weights to shares in place.
func cumulated(weights []float64) []float64 {
	sum := 0.0
	for i, w := range weights {
		sum += w
		weights[i] = sum
	}
	for i := range weights {
		weights[i] /= sum
	}
	return weights
}

// The steady site.
const (
	steadyGrowth = 0.0005 // a day
	steadyPool   = 8
	steadyRing   = 32 // each number is given anew after about 100 days
)

type steady struct{ usual []float64 }

func (steady) volume(d analytics.Date) float64 {
	return min(max(1+steadyGrowth*float64(d-scenarioStart), 0.5), 2)
}
func (steady) newcomers(d analytics.Date) float64 { return float64(d) * newcomersPerSession }
func (steady) pool(analytics.Date) float64        { return steadyPool }
func (s steady) shares(analytics.Date) []float64  { return s.usual }

func (steady) coding(analytics.Date) float64 { return 1 }

// aiShare: most are people, some are agents, and some are both, such as developers
// with an assistant.
func (steady) aiShare(visitor uint32, _ analytics.Date) float64 {
	switch kind := visitor % 20; {
	case kind < 12:
		return 0
	case kind < 16:
		return 1
	default:
		return 0.4
	}
}

// The growing site. Its volume is growthBase at scenarioStart, and at most growthLimit.
const (
	growthBase   = 0.3
	growthPerDay = 0.004
	growthLimit  = 4.0
	growthRing   = 80 // more than pool and newcomers of a month, at any volume

	// A page's wave multiplies its readers by e^-waveHeight to e^waveHeight.
	waveWeeks  = 26
	waveHeight = 1
	// mortalWeeks from one birth of a page to the next: longer than the usual 120
	// days together with its life, which is half of that.
	mortalWeeks = 39
	// firstMortal is the first page that can vanish: those before it are the site's
	// best known.
	firstMortal = 16

	// From firstOdd on, paths of startPaths need escaping. They are read oddRanks ranks
	// less than in the steady scenario: people are to see a usual site first.
	firstOdd = 6
	oddRanks = 50
)

type growth struct{ usual []float64 }

func (growth) volume(d analytics.Date) float64 {
	return min(max(growthBase+growthPerDay*float64(d-scenarioStart), growthBase), growthLimit)
}

func (g growth) pool(d analytics.Date) float64 { return steadyPool * g.volume(d) }

// newcomers is the integral of the volume.
func (growth) newcomers(d analytics.Date) float64 {
	const full = (growthLimit - growthBase) / growthPerDay // days until growthLimit
	days := float64(d - scenarioStart)
	growing := min(max(days, 0), full)
	return newcomersPerSession * (growthBase*min(days, full) + growthPerDay*growing*growing/2 +
		growthLimit*max(days-full, 0))
}

// aiShare grows with time: people become users of agents and stay so.
func (growth) aiShare(visitor uint32, d analytics.Date) float64 {
	const steps = 1000
	agents := min(max(0.08+0.0004*float64(d-scenarioStart), 0.05), 0.4)
	switch inclination := float64(visitor*7919%steps) / steps; {
	case inclination < agents:
		return 1
	case inclination < 2*agents:
		return 0.4
	default:
		return 0
	}
}

// coding agents take over: a third as many at scenarioStart, twice as many in the end.
func (growth) coding(d analytics.Date) float64 {
	return min(max(0.3+0.003*float64(d-scenarioStart), 0.3), 2)
}

func (g growth) shares(d analytics.Date) []float64 {
	weights := make([]float64, len(g.usual))
	// The epoch was a Thursday; weeks begin on Mondays.
	week := int(d+3) / 7
	for i, usual := range g.usual {
		switch {
		case isMortal(i):
			// The births of these pages follow one another, so that some are on every Monday.
			mortal := (len(g.usual) - firstMortal + 4) / 8
			cycle := min(mortalWeeks, mortal)
			if age := ((week-i/8)%cycle + cycle) % cycle; age < (cycle+1)/2 {
				weights[i] = usual
			}
		case isWaving(i):
			phase := float64(d)/(7*waveWeeks) + float64(i)*math.Phi
			weights[i] = usual * math.Exp(waveHeight*math.Sin(2*math.Pi*phase))
		default:
			weights[i] = usual
		}
	}
	return cumulated(weights)
}

// isWaving and isMortal report whether a page of a growing site gains and loses readers
// in waves, and whether it can vanish, which goes first.
// HasSteadyReaders reports whether a page has readers at any time, whether the site grows or not.
func HasSteadyReaders(page int) bool { return !isWaving(page) && !isMortal(page) }

func isWaving(page int) bool { return page > 0 && page%3 == 1 }
func isMortal(page int) bool { return page >= firstMortal && page%8 == 3 }
