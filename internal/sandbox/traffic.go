package sandbox

import (
	"iter"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const daySeconds = 24 * 60 * 60

// event is one page view by one visitor, kept with the UTC date it belongs to.
type event struct {
	// who is visitor<<1, plus 1 for an AI visit. Visitors are numbered densely.
	who uint32
	// page is an index into the paths of the traffic.
	page uint32
	// at is the second of the day.
	at uint32
	// arrival is in seconds after the beginning of the day of the event.
	arrival uint32
}

const (
	human = 0
	ai    = 1
)

// traffic is an immutable view of the events of one project.
type traffic interface {
	// bounds returns the first date with events and the date after the last.
	bounds() (first, end analytics.Date)
	day(analytics.Date) []event
	paths() []string
	// visitors is above every visitor number.
	visitors() int
}

// lateShare is the share of events that LateDays delays: one in lateShare.
const lateShare = 20

// arrival returns when an event at second at of its day arrives, in seconds
// after the beginning of that day. luck is any evenly spread number.
func arrival(at, luck uint32, lateDays int) uint32 {
	if lateDays == 0 || luck%lateShare != 0 {
		return at
	}
	return daySeconds + 1 + luck/lateShare%uint32(lateDays*daySeconds)
}

// interval is the half-open span [from, to) of event times, in Unix seconds.
type interval struct{ from, to int64 }

// dates returns the dates [first, end) whose events can be visible: no event
// arrives before it happens.
func (w interval) dates(t traffic, horizon int64) (first, end analytics.Date) {
	first, end = t.bounds()
	if last := min(w.to-1, horizon); last < end.Time().Unix() {
		end = analytics.DateOf(time.Unix(last, 0)) + 1
	}
	if w.from > first.Time().Unix() {
		first = analytics.DateOf(time.Unix(w.from, 0))
	}
	return first, end
}

// visible yields the events of t in w that arrived up to horizon.
func visible(t traffic, w interval, horizon int64) iter.Seq[event] {
	first, end := w.dates(t, horizon)
	return func(yield func(event) bool) {
		for d := first; d < end; d++ {
			start := d.Time().Unix()
			for _, e := range t.day(d) {
				at := start + int64(e.at)
				if at < w.from || at >= w.to || start+int64(e.arrival) > horizon {
					continue
				}
				if !yield(e) {
					return
				}
			}
		}
	}
}
