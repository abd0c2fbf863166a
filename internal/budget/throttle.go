package budget

import (
	"context"
	"net/http"
	"strconv"
	"time"
)

const (
	// baseCooldown follows a 429 without Retry-After; it doubles up to maxCooldown.
	baseCooldown = 5 * time.Minute
	maxCooldown  = time.Hour
)

// cooldown returns when the cooldown ends or ended, and remembers its step.
func (b *Budget) cooldown(ctx context.Context) (time.Time, error) {
	until, step, err := b.store.Throttles(ctx, b.cfg.Name)
	if err != nil {
		return until, &StoreError{err}
	}
	b.mu.Lock()
	b.step = step
	b.mu.Unlock()
	return until, nil
}

func (b *Budget) backedOff() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.step > 0
}

// heed closes the budget after a 429 and forgets earlier ones after a success.
func (b *Budget) heed(ctx context.Context, resp *http.Response) error {
	throttled := resp.StatusCode == http.StatusTooManyRequests
	if !throttled && (resp.StatusCode >= http.StatusMultipleChoices || !b.backedOff()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	b.heeding.Lock()
	defer b.heeding.Unlock()
	until, err := b.cooldown(ctx)
	if err != nil {
		return err
	}
	if throttled {
		if resp.Header == nil {
			resp.Header = http.Header{}
		}
		return b.throttled(ctx, resp.Header, until)
	}
	if until.After(b.cfg.Now()) {
		return nil // it was in flight when the budget closed
	}
	return b.setCooldown(ctx, time.Time{}, 0)
}

// throttled closes the budget, which is closed until the given time already
// where several requests in flight are throttled: they are one step. The header
// then says for how long nothing is sent, to whoever plans the next request.
func (b *Budget) throttled(ctx context.Context, header http.Header, closed time.Time) error {
	b.mu.Lock()
	b.foreign++
	step := b.step
	b.mu.Unlock()
	now, wait := b.cfg.Now(), b.cfg.RetryAfter(header)
	if wait <= 0 && !closed.After(now) {
		wait = min(baseCooldown<<min(step, 4), maxCooldown)
		step++
	}
	if until := now.Add(wait); until.After(closed) {
		if err := b.setCooldown(ctx, until, max(step, 1)); err != nil {
			return err
		}
		closed = until
	}
	seconds := (closed.Sub(now) + time.Second - 1) / time.Second
	header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	return nil
}

func (b *Budget) setCooldown(ctx context.Context, until time.Time, step int) error {
	if err := b.store.Cooldown(ctx, b.cfg.Name, until, step); err != nil {
		return &StoreError{err}
	}
	b.mu.Lock()
	b.step, b.room.cooldown = step, until
	b.room.changes++
	b.mu.Unlock()
	return nil
}
