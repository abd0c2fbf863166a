package view

import (
	"regexp"
	"slices"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
)

// AgentNumbers are the counts of the report agents, in their order.
type AgentNumbers struct {
	Visitors int64 `json:"visitors"`
	Requests int64 `json:"requests"`
	Markdown int64 `json:"markdown"`
	Bytes    int64 `json:"bytes"`
}

// AgentNumbersOf returns the counts of a row.
func AgentNumbersOf(c analytics.Counts) (n AgentNumbers) {
	for i, field := range analytics.CountsOf(&n) {
		*field = c[i]
	}
	return n
}

// Of returns the count of a name.
func (n AgentNumbers) Of(name string) int64 {
	return *analytics.CountsOf(&n)[slices.Index(analytics.AgentsReport.Shape().Names(analytics.Count), name)]
}

// AgentChange is the change of the number by which a list is ranked. Previous is null where the earlier
// window has no such row, or is not known; so is the change.
type AgentChange struct {
	Previous *AgentNumbers `json:"previous"`
	Change   *int64        `json:"change"`
	Percent  *float64      `json:"change_percent"`
}

// RankedAgent is an agent of the site, or a page of one: then it has a path. An agent has a row for each
// audience that its views count for.
type RankedAgent struct {
	Rank     int                `json:"rank"`
	Path     string             `json:"path"`
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	AgentNumbers
	AgentChange
}

// Miss is a path that agents asked for and that is not there. Its requests are the requests of all its agents, its
// visitors the visitors of the agent with most: visitors are never added up.
type Miss struct {
	Rank int    `json:"rank"`
	Path string `json:"path"`
	AgentNumbers
	AgentChange
	// Agents have most requests first. They have no rank and no change.
	Agents []MissAgent `json:"agents"`
	// Near are the pages of the window whose paths are most like this one, at most three, the nearest first.
	// A path that is near itself was there for a part of the window.
	Near []string `json:"near"`
	// Redirect is the rule that should have redirected the path; nil: none is known.
	Redirect *journal.Redirect `json:"redirect,omitempty"`
}

// AddRedirects adds to the misses of a project in a window the rules that began before its last day.
func AddRedirects(misses []Miss, project string, w analytics.Window, rules []journal.Redirect) {
	for i, m := range misses {
		at := slices.IndexFunc(rules, func(r journal.Redirect) bool {
			return r.Project == project && r.Path == m.Path && analytics.DateOf(r.Since) < w.To-1
		})
		if at >= 0 {
			misses[i].Redirect = &rules[at]
		}
	}
}

// MissedPath is a path that agents asked for in several windows and that is not there. Its JSON keys are stable.
type MissedPath struct {
	Project string `json:"project"`
	Path    string `json:"path"`
	// Requests are the sum over all agents and windows, -1 if unknown, and Agents the names of the agents.
	Requests int64    `json:"requests"`
	Agents   []string `json:"agents"`
	// First and Last are the first and the last day of the windows that have the path, YYYY-MM-DD.
	First string `json:"first"`
	Last  string `json:"last"`
}

// MissAgent is an agent that asked for a path that is not there.
type MissAgent struct {
	Agent    string             `json:"agent"`
	Class    string             `json:"class"`
	Audience analytics.Audience `json:"audience"`
	AgentNumbers
}

// AgentsText names the agents with their requests.
func (m Miss) AgentsText() string {
	var names []string
	for _, a := range m.Agents {
		names = append(names, a.Agent+" "+format.Commas(a.Requests))
	}
	return strings.Join(names, ", ")
}

// Nearest returns the path of the nearest page, or nothing if no page is near.
func (m Miss) Nearest() string {
	if len(m.Near) == 0 {
		return ""
	}
	return m.Near[0]
}

// maxPlainPath is the length of the longest path that is plain, in bytes.
const maxPlainPath = 200

// PlainPath reports whether a path, which strangers choose, may stand in a text that is sent or obeyed: letters,
// digits and - _ . ~ between single slashes, without a part that begins with a dot, and short enough to be whole.
func PlainPath(s string) bool { return len(s) <= maxPlainPath && plainPaths.MatchString(s) }

var plainPaths = regexp.MustCompile(`^(?:/|(?:/[A-Za-z0-9_~-][A-Za-z0-9_.~-]*)+)$`)
