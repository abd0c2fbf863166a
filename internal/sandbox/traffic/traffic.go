// Package traffic makes up the readers of a documentation site, or reads them from an event log, and counts them
// exactly: the events of a day are made when they are first asked for, overlays add latecomers, drift and the effects of
// merges, and an answer counts distinct visitors. Some that claim to be people are programs, which never show evidence of
// a browser; most people do on most days. It knows nothing of requests, keys or jobs.
package traffic

import (
	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/site/agents"
	"github.com/docgauge/docgauge/internal/site/facts"
)

const daySeconds = 24 * 60 * 60

// event is one page view by one visitor, kept with the UTC date it belongs to.
type event struct {
	// who is visitor<<1, plus 1 for an AI visit. Visitors are numbered densely.
	who uint32
	// page is an index into the paths of the traffic.
	page uint32
	// second is the second of the day.
	second uint32
	// arrival is in seconds after the beginning of the day of the event.
	arrival uint32
	// agent is an index into the agents of the traffic, plus 1; 0 for none.
	agent uint16
	// source of a person's view is an index into sources.
	source uint8
	flags  uint8
	bytes  int32 // sent; facts.Unsaid if that is not known
}

// The flags of events.
const (
	// evidence says that the visitor did then what browsers do: load a style sheet, ask whether a page has changed.
	evidence = 1 << iota
	markdown // answered as Markdown
)

const (
	human = facts.Human
	ai    = facts.AI
)

// Traffic is an immutable view of the events of one project.
type Traffic interface {
	// Bounds returns the first date with events and the date after the last.
	Bounds() (first, end analytics.Date)
	day(analytics.Date) []event
	Paths() []string
	// visitors is above every visitor number.
	visitors() int
	// agents are those with a name.
	agents() []agents.Agent
	// beside returns the events of a day that are no visits, with visitor numbers of their own: of
	// crawlers, and of paths that are not there, which are numbered after all others.
	beside(analytics.Date) []event
	missing() []string
}

// lateShare is the share of events that LateDays delays: one in lateShare.
const lateShare = 20

// arrival returns the arrival of an event at second at of its day, in seconds after the
// beginning of that day. luck is any evenly distributed number.
func arrival(at, luck uint32, lateDays int) uint32 {
	if lateDays == 0 || luck%lateShare != 0 {
		return at
	}
	return daySeconds + 1 + luck/lateShare%uint32(lateDays*daySeconds)
}
