package htmlview

import (
	"fmt"
	"math"
	"strings"
	"time"
)

const day = 24 * time.Hour

// Moment is a time as a page writes it, in UTC. The zero value is no time at all.
type Moment struct {
	ISO         string // for machines
	Date, Clock string // 2026-10-04, 10:17
	Age         string // 12 min ago, in 3 h
}

// MomentOf is t as it is seen at now.
func MomentOf(t, now time.Time) Moment {
	if t.IsZero() {
		return Moment{}
	}
	t = t.UTC()
	return Moment{ISO: t.Format(time.RFC3339), Date: t.Format(time.DateOnly), Clock: t.Format("15:04"), Age: age(t.Sub(now))}
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
		return strings.Replace(Plural(int(d.Round(day)/day), "day"), " ", "\u00a0", 1)
	}
}

// Took says how long something lasted.
func Took(d time.Duration) string {
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
