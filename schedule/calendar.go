package schedule

import (
	"iter"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Newest returns the newest complete window of g: the last one with To <= today.
// Like everything here it requires a granularity that
// [analytics.ParseGranularity] accepts; any other has only the empty window.
func Newest(g analytics.Granularity, today analytics.Date) analytics.Window {
	if n := g.RollingDays(); n > 0 {
		return analytics.Window{From: today - analytics.Date(n), To: today}
	}
	return Previous(g, containing(g, today))
}

// Previous returns the window of g that ends where w begins. Before the first possible date it may begin after its end.
func Previous(g analytics.Granularity, w analytics.Window) analytics.Window {
	if n := g.RollingDays(); n > 0 {
		return analytics.Window{From: w.From - analytics.Date(n), To: w.From}
	}
	return containing(g, w.From-1)
}

// Open returns the running window of g, the one that contains today. Only day,
// week and month have one; for a rolling granularity it reports false.
func Open(g analytics.Granularity, today analytics.Date) (analytics.Window, bool) {
	w := containing(g, today)
	return w, w.From < w.To
}

// Within yields the windows of g wholly inside [from, to), newest first. Calendar
// windows tile; rolling ones end one day apart.
func Within(g analytics.Granularity, from, to analytics.Date) iter.Seq[analytics.Window] {
	return func(yield func(analytics.Window) bool) {
		// The day before the first Date is the last one: a window that wraps around ends
		// before it begins or after to, which ends the loop.
		for w := Newest(g, to); from <= w.From && w.From < w.To && w.To <= to; {
			if !yield(w) {
				return
			}
			if g.RollingDays() > 0 {
				w = analytics.Window{From: w.From - 1, To: w.To - 1}
			} else {
				w = containing(g, w.From-1)
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
		return analytics.Window{From: analytics.NewDate(year, month, 1), To: analytics.NewDate(year, month+1, 1)}
	}
	return analytics.Window{}
}
