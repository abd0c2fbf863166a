package sandbox

import (
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const daySeconds = 24 * 60 * 60

// event is one page view by one visitor, kept with the UTC date it belongs to.
type event struct {
	// who is visitor<<1, plus 1 for an AI visit. Visitors are numbered densely.
	who uint32
	// page is an index into the paths of the traffic.
	page uint32
	// at is the second of the day.
	at uint32
	// arrival is in seconds after the beginning of the day of the event.
	arrival uint32
	// agent is an index into the agents of the traffic, plus 1; 0 for none.
	agent uint16
}

const (
	human = facts.Human
	ai    = facts.AI
)

// traffic is an immutable view of the events of one project.
type traffic interface {
	// bounds returns the first date with events and the date after the last.
	bounds() (first, end analytics.Date)
	day(analytics.Date) []event
	paths() []string
	// visitors is above every visitor number.
	visitors() int
	// agents are those with a name.
	agents() []agents.Agent
	// beside returns the events of a day that are no visits, with visitor numbers of their own: of
	// crawlers, and of paths that are not there, which are numbered after all others.
	beside(analytics.Date) []event
	missing() []string
}

// lateShare is the share of events that LateDays delays: one in lateShare.
const lateShare = 20

// arrival returns the arrival of an event at second at of its day, in seconds after the
// beginning of that day. luck is any evenly distributed number.
func arrival(at, luck uint32, lateDays int) uint32 {
	if lateDays == 0 || luck%lateShare != 0 {
		return at
	}
	return daySeconds + 1 + luck/lateShare%uint32(lateDays*daySeconds)
}

// interval is the half-open span [from, to) of event times, in Unix seconds.
type interval struct{ from, to int64 }

// answer is the whole answer about a window: all its rows, by total from the largest, then by
// path.
type answer struct {
	totals analytics.Totals
	rows   []analytics.Row
}

// tally counts the distinct visitors of t in w among the events that arrived up
// to horizon.
func tally(t traffic, w interval, horizon int64) answer {
	var counter facts.Counter
	eachEvent(t, w, horizon, t.day, func(e event) { counter.Add(e.who, int(e.page)) })
	return answer{counter.Site(), counter.Rows(t.paths())}
}

// eachEvent calls do with the events of days that are in w and arrived up to horizon.
func eachEvent(t traffic, w interval, horizon int64, day func(analytics.Date) []event, do func(event)) {
	// No event arrives before it happens, so no later day has visible events.
	first, end := t.bounds()
	if last := min(w.to-1, horizon); last < end.Time().Unix() {
		end = analytics.DateOf(time.Unix(last, 0)) + 1
	}
	if w.from > first.Time().Unix() {
		first = analytics.DateOf(time.Unix(w.from, 0))
	}
	for d := first; d < end; d++ {
		start := d.Time().Unix()
		for _, e := range day(d) {
			at := start + int64(e.at)
			if at >= w.from && at < w.to && start+int64(e.arrival) <= horizon {
				do(e)
			}
		}
	}
}

// drift is an event that a request caused, at the first second of date. Each has a different
// visitor.
type drift struct {
	date analytics.Date
	kind uint32
}

// maxDrift limits the memory of drift, in events.
const maxDrift = 1 << 17

// driftTraffic is a traffic with drift added.
type driftTraffic struct {
	traffic
	events []drift
}

func (t driftTraffic) visitors() int { return t.traffic.visitors() + len(t.events) }

func (t driftTraffic) bounds() (first, end analytics.Date) {
	first, end = t.traffic.bounds()
	for _, e := range t.events {
		first, end = min(first, e.date), max(end, e.date+1)
	}
	return first, end
}

func (t driftTraffic) day(d analytics.Date) []event {
	day := slices.Clip(t.traffic.day(d))
	for i, e := range t.events {
		if e.date != d {
			continue
		}
		visitor := uint32(t.traffic.visitors() + i)
		day = append(day, event{who: visitor<<1 | e.kind, page: uint32(i / 2 % len(t.paths()))})
	}
	return day
}

// maxPagesRead is the maximum number of pages that a latecomer reads.
const maxPagesRead = 8

// movingTraffic is a traffic whose days grow after their end: at every multiple of step a
// latecomer arrives, a visitor of that day and of no other.
type movingTraffic struct {
	traffic
	seed func(analytics.Date) [32]byte
	// step is the time between two latecomers of a day, duration is the time after its end
	// when they come, both in seconds.
	step, duration int64
	// last is the newest date that is requested.
	last analytics.Date
}

// perDay is the greatest number of latecomers of a day.
func (t movingTraffic) perDay() int { return int(t.duration/t.step) + 1 }

func (t movingTraffic) visitors() int {
	first, _ := t.bounds()
	return t.traffic.visitors() + t.perDay()*max(0, int(t.last-first)+1)
}

func (t movingTraffic) day(d analytics.Date) []event {
	first, _ := t.bounds()
	start := d.Time().Unix()
	end := start + daySeconds
	seed := t.seed(d)
	r := rand.New(rand.NewChaCha8(sha256.Sum256(append(seed[:], "latecomers"...))))
	visitor := uint32(t.traffic.visitors() + t.perDay()*int(d-first))
	day := slices.Clip(t.traffic.day(d))
	for arrives := end - end%t.step + t.step; arrives <= end+t.duration; arrives += t.step {
		kind := uint32(human)
		if r.Uint32N(4) == 0 {
			kind = ai
		}
		for range 1 + r.IntN(maxPagesRead) {
			popular := r.Float64()
			day = append(day, event{
				who: visitor<<1 | kind, page: uint32(popular * popular * float64(len(t.paths()))),
				at: r.Uint32N(daySeconds), arrival: uint32(arrives - start),
			})
		}
		visitor++
	}
	return day
}
