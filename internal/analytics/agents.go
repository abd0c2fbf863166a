package analytics

import (
	"cmp"
	"strings"
)

// Report names a report of the service: the last element of its path in the API, and a dataset.
type Report string

// The reports.
const (
	// VisitorsReport has a [Row] for each page.
	VisitorsReport Report = "visitors"
	// AgentsReport has an [AgentRow] for each agent on each path.
	AgentsReport Report = "agents"
)

// AgentRow is the unique readers of one agent on one path, and their requests. A path, an agent, an
// audience and Found occur together once. Readers are not additive: not over paths, and not over
// audiences.
type AgentRow struct {
	Path     string // empty: the whole site, of paths that are there
	Agent    string
	Class    string
	Audience Audience
	// Found is false for a path that was asked for and is not there.
	Found              bool
	Visitors, Requests int64
}

// Compare orders rows as the report has them.
func (r AgentRow) Compare(other AgentRow) int {
	if c := cmp.Or(strings.Compare(r.Path, other.Path), strings.Compare(r.Agent, other.Agent),
		strings.Compare(string(r.Audience), string(other.Audience))); c != 0 || r.Found == other.Found {
		return c
	}
	if other.Found {
		return -1
	}
	return 1
}
