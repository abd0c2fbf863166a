package prompts

import (
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// day is a date in a template, printed as 2026-01-31. It has nothing to call.
type day struct{ date analytics.Date }

func dayOf(t time.Time) day { return day{analytics.DateOf(t)} }

func (d day) String() string     { return d.date.String() }
func (d day) instant() time.Time { return d.date.Time() }

// moment is a time in a template, in UTC, printed as 2026-01-31T09:00:00Z.
type moment struct{ time time.Time }

func (m moment) String() string     { return m.time.Format(time.RFC3339) }
func (m moment) instant() time.Time { return m.time }

// instant is what can be formatted.
type instant interface{ instant() time.Time }

func parseDay(s string) (day, error) {
	d, err := analytics.ParseDate(s)
	if err != nil {
		return day{}, &callError{err}
	}
	return day{d}, nil
}

func addDays(n int, d day) (day, error) {
	const most = 40_000 // days, a century and more
	if n < -most || n > most {
		return day{}, callf("addDays %d: want from %d to %d", n, -most, most)
	}
	return day{d.date + analytics.Date(n)}, nil
}

func format(layout string, v instant) string { return v.instant().Format(layout) }
