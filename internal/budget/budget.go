// Package budget keeps requests inside an hourly limit: an http.RoundTripper
// that writes each request to a durable log before it is sent and frees its
// slot one hour after the response.
//
// Invariant: in no span of one hour are more than Limit requests sent by all
// processes that share the store, whatever is killed in between; and while a
// slot is free no request waits for it. A 429 closes the budget for everybody.
//
// It does not retry and does not decide what is worth a request.
package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// Span is the length of the sliding budget.
	Span = time.Hour
	// Cooldown after a 429 without Retry-After; it doubles up to MaxBackoff.
	baseCooldown = 5 * time.Minute
	maxBackoff   = time.Hour
	// storeTimeout bounds a write that must not be cut by the request's own context.
	storeTimeout = 15 * time.Second
)

// Store is the durable request log (package state).
type Store interface {
	// Charge enters a request at now unless limit slots are occupied or a
	// cooldown is on; id 0 means not entered, and free is when to ask again.
	// A slot is occupied until span after its response, which is taken to have
	// come after unanswered where it was never entered.
	Charge(ctx context.Context, budget string, limit int, now time.Time, span, unanswered time.Duration, answered map[int64]time.Time) (id int64, free time.Time, err error)
	// Answered enters when responses came.
	Answered(ctx context.Context, answered map[int64]time.Time) error
	// Cooldown closes the budget until a time, or opens it (zero time).
	Cooldown(ctx context.Context, budget string, until time.Time, step int) error
	// Throttles returns the step of the cooldown and when it ends or ended.
	Throttles(ctx context.Context, budget string) (until time.Time, step int, err error)
}

// Config says what is limited.
type Config struct {
	// Name of the budget in the store; all processes with that name share it.
	Name string
	// Limit is requests per hour; 0 is unlimited (a 429 still closes it).
	Limit int
	// MinInterval is the least time between two requests of this process.
	MinInterval time.Duration
	// Timeout of one request: how long one that was never answered can have lasted.
	Timeout time.Duration
	// InFlight is the most requests at once; a request is in flight until its
	// response's body is closed.
	InFlight int
	// RetryAfter reads a 429's Retry-After; 0 if there is none worth heeding.
	RetryAfter func(http.Header) time.Duration
	Now        func() time.Time
}

// ErrExhausted is what every ExhaustedError is.
var ErrExhausted = errors.New("request budget used up")

// ExhaustedError says that no request may be sent before Until. Nothing was sent.
type ExhaustedError struct {
	Budget string
	Limit  int
	Until  time.Time
	// Throttled: the service said 429, rather than our own log being full.
	Throttled bool
}

func (e *ExhaustedError) Error() string {
	if e.Throttled {
		return fmt.Sprintf("%s budget: the service throttled us (429); next request at %s", e.Budget, e.Until.UTC().Format(time.RFC3339))
	}
	return fmt.Sprintf("%s budget: %d requests an hour are used up; next request at %s", e.Budget, e.Limit, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrExhausted) true.
func (e *ExhaustedError) Unwrap() error { return ErrExhausted }

// RetryAt returns Until; the client finds it to know that retrying is useless.
func (e *ExhaustedError) RetryAt() time.Time { return e.Until }

// StoreError says that the request log could not be written, so that nothing
// was sent, or that what was sent may not be noted as answered.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "request log: " + e.Err.Error() }

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// RetryAt returns the zero time: trying again is useless until someone mends it.
func (e *StoreError) RetryAt() time.Time { return time.Time{} }

// Budget is one budget of this process.
type Budget struct {
	cfg   Config
	store Store
	base  http.RoundTripper
	slots chan struct{}

	mu       sync.Mutex
	answered map[int64]time.Time // responses the store does not know yet
	last     time.Time           // send time of the newest request
	closed   time.Time           // newest cooldown known
	step     int
	sent     int
	throttle int
}

// New returns the budget; base sends what fits.
func New(ctx context.Context, cfg Config, store Store, base http.RoundTripper) (*Budget, error) {
	until, step, err := store.Throttles(ctx, cfg.Name)
	if err != nil {
		return nil, &StoreError{err}
	}
	return &Budget{cfg: cfg, store: store, base: base, slots: make(chan struct{}, max(cfg.InFlight, 1)), answered: map[int64]time.Time{}, closed: until, step: step}, nil
}

// Sent returns how many requests this process sent, and how many of them were
// throttled by the service although our own log had room (foreign use).
func (b *Budget) Sent() (requests, foreign int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.throttle
}

// RoundTrip charges the request, waits for MinInterval, and sends it. With the
// budget used up it sends nothing and returns an *ExhaustedError.
func (b *Budget) RoundTrip(req *http.Request) (*http.Response, error) {
	select {
	case b.slots <- struct{}{}:
	case <-req.Context().Done():
		return nil, errors.Join(req.Context().Err(), closeBody(req))
	}
	release := sync.OnceFunc(func() { <-b.slots })
	resp, err := b.send(req)
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &body{resp.Body, release}
	return resp, nil
}

// body frees the place in flight when it is closed.
type body struct {
	io.ReadCloser
	release func()
}

func (b *body) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

func (b *Budget) send(req *http.Request) (*http.Response, error) {
	id, err := b.charge(req.Context())
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	resp, err := b.base.RoundTrip(req)
	b.answer(id)
	if err != nil {
		return nil, err
	}
	if err := b.heed(req.Context(), resp); err != nil {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}

// charge makes the request durable in the log before anything is sent. A
// process killed from here on has used the slot.
func (b *Budget) charge(ctx context.Context) (int64, error) {
	if err := b.pace(ctx); err != nil {
		return 0, err
	}
	if b.cfg.Limit == 0 {
		return 0, b.chargeUnlimited()
	}
	now := b.cfg.Now()
	answered := b.takeAnswered()
	id, free, err := b.store.Charge(ctx, b.cfg.Name, b.cfg.Limit, now, Span, b.cfg.Timeout, answered)
	if err != nil {
		b.putBack(answered)
		return 0, &StoreError{err}
	}
	if id == 0 {
		return 0, b.exhausted(ctx, free)
	}
	b.mu.Lock()
	b.sent++
	b.mu.Unlock()
	return id, nil
}

// chargeUnlimited needs no log: only a cooldown can close the budget.
func (b *Budget) chargeUnlimited() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed.After(b.cfg.Now()) {
		return &ExhaustedError{Budget: b.cfg.Name, Until: b.closed, Throttled: true}
	}
	b.sent++
	return nil
}

func (b *Budget) exhausted(ctx context.Context, free time.Time) error {
	closed, _, err := b.store.Throttles(ctx, b.cfg.Name)
	if err != nil {
		return &StoreError{err}
	}
	return &ExhaustedError{Budget: b.cfg.Name, Limit: b.cfg.Limit, Until: free, Throttled: closed.Equal(free)}
}

// pace hands out send times that lie MinInterval apart.
func (b *Budget) pace(ctx context.Context) error {
	if b.cfg.MinInterval <= 0 {
		return nil
	}
	b.mu.Lock()
	now := b.cfg.Now()
	at := b.last.Add(b.cfg.MinInterval)
	// A send time further off than one interval per waiter means the clock was set back.
	if at.Before(now) || at.Sub(now) > maxBackoff {
		at = now
	}
	b.last = at
	b.mu.Unlock()
	if at.Equal(now) {
		return nil
	}
	timer := time.NewTimer(at.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (b *Budget) answer(id int64) {
	if id == 0 {
		return
	}
	b.mu.Lock()
	b.answered[id] = b.cfg.Now()
	b.mu.Unlock()
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
	for id, at := range answered {
		b.answered[id] = at
	}
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

// heed closes the budget after a 429 and forgets earlier ones after a success.
func (b *Budget) heed(ctx context.Context, resp *http.Response) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case resp.StatusCode == http.StatusTooManyRequests:
		return b.throttled(ctx, resp.Header)
	case resp.StatusCode < http.StatusMultipleChoices && b.step > 0 && !b.closed.After(b.cfg.Now()):
		return b.setCooldown(ctx, time.Time{}, 0)
	}
	return nil
}

func (b *Budget) throttled(ctx context.Context, header http.Header) error {
	b.throttle++
	now := b.cfg.Now()
	wait := b.cfg.RetryAfter(header)
	asked := wait > 0
	if !asked && b.closed.After(now) {
		return nil // a request that was in flight when the budget closed
	}
	step := b.step
	if !asked {
		wait = min(baseCooldown<<min(step, 4), maxBackoff)
		step++
	}
	until := now.Add(wait)
	if until.Before(b.closed) {
		return nil
	}
	return b.setCooldown(ctx, until, max(step, 1))
}

func (b *Budget) setCooldown(ctx context.Context, until time.Time, step int) error {
	if err := b.store.Cooldown(ctx, b.cfg.Name, until, step); err != nil {
		return &StoreError{err}
	}
	b.closed, b.step = until, step
	return nil
}
