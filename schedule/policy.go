package schedule

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// MaxReadings is how many readings a drifting window gets. The last one accepts whatever
// comes, and is committed unverified.
const MaxReadings = 3

// MovementKind is a way in which windows were seen to move, or to hold still.
type MovementKind string

const (
	// MovedBetween: between two runs, before the window could settle.
	MovedBetween MovementKind = "between"
	// MovedBetweenRipe: between two runs, after that.
	MovedBetweenRipe MovementKind = "between-ripe"
	// MovedWithin: while one run read it, before the window could settle.
	MovedWithin MovementKind = "within"
	// HeldBack records a deferred window of the series: Times is its start date, At the
	// time since when it has waited for an hour with enough budget for all of it.
	HeldBack MovementKind = "held-back"
	// AtLeast is no movement: Times is how many pages a window of the series
	// certainly has, where none could be read completely yet.
	AtLeast MovementKind = "at-least"
	// DayPages is no movement: Times is how many pages one answer about a day tells: 1 is
	// all it has, 2 is the least. It estimates windows before anything was read.
	DayPages MovementKind = "day-pages"
)

// MovementKey names a Movement.
type MovementKey struct {
	Series
	Kind MovementKind
}

// Movement is how often in a row windows of a series moved in one way. 0 times:
// the last one held still.
type Movement struct {
	Times int
	At    time.Time
}

const (
	// movementLasts is how long a movement counts: services change.
	movementLasts = 28 * 24 * time.Hour
	// longestHold is how long a window is held back: by then the whole budget was
	// free once, unless something else uses it all the time.
	longestHold = 2 * time.Hour
	// restless is how often in a row the windows of a series must have moved
	// within a run before the next of them is not even begun: two windows that
	// drifted in all their readings.
	restless = 2 * (MaxReadings - 1)
	// minuteLayout is how a time is written for people.
	minuteLayout = "2006-01-02 15:04"
)

// Policy decides how much of a window is worth reading while it can still move. The
// zero Policy reads everything at once. docs/architecture.md states its worst case.
type Policy struct {
	// Limit is how many requests an hour has; 0 is unlimited.
	Limit int
	// Settle is how long after its end a window can still change.
	Settle time.Duration
	// Moved returns the last movement of a series; nil: there is none.
	Moved func(MovementKey) (Movement, bool)
}

// Ripe reports whether a window can no longer change.
func (p Policy) Ripe(w analytics.Window, now time.Time) bool { return ripe(w, p.Settle, now) }

// BetweenRuns is the kind of a movement of w between two runs, at the given time.
func (p Policy) BetweenRuns(w analytics.Window, now time.Time) MovementKind {
	if p.Ripe(w, now) {
		return MovedBetweenRipe
	}
	return MovedBetween
}

func (p Policy) moved(of Series, kind MovementKind, now time.Time) (times int, seen bool) {
	if p.Moved == nil {
		return 0, false
	}
	m, seen := p.Moved(MovementKey{of, kind})
	return m.Times, seen && now.Sub(m.At) < movementLasts
}

// TotalsFirst reports whether only the totals of a window with so many pages are
// read now, with one request, and its rows when it has settled, because its
// pages would not stay parts of one reading. why explains that to people.
//
//   - A window that takes longer than an hour's budget is tried once; when one of
//     its series has moved between two runs, the next ones are not.
//   - A window whose worst case, all its readings, takes longer than an hour's
//     budget is not begun once two of its series in a row drifted in all of theirs.
func (p Policy) TotalsFirst(k analytics.Key, pages int, now time.Time) (why string, yes bool) {
	if p.Limit == 0 || p.Ripe(k.Window, now) {
		return "", false
	}
	if p.Moved != nil {
		least, _ := p.Moved(MovementKey{SeriesOf(k), AtLeast})
		pages = max(pages, least.Times)
	}
	rows := rowsFrom(k.Window, p.Settle)
	if times, seen := p.moved(SeriesOf(k), MovedBetween, now); seen && times > 0 && pages > p.Limit {
		return fmt.Sprintf("totals now, %s: %d pages are more than an hour's budget, and such windows moved", rows, pages), true
	}
	if times, seen := p.moved(SeriesOf(k), MovedWithin, now); seen && times >= restless && MaxReadings*pages > p.Limit {
		return fmt.Sprintf("totals now, %s: %d pages, and such windows move while they are read", rows, pages), true
	}
	return "", false
}

// rowsFrom says when the rows of a window are read that is first read for its totals.
func rowsFrom(w analytics.Window, settle time.Duration) string {
	return "rows from " + w.To.Time().Add(settle).UTC().Format(minuteLayout)
}

// HoldsBack reports whether a window that needs so many requests should not be
// begun with so few free: what is read of it now would be lost when it moves,
// and within the hour it can be read completely. No window is held back for longer than
// two hours.
func (p Policy) HoldsBack(k analytics.Key, requests, free int, now time.Time) bool {
	if p.Limit == 0 || requests <= free || requests > p.Limit {
		return false
	}
	if p.Moved != nil {
		m, held := p.Moved(MovementKey{SeriesOf(k), HeldBack})
		if held && m.Times == int(k.From) && now.Sub(m.At) >= longestHold {
			return false
		}
	}
	kind := p.BetweenRuns(k.Window, now)
	times, seen := p.moved(SeriesOf(k), kind, now)
	if !seen {
		return kind == MovedBetween // a window that can move is expected to
	}
	return times > 0
}

const (
	// firstPause is how long a window is set aside the first time: less than an hour, so
	// that an hourly run finds it due again.
	firstPause = 55 * time.Minute
	// maxPause is the longest that a window that failed is set aside.
	maxPause = 24 * time.Hour
)

// maxEmpty is how often a window that keeps rows because the service sends none is read
// again: no oftener than one that drifts.
const maxEmpty = 3

// Rest returns how long a window rests after its last failure. One of which the service
// sends no rows rests for a day, for two and for four days, and is then read only when
// someone names it.
func Rest(a analytics.Aside) time.Duration {
	switch {
	case a.Reason != analytics.AsideEmpty:
		return Pause(a.Failures)
	case a.Failures <= maxEmpty:
		return maxPause << (a.Failures - 1)
	}
	const ever = 100 * 365 * 24 * time.Hour
	return ever
}

// GivenUp reports whether a window is read only when someone names it.
func GivenUp(a analytics.Aside) bool {
	return a.Reason == analytics.AsideEmpty && a.Failures > maxEmpty
}

// Pause returns how long a window that failed so many times in a row is set aside: 55
// minutes, doubling up to a day.
func Pause(failures int) time.Duration {
	pause := firstPause
	for range min(failures-1, 8) {
		pause *= 2
	}
	return min(pause, maxPause)
}
