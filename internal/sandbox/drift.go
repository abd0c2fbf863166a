package sandbox

import (
	"slices"

	"github.com/docgauge/docgauge/internal/analytics"
)

// drift is an event that a request brought about, at the first second of date.
// Each has a visitor of its own.
type drift struct {
	date analytics.Date
	kind uint32
}

// maxDrift bounds the memory of drift; after it, no more events come.
const maxDrift = 1 << 17

// drifted is a traffic with drift on top.
type drifted struct {
	traffic
	events []drift
}

// withDrift returns t with events added, or t itself where there is nothing to
// add or no page to add it to.
func withDrift(t traffic, events []drift) traffic {
	if len(events) == 0 || len(t.paths()) == 0 {
		return t
	}
	return drifted{t, events}
}

func (t drifted) visitors() int { return t.traffic.visitors() + len(t.events) }

func (t drifted) bounds() (first, end analytics.Date) {
	first, end = t.traffic.bounds()
	for _, e := range t.events {
		first, end = min(first, e.date), max(end, e.date+1)
	}
	return first, end
}

func (t drifted) day(d analytics.Date) []event {
	day := slices.Clip(t.traffic.day(d))
	for i, e := range t.events {
		if e.date != d {
			continue
		}
		visitor := uint32(t.traffic.visitors() + i)
		day = append(day, event{who: visitor<<1 | e.kind, page: uint32(i / 2 % len(t.paths()))})
	}
	return day
}
