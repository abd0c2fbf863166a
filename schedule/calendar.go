package schedule

import (
	"iter"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Newest returns the newest complete window of g: the last one with To <= today.
// Like everything here it wants a granularity that
// [analytics.ParseGranularity] accepts; any other has only the empty window.
func Newest(g analytics.Granularity, today analytics.Date) analytics.Window {
	if n := g.RollingDays(); n > 0 {
		return analytics.Window{From: today - analytics.Date(n), To: today}
	}
	return containing(g, containing(g, today).From-1)
}

// Open returns the running window of g, the one that contains today. Only day,
// week and month have one; for a rolling granularity it reports false.
func Open(g analytics.Granularity, today analytics.Date) (analytics.Window, bool) {
	w := containing(g, today)
	return w, w.From < w.To
}

// Before returns the neighbour of w on its older side: for day, week and month
// the window that ends where w begins, for a rolling granularity the one that
// ends a day earlier.
func Before(g analytics.Granularity, w analytics.Window) analytics.Window {
	if g.RollingDays() > 0 {
		return analytics.Window{From: w.From - 1, To: w.To - 1}
	}
	return containing(g, w.From-1)
}

// After returns the neighbour of w on its newer side; see [Before].
func After(g analytics.Granularity, w analytics.Window) analytics.Window {
	if g.RollingDays() > 0 {
		return analytics.Window{From: w.From + 1, To: w.To + 1}
	}
	return containing(g, w.To)
}

// Since yields the complete windows of g that begin on or after since, newest first.
func Since(g analytics.Granularity, since, today analytics.Date) iter.Seq[analytics.Window] {
	return Within(g, since, today)
}

// Within yields the windows of g that lie wholly inside [from, to), newest first.
func Within(g analytics.Granularity, from, to analytics.Date) iter.Seq[analytics.Window] {
	return func(yield func(analytics.Window) bool) {
		// A date before the first one there is wraps around to the last: such a
		// window ends before it begins or after to, which ends the walk.
		for w := Newest(g, to); from <= w.From && w.From < w.To && w.To <= to; w = Before(g, w) {
			if !yield(w) {
				return
			}
		}
	}
}

// containing returns the one window of g that contains d, and the empty window
// where g is not a calendar granularity.
func containing(g analytics.Granularity, d analytics.Date) analytics.Window {
	switch g {
	case analytics.Day:
		return analytics.Window{From: d, To: d + 1}
	case analytics.Week:
		monday := d - analytics.Date((d.Weekday()+6)%7)
		return analytics.Window{From: monday, To: monday + 7}
	case analytics.Month:
		year, month, _ := d.Time().Date()
		return analytics.Window{From: firstOf(year, month), To: firstOf(year, month+1)}
	}
	return analytics.Window{}
}

func firstOf(year int, month time.Month) analytics.Date {
	return analytics.NewDate(year, month, 1)
}
