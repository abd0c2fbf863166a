package traffic

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"sort"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

// How synthetic visitors behave. With 640 pages a working day has about 1,500
// sessions and 7,700 events, so that most pages are visited on most days.
const (
	sessionsPerPage = 2.4
	leastSessions   = 24
	goOn            = 0.8 // probability that a session has one more page: 5 pages on average
	maxPause        = 120 // seconds between two pages of a session
)

var weekRhythm = [7]float64{time.Sunday: 0.45, 1.0, 1.08, 1.1, 1.05, 0.92, time.Saturday: 0.4}

// Website is shared by all synthetic projects: the pages, how their traffic develops,
// and the cache of days.
type Website struct {
	Pages    []string
	course   course
	sessions int // of a usual day
	ring     int // visitor numbers in use
	lateDays int
	forged   float64
	seed     uint64
	days     *Cache[dayKey, []event]
}

type dayKey struct {
	project string
	date    analytics.Date
}

// maxCachedEvents limits the cache of days: 96 MiB.
const maxCachedEvents = 4 << 20

// Options describe the synthetic site.
type Options struct {
	Seed      uint64
	Pages     int
	LateDays  int  // one event in twenty arrives late, by at most so many days
	IsGrowing bool // readers, pages and agents change over the months; else the site is steady
	// Forged is the share of the people, from 0 to 1, that are programs under a browser's name.
	Forged float64
}

// NewWebsite returns a synthetic site.
func NewWebsite(o Options) *Website {
	s := &Website{
		Pages: docPaths(o.Pages), seed: o.Seed, lateDays: o.LateDays, forged: o.Forged,
		sessions: max(leastSessions, int(sessionsPerPage*float64(o.Pages))),
		days:     NewCache[dayKey](maxCachedEvents, func(e []event) int { return len(e) }),
	}
	s.course, s.ring = courseOf(o.IsGrowing, o.Pages)
	s.ring *= s.sessions
	return s
}

// Synthetic is the made-up traffic of one project from first on. Each day is made independently
// of all others, when it is first requested.
type Synthetic struct {
	*Website
	project string
	first   analytics.Date
}

// Project returns the traffic of a project from a date on.
func (w *Website) Project(name string, first analytics.Date) *Synthetic {
	return &Synthetic{Website: w, project: name, first: first}
}

// endOfTime is later than any date the API can name.
const endOfTime = analytics.Date(1 << 22)

func (s *Synthetic) Bounds() (first, end analytics.Date) { return s.first, endOfTime }
func (s *Synthetic) Paths() []string                     { return s.Pages }
func (s *Synthetic) visitors() int                       { return s.ring }

func (s *Synthetic) day(d analytics.Date) []event {
	return s.days.Get(dayKey{s.project, d}, func() []event { return s.generate(d) })
}

// generate makes the events of a day.
func (s *Synthetic) generate(d analytics.Date) []event {
	r := rand.New(rand.NewChaCha8(s.daySeed(d)))
	noise := 0.95 + 0.1*r.Float64()
	sessions := int(float64(s.sessions) * weekRhythm[d.Weekday()] * s.course.volume(d) * noise)
	shares := s.course.shares(d)
	events := make([]event, 0, sessions*6)
	for range sessions {
		events = s.session(events, d, shares, r)
	}
	return events
}

// daySeed makes days unrelated to each other, even of neighbouring seeds.
func (s *Synthetic) daySeed(d analytics.Date) [32]byte {
	key := binary.BigEndian.AppendUint64(nil, s.seed)
	key = binary.BigEndian.AppendUint32(key, uint32(d))
	return sha256.Sum256(append(key, s.project...))
}

// session appends the page views of one visitor, one after the other.
func (s *Synthetic) session(events []event, d analytics.Date, shares []float64, r *rand.Rand) []event {
	// Newcomers get rising numbers and come often; the longer ago a visitor's first day was,
	// the rarer the returns.
	u := r.Float64()
	age := int(u * u * u * s.course.pool(d) * float64(s.sessions))
	newcomer := int(s.course.newcomers(d) * float64(s.sessions))
	visitor := uint32(((newcomer-age)%s.ring + s.ring) % s.ring)
	share := s.course.aiShare(visitor, d)
	at := r.Uint32N(daySeconds)
	if share < 1 { // people read around noon, agents at any hour
		at = (at + r.Uint32N(daySeconds)) / 2
	}
	for isFirst := true; ; isFirst = false {
		kind := uint32(human)
		if r.Float64() < share {
			kind = ai
		}
		page := min(uint32(sort.SearchFloat64s(shares, r.Float64())), uint32(len(s.Pages)-1))
		e := event{who: visitor<<1 | kind, page: page, second: at, arrival: arrival(at, r.Uint32(), s.lateDays)}
		if kind == ai {
			e.agent = assistantOf(visitor, s.Pages[page], s.course.coding(d))
		}
		s.complete(&e, d, isFirst)
		events = append(events, e)
		if r.Float64() >= goOn {
			return events
		}
		at = min(at+1+r.Uint32N(maxPause), daySeconds-1)
	}
}

// beside makes the events of a day that count as no reader's: by crawlers, and of paths that are not
// there.
func (s *Synthetic) beside(d analytics.Date) (events []event) {
	seed := s.daySeed(d)
	r := rand.New(rand.NewChaCha8(sha256.Sum256(append(seed[:], "beside"...))))
	add := func(visitor, page uint32, agent uint16) {
		at := r.Uint32N(daySeconds)
		e := event{who: visitor<<1 | ai, page: page, agent: agent, second: at, arrival: arrival(at, r.Uint32(), s.lateDays)}
		s.complete(&e, d, true)
		events = append(events, e)
	}
	volume := s.course.volume(d)
	for _, c := range crawlers {
		for range int(1 + c.share*volume*float64(len(s.Pages))) {
			add(r.Uint32N(c.clients), r.Uint32N(uint32(len(s.Pages))), agentNumber(c.name))
		}
	}
	for range int(1 + guessesPerSession*volume*float64(s.sessions)) {
		luck := r.Float64()
		guess := int(luck * luck * float64(len(guesses)))
		visitor := r.Uint32N(guessers)
		add(visitor, uint32(len(s.Pages)+guess), assistantOf(visitor, guesses[guess], s.course.coding(d)))
	}
	return events
}

func (s *Synthetic) agents() []agents.Agent { return agentNames }

func (s *Synthetic) missing() []string { return guesses }
