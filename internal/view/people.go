package view

import (
	"fmt"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
)

// People are the readers of a site that call themselves browsers: an interval, from those with evidence of a browser to
// all of them. How many of the others are people, nothing in a log tells.
type People struct {
	Confirmed int64 `json:"confirmed"`
	Claimed   int64 `json:"claimed"`
}

// String is the interval in words.
func (p People) String() string {
	return fmt.Sprintf("people %s (confirmed) to %s (claimed)", format.Commas(p.Confirmed), format.Commas(p.Claimed))
}

// PeopleOf returns the people of a path, or, without one, of the site, in the rows of a window of agents; nil where the
// service does not tell the confirmed from the others.
func PeopleOf(by analytics.Humans, path string, rows []analytics.Record) *People {
	if by == "" {
		return nil
	}
	var p People
	for _, row := range analytics.RowsOf[analytics.AgentRow](rows) {
		if row.Path != path || row.Audience == analytics.AI {
			continue
		}
		switch row.Agent {
		case analytics.BrowserAgent:
			p.Confirmed += row.Visitors
			p.Claimed += row.Visitors
		case analytics.UnconfirmedAgent:
			p.Claimed += row.Visitors
		}
	}
	return &p
}
