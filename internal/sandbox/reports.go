package sandbox

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/api"
)

// report is how a report is counted.
type report[A content] struct {
	name  analytics.Report
	tally func(t traffic, w interval, horizon int64) A
}

// The reports of the sandbox.
var (
	visitorsReport = report[answer]{analytics.VisitorsReport, tally}
	agentsReport   = report[agentsAnswer]{analytics.AgentsReport, tallyAgents}
)

// content is the answer of a report.
type content interface {
	page(limit, offset int, dataFrom *analytics.Date) any
	weight() int // in rows of visitors
}

func (a answer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewPage(a.totals, a.rows, limit, offset, dataFrom)
}
func (a answer) weight() int { return len(a.rows) }

func (a agentsAnswer) page(limit, offset int, dataFrom *analytics.Date) any {
	return api.NewAgentsPage(a.totals, a.rows, limit, offset, dataFrom)
}
func (a agentsAnswer) weight() int { return 2 * len(a.rows) }

// serve answers the queries of a report, with the faults of the sandbox.
func serve[A content](s *Sandbox, r report[A]) api.Reporter {
	return func(c *api.Call, q api.Query) (any, error) {
		p := s.projects[c.Project]
		if every(s.config.Faults.DriftEvery, c.Number) {
			p.addDrift(c.Now)
		}
		a, err := answerOf(s, r, p, interval{q.From, q.To}, c.Now)
		if err != nil {
			return nil, err
		}
		dataFrom, err := s.dataFrom(p, c.Now)
		if err != nil {
			return nil, err
		}
		if rows := s.config.Faults.PageRows; rows > 0 {
			q.Limit = min(q.Limit, rows)
		}
		page := a.page(q.Limit, q.Offset, dataFrom)
		beginsWindow := func(d analytics.Date) bool { return d.Time().Unix() == q.From }
		if slices.ContainsFunc(s.config.Faults.BadWindows, beginsWindow) {
			return malformed(page, r.name.String())
		}
		return page, nil
	}
}

// malformed is a page as Faults.BadWindows has it, whose member rows has the rows.
func malformed(page any, rows string) (bad map[string]json.RawMessage, err error) {
	var all []map[string]any
	text, err := json.Marshal(page)
	if err == nil {
		err = json.Unmarshal(text, &bad)
	}
	if err == nil {
		err = json.Unmarshal(bad[rows], &all)
	}
	for _, row := range all {
		for _, name := range []string{"human", "visitors"} {
			if n, has := row[name].(float64); has {
				row[name] = n + 0.5
			}
		}
	}
	if err == nil {
		bad[rows], err = json.Marshal(all)
	}
	return bad, err
}

// answerKey names one answer: the same key always has the same answer.
type answerKey struct {
	report  analytics.Report
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

// trafficOf returns the traffic of a project, and the reading of the event log that it is from: it takes the place of
// synthetic traffic while it exists.
func (s *Sandbox) trafficOf(p *project) (t traffic, reading uint64, err error) {
	if s.log != nil {
		if logged, n, err := s.log.read(p.name); err != nil || logged != nil {
			return logged, n, err
		}
	}
	return p.synthetic, 0, nil
}

// dataFrom returns the first day with events of a project; nil without any before now.
func (s *Sandbox) dataFrom(p *project, now time.Time) (*analytics.Date, error) {
	t, _, err := s.trafficOf(p)
	if err != nil {
		return nil, err
	}
	first, end := t.bounds()
	if first >= end || first > analytics.DateOf(now) {
		return nil, nil
	}
	return &first, nil
}

// answerOf counts w at now, or returns the former count.
func answerOf[A content](s *Sandbox, r report[A], p *project, w interval, now time.Time) (none A, err error) {
	t, reading, err := s.trafficOf(p)
	if err != nil {
		return none, err
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
	key := answerKey{r.name, p.name, w, seen, reading, len(drift), len(reactions)}
	found := s.answers.get(key, func() content {
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
		return r.tally(t, w, seen)
	})
	return found.(A), nil
}
