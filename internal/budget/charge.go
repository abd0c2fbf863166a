package budget

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// entry is one request in the log.
type entry struct {
	id   int64     // 0: the store does not know it yet
	sent time.Time // when it was charged
	done time.Time // when the response came, zero: none did
	void bool      // certainly nothing was sent
}

// charge makes the request durable in the log before anything is sent. A process
// killed from here on has used the slot. Without a limit it is only noted.
func (b *Budget) charge(ctx context.Context) (e *entry, err error) {
	defer b.beginCharge()()
	if err := b.pace(ctx); err != nil {
		return nil, err
	}
	until, err := b.cooldown(ctx)
	if err != nil {
		return nil, err
	}
	if b.cfg.Limit > 0 || until.After(b.cfg.Now()) {
		e, err = b.enter(ctx)
	}
	if err == nil && b.cfg.Limit <= 0 {
		e, err = b.note(ctx)
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.sent++
	b.mu.Unlock()
	return e, nil
}

// enter asks the store for a slot, and waits for one as far as Patience goes.
// Without a limit the store only has the last word on a cooldown, which it
// shortens where the clock was set back.
func (b *Budget) enter(ctx context.Context) (*entry, error) {
	for {
		e := new(entry)
		now := func() time.Time {
			e.sent = b.cfg.Now()
			return e.sent
		}
		answered := b.takeAnswered()
		id, free, err := b.store.Charge(ctx, b.cfg.Name, b.cfg.Limit, now, Span, b.cfg.Timeout, answered)
		if err != nil {
			b.putBack(answered)
			return nil, &StoreError{err}
		}
		if free.IsZero() {
			e.id = id
			return e, nil
		}
		b.askAgain()
		refusal := b.exhausted(ctx, free)
		if wait, ok := b.patient(refusal); !ok {
			return nil, refusal
		} else if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

func (b *Budget) exhausted(ctx context.Context, free time.Time) error {
	until, err := b.cooldown(ctx)
	if err != nil {
		return err
	}
	return &ExhaustedError{Budget: b.cfg.Name, Limit: b.cfg.Limit, Until: free, Throttled: until.Equal(free)}
}

// patient returns how long to wait for the slot that a refusal names, and takes
// that from what is left of Patience; not ok where that does not reach so far. It
// goes by the monotonic clock, as pace does.
func (b *Budget) patient(refusal error) (wait time.Duration, ok bool) {
	e, ok := errors.AsType[*ExhaustedError](refusal)
	if !ok || e.Throttled || b.cfg.Patience <= 0 {
		return 0, false
	}
	wait = max(0, e.Until.Sub(b.cfg.Now()))
	b.mu.Lock()
	defer b.mu.Unlock()
	begin := time.Now()
	end := begin.Add(wait)
	if b.waiting.After(begin) { // somebody waits already
		begin = b.waiting
	}
	more := max(0, end.Sub(begin))
	if more > b.patience {
		return 0, false
	}
	b.patience -= more
	b.waiting = begin.Add(more)
	return wait, true
}

// Renew gives the budget its whole Patience again: a run begins.
func (b *Budget) Renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patience = b.cfg.Patience
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
	return clock.Sleep(ctx, wait)
}

// answer notes a response, whose time the store learns later.
func (b *Budget) answer(e *entry, at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e.done = at
	if e.id != 0 {
		b.answered[e.id] = at
	}
}

// gaveUp notes a request without response. It can be under way still, so the
// log goes on counting it as unanswered, unless its time is up.
func (b *Budget) gaveUp(e *entry) {
	if now := b.cfg.Now(); now.Sub(e.sent) >= b.cfg.Timeout {
		b.answer(e, now)
	}
}

// release takes a request that was never sent out of the log again. Where the
// store fails its slot stays taken, as after a kill.
func (b *Budget) release(ctx context.Context, e *entry) error {
	b.mu.Lock()
	b.sent--
	e.void = true
	id := e.id
	b.mu.Unlock()
	if id == 0 {
		return nil // it will not be written, or freed by whoever is writing it
	}
	return b.free(ctx, id)
}

func (b *Budget) free(ctx context.Context, id int64) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := b.store.Release(ctx, id); err != nil {
		return &StoreError{err}
	}
	b.askAgain()
	return nil
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

// Flush enters the requests and responses the store does not know yet; without it
// the slots of the latter are held as if they had never been answered.
func (b *Budget) Flush(ctx context.Context) error {
	if err := b.writeNotes(ctx); err != nil {
		return err
	}
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
