package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// commas writes n in groups of three: 1,234,567.
func commas[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	sign := ""
	if n < 0 {
		sign, text = "−", text[1:]
	}
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return sign + text
}

// short writes the mark of an axis: 850, 1.5k, 20M.
func short(n float64) string {
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

func plural[N int | int64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return commas(n) + " " + one + "s"
}

// percent writes a share with three digits at most; small ones keep a decimal.
func percent(part, whole int64) string {
	if whole == 0 {
		return "–"
	}
	return percentage(float64(part) / float64(whole) * 100)
}

func percentage(v float64) string {
	digits := 1
	if math.Abs(v) >= 99.95 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64) + "\u202f%"
}

// moment is a time as the page writes it. The zero value is no time at all.
type moment struct {
	ISO         string // for machines
	Date, Clock string // 2026-10-04, 10:17
	Age         string // 12 min ago, in 3 h
}

func momentOf(t, now time.Time) moment {
	if t.IsZero() {
		return moment{}
	}
	t = t.UTC()
	return moment{ISO: t.Format(time.RFC3339), Date: t.Format(time.DateOnly), Clock: t.Format("15:04"), Age: age(t.Sub(now))}
}

// age says how far away a time is: in the future, or ago.
func age(d time.Duration) string {
	const about = 30 * time.Second
	switch {
	case d > 0 && d < about:
		return "in a moment"
	case d.Abs() < about:
		return "just now"
	case d < 0:
		return rough(-d) + " ago"
	default:
		return "in " + rough(d)
	}
}

// rough says a duration of half a minute or more in one unit.
func rough(d time.Duration) string {
	switch {
	case d < 90*time.Minute:
		return fmt.Sprintf("%d\u00a0min", int(math.Max(1, d.Round(time.Minute).Minutes())))
	case d < 36*time.Hour:
		return fmt.Sprintf("%d\u00a0h", int(d.Round(time.Hour).Hours()))
	default:
		return strings.Replace(plural(int(d.Round(day)/day), "day"), " ", "\u00a0", 1)
	}
}

// took says how long a run lasted.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "–"
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

// span is a window as the page writes it.
type span struct {
	Text  string // for people: the last day is named, not the day after it
	Exact string // half-open, as everywhere else
	Note  string // what the exact form means
}

func spanOf(g analytics.Granularity, w analytics.Window) span {
	return span{Text: days(g, w), Exact: w.String(), Note: note(w)}
}

// note explains a half-open window.
func note(w analytics.Window) string {
	return fmt.Sprintf("UTC dates; the first day is %s, the last %s. The end, %s, is not part of it.", w.From, w.To-1, w.To)
}

func days(g analytics.Granularity, w analytics.Window) string {
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

// title names a granularity: Day, Week, Month, 28 days.
func title(g analytics.Granularity) string {
	if n := g.RollingDays(); n > 0 {
		return plural(n, "day")
	}
	return strings.ToUpper(string(g[:1])) + string(g[1:])
}
