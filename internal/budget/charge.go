package budget

import (
	"context"
	"maps"
	"time"
)

// charge makes the request durable in the log before anything is sent, and
// returns its entry and when that was made. A process killed from here on has
// used the slot.
func (b *Budget) charge(ctx context.Context) (id int64, at time.Time, err error) {
	if err := b.pace(ctx); err != nil {
		return 0, at, err
	}
	until, err := b.cooldown(ctx)
	if err != nil {
		return 0, at, err
	}
	if b.cfg.Limit > 0 || until.After(b.cfg.Now()) {
		if id, at, err = b.enter(ctx); err != nil {
			return 0, at, err
		}
	}
	b.mu.Lock()
	b.sent++
	b.mu.Unlock()
	return id, at, nil
}

// enter asks the store for a slot. Without a limit it only has the last word on
// a cooldown, which it shortens where the clock was set back.
func (b *Budget) enter(ctx context.Context) (id int64, at time.Time, err error) {
	now := func() time.Time {
		at = b.cfg.Now()
		return at
	}
	answered := b.takeAnswered()
	id, free, err := b.store.Charge(ctx, b.cfg.Name, b.cfg.Limit, now, Span, b.cfg.Timeout, answered)
	if err != nil {
		b.putBack(answered)
		return 0, at, &StoreError{err}
	}
	if !free.IsZero() {
		return 0, at, b.exhausted(ctx, free)
	}
	return id, at, nil
}

func (b *Budget) exhausted(ctx context.Context, free time.Time) error {
	until, err := b.cooldown(ctx)
	if err != nil {
		return err
	}
	return &ExhaustedError{Budget: b.cfg.Name, Limit: b.cfg.Limit, Until: free, Throttled: until.Equal(free)}
}

// pace hands out send times that lie MinInterval apart.
func (b *Budget) pace(ctx context.Context) error {
	if b.cfg.MinInterval <= 0 {
		return nil
	}
	// The monotonic clock of time.Now, not that of the log: no clock set back or
	// forward changes what is waited for.
	b.mu.Lock()
	now := time.Now()
	wait := max(0, b.next.Sub(now))
	b.next = now.Add(wait + b.cfg.MinInterval)
	b.mu.Unlock()
	if wait == 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Budget) answer(id int64, at time.Time) {
	if id == 0 {
		return
	}
	b.mu.Lock()
	b.answered[id] = at
	b.mu.Unlock()
}

// gaveUp notes a request without response. It can be under way still, so the
// log goes on counting it as unanswered, unless its time is up.
func (b *Budget) gaveUp(id int64, at time.Time) {
	if now := b.cfg.Now(); now.Sub(at) >= b.cfg.Timeout {
		b.answer(id, now)
	}
}

func (b *Budget) takeAnswered() map[int64]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	taken := b.answered
	b.answered = map[int64]time.Time{}
	return taken
}

func (b *Budget) putBack(answered map[int64]time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.Copy(b.answered, answered)
}

// Flush enters the responses the store does not know yet; without it their
// slots are held as if they had never been answered.
func (b *Budget) Flush(ctx context.Context) error {
	answered := b.takeAnswered()
	if len(answered) == 0 {
		return nil
	}
	if err := b.store.Answered(ctx, answered); err != nil {
		b.putBack(answered)
		return &StoreError{err}
	}
	return nil
}
