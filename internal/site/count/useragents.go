package count

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"unicode"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
)

const (
	// maxUserAgents is how many user agents are counted at most: clients invent what they like. If there are twice
	// as many, the rarest are dropped.
	maxUserAgents = 10_000
	// maxUserAgent is the length up to which user agents are told apart, in characters.
	maxUserAgent = 512
)

// UserAgentReaders is the readers of a user agent and what it was taken for.
type UserAgentReaders struct {
	// UserAgent is what clients sent, without what a terminal could obey.
	UserAgent string             `json:"user_agent"`
	Agent     string             `json:"agent"`
	Class     agents.Class       `json:"class"`
	Audience  analytics.Audience `json:"audience"`
	Visitors  int                `json:"visitors"`
	Requests  int                `json:"requests"`

	key string
}

// userAgentCounts counts user agents, in bounded memory. Frequent ones are exact; one that was dropped as rare
// begins again at 0.
type userAgentCounts struct {
	mu      sync.Mutex
	counts  map[string]*UserAgentReaders
	dropped bool
}

func (c *userAgentCounts) add(text string, agent *agents.Agent, isNew bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, known := c.counts[text]
	if !known {
		if len(c.counts) >= 2*maxUserAgents {
			c.drop()
		}
		n = &UserAgentReaders{UserAgent: strings.Map(visible, text), Agent: agents.Browser.Token,
			Class: agents.Browser.Class, Audience: agents.Audience(agent, false), key: text}
		if agent != nil {
			n.Agent, n.Class = agent.Token, agent.Class
		}
		c.counts[n.key] = n
	}
	n.Requests++
	if isNew {
		n.Visitors++
	}
}

func (c *userAgentCounts) drop() {
	c.dropped = true
	for _, n := range c.list()[maxUserAgents:] {
		delete(c.counts, n.key)
	}
}

func visible(r rune) rune {
	if unicode.IsPrint(r) {
		return r
	}
	return unicode.ReplacementChar
}

// list returns the user agents, the most frequent first.
func (c *userAgentCounts) list() []*UserAgentReaders {
	all := make([]*UserAgentReaders, 0, len(c.counts))
	for _, n := range c.counts {
		all = append(all, n)
	}
	slices.SortFunc(all, func(a, b *UserAgentReaders) int {
		return cmp.Or(b.Requests-a.Requests, b.Visitors-a.Visitors, strings.Compare(a.key, b.key))
	})
	return all
}

// ClassReaders is the readers of the agents of a class. A reader has one user agent, and so one class.
type ClassReaders struct {
	Class    agents.Class `json:"class"`
	Visitors int          `json:"visitors"`
	Requests int          `json:"requests"`
}

// classes adds up agents by class, and people under the names that they have as agents.
func classes(all []agentReaders) (out []ClassReaders) {
	for _, a := range all {
		class := a.Class
		if class == agents.Browser.Class {
			class = agents.Class(a.Agent)
		}
		i := slices.IndexFunc(out, func(c ClassReaders) bool { return c.Class == class })
		if i < 0 {
			i, out = len(out), append(out, ClassReaders{Class: class})
		}
		out[i].Visitors += a.Visitors
		out[i].Requests += a.Requests
	}
	slices.SortFunc(out, func(a, b ClassReaders) int {
		return cmp.Or(b.Visitors-a.Visitors, b.Requests-a.Requests, strings.Compare(string(a.Class), string(b.Class)))
	})
	return out
}
