package budget

import (
	"context"
	"math"
	"slices"
	"time"
)

// roomAge is how long Room uses what the store said.
const roomAge = time.Second

// room is what Room knows.
type room struct {
	at       time.Time // when the store was asked; zero: ask it again
	free     int       // slots that were free then
	cooldown time.Time // when it ends or ended
	// known is how many charges of this process the store knew of then, at least;
	// begun is how many there were until now, pending how many of them are not over.
	known, begun, pending int
	changes               int // of the cooldown, by this process
}

// Room returns how many requests could be sent at once now, as far as this process
// knows: Limit less the requests of this process that are about to be charged and
// less the slots that stay occupied for longer than the Patience that is left; 0
// during a cooldown. limited is false if Limit is 0 and the service has not closed the
// budget.
//
// It asks the store after a refusal or a release, and otherwise once a second of
// the budget's clock; in between it subtracts what this process sends. So slots that
// are freed, or taken by others, show up to a second later. What it returns is not
// reserved.
func (b *Budget) Room(ctx context.Context) (free int, limited bool, err error) {
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := now.Sub(b.room.at); b.room.at.IsZero() || age < 0 || age >= roomAge {
		known, changes, soon, ours := b.room.begun-b.room.pending, b.room.changes, b.patience, b.leftOver(now)
		b.mu.Unlock()
		taken, cooldown, err := b.store.Occupied(ctx, b.cfg.Name, b.cfg.Now, soon, Span, b.cfg.Timeout)
		b.mu.Lock()
		if err != nil {
			return 0, true, &StoreError{err}
		}
		// What is left of our group is taken in the store, and free for us.
		b.room.at, b.room.free, b.room.known = now, b.cfg.Limit-taken+min(ours, b.leftOver(now)), known
		if b.room.changes == changes { // otherwise our own cooldown is newer
			b.room.cooldown = cooldown
		}
	}
	switch {
	case b.room.cooldown.After(b.cfg.Now()):
		return 0, true, nil
	case b.cfg.Limit <= 0:
		return 0, false, nil
	}
	return max(0, b.room.free-(b.room.begun-b.room.known)), true, nil
}

// beginCharge counts a request that is about to be charged. The caller calls end
// when the charge is over.
func (b *Budget) beginCharge() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.begun++
	b.room.pending++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.room.pending--
	}
}

// staleRoom makes Room ask the store next time.
func (b *Budget) staleRoom() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.at = time.Time{}
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
	// What is sent now frees its slots one span later, which may be before some
	// occupied slots free: those wait for an answer that never came.
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
