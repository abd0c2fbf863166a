package traffic

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Drift is the events that requests caused. It is append-only: its length identifies it.
type Drift []driftEvent

// driftEvent is an event at the first second of date. Each has a different visitor.
type driftEvent struct {
	date analytics.Date
	kind uint32
}

// maxDrift limits the memory of drift, in events.
const maxDrift = 1 << 17

// Add adds one event to the UTC day of now and one to the day before. Human and AI visitors take turns.
func (d Drift) Add(now time.Time) Drift {
	if len(d) >= maxDrift {
		return d
	}
	today, kind := analytics.DateOf(now), uint32(len(d)/2%2)
	return append(d, driftEvent{today - 1, kind}, driftEvent{today, kind})
}

// WithDrift returns a traffic with drift added to it.
func WithDrift(t Traffic, d Drift) Traffic { return driftTraffic{t, d} }

// WithLatecomers returns a traffic whose days grow after their end: one visitor more at every multiple of step, for some
// days. last is the newest date that is requested.
func WithLatecomers(t Traffic, seeds *Synthetic, step time.Duration, days int, last analytics.Date) Traffic {
	return movingTraffic{t, seeds.daySeed, int64(step / time.Second), int64(days) * daySeconds, last}
}

// WithReactions returns a traffic whose readers react to the change of pages since a date: 0.3 is 30 % more of them.
func WithReactions(t Traffic, seeds *Synthetic, humans, ais float64, since map[uint32]analytics.Date) Traffic {
	return reactingTraffic{t, [2]float64{human: humans, ai: ais}, since, seeds.daySeed(0)}
}

// driftTraffic is a traffic with drift added.
type driftTraffic struct {
	Traffic
	events Drift
}

func (t driftTraffic) visitors() int { return t.Traffic.visitors() + len(t.events) }

func (t driftTraffic) Bounds() (first, end analytics.Date) {
	first, end = t.Traffic.Bounds()
	for _, e := range t.events {
		first, end = min(first, e.date), max(end, e.date+1)
	}
	return first, end
}

func (t driftTraffic) day(d analytics.Date) []event {
	day := slices.Clip(t.Traffic.day(d))
	for i, e := range t.events {
		if e.date != d {
			continue
		}
		visitor := uint32(t.Traffic.visitors() + i)
		drifted := event{who: visitor<<1 | e.kind, page: uint32(i / 2 % len(t.Paths()))}
		drifted.plain()
		day = append(day, drifted)
	}
	return day
}

// maxPagesRead is the maximum number of pages that a latecomer reads.
const maxPagesRead = 8

// movingTraffic is a traffic whose days grow after their end: at every multiple of step a
// latecomer arrives, a visitor of that day and of no other.
type movingTraffic struct {
	Traffic
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
	first, _ := t.Bounds()
	return t.Traffic.visitors() + t.perDay()*max(0, int(t.last-first)+1)
}

func (t movingTraffic) day(d analytics.Date) []event {
	first, _ := t.Bounds()
	start := d.Time().Unix()
	end := start + daySeconds
	seed := t.seed(d)
	r := rand.New(rand.NewChaCha8(sha256.Sum256(append(seed[:], "latecomers"...))))
	visitor := uint32(t.Traffic.visitors() + t.perDay()*int(d-first))
	day := slices.Clip(t.Traffic.day(d))
	for arrives := end - end%t.step + t.step; arrives <= end+t.duration; arrives += t.step {
		kind := uint32(human)
		if r.Uint32N(4) == 0 {
			kind = ai
		}
		for range 1 + r.IntN(maxPagesRead) {
			popular := r.Float64()
			e := event{
				who: visitor<<1 | kind, page: uint32(popular * popular * float64(len(t.Paths()))),
				second: r.Uint32N(daySeconds), arrival: uint32(arrives - start),
			}
			e.plain()
			day = append(day, e)
		}
		visitor++
	}
	return day
}

// reactingTraffic is a traffic whose readers react to merges. Additional readers are twins: some readers of the page
// have a twin, which reads it whenever they do, and nothing else. If there are fewer, some stop reading it. Both are
// the same people every day, so that longer windows have the same effect.
type reactingTraffic struct {
	Traffic
	change [2]float64 // by kind
	since  map[uint32]analytics.Date
	seed   [sha256.Size]byte
}

func (t reactingTraffic) visitors() int { return 2 * t.Traffic.visitors() }

func (t reactingTraffic) day(d analytics.Date) []event {
	usual := t.Traffic.day(d)
	day := make([]event, 0, len(usual)+len(usual)/16)
	for _, e := range usual {
		from, changed := t.since[e.page]
		change := t.change[e.who&1]
		if !changed || d < from || change == 0 {
			day = append(day, e)
			continue
		}
		luck := t.luck(e.page, e.who>>1)
		if luck >= -change {
			day = append(day, e)
		}
		if luck < change {
			e.who += uint32(t.Traffic.visitors()) << 1
			day = append(day, e)
		}
	}
	return day
}

// luck is evenly distributed over the readers of a page, the same on every day.
func (t reactingTraffic) luck(page, visitor uint32) float64 {
	key := binary.BigEndian.AppendUint32(t.seed[:], page)
	sum := sha256.Sum256(binary.BigEndian.AppendUint32(key, visitor))
	return float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32)
}
