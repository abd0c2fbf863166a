package count

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// People are the readers that call themselves browsers, and those among them that have shown to be one: in all, and by
// each kind of evidence.
type People struct {
	Claimed     int `json:"claimed"`
	Confirmed   int `json:"confirmed"`
	Assets      int `json:"by_assets"`
	NotModified int `json:"by_304"`
	FetchMode   int `json:"by_sec_fetch_mode"`
	// Logged says of what the log has lines at all.
	Logged struct {
		Assets    bool `json:"assets"`
		FetchMode bool `json:"sec_fetch_mode"`
	} `json:"logged"`
}

// peopleOf counts people of whom each is isPerson and its proofs; others are no people.
func peopleOf(all iter.Seq[proof], t Tally) (p People) {
	for is := range all {
		if is&isPerson != 0 {
			p.add(is)
		}
	}
	p.Logged.Assets, p.Logged.FetchMode = t.assets > 0, t.fetchModes > 0
	return p
}

// add counts a reader who claims to be a browser.
func (p *People) add(by proof) {
	p.Claimed++
	for _, kind := range []struct {
		by proof
		n  *int
	}{{byAny, &p.Confirmed}, {byAsset, &p.Assets}, {byNotModified, &p.NotModified}, {byFetchMode, &p.FetchMode}} {
		if by&kind.by != 0 {
			*kind.n++
		}
	}
}

// Evidence says how many of the people have shown what, and what the log lacks.
func (p People) Evidence() string {
	var shown, lacks []string
	for _, kind := range []struct {
		n        int
		isLogged bool
		did, of  string
	}{
		{p.Assets, p.Logged.Assets, "fetched assets", "assets"}, {p.NotModified, true, "got a 304", ""},
		{p.FetchMode, p.Logged.FetchMode, "sent Sec-Fetch-Mode", "Sec-Fetch-Mode"},
	} {
		if kind.isLogged {
			shown = append(shown, fmt.Sprintf("%.0f%% %s", 100*float64(kind.n)/float64(max(1, p.Claimed)), kind.did))
		} else {
			lacks = append(lacks, kind.of)
		}
	}
	text := strings.Join(shown, ", ")
	switch len(lacks) {
	case 1:
		text += "; " + lacks[0] + " not logged"
	case 2:
		text += "; neither " + strings.Join(lacks, " nor ") + " logged"
	}
	return text
}

// confirm counts the people. In the mode confirmed the other ones count nowhere from then on.
func (c *counting) confirm() (p People) {
	p = peopleOf(slices.Values(c.is), c.tally)
	if c.humans == analytics.Confirmed {
		keep := func(who facts.Who) bool { return who&1 != facts.Human || c.isConfirmed(who>>1) }
		c.pages.Keep(keep)
		c.days.Keep(keep)
	}
	return p
}

func (c *counting) isConfirmed(reader uint32) bool { return c.is[reader]&byAny != 0 }

// browsers returns the people and the unnamed as agents.
func (c *counting) browsers(negotiation func(agent int32) Negotiation) (all []agentReaders) {
	const people = facts.Network // who asks for Markdown is unnamed
	browser := agentReaders{Agent: agents.Browser.Token, Class: agents.Browser.Class, Audience: analytics.Human,
		Negotiation: negotiation(people)}
	unconfirmed := browser
	unconfirmed.Agent = agents.Unconfirmed.Token
	if c.humans == analytics.Confirmed {
		unconfirmed.Audience = agents.Neither
	}
	unnamed := agentReaders{Agent: agents.Unnamed.Token, Class: agents.Unnamed.Class, Audience: analytics.AI,
		sums: c.unnamed, Negotiation: negotiation(facts.Browser)}
	for reader, is := range c.is {
		if is&isUnnamed != 0 {
			unnamed.Visitors++
		}
		if is&isPerson == 0 {
			continue
		}
		row := &unconfirmed
		if c.isConfirmed(uint32(reader)) {
			row = &browser
		}
		row.Visitors++
		if c.ByAgent {
			row.sums.add(c.people[reader])
		} else {
			row.Requests += int(c.byPerson[reader])
		}
	}
	for _, row := range []agentReaders{browser, unconfirmed, unnamed} {
		if row.Visitors > 0 {
			all = append(all, row)
		}
	}
	return all
}

// sources returns where people come from, the source with most readers first.
func (c *counting) sources() (all []SourceReaders) {
	rows := map[[2]int32]*SourceReaders{}
	for v, requests := range c.visits {
		agent, key := agents.Unconfirmed.Token, [2]int32{v.source, 0}
		if c.isConfirmed(v.reader) {
			agent, key[1] = agents.Browser.Token, 1
		}
		row := rows[key]
		if row == nil {
			name := c.words.sources.all[v.source]
			row = &SourceReaders{Source: name.name, Class: name.class, Agent: agent}
			rows[key] = row
		}
		row.Visitors++
		row.Requests += requests
	}
	for _, row := range rows {
		all = append(all, *row)
	}
	slices.SortFunc(all, func(x, y SourceReaders) int {
		return cmp.Or(cmp.Compare(y.Visitors, x.Visitors), cmp.Compare(y.Requests, x.Requests),
			strings.Compare(x.Source, y.Source), strings.Compare(x.Agent, y.Agent))
	})
	return all
}
