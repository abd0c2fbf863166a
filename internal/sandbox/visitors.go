package sandbox

import (
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
)

// visitors answers a query, with the faults of the sandbox.
func (s *Sandbox) visitors(c *api.Call, q api.Query) (any, error) {
	p := s.projects[c.Project]
	if every(s.config.Faults.DriftEvery, c.Number) {
		p.addDrift(c.Now)
	}
	a, err := s.answer(p, interval{q.From, q.To}, c.Now)
	if err != nil {
		return nil, err
	}
	if rows := s.config.Faults.PageRows; rows > 0 {
		q.Limit = min(q.Limit, rows)
	}
	page := api.NewPage(a.totals, a.rows, q.Limit, q.Offset)
	beginsWindow := func(d analytics.Date) bool { return d.Time().Unix() == q.From }
	if slices.ContainsFunc(s.config.Faults.BadWindows, beginsWindow) {
		return malformed(page), nil
	}
	return page, nil
}

// malformed is a page as Faults.BadWindows has it.
func malformed(p api.Page) any {
	type badEntry struct {
		api.Entry
		Human float64 `json:"human"`
	}
	bad := struct {
		api.Page
		Visitors []badEntry `json:"visitors"`
	}{Page: p, Visitors: []badEntry{}}
	for _, e := range p.Visitors {
		bad.Visitors = append(bad.Visitors, badEntry{e, float64(e.Human) + 0.5})
	}
	return bad
}

// answerKey names one answer: the same key always has the same answer.
type answerKey struct {
	project string
	window  interval
	// horizon is the newest arrival that counts, in Unix seconds.
	horizon int64
	// reading of the event log, 0 for synthetic traffic.
	reading uint64
	drift   int
	// reactions is the number of pages whose readers react: none ever stops.
	reactions int
}

const (
	// maxCachedRows limits the cache of answers: about 20 MiB, and the paths.
	maxCachedRows = 1 << 19
	// answerOverhead is the weight of an answer without its rows; it limits the number of
	// answers in the cache.
	answerOverhead = 256
)

// answer counts w at now, or returns the former count.
func (s *Sandbox) answer(p *project, w interval, now time.Time) (answer, error) {
	var t traffic = p.synthetic
	var reading uint64
	if s.log != nil { // an event log takes the place of synthetic traffic while it exists
		logged, n, err := s.log.read(p.name)
		if err != nil {
			return answer{}, err
		}
		if logged != nil {
			t, reading = logged, n
		}
	}
	p.mu.Lock()
	faults, drift := s.config.Faults, p.drift
	p.mu.Unlock()
	// Arrivals count up to the beginning of the minute. A window whose days no longer change
	// has the same answer from then on.
	seen := now.Truncate(time.Minute).Unix()
	w.to = min(w.to, seen+1)
	changingDays := faults.LateDays
	if faults.Moving != 0 {
		changingDays = max(changingDays, faults.MovingDays)
	}
	end := analytics.DateOf(time.Unix(w.to-1, 0)) + 1
	var reactions map[uint32]analytics.Date
	if reading == 0 {
		reactions = s.reactions(p.name, end)
	}
	seen = min(seen, (end + analytics.Date(changingDays)).Time().Unix())
	key := answerKey{p.name, w, seen, reading, len(drift), len(reactions)}
	return s.answers.get(key, func() answer {
		s.counting <- struct{}{}
		defer func() { <-s.counting }()
		if e := s.config.Agent.Pulls.Effect; len(reactions) > 0 {
			t = reactingTraffic{t, [2]float64{human: e.Human, ai: e.AI}, reactions, p.synthetic.daySeed(0)}
		}
		if len(t.paths()) > 0 { // visitors who are added read them
			if faults.Moving > 0 {
				step, duration := int64(faults.Moving/time.Second), int64(faults.MovingDays)*daySeconds
				t = movingTraffic{t, p.synthetic.daySeed, step, duration, analytics.DateOf(time.Unix(seen, 0))}
			}
			if len(drift) > 0 {
				t = driftTraffic{t, drift}
			}
		}
		return tally(t, w, seen)
	}), nil
}
