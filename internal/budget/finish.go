package budget

import (
	"math"
	"slices"
	"time"
)

// Finish returns when the last of n requests can be sent: now as far as the
// limit goes, then whenever a slot frees. slots are the times at which occupied
// slots free, soonest first; nothing is sent before cooldown ends. Sending
// itself is taken to last no time. A limit of 0 is unlimited.
func Finish(n, limit int, now time.Time, slots []time.Time, cooldown time.Time) time.Time {
	start := now
	if cooldown.After(now) {
		start = cooldown
	}
	if n <= 0 || limit <= 0 {
		return start
	}
	// With more slots occupied than the limit, the soonest free nothing.
	slots = slots[max(0, len(slots)-limit):]
	idle := limit - len(slots)
	if n <= idle {
		return start
	}
	// What is sent now frees its slots one span later: before some of the
	// occupied ones do, maybe, as those wait for an answer that never came.
	freed := slices.Repeat([]time.Time{start.Add(Span)}, idle)
	n -= idle
	at := start
	for ; n > 0 && len(slots) > 0; n-- {
		from := &slots
		if len(freed) > 0 && freed[0].Before(slots[0]) {
			from = &freed
		}
		if (*from)[0].After(at) {
			at = (*from)[0]
		}
		*from = (*from)[1:]
		freed = append(freed, at.Add(Span))
	}
	if n == 0 {
		return at
	}
	// From here on each slot comes round once in a span.
	rounds := time.Duration(min((n-1)/limit, int(math.MaxInt64/Span)))
	return freed[(n-1)%limit].Add(rounds * Span)
}
