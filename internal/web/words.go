package web

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/view"
)

// axisMark writes the mark of an axis: 850, 1.5k, 20M.
func axisMark(n float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return strconv.FormatFloat(math.Round(n/unit.size*100)/100, 'f', -1, 64) + unit.name
		}
	}
	return strconv.FormatFloat(n, 'f', -1, 64)
}

// moment is a time on a page, in UTC.
type moment struct {
	ISO         string // for machines
	Date, Clock string // 2026-10-04, 10:17
	Age         string // 12 min ago, in 3 h
}

// momentOf returns t as seen at now; nil if it is zero.
func momentOf(t, now time.Time) *moment {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &moment{t.Format(time.RFC3339), t.Format(time.DateOnly), t.Format("15:04"), age(t.Sub(now))}
}

func age(d time.Duration) string {
	const about = 30 * time.Second
	switch {
	case d > 0 && d < about:
		return "in a moment"
	case d.Abs() < about:
		return "just now"
	}
	var text string
	switch far := d.Abs(); {
	case far < 90*time.Minute:
		text = fmt.Sprintf("%d\u00a0min", int(math.Max(1, far.Round(time.Minute).Minutes())))
	case far < 36*time.Hour:
		text = fmt.Sprintf("%d\u00a0h", int(far.Round(time.Hour).Hours()))
	default:
		text = strings.Replace(format.Plural(int(far.Round(day)/day), "day"), " ", "\u00a0", 1)
	}
	if d < 0 {
		return text + " ago"
	}
	return "in " + text
}

// took writes how long something took.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
	case d < 100*time.Millisecond:
		return "under 0.1\u00a0s"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f\u00a0s", d.Seconds())
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f\u00a0s", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%d\u00a0min\u00a0%d\u00a0s", d/time.Minute, d%time.Minute/time.Second)
	default:
		return fmt.Sprintf("%d\u00a0h\u00a0%d\u00a0min", d/time.Hour, d%time.Hour/time.Minute)
	}
}

// explained is a text and its explanation.
type explained struct{ Text, Note string }

// spanOf returns the days of a window, and its exact dates.
func spanOf(g analytics.Granularity, w analytics.Window) explained {
	return explained{view.Days(g, w), fmt.Sprintf("First day %s, last day %s, in UTC.", w.From, w.To-1)}
}

// tick names a window below an axis: a month by its name, a rolling window by its last day, any
// other by its first day.
func tick(g analytics.Granularity, w analytics.Window) string {
	switch {
	case g == analytics.Month:
		return w.From.Time().Format("Jan ’06")
	case g.RollingDays() > 0:
		return (w.To - 1).Time().Format("2 Jan")
	}
	return w.From.Time().Format("2 Jan")
}

// title names a granularity: Day, Week, Month, 28 days.
func title(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return format.Plural(n, "day")
	}
	return strings.ToUpper(string(g[:1])) + string(g[1:])
}

// previous names the window before one of g: "the previous week".
func previous(g analytics.Granularity) string { return "the previous " + spanName(g) }

// spanName names the length of a window inside a sentence: week, 28 days.
func spanName(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return format.Plural(n, "day")
	}
	return string(g)
}

// windowState names the state of a reading: a class of the style sheet, and words. Nil is a missing
// window.
func windowState(r *analytics.Revision) (class, text string) {
	switch {
	case r == nil:
		return "missing", "missing"
	case !r.Verified:
		return r.State() + "-unverified", r.StateText()
	}
	return r.State(), r.StateText()
}

// marks explain the states of a window; each is also a class of the style sheet.
var marks = map[string]string{
	"settled":     "Can no longer change and is not read again.",
	"provisional": "Can still change and will be read once more.",
	"unverified":  "Changed while its pages were read; will be read again.",
	"totals":      "Only the totals are known so far; the rows are read later.",
	"missing":     "Complete, but not read.",
}

// runOutcome is how a run ended: a word, the same as a verb, and its tone.
type runOutcome struct{ Word, Verb, Tone string }

var runOutcomes = map[string]runOutcome{
	"success":     {"success", "succeeded", "ok"},
	"deferred":    {"deferred", "stopped at the request budget", "wait"},
	"failed":      {"failed", "failed", "bad"},
	"interrupted": {"interrupted", "was interrupted", "wait"},
	"":            {"running, or killed", "is running, or was killed", "wait"},
}

func outcomeOf(r analytics.Run) runOutcome {
	if o, ok := runOutcomes[r.Outcome]; ok {
		return o
	}
	return runOutcome{Word: r.Outcome, Verb: r.Outcome}
}
