package htmlview

import (
	"fmt"
	"strings"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Span is a window as a page writes it.
type Span struct {
	Text  string // for people: the last day is named, not the day after it
	Exact string // half-open, as everywhere else
	Note  string // what the exact form means
}

// SpanOf is a window of g.
func SpanOf(g analytics.Granularity, w analytics.Window) Span {
	return Span{Text: Days(g, w), Exact: w.String(), Note: note(w)}
}

// note explains a half-open window.
func note(w analytics.Window) string {
	return fmt.Sprintf("UTC dates; the first day is %s, the last %s. The end, %s, is not part of it.", w.From, w.To-1, w.To)
}

// Days names a window by its days: Mon 5 Oct 2026, 28 Sep – 4 Oct 2026, October 2026.
func Days(g analytics.Granularity, w analytics.Window) string {
	first, last := w.From.Time(), (w.To - 1).Time()
	switch {
	case w.Days() == 1:
		return first.Format("Mon 2 Jan 2006")
	case g == analytics.Month:
		return first.Format("January 2006")
	case first.Year() != last.Year():
		return first.Format("2 Jan 2006") + " – " + last.Format("2 Jan 2006")
	case first.Month() != last.Month():
		return first.Format("2 Jan") + " – " + last.Format("2 Jan 2006")
	default:
		return first.Format("2") + " – " + last.Format("2 Jan 2006")
	}
}

// Tick names a window in few letters: by its month, by its first day, or,
// where windows roll, by its last.
func Tick(g analytics.Granularity, w analytics.Window) string {
	switch {
	case g == analytics.Month:
		return w.From.Time().Format("Jan ’06")
	case g.RollingDays() > 0:
		return (w.To - 1).Time().Format("2 Jan")
	default:
		return w.From.Time().Format("2 Jan")
	}
}

// Title names a granularity: Day, Week, Month, 28 days.
func Title(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return Plural(n, "day")
	}
	return strings.ToUpper(string(g[:1])) + string(g[1:])
}

// Before names the window before one of g: "the week before".
func Before(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return "the " + Plural(n, "day") + " before"
	}
	return "the " + string(g) + " before"
}

// Reading is the state of a reading: a word for a symbol, and words for people.
// The zero value of [analytics.Revision] has none; nil is a window that is missing.
func Reading(r *analytics.Revision) (symbol, text string) {
	if r == nil {
		return "missing", "missing"
	}
	state := "provisional"
	if r.Settled {
		state = "settled"
	}
	if !r.Verified {
		return state + "-unverified", state + ", unverified"
	}
	return state, state
}

// Mark is one thing to know of a reading: a class of the style, a word, and what it
// means.
type Mark struct{ Class, Word, Note string }

// Marks are what to know of a reading, whether it settled first.
func Marks(r analytics.Revision) []Mark {
	out := []Mark{{"provisional", "provisional", "It can still change and will be read once more."}}
	if r.Settled {
		out = []Mark{{"settled", "settled", "It can no longer change and is not read again."}}
	}
	if !r.Verified {
		out = append(out, Mark{"unverified", "unverified", "Its numbers changed while its pages were read; it will be read again."})
	}
	return out
}
