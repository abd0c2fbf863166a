package facts

import (
	"cmp"
	"context"
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

const (
	// shownMisses is how many paths that are not there a window has: those most asked for.
	shownMisses = 1000
	// leastNetworks is from how many networks such a path was asked for at least: one that a single
	// client invents is not shown.
	leastNetworks = 2
)

// Agents are the readers and requests of each agent, on the site and on each path, in the order of
// [analytics.AgentRow.Compare].
type Agents = Answer[[]analytics.AgentRow, analytics.AgentRow]

// The groups of agents before those that have a name.
const (
	networkGroup = iota
	browserGroup // also what asks for Markdown without a name
	firstNamed
)

// cell is the readers of one group and kind, of one page, and their requests.
type cell struct {
	page               int32
	group              int32
	kind               uint8
	visitors, requests int64
}

// kinds is how many there are.
const kinds = Missed + 1

// CountAgents counts the readers and requests of each agent, in days as [Store.CountVisitors] wants them.
func (s *Store) CountAgents(ctx context.Context, project string, from, to analytics.Date) (a Agents, err error) {
	in, names, err := s.openWindow(ctx, project, from, to)
	if err != nil {
		return a, err
	}
	defer closeAll(in)
	all, err := s.agents(ctx)
	if err != nil {
		return a, err
	}
	groups, named := groupsOf(all)
	site := make([]cell, len(named)*kinds)
	var cells []cell
	err = countStripes(ctx, in, func(in []*opened, stripe int) (stripeAgents, error) {
		return agentsOf(in, stripe, groups, len(named))
	}, func(own stripeAgents) error {
		for i, c := range own.site {
			site[i].visitors += c.visitors // no reader is in two stripes
			site[i].requests += c.requests
		}
		if n := len(own.cells); n > 0 && int(own.cells[n-1].page) >= len(names) {
			return s.nameless(own.cells[n-1].page)
		}
		cells = mergeCells(cells, own.cells)
		return nil
	})
	if err != nil {
		return Agents{}, err
	}
	for i, c := range site {
		if c.requests > 0 {
			a.Totals = append(a.Totals, named[i/kinds].row("", uint8(i%kinds), c))
		}
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
				a.Rows = append(a.Rows, named[c.group].row(names[c.page], c.kind, c))
			}
		}
		i = end
	}
	for _, own := range mostMissed(missed, names) {
		for _, c := range own[1:] {
			a.Rows = append(a.Rows, named[c.group].row(names[c.page], c.kind, c))
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
	return paths[:min(len(paths), shownMisses)]
}

// mergeCells adds up two lists, each in order.
func mergeCells(x, y []cell) []cell {
	if len(x) == 0 {
		return y
	}
	out := make([]cell, 0, len(x)+len(y))
	for len(x) > 0 && len(y) > 0 {
		a, b := x[0], y[0]
		switch c := cmp.Or(cmp.Compare(a.page, b.page), cmp.Compare(a.group, b.group), cmp.Compare(a.kind, b.kind)); {
		case c < 0:
			out, x = append(out, a), x[1:]
		case c > 0:
			out, y = append(out, b), y[1:]
		default:
			a.visitors += b.visitors
			a.requests += b.requests
			out, x, y = append(out, a), x[1:], y[1:]
		}
	}
	return append(append(out, x...), y...)
}

// groupName is how the agents of a group are shown.
type groupName struct {
	token string
	class agents.Class
}

// row returns the row of a cell.
func (n groupName) row(path string, kind uint8, c cell) analytics.AgentRow {
	switch {
	case n.token != "":
	case kind == Human:
		n = groupName{agents.Browser.Token, agents.Browser.Class}
	default:
		n = groupName{agents.Unnamed.Token, agents.Unnamed.Class}
	}
	var audience analytics.Audience
	switch kind {
	case Human:
		audience = analytics.Human
	case AI:
		audience = analytics.AI
	case Neither:
		audience = agents.Neither
	default: // tools are kept as far as they ask for Markdown
		audience = agents.Audience(&agents.Agent{Class: n.class}, true)
	}
	return analytics.AgentRow{Path: path, Agent: n.token, Class: string(n.class), Audience: audience,
		Found: kind != Missed, Visitors: c.visitors, Requests: c.requests}
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

// stripeAgents is the agents of a stripe: site by group and kind, and cells in order.
type stripeAgents struct {
	site  []cell
	cells []cell
}

func agentsOf(in []*opened, stripe int, groups []int32, named int) (c stripeAgents, err error) {
	c.site = make([]cell, named*kinds)
	var groupOf []int32 // by number of the reader
	numbers, err := number(in, stripe, groups, func(_ uint32, group int32, bits uint8) {
		groupOf = append(groupOf, group)
		for kind := range Missed {
			c.site[int(group)*kinds+kind].visitors += int64(bits >> kind & 1)
		}
	})
	if err != nil {
		return c, err
	}
	seen := make([]uint64, len(groupOf)) // by number of the reader: round<<kinds and the kinds seen in it
	round := uint64(1)
	own := make([]cell, named*kinds) // of the present page
	var used []int
	err = eachPage(in, stripe, numbers, func(numbers []uint32, p *pages) {
		p.each(func(f fact) {
			reader, kind := numbers[f.reader()], f.kind()
			i := int(groupOf[reader])*kinds + int(kind)
			if own[i].requests == 0 {
				used = append(used, i)
			}
			own[i].requests += int64(f.requests())
			if kind != Missed {
				c.site[i].requests += int64(f.requests())
			}
			if seen[reader]>>kinds != round {
				seen[reader] = round << kinds
			}
			if seen[reader]>>kind&1 == 0 {
				seen[reader] |= 1 << kind
				own[i].visitors++
			}
		})
	}, func(page int32) {
		slices.Sort(used)
		for _, i := range used {
			c.cells = append(c.cells, cell{page, int32(i / kinds), uint8(i % kinds), own[i].visitors, own[i].requests})
			own[i] = cell{}
		}
		used = used[:0]
		round++
	})
	return c, err
}
