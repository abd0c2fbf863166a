package traffic

import (
	"cmp"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// Interval is the half-open span [from, to) of event times, in Unix seconds.
type Interval struct{ From, To int64 }

// CountVisitors counts the distinct visitors of t in w among the events that arrived up to horizon. Unconfirmed
// people count unless humans is [analytics.Confirmed].
func CountVisitors(t Traffic, w Interval, horizon int64, humans analytics.Humans) facts.Visitors {
	var counter facts.Counter
	counts := func(event) bool { return true }
	if humans == analytics.Confirmed {
		shown := confirmed(t, w, horizon)
		counts = func(e event) bool { return e.who&1 == ai || shown.has(e.who>>1) }
	}
	eachEvent(t, w, horizon, t.day, func(e event) {
		if counts(e) {
			counter.Add(e.who, int(e.page))
		}
	})
	return facts.Visitors{Totals: counter.Site(), Rows: counter.Rows(t.Paths())}
}

// visitorSet is a set of visitors, by number.
type visitorSet []uint64

func (s visitorSet) has(visitor uint32) bool { return s[visitor/64]>>(visitor%64)&1 == 1 }

// confirmed returns the visitors with evidence in the epoch of w and before its end.
func confirmed(t Traffic, w Interval, horizon int64) visitorSet {
	shown := make(visitorSet, t.visitors()/64+1)
	if first, _ := t.Bounds(); w.From < first.Time().Unix() {
		w.From = first.Time().Unix()
	}
	w.From = facts.EpochOf(analytics.DateOf(time.Unix(w.From, 0))).From().Time().Unix()
	eachEvent(t, w, horizon, t.day, func(e event) {
		if e.flags&evidence != 0 {
			shown[e.who>>1/64] |= 1 << (e.who >> 1 % 64)
		}
	})
	return shown
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
			at := start + int64(e.second)
			if at >= w.From && at < w.To && start+int64(e.arrival) <= horizon {
				do(e)
			}
		}
	}
}

// CountAgents counts the agents of t as CountVisitors counts visitors: totals by agent and audience, and rows in this
// order.
func CountAgents(t Traffic, w Interval, horizon int64, humans analytics.Humans) facts.Agents {
	whole, pages := newRowCounter[analytics.AgentRow](), newRowCounter[analytics.AgentRow]()
	networks := map[string]map[uint32]bool{} // of paths that are not there
	paths := slices.Concat(t.Paths(), t.missing())
	all := t.agents()
	add := func(e event, by agents.Agent, audience analytics.Audience) {
		row := analytics.AgentRow{Agent: by.Token, Class: string(by.Class), Audience: audience, Found: true}
		path := paths[e.page]
		if row.Found = int(e.page) < len(t.Paths()); row.Found {
			addRequest(whole.add(row, e.who), e)
		} else {
			if networks[path] == nil {
				networks[path] = map[uint32]bool{}
			}
			networks[path][e.who>>1/perNetwork] = true
		}
		row.Path = path
		addRequest(pages.add(row, e.who), e)
	}
	by := func(e event) agents.Agent {
		if e.agent == 0 {
			return agents.Unnamed
		}
		return all[e.agent-1]
	}
	shown := confirmed(t, w, horizon)
	eachEvent(t, w, horizon, t.day, func(e event) {
		switch {
		case e.who&1 == ai:
			add(e, by(e), analytics.AI)
		case shown.has(e.who >> 1):
			add(e, agents.Browser, analytics.Human)
		case humans == analytics.Confirmed:
			add(e, agents.Unconfirmed, agents.Neither)
		default:
			add(e, agents.Unconfirmed, analytics.Human)
		}
	})
	eachEvent(t, w, horizon, t.beside, func(e event) {
		a := by(e)
		add(e, a, agents.Audience(&a, true))
	})
	set := func(row *analytics.AgentRow, visitors int64) { row.Visitors = visitors }
	compare := analytics.AgentRow.Compare
	rows := slices.DeleteFunc(pages.rows(set, compare), func(r analytics.AgentRow) bool {
		return !r.Found && len(networks[r.Path]) < 2
	})
	return facts.Agents{Totals: whole.rows(set, compare), Rows: rows}
}

// addRequest adds a request to its row.
func addRequest(row *analytics.AgentRow, e event) {
	row.Requests++
	if e.flags&markdown != 0 {
		row.Markdown++
	}
	if e.bytes == facts.Unsaid || row.Bytes == facts.Unsaid {
		row.Bytes = facts.Unsaid
	} else {
		row.Bytes += int64(e.bytes)
	}
}

// CountSources counts where the people of t came from, as CountVisitors counts visitors: totals by source and agent, and
// rows in this order.
func CountSources(t Traffic, w Interval, horizon int64, _ analytics.Humans) facts.Sources {
	whole, pages := newRowCounter[analytics.SourceRow](), newRowCounter[analytics.SourceRow]()
	paths := t.Paths()
	shown := confirmed(t, w, horizon)
	eachEvent(t, w, horizon, t.day, func(e event) {
		if e.who&1 == ai {
			return
		}
		from, by := sources[e.source], agents.Unconfirmed
		if shown.has(e.who >> 1) {
			by = agents.Browser
		}
		row := analytics.SourceRow{Source: from.Name, Class: from.Class, Agent: by.Token}
		whole.add(row, e.who).Requests++
		row.Path = paths[e.page]
		pages.add(row, e.who).Requests++
	})
	set := func(row *analytics.SourceRow, visitors int64) { row.Visitors = visitors }
	compare := analytics.SourceRow.Compare
	return facts.Sources{Totals: whole.rows(set, compare), Rows: pages.rows(set, compare)}
}

// rowCounter counts the readers of rows, which have no numbers except their requests.
type rowCounter[R comparable] struct {
	part    map[R]int
	counted []R // by part
	counter facts.Counter
}

func newRowCounter[R comparable]() *rowCounter[R] { return &rowCounter[R]{part: map[R]int{}} }

// add adds a request of a reader to a row without numbers, and returns the row with them.
func (c *rowCounter[R]) add(row R, who facts.Who) *R {
	i, known := c.part[row]
	if !known {
		i = len(c.counted)
		c.part[row], c.counted = i, append(c.counted, row)
	}
	c.counter.Add(who, i)
	return &c.counted[i]
}

// rows returns the rows in order; set gives one its readers.
func (c *rowCounter[R]) rows(set func(row *R, visitors int64), compare func(a, b R) int) []R {
	for i := range c.counted {
		set(&c.counted[i], c.counter.Part(i).Total)
	}
	slices.SortFunc(c.counted, compare)
	return c.counted
}

// CountViews counts the requests of t, of the site and of each page, in the order of visitors; all visitors that claim to
// be people count as people.
func CountViews(t Traffic, w Interval, horizon int64, _ analytics.Humans) (all facts.Views) {
	pages := make([]analytics.ViewRow, len(t.Paths()))
	eachEvent(t, w, horizon, t.day, func(e event) {
		row := &pages[e.page]
		row.Total++
		all.Totals.Total++
		if e.who&1 == human {
			row.Human++
			all.Totals.Human++
		} else {
			row.AI++
			all.Totals.AI++
		}
	})
	for i, row := range pages {
		if row.Path = t.Paths()[i]; row.Total > 0 {
			all.Rows = append(all.Rows, row)
		}
	}
	slices.SortFunc(all.Rows, func(a, b analytics.ViewRow) int {
		return cmp.Or(cmp.Compare(b.Total, a.Total), cmp.Compare(a.Path, b.Path))
	})
	return all
}
