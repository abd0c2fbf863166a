package budget

import "time"

// Finish returns when the last of n requests can be sent: now as far as the
// limit goes, then whenever a slot frees. slots are the times at which occupied
// slots free, soonest first; nothing is sent before cooldown ends. Sending
// itself is taken to last no time. A limit of 0 is unlimited.
func Finish(n, limit int, now time.Time, slots []time.Time, cooldown time.Time) time.Time {
	at := now
	if cooldown.After(at) {
		at = cooldown
	}
	if n <= 0 || limit <= 0 {
		return at
	}
	// Slots that free as time goes on, beginning with those free now. Each
	// request takes the next one and gives it back Span after.
	free := make([]time.Time, max(0, limit-len(slots)), limit)
	for i := range free {
		free[i] = now
	}
	free = append(free, slots[max(0, len(slots)-limit):]...)
	for i := range n {
		slot := &free[i%limit]
		if slot.After(at) {
			at = *slot
		}
		*slot = at.Add(Span)
	}
	return at
}
