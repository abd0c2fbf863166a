package facts

import (
	"cmp"
	"context"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

// leastNetworks is the smallest number of networks from which a missing path must have been requested to be shown. A
// single client could invent any path.
const leastNetworks = 2

// Agents are the readers and requests of each agent, on the site and on each path, in the order of
// [analytics.AgentRow.Compare].
type Agents = Answer[[]analytics.AgentRow, analytics.AgentRow]

// The groups of agents before those that have a name. Browsers are also what asks for Markdown without a name.
const (
	networkGroup = iota
	browserGroup
	firstNamed
)

// CountAgents counts the readers and requests of each agent, in days as [Store.CountVisitors] wants them.
func (s *Store) CountAgents(
	ctx context.Context, project string, from, to analytics.Date, mode analytics.Humans,
) (a Agents, err error) {
	w, err := s.openWindow(ctx, project, from, to, true)
	if err != nil {
		return a, err
	}
	defer w.close()
	all, err := s.agents(ctx)
	if err != nil {
		return a, err
	}
	groups, named := groupsOf(all)
	site, cells, err := s.tally(ctx, w, len(named), func(stripe int, t *tally) error {
		return agentsOf(w, stripe, groups, t)
	})
	if err != nil {
		return Agents{}, err
	}
	for _, c := range site {
		a.Totals = append(a.Totals, named[c.group].row("", c, mode))
	}
	var missed [][]cell // by path
	for i := 0; i < len(cells); {
		end := i + 1
		for end < len(cells) && cells[end].page == cells[i].page {
			end++
		}
		if own := cells[i:end]; own[0].kind == Missed {
			missed = append(missed, own)
		} else {
			for _, c := range own {
				a.Rows = append(a.Rows, named[c.group].row(w.names[c.page], c, mode))
			}
		}
		i = end
	}
	for _, own := range mostMissed(missed, w.names) {
		for _, c := range own[1:] {
			a.Rows = append(a.Rows, named[c.group].row(w.names[c.page], c, mode))
		}
	}
	slices.SortFunc(a.Totals, analytics.AgentRow.Compare)
	slices.SortFunc(a.Rows, analytics.AgentRow.Compare)
	return a, nil
}

// mostMissed returns the paths that are shown of those that are not there: each first has its networks.
func mostMissed(paths [][]cell, names []string) [][]cell {
	paths = slices.DeleteFunc(paths, func(own []cell) bool {
		return own[0].group != networkGroup || own[0].visitors < leastNetworks
	})
	requests := func(own []cell) (n int64) {
		for _, c := range own[1:] {
			n += c.requests
		}
		return n
	}
	slices.SortFunc(paths, func(x, y []cell) int {
		return cmp.Or(cmp.Compare(requests(y), requests(x)), cmp.Compare(names[x[0].page], names[y[0].page]))
	})
	return paths[:min(len(paths), analytics.MaxMisses)]
}

// groupName is how the agents of a group are shown.
type groupName struct {
	token string
	class agents.Class
}

// row returns the row of a cell.
func (n groupName) row(path string, c cell, mode analytics.Humans) analytics.AgentRow {
	if n.token == "" {
		of := agents.Unnamed
		switch c.kind {
		case Human:
			of = agents.Browser
		case unconfirmed:
			of = agents.Unconfirmed
		}
		n = groupName{of.Token, of.Class}
	}
	r := analytics.AgentRow{Path: path, Agent: n.token, Class: string(n.class), Audience: agents.Neither,
		Found: c.kind != Missed, Visitors: c.visitors, Requests: c.requests, Markdown: c.markdown, Bytes: c.bytes}
	switch {
	case c.kind == Human, c.kind == unconfirmed && mode != analytics.Confirmed:
		r.Audience = analytics.Human
	case c.kind == AI:
		r.Audience = analytics.AI
	case c.kind == Missed: // tools are kept as far as they ask for Markdown
		r.Audience = agents.Audience(&agents.Agent{Class: n.class}, true)
	}
	return r
}

// groupsOf returns the group of each agent, by its number and 2, and how each group is shown: agents of
// one name are one, of the class that the name has had last.
func groupsOf(all []Agent) (groups []int32, named []groupName) {
	groups, named = []int32{networkGroup, browserGroup}, make([]groupName, firstNamed)
	of := map[string]int32{}
	for _, a := range all {
		group, known := of[a.Token]
		if !known {
			group = int32(len(named))
			of[a.Token], named = group, append(named, groupName{token: a.Token})
		}
		named[group].class = agents.Class(a.Class)
		groups = append(groups, group)
	}
	return groups, named
}

func agentsOf(w *window, stripe int, groups []int32, t *tally) error {
	// places has for each reader, by number, where the cells of its group begin, and whether it is unconfirmed: place<<1 | 1.
	var places []int32
	numbers, err := number(w, stripe, groups, func(r numbered) {
		place := r.group * kinds
		for kind := range int32(Missed) {
			t.site[place+kind].visitors += int64(r.kinds >> kind & 1)
		}
		place <<= 1
		if r.group == browserGroup && r.kinds>>Human&1 != 0 && !r.shown {
			t.site[browserGroup*kinds+Human].visitors--
			t.site[browserGroup*kinds+unconfirmed].visitors++
			place |= 1
		}
		places = append(places, place)
	})
	if err != nil {
		return err
	}
	seen := make([]uint64, len(places)) // by number of the reader: round<<kinds and the kinds seen in it
	round := uint64(1)
	return eachPage(w.days, stripe, numbers, func(numbers []uint32, p *pages) {
		p.each(func(f fact) {
			reader, kind := numbers[f.reader], f.category.kind()
			if kind == Redirected {
				return
			}
			place := int(places[reader]>>1) + int(kind)
			if kind == Human {
				place += int(places[reader]&1) * (unconfirmed - Human)
			}
			c := t.add(place, &f)
			if seen[reader]>>kinds != round {
				seen[reader] = round << kinds
			}
			if seen[reader]>>kind&1 == 0 {
				seen[reader] |= 1 << kind
				c.visitors++
			}
		})
	}, func(page int32) {
		t.endPage(page)
		round++
	})
}
