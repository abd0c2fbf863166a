package sandbox

import (
	"crypto/sha256"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

// assistant is an agent that reads for AI visitors: weight by kind of page, prose and code, of which a
// visitor's is drawn.
type assistant struct {
	name        string // empty: it asks for Markdown and names itself a browser
	prose, code float64
}

// assistants of the synthetic site. An answering assistant reads prose, a coding agent the reference.
var assistants = []assistant{
	{"ChatGPT-User", 6, 1.5}, {"Claude-User", 3, 1}, {"Perplexity-User", 2, 0.4},
	{"claude-code", 1, 5}, {"opencode", 0.4, 1.5}, {"Aider", 0.1, 0.6}, {"", 0.8, 2},
}

// crawler fetches pages that count as no reader's, from a few addresses.
type crawler struct {
	name    string
	share   float64 // of the pages, in a day of usual volume
	clients uint32
}

var crawlers = []crawler{
	{"Googlebot", 0.3, 6}, {"bingbot", 0.12, 4}, {"OAI-SearchBot", 0.15, 5}, {"GPTBot", 0.25, 9}, {"ClaudeBot", 0.2, 5},
}

// guesses are paths that assistants ask for and that the synthetic site does not have, the most likely
// first.
var guesses = []string{
	"/docs/getting-started", "/getting-started", "/docs", "/api", "/llms-full.txt", "/guides/getting-started",
	"/api-reference", "/sdks/python", "/docs/authentication", "/guides/quickstart", "/sdks/javascript/installation",
	"/api-reference/errors", "/reference/rate-limits", "/pricing", "/guides/webhooks", "/sdks/go",
}

const (
	// guessesPerSession is how many of them a session of the site has, on average.
	guessesPerSession = 0.03
	guessers          = 200 // visitors who make them
	perNetwork        = 4   // visitors of a network
)

// agentNames are those of the synthetic site, by the agent of its events less one.
var agentNames = func() (all []agents.Agent) {
	for _, a := range assistants {
		if a.name != "" {
			all = append(all, *agents.Builtin().Match(a.name))
		}
	}
	for _, c := range crawlers {
		all = append(all, *agents.Builtin().Match(c.name))
	}
	return all
}()

// agentNumber is the agent of events by one with a name.
func agentNumber(name string) uint16 {
	return uint16(slices.IndexFunc(agentNames, func(a agents.Agent) bool { return a.Token == name }) + 1)
}

// isCode reports whether a page is for those who write code.
func isCode(path string) bool {
	return strings.HasPrefix(path, "/sdks/") || strings.HasPrefix(path, "/api-reference/") ||
		strings.HasPrefix(path, "/reference/")
}

// assistantOf returns the agent that reads a page for an AI visitor. On a growing site coding agents take
// over.
func (s *synthetic) assistantOf(visitor uint32, path string, d analytics.Date) uint16 {
	coding := s.course.coding(d)
	weight := func(a assistant) float64 {
		w := a.prose
		if isCode(path) {
			w = a.code
		}
		if a.code > a.prose {
			w *= coding
		}
		return w
	}
	sum := 0.0
	for _, a := range assistants {
		sum += weight(a)
	}
	luck := float64(visitor*2654435761) / (1 << 32) * sum // the same on every day
	for _, a := range assistants {
		if luck -= weight(a); luck < 0 {
			return agentNumber(a.name)
		}
	}
	return 0
}

// beside makes the events of a day that count as no reader's: by crawlers, and of paths that are not
// there.
func (s *synthetic) beside(d analytics.Date) (events []event) {
	seed := s.daySeed(d)
	r := rand.New(rand.NewChaCha8(sha256.Sum256(append(seed[:], "beside"...))))
	add := func(visitor, page uint32, agent uint16) {
		at := r.Uint32N(daySeconds)
		events = append(events, event{who: visitor<<1 | ai, page: page, agent: agent, at: at,
			arrival: arrival(at, r.Uint32(), s.lateDays)})
	}
	volume := s.course.volume(d)
	for _, c := range crawlers {
		for range int(1 + c.share*volume*float64(len(s.pages))) {
			add(r.Uint32N(c.clients), r.Uint32N(uint32(len(s.pages))), agentNumber(c.name))
		}
	}
	for range int(1 + guessesPerSession*volume*float64(s.sessions)) {
		luck := r.Float64()
		guess := int(luck * luck * float64(len(guesses)))
		visitor := r.Uint32N(guessers)
		add(visitor, uint32(len(s.pages)+guess), s.assistantOf(visitor, guesses[guess], d))
	}
	return events
}

func (s *synthetic) agents() []agents.Agent { return agentNames }
func (s *synthetic) missing() []string      { return guesses }

// tallyAgents counts the report of agents as tally counts visitors.
func tallyAgents(t traffic, w interval, horizon int64) agentsAnswer {
	whole, pages := newAgentCounter(), newAgentCounter()
	networks := map[string]map[uint32]bool{} // of paths that are not there
	paths := slices.Concat(t.paths(), t.missing())
	all := t.agents()
	add := func(e event, by agents.Agent, audience analytics.Audience) {
		row := analytics.AgentRow{Agent: by.Token, Class: string(by.Class), Audience: audience, Found: true}
		path := paths[e.page]
		if row.Found = int(e.page) < len(t.paths()); row.Found {
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
	return agentsAnswer{whole.rows(), slices.DeleteFunc(pages.rows(), func(r analytics.AgentRow) bool {
		return !r.Found && len(networks[r.Path]) < 2
	})}
}

// agentsAnswer is as answer: totals by agent and audience, rows in their order.
type agentsAnswer struct{ totals, rows []analytics.AgentRow }

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
