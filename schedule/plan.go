package schedule

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Reason is why a window is due: the reason label of docgauge_windows_due.
type Reason string

// The reasons.
const (
	// ReasonMissing: the ledger has no revision of the window, or only totals
	// where rows are wanted.
	ReasonMissing Reason = "missing"
	// ReasonSettle: the window can no longer change and was last read before that.
	ReasonSettle Reason = "settle"
	// ReasonUnverified: as ReasonSettle, or already read since; its last reading drifted.
	ReasonUnverified Reason = "unverified"
	// ReasonAsked: named by the operator.
	ReasonAsked Reason = "asked"
	// ReasonOpen: the running window, for the gauges; it is never committed.
	ReasonOpen Reason = "open"
)

// Item is one window to read.
type Item struct {
	analytics.Key
	// TotalsOnly asks for the site totals alone. It is false where the ledger
	// has rows of the window, even if the configuration has since been changed
	// to totals only: a new revision must not take rows away.
	TotalsOnly bool
	Reason     Reason
	// Newest reports whether this is the newest complete window of its granularity.
	Newest bool
	// Why says what was decided of a window that is not simply read, for people.
	Why string
}

// Input is everything a plan depends on.
type Input struct {
	Now      time.Time
	Projects []string
	// Specs in configured order. Of two for one granularity, the one that wants
	// rows counts.
	Specs []analytics.Spec
	// Open lists the granularities whose running window is read for the gauges.
	Open []analytics.Granularity
	// Since: windows that begin on or after it are backfilled.
	Since analytics.Date
	// Settle is how long after its end a window can still change.
	Settle time.Duration
	// Known returns the newest revision of a window in the ledger. Required.
	Known func(analytics.Key) (analytics.Revision, bool)
	// Provisional lists the windows in the ledger that are not settled, in any
	// order. It is how windows older than Since come to be settled; those of
	// projects and granularities that are not configured are left alone.
	Provisional []analytics.Key
	// Rotate chooses the project that begins; it grows by one each run.
	Rotate int
	// Aside returns what is known of a window that failed; it is not due before
	// its time. nil: none did.
	Aside func(analytics.Key) (analytics.Aside, bool)
	// GaveUp reports whether the rows of a window, whose totals the ledger has, were
	// given up because they moved. They are read when it has settled. nil: of none.
	GaveUp func(analytics.Key) bool
	// Policy decides, with Sizes, of which windows only the totals are read for
	// now. Sizes nil: of none.
	Policy Policy
	Sizes  *Sizes
}

// tier is a class of due windows. A plan holds tier after tier.
type tier int

const (
	tierNewest   tier = iota // newest complete windows, missing; in spec order
	tierOpen                 // running windows; in configured order
	tierSettling             // provisional windows that can no longer change; rolling ones last
	tierBackfill             // missing day, week and month windows
	tierRolling              // missing rolling windows
	tiers
	notDue = tiers
)

// Due returns the windows to read now, in order: missing newest windows, open
// windows, settling windows, backfill, rolling backfill; the last three from
// new to old. Within each of the five the projects take turns. No window comes twice.
func Due(in Input) []Item {
	due, _ := Plan(in)
	return due
}

// Plan returns what [Due] does, and the windows that wait for their time: those
// that are set aside, and those of which the totals are known and the rows are
// read when they have settled. Each of these says why.
func Plan(in Input) (due, waiting []Item) {
	p := newPlanner(in)
	var queues [tiers][][]Item
	for _, project := range p.projects {
		for t, items := range p.due(project) {
			queues[t] = append(queues[t], items)
		}
	}
	var plan []Item
	for _, queue := range queues {
		plan = append(plan, interleave(queue)...)
	}
	return plan, p.waiting
}

// Settles reports whether a reading of w settles it: it was made at or after
// w.To + settle, and it is verified or a former reading was made that late too.
// So an unverified reading after the settle time gets one second chance, in the
// next run, and no more: the number of requests stays bounded even where the
// service drifts for ever.
//
// readAt is Revision.ExportedAt of the reading, when its first page was asked
// for. previous is the newest revision before it, nil if there is none or if it
// holds only totals and this reading holds rows.
func Settles(w analytics.Window, settle time.Duration, readAt time.Time, verified bool, previous *analytics.Revision) bool {
	if !ripe(w, settle, readAt) {
		return false
	}
	return verified || previous != nil && ripe(w, settle, previous.ExportedAt)
}

// ripe reports whether w can no longer change at the given time.
func ripe(w analytics.Window, settle time.Duration, at time.Time) bool {
	return !at.Before(w.To.Time().Add(settle))
}

// interleave takes one item of each queue in turn, until all are empty.
func interleave(queues [][]Item) []Item {
	var items []Item
	for i, left := 0, true; left; i++ {
		left = false
		for _, queue := range queues {
			if i < len(queue) {
				items = append(items, queue[i])
				left = true
			}
		}
	}
	return items
}
