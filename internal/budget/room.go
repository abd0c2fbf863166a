package budget

import (
	"context"
	"time"
)

// roomAge is how old what Room goes by becomes.
const roomAge = time.Second

// room is what Room goes by.
type room struct {
	at       time.Time // when the store was asked; zero: ask it again
	free     int       // slots that were free then
	cooldown time.Time // when it ends or ended
	// told is how many charges of this process the store knew of then, at least;
	// begun how many there were until now, coming how many of them are not over.
	told, begun, coming int
	changes             int // of the cooldown, by this process
}

// Room returns how many requests could be sent at once now, as far as this process
// knows: Limit less the slots that are occupied, for longer than what is left of
// Patience, and the requests of this process that are about to be charged; 0 while
// a cooldown is on. Not limited: Limit is 0,
// and the service has not closed the budget.
//
// It asks the store after a refusal or a release, and else once a second of the
// budget's clock; in between it subtracts what this process sends. So slots that
// free, and those that others take, show a second later at most. What it returns
// is not reserved.
func (b *Budget) Room(ctx context.Context) (free int, limited bool, err error) {
	now := b.cfg.Now()
	b.mu.Lock()
	defer b.mu.Unlock()
	if age := now.Sub(b.room.at); b.room.at.IsZero() || age < 0 || age >= roomAge {
		told, changes, soon := b.room.begun-b.room.coming, b.room.changes, b.patience
		b.mu.Unlock()
		taken, cooldown, err := b.store.Occupied(ctx, b.cfg.Name, b.cfg.Now, soon, Span, b.cfg.Timeout)
		b.mu.Lock()
		if err != nil {
			return 0, true, &StoreError{err}
		}
		b.room.at, b.room.free, b.room.told = now, b.cfg.Limit-taken, told
		if b.room.changes == changes { // else what we know is newer
			b.room.cooldown = cooldown
		}
	}
	switch {
	case b.room.cooldown.After(b.cfg.Now()):
		return 0, true, nil
	case b.cfg.Limit <= 0:
		return 0, false, nil
	}
	return max(0, b.room.free-(b.room.begun-b.room.told)), true, nil
}

// beginCharge counts a request that is about to be charged, and returns what to
// call when that is over.
func (b *Budget) beginCharge() (end func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.begun++
	b.room.coming++
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.room.coming--
	}
}

// askAgain lets Room ask the store: there can be more than it knows, or less.
func (b *Budget) askAgain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.room.at = time.Time{}
}
