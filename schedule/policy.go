package schedule

import (
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// MaxReadings is how often a drifting window is begun before its last reading
// takes what comes, and is committed unverified.
const MaxReadings = 3

// MovementKind is a way in which windows were seen to move, or not to.
type MovementKind string

const (
	// MovedBetween: between two runs, before the window could settle.
	MovedBetween MovementKind = "between"
	// MovedBetweenRipe: between two runs, after that.
	MovedBetweenRipe MovementKind = "between-ripe"
	// MovedWithin: while one run read it, before the window could settle.
	MovedWithin MovementKind = "within"
	// HeldBack is no movement: the window of the series that begins on the date that
	// Times is waits since At until an hour's budget has room for all of it.
	HeldBack MovementKind = "held-back"
	// AtLeast is no movement: its Times is how many pages a window of the series
	// surely has, where none could be read whole yet.
	AtLeast MovementKind = "at-least"
)

// MovementKey says of what a Movement is.
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
	// movementLasts is how long a movement is believed: services change.
	movementLasts = 28 * 24 * time.Hour
	// longestHold is how long a window is held back: by then the whole budget was
	// free once, unless something else uses it all the time.
	longestHold = 2 * time.Hour
	// restless is how often in a row the windows of a series must have moved
	// within a run before the next of them is not even begun: two windows that
	// drifted in all their readings.
	restless = 2 * (MaxReadings - 1)
)

// Policy decides what reading a window is worth while it can still move. The
// zero Policy reads everything at once. See docs/architecture.md for its worst case.
type Policy struct {
	// Limit is how many requests an hour has; 0 is unlimited.
	Limit int
	// Settle is how long after its end a window can still change.
	Settle time.Duration
	// Moved returns what was last seen of a series; nil: nothing.
	Moved func(MovementKey) (Movement, bool)
}

// Ripe reports whether a window can no longer change.
func (p Policy) Ripe(w analytics.Window, now time.Time) bool { return ripe(w, p.Settle, now) }

// OneHour reports whether so many requests fit into one hour's budget.
func (p Policy) OneHour(requests int) bool { return p.Limit == 0 || requests <= p.Limit }

func (p Policy) moved(of Series, kind MovementKind, now time.Time) (times int, seen bool) {
	if p.Moved == nil {
		return 0, false
	}
	m, seen := p.Moved(MovementKey{of, kind})
	return m.Times, seen && now.Sub(m.At) < movementLasts
}

// TotalsFirst reports whether of a window of so many pages only the totals are
// read now, with one request, and its rows once it has settled: because its
// pages would not stay parts of one reading. why says so to people.
//
//   - A window that takes longer than an hour's budget is tried once; when one of
//     its series has moved between two runs, the next are not.
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
	rows := "rows from " + k.To.Time().Add(p.Settle).UTC().Format("2006-01-02 15:04")
	if times, seen := p.moved(SeriesOf(k), MovedBetween, now); seen && times > 0 && !p.OneHour(pages) {
		return fmt.Sprintf("totals now, %s: %d pages are more than an hour's budget, and such windows moved", rows, pages), true
	}
	if times, seen := p.moved(SeriesOf(k), MovedWithin, now); seen && times >= restless && MaxReadings*pages > p.Limit {
		return fmt.Sprintf("totals now, %s: %d pages, and such windows move while they are read", rows, pages), true
	}
	return "", false
}

// HoldsBack reports whether a window that needs so many requests is better not
// begun with so many free: what is read of it now would be lost when it moves,
// and within the hour it can be read whole. None is held back for longer than two
// hours.
func (p Policy) HoldsBack(k analytics.Key, requests, free int, now time.Time) bool {
	if p.Limit == 0 || requests <= free || !p.OneHour(requests) {
		return false
	}
	if p.Moved != nil {
		if m, held := p.Moved(MovementKey{SeriesOf(k), HeldBack}); held && m.Times == int(k.From) && now.Sub(m.At) >= longestHold {
			return false
		}
	}
	kind := MovedBetween
	if p.Ripe(k.Window, now) {
		kind = MovedBetweenRipe
	}
	times, seen := p.moved(SeriesOf(k), kind, now)
	if !seen {
		return kind == MovedBetween // what can move is taken to
	}
	return times > 0
}

const (
	// firstPause is how long a window is set aside at first: less than an hour, so
	// that an hourly run finds it due again.
	firstPause = 55 * time.Minute
	maxPause   = 24 * time.Hour
)

// Pause returns how long a window is set aside that failed so many times in a
// row: 55 minutes, doubling up to a day.
func Pause(failures int) time.Duration {
	pause := firstPause
	for range min(failures-1, 8) {
		pause *= 2
	}
	return min(pause, maxPause)
}
