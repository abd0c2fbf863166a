package budget

import (
	"context"
	"math"
	"slices"
	"time"
)

// readingAge is the age at which Available asks the log again.
const readingAge = time.Second

// reading is the budget's state in the log.
type reading struct {
	askedAt time.Time // zero: ask the log again
	free    int       // slots that were free for this process then
	sent    int       // requests of this process that the log knew of then, at least
}

// Available returns how many requests could be sent at once now, as far as this process knows:
// Limit less the requests of this process that are about to be charged and less the slots that stay
// occupied for longer than the Patience that is left; 0 during a cooldown that this process does not
// wait for. limited is false if Limit
// is 0 and the service has not closed the budget.
//
// It asks the log after a refusal or a release, and otherwise once a second of the budget's clock;
// in between it subtracts what this process sends. So slots that are freed, or taken by others, show
// up to a second later. Available reserves nothing.
func (b *Budget) Available(ctx context.Context) (free int, limited bool, err error) {
	now := b.opts.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := now.Sub(b.reading.askedAt); b.reading.askedAt.IsZero() || age < 0 || age >= readingAge {
		sent, cooled, soon, ours := b.sent, b.cooled, b.patience, b.leftOver(now)
		b.mu.Unlock()
		if err := b.confirm(ctx); err != nil {
			b.mu.Lock()
			return 0, true, err
		}
		taken, cooldown, err := b.log.Occupied(ctx, soon)
		b.mu.Lock()
		if err != nil {
			return 0, true, &logError{err}
		}
		// The rest of our group is taken in the log, and free for us.
		b.reading = reading{now, b.opts.Limit - taken + min(ours, b.leftOver(now)), sent}
		if b.cooled == cooled { // otherwise our own cooldown is newer
			b.cooldown = cooldown
		}
	}
	switch {
	case b.cooldown.After(b.opts.Now()) && (b.opts.Patience <= 0 || b.cooldown.Sub(b.opts.Now()) > shortWait):
		return 0, true, nil
	case b.opts.Limit <= 0:
		return 0, false, nil
	}
	return max(0, b.reading.free-(b.sent-b.reading.sent)-b.waiting), true, nil
}

// leftOver returns how many slots the last group has taken for requests not sent yet. The caller
// holds mu.
func (b *Budget) leftOver(now time.Time) int {
	if age := b.group.age(now); age < 0 || age >= Span {
		return 0 // the log may have freed them
	}
	return b.group.left
}

// Finish returns when the last of n requests can be sent: now as far as the
// limit goes, then whenever a slot frees. slots are the times at which occupied
// slots free, soonest first; nothing is sent before cooldown ends. Sending
// itself is taken to need no time. A limit of 0 is unlimited.
func Finish(n, limit int, now time.Time, slots []time.Time, cooldown time.Time) time.Time {
	start := now
	if cooldown.After(now) {
		start = cooldown
	}
	if n <= 0 || limit <= 0 {
		return start
	}
	// With more slots occupied than the limit, the soonest to free make no room.
	slots = slots[max(0, len(slots)-limit):]
	idle := limit - len(slots)
	if n <= idle {
		return start
	}
	// Requests that are sent now free their slots one span later, perhaps before occupied slots that
	// wait for an answer that never came.
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
	// From here on each slot frees once in a span.
	rounds := time.Duration(min((n-1)/limit, int(math.MaxInt64/Span)))
	return freed[(n-1)%limit].Add(rounds * Span)
}
