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

// people counts the readers of the site, and the people among them.
func (c *counting) people() (n analytics.Totals, p People) {
	p = peopleOf(func(yield func(proof) bool) {
		for r := range c.eachReader() {
			human, ai := int64(r.is&isHuman/isHuman), int64(r.is&isAI/isAI)
			if c.humans == analytics.Confirmed && !r.isConfirmed() {
				human = 0
			}
			n = sum(n, analytics.Totals{Human: human, AI: ai, Total: human | ai})
			yield(r.is)
		}
	}, c.tally)
	return n, p
}

// eachReader goes through all readers.
func (c *counting) eachReader() iter.Seq[*reader] {
	return func(yield func(*reader) bool) {
		for i := range c.shards {
			for number := range c.shards[i].readers {
				if !yield(&c.shards[i].readers[number]) {
					return
				}
			}
		}
	}
}

func sum(x, y analytics.Totals) analytics.Totals {
	return analytics.Totals{Human: x.Human + y.Human, AI: x.AI + y.AI, Total: x.Total + y.Total}
}

// dropUnconfirmed lets people without evidence count nowhere from then on.
func (s *shard) dropUnconfirmed() {
	keep := func(who facts.Who) bool { return who&1 != facts.Human || s.readers[who>>1].isConfirmed() }
	s.pages.Keep(keep)
	s.days.Keep(keep)
}

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
		Negotiation: negotiation(facts.Browser)}
	for i := range c.shards {
		s := &c.shards[i]
		unnamed.add(s.unnamed)
		for number := range s.readers {
			r := &s.readers[number]
			if r.is&isUnnamed != 0 {
				unnamed.Visitors++
			}
			if r.is&isPerson == 0 {
				continue
			}
			row := &unconfirmed
			if r.isConfirmed() {
				row = &browser
			}
			row.Visitors++
			row.add(sums{int(r.requests), s.markdown[uint32(number)], r.bytes})
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
	for i := range c.shards {
		s := &c.shards[i]
		s.visits.each(func(reader uint32, source int32, views int) {
			agent, key := agents.Unconfirmed.Token, [2]int32{source, 0}
			if s.readers[reader].isConfirmed() {
				agent, key[1] = agents.Browser.Token, 1
			}
			row := rows[key]
			if row == nil {
				name := c.words.sources.all[source]
				row = &SourceReaders{Source: name.name, Class: name.class, Agent: agent}
				rows[key] = row
			}
			row.Visitors++
			row.Requests += views
		})
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
