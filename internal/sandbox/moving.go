package sandbox

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// mostReads is the most pages that one latecomer has read.
const mostReads = 8

// movingTraffic is a traffic whose days go on growing after their end: at every
// whole step of the clock a latecomer arrives, a visitor who was there on that day
// and on no other.
type movingTraffic struct {
	traffic
	seed func(analytics.Date) [32]byte
	// step is the time between two latecomers of a day, lasting how long after its
	// end they come, both in seconds.
	step, lasting int64
	// last is the newest date that is asked for.
	last analytics.Date
}

// withMoving returns t with the latecomers that f wants in the days up to last,
// or t itself where there are none or no page that they could have read.
func withMoving(t traffic, f Faults, seed func(analytics.Date) [32]byte, last analytics.Date) traffic {
	if f.Moving == 0 || len(t.paths()) == 0 {
		return t
	}
	return movingTraffic{t, seed, int64(f.Moving / time.Second), int64(f.MovingDays) * daySeconds, last}
}

// perDay is the most latecomers of a day.
func (t movingTraffic) perDay() int { return int(t.lasting/t.step) + 1 }

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
	for arrives := end - end%t.step + t.step; arrives <= end+t.lasting; arrives += t.step {
		kind := uint32(human)
		if r.Uint32N(4) == 0 {
			kind = ai
		}
		for range 1 + r.IntN(mostReads) {
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

// maxLatecomers bounds the latecomers of one day.
const maxLatecomers = 10_000

func (f Faults) validateMoving() error {
	if f.Moving == 0 {
		return nil
	}
	if f.Moving < time.Minute || f.Moving%time.Minute != 0 {
		return fmt.Errorf("moving: want whole minutes, at least one, got %s", f.Moving)
	}
	if err := between("moving days", f.MovingDays, 1, maxLateDays); err != nil {
		return err
	}
	if days := time.Duration(f.MovingDays) * 24 * time.Hour; days/f.Moving > maxLatecomers {
		return fmt.Errorf("moving: every %s over %d days is more than %d changes of a day; want fewer days or a longer time", f.Moving, f.MovingDays, maxLatecomers)
	}
	return nil
}
