package sandbox

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// answerKey names one answer: the same key always has the same answer.
type answerKey struct {
	project string
	window  interval
	// horizon is the newest arrival that counts, Unix seconds.
	horizon int64
	// reading of the event log, 0 for synthetic traffic.
	reading uint64
	drift   int
}

// keptRows bounds the cache of answers: about 20 MiB and the paths.
const keptRows = 1 << 19

func newAnswers() *lru[answerKey, answer] {
	return newLRU[answerKey](keptRows, func(a answer) int { return len(a.rows) + answerOverhead })
}

// answerOverhead is what an answer weighs without its rows; it bounds the number
// of answers kept.
const answerOverhead = 256

// horizon returns the newest arrival that is visible at now: the beginning of
// its minute.
func horizon(now time.Time) int64 { return now.Truncate(time.Minute).Unix() }

// answer counts w as it is at now, or returns what was counted before.
func (s *Sandbox) answer(p *project, w interval, now time.Time) (answer, error) {
	t, reading, err := s.traffic(p)
	if err != nil {
		return answer{}, err
	}
	drift := p.events()
	seen := horizon(now)
	w.to = min(w.to, seen+1)
	seen = min(seen, lastArrival(w, s.config.Faults.changingDays()))
	key := answerKey{p.name, w, seen, reading, len(drift)}
	return s.answers.get(key, func() answer {
		s.counting <- struct{}{}
		defer func() { <-s.counting }()
		t = withMoving(t, s.config.Faults, p.synthetic.daySeed, analytics.DateOf(time.Unix(seen, 0)))
		return tally(withDrift(t, drift), w, seen)
	}), nil
}

// lastArrival returns when the last event of w has arrived, which can be days
// after the end of its day.
func lastArrival(w interval, days int) int64 {
	end := analytics.DateOf(time.Unix(w.to-1, 0)) + 1
	return (end + analytics.Date(days)).Time().Unix()
}

// changingDays returns for how many days after its end a day can change.
func (f Faults) changingDays() int {
	if f.Moving == 0 {
		return f.LateDays
	}
	return max(f.LateDays, f.MovingDays)
}

// traffic returns the events of p and the reading of the event log they are
// from: the log where there is one, else synthetic traffic.
func (s *Sandbox) traffic(p *project) (traffic, uint64, error) {
	if s.log == nil {
		return p.synthetic, 0, nil
	}
	logged, reading, err := s.log.read(p.name)
	if err != nil || logged == nil {
		return p.synthetic, 0, err
	}
	return logged, reading, nil
}
