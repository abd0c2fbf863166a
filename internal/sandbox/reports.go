package sandbox

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/sandbox/traffic"
	"github.com/docgauge/docgauge/internal/site/api"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// serve answers the queries of a report, with the faults of the sandbox.
func serve[T any, R analytics.RowType](s *Sandbox, r report[T, R]) api.Reporter {
	return func(c *api.Call, q api.Query) (any, error) {
		p := s.projects[c.Project]
		if every(s.config.Faults.DriftEvery, c.Number) {
			p.mu.Lock()
			p.drift = p.drift.Add(c.Now)
			p.mu.Unlock()
		}
		a, err := answerOf(s, r, p, traffic.Interval{From: q.From, To: q.To}, c.Now)
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
		page := api.NewPage(a.Totals, a.Rows, q.Limit, q.Offset, dataFrom, s.config.Humans)
		beginsWindow := func(d analytics.Date) bool { return d.Time().Unix() == q.From }
		if slices.ContainsFunc(s.config.Faults.BadWindows, beginsWindow) {
			return malformed(page, analytics.ReportOf[R]().String())
		}
		return page, nil
	}
}

// malformed is a page as Faults.BadWindows has it, whose member rows has the rows.
func malformed(page api.Object, rows string) (bad map[string]json.RawMessage, err error) {
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

// trafficOf returns the traffic of a project, and the reading of the event log that it is from: it takes the place of
// synthetic traffic while it exists.
func (s *Sandbox) trafficOf(p *project) (t traffic.Traffic, reading uint64, err error) {
	if s.log != nil {
		if logged, n, err := s.log.Read(p.name); err != nil || logged != nil {
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
	first, end := t.Bounds()
	if first >= end || first > analytics.DateOf(now) {
		return nil, nil
	}
	return &first, nil
}

// answerOf counts w at now, or returns the former count.
func answerOf[T any, R analytics.RowType](
	s *Sandbox, r report[T, R], p *project, w traffic.Interval, now time.Time,
) (none facts.Answer[T, R], err error) {
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
	w.To = min(w.To, seen+1)
	changingDays := faults.LateDays
	if faults.Moving != 0 {
		changingDays = max(changingDays, faults.MovingDays)
	}
	end := analytics.DateOf(time.Unix(w.To-1, 0)) + 1
	var reactions map[uint32]analytics.Date
	if reading == 0 && s.config.Agent.Pulls.Effect != (Effect{}) {
		reactions = s.merges.reactions(p.name, end)
	}
	seen = min(seen, (end + analytics.Date(changingDays)).Time().Unix())
	key := answerKey{analytics.ReportOf[R](), p.name, w, seen, reading, len(drift), len(reactions)}
	found := s.answers.Get(key, func() content {
		s.counting <- struct{}{}
		defer func() { <-s.counting }()
		if e := s.config.Agent.Pulls.Effect; len(reactions) > 0 {
			t = traffic.WithReactions(t, p.synthetic, e.Human, e.AI, reactions)
		}
		if len(t.Paths()) > 0 { // visitors who are added read them
			if faults.Moving > 0 {
				t = traffic.WithLatecomers(t, p.synthetic, faults.Moving, faults.MovingDays, analytics.DateOf(time.Unix(seen, 0)))
			}
			if len(drift) > 0 {
				t = traffic.WithDrift(t, drift)
			}
		}
		return answer[T, R]{r(t, w, seen, s.config.Humans)}
	})
	return found.(answer[T, R]).Answer, nil
}

// Visitors returns what the service would answer for window w of project now, all rows by
// total, then path, without a request: the truth to compare an export with.
func (s *Sandbox) Visitors(project string, w analytics.Window) (analytics.Totals, []analytics.Row, error) {
	a, err := truthOf(s, visitorsReport, project, w)
	return a.Totals, slices.Clone(a.Rows), err
}

// Agents returns what the service would answer as Visitors does: the agents of the site, and the agents of each
// path.
func (s *Sandbox) Agents(project string, w analytics.Window) (totals, rows []analytics.AgentRow, err error) {
	a, err := truthOf(s, agentsReport, project, w)
	return slices.Clone(a.Totals), slices.Clone(a.Rows), err
}

// Sources returns what the service would answer as Agents does: where the people of the site, and of each path, came
// from.
func (s *Sandbox) Sources(project string, w analytics.Window) (totals, rows []analytics.SourceRow, err error) {
	a, err := truthOf(s, sourcesReport, project, w)
	return slices.Clone(a.Totals), slices.Clone(a.Rows), err
}

// Views returns what the service would answer as Visitors does: requests for pages.
func (s *Sandbox) Views(project string, w analytics.Window) (analytics.Totals, []analytics.ViewRow, error) {
	a, err := truthOf(s, viewsReport, project, w)
	return a.Totals, slices.Clone(a.Rows), err
}

func truthOf[T any, R analytics.RowType](
	s *Sandbox, r report[T, R], project string, w analytics.Window,
) (a facts.Answer[T, R], err error) {
	p, ok := s.projects[project]
	if !ok {
		return a, api.UnknownProject(project)
	}
	return answerOf(s, r, p, traffic.Interval{From: w.From.Time().Unix(), To: w.To.Time().Unix()}, s.config.Now())
}
