package jobs

import (
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

// firings returns, of the firings after base, the newest up to now (zero: none)
// and the first after it. Those before the newest are missed for good.
func firings(c schedule.Cron, base, now time.Time) (due, next time.Time) {
	first := c.Next(base)
	if first.IsZero() || first.After(now) {
		return time.Time{}, first
	}
	if strings.HasPrefix(c.String(), "@every ") {
		every := c.Next(first).Sub(first)
		due = first.Add(now.Sub(first) / every * every)
		return due, due.Add(every)
	}
	// Back from now in growing steps, not forth from base: that can be years of minutes.
	from := base
	for back := time.Hour; now.Add(-back).After(base); back *= 2 {
		if !c.Next(now.Add(-back)).After(now) {
			from = now.Add(-back)
			break
		}
	}
	for next = c.Next(from); !next.IsZero() && !next.After(now); next = c.Next(next) {
		due = next
	}
	return due, next
}

// firing returns the firing of a recurring prompt that is to be caught up (zero:
// none) and the next one.
func (v *view) firing(p prompts.Prompt) (due, next time.Time) {
	base := v.at
	if seen, ok := v.recurring[p.ID]; ok && seen.Schedule == p.Schedule.String() && seen.Since.Before(base) {
		base = seen.Since
	}
	if job, ok := v.of(p.ID); ok && job.Firing.After(base) {
		base = job.Firing
	}
	if before := p.NotBefore.Add(-time.Microsecond); before.After(base) {
		base = before
	}
	due, next = firings(p.Schedule, base, v.at)
	if expired(p, next) {
		next = time.Time{}
	}
	return due, next
}

// expired reports whether a prompt may not begin any more at a time.
func expired(p prompts.Prompt, at time.Time) bool {
	return !p.Expires.IsZero() && !at.Before(p.Expires)
}
