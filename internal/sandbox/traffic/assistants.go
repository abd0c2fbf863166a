package traffic

import (
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/site/agents"
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

// agentNames are the agents of the synthetic site, by the agent of its events less one.
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

// isCode reports whether a page is for programmers.
func isCode(path string) bool {
	return strings.HasPrefix(path, "/sdks/") || strings.HasPrefix(path, "/api-reference/") ||
		strings.HasPrefix(path, "/reference/")
}

// assistantOf returns the agent that reads a page for an AI visitor. coding is the
// weight of coding agents: on a growing site they take over.
func assistantOf(visitor uint32, path string, coding float64) uint16 {
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
