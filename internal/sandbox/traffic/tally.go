package traffic

import (
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// Interval is the half-open span [from, to) of event times, in Unix seconds.
type Interval struct{ From, To int64 }

// Visitors is the whole answer about a window: all its rows, by total from the largest, then by
// path.
type Visitors struct {
	Totals analytics.Totals
	Rows   []analytics.Row
}

// CountVisitors counts the distinct visitors of t in w among the events that arrived up
// to horizon.
func CountVisitors(t Traffic, w Interval, horizon int64) Visitors {
	var counter facts.Counter
	eachEvent(t, w, horizon, t.day, func(e event) { counter.Add(e.who, int(e.page)) })
	return Visitors{counter.Site(), counter.Rows(t.Paths())}
}

// eachEvent calls do with the events of days that are in w and arrived up to horizon.
func eachEvent(t Traffic, w Interval, horizon int64, day func(analytics.Date) []event, do func(event)) {
	// No event arrives before it happens, so no later day has visible events.
	first, end := t.Bounds()
	if last := min(w.To-1, horizon); last < end.Time().Unix() {
		end = analytics.DateOf(time.Unix(last, 0)) + 1
	}
	if w.From > first.Time().Unix() {
		first = analytics.DateOf(time.Unix(w.From, 0))
	}
	for d := first; d < end; d++ {
		start := d.Time().Unix()
		for _, e := range day(d) {
			at := start + int64(e.at)
			if at >= w.From && at < w.To && start+int64(e.arrival) <= horizon {
				do(e)
			}
		}
	}
}

// Agents is the whole answer about the agents of a window: totals by agent and audience, and rows in this order.
type Agents struct{ Totals, Rows []analytics.AgentRow }

// CountAgents counts the agents of t as CountVisitors counts visitors.
func CountAgents(t Traffic, w Interval, horizon int64) Agents {
	whole, pages := newAgentCounter(), newAgentCounter()
	networks := map[string]map[uint32]bool{} // of paths that are not there
	paths := slices.Concat(t.Paths(), t.missing())
	all := t.agents()
	add := func(e event, by agents.Agent, audience analytics.Audience) {
		row := analytics.AgentRow{Agent: by.Token, Class: string(by.Class), Audience: audience, Found: true}
		path := paths[e.page]
		if row.Found = int(e.page) < len(t.Paths()); row.Found {
			whole.add(row, e.who)
		} else {
			if networks[path] == nil {
				networks[path] = map[uint32]bool{}
			}
			networks[path][e.who>>1/perNetwork] = true
		}
		row.Path = path
		pages.add(row, e.who)
	}
	by := func(e event) agents.Agent {
		if e.agent == 0 {
			return agents.Unnamed
		}
		return all[e.agent-1]
	}
	eachEvent(t, w, horizon, t.day, func(e event) {
		if e.who&1 == human {
			add(e, agents.Browser, analytics.Human)
		} else {
			add(e, by(e), analytics.AI)
		}
	})
	eachEvent(t, w, horizon, t.beside, func(e event) {
		a := by(e)
		add(e, a, agents.Audience(&a, true))
	})
	return Agents{whole.rows(), slices.DeleteFunc(pages.rows(), func(r analytics.AgentRow) bool {
		return !r.Found && len(networks[r.Path]) < 2
	})}
}

// agentCounter counts the readers and requests of rows without numbers.
type agentCounter struct {
	part    map[analytics.AgentRow]int
	counted []analytics.AgentRow // by part; Requests grow
	counter facts.Counter
}

func newAgentCounter() *agentCounter { return &agentCounter{part: map[analytics.AgentRow]int{}} }

func (c *agentCounter) add(row analytics.AgentRow, who facts.Who) {
	i, known := c.part[row]
	if !known {
		i = len(c.counted)
		c.part[row], c.counted = i, append(c.counted, row)
	}
	c.counted[i].Requests++
	c.counter.Add(who, i)
}

func (c *agentCounter) rows() []analytics.AgentRow {
	for i := range c.counted {
		c.counted[i].Visitors = c.counter.Part(i).Total
	}
	slices.SortFunc(c.counted, analytics.AgentRow.Compare)
	return c.counted
}
