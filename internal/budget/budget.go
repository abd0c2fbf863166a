// Package budget keeps requests inside an hourly limit. It is an http.RoundTripper
// that writes each request to a durable log before sending it, and frees its slot
// one hour after the response, or at once where certainly nothing was sent.
//
// Invariant: in any hour at most Limit requests reach the service from all
// processes that share the store, whatever is killed in between; and no request is
// refused while a slot is free. A 429 closes the budget for all of them. Without a
// limit, requests are written too, for a limit that is set later.
//
// A durable write for each request would cost more than the request. So with a limit
// of 200 or more, or none, a request enters a group of those that may follow it within
// a second, and they are sent without a write. The first half of the invariant still
// holds: the store has the whole group as taken before the first of it is sent, and as
// sent at the end of that second. The second half is weaker: slots free when the last
// response of their group is an hour old; a process that is killed leaves its group as
// if all of it had been sent and none answered. What bounds that is the size of a group:
// at most a hundredth of the limit, a tenth of the free slots, and four times what the
// process sent of its group before. What is not sent within the second, or before a
// refusal, an unreachable service or Flush, is given back.
//
// It does not retry and does not decide which requests are worth sending.
package budget

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// Span is the length of the sliding budget.
	Span = time.Hour
	// storeTimeout bounds a write that must not be cut by the request's own context.
	storeTimeout = 15 * time.Second
	// baseCooldown follows a 429 without Retry-After; it doubles up to maxCooldown.
	baseCooldown = 5 * time.Minute
	maxCooldown  = time.Hour
)

// Store is the durable request log (package state).
type Store interface {
	// Charge enters up to most requests as one entry, unless limit slots are occupied or
	// a cooldown is on; id 0 means not entered, and free is when to ask again. The first
	// is sent at once, the others within life. A slot is occupied until span after the
	// last response of its entry. An entry whose last response was never entered counts
	// as answered after unanswered. now is called while no other process can charge. A
	// limit of 0 is none. The cost does not depend on the length of the log.
	Charge(ctx context.Context, budget string, limit, most int, now func() time.Time, life, span, unanswered time.Duration,
		answered map[int64]time.Time) (id int64, slots int, free time.Time, err error)
	// Release frees n slots of an entry whose requests were never sent.
	Release(ctx context.Context, id int64, n int) error
	// Occupied returns how many slots are occupied for longer than soon, and when the
	// cooldown ends or ended.
	Occupied(ctx context.Context, budget string, now func() time.Time, soon, span, unanswered time.Duration) (
		taken int, cooldown time.Time, err error)
	// Answered enters when the last responses to entries came.
	Answered(ctx context.Context, answered map[int64]time.Time) error
	// Cooldown closes the budget from at until a time, or opens it (zero time).
	Cooldown(ctx context.Context, budget string, at, until time.Time, step int) error
	// Throttles returns when the cooldown ends or ended, and its step.
	Throttles(ctx context.Context, budget string) (until time.Time, step int, err error)
}

// Config configures a Budget.
type Config struct {
	// Name of the budget in the store; all processes with that name share it.
	Name string
	// Limit is requests per hour; 0 is unlimited (a 429 still closes it).
	Limit int
	// MinInterval is the least time between two requests of this process. A request
	// waits for it before it is charged.
	MinInterval time.Duration
	// Timeout bounds one request: one that was never answered can have lasted that
	// long. After it a failed request can no longer reach the service.
	Timeout time.Duration
	// InFlight is the most requests at once; a request is in flight until its
	// response's body is closed.
	InFlight int
	// Patience is how long this process waits in total, until Renew, for slots that
	// free soon, instead of refusing requests; it never waits for a cooldown. Waits
	// at the same time count once. A run that begins exactly an hour after the one
	// before it starts a moment before the slots of that one are free.
	Patience time.Duration
	// RetryAfter reads a 429's Retry-After; 0 if there is none worth waiting for.
	RetryAfter func(http.Header) time.Duration
	// Now is the clock for times that are stored.
	Now func() time.Time
}

// Budget is one budget of this process.
type Budget struct {
	cfg    Config
	store  Store
	base   http.RoundTripper
	places chan struct{} // in flight

	// charging lets one request at a time use the group or take the next one.
	charging chan struct{}
	// throttling lets one response at a time change the cooldown.
	throttling sync.Mutex

	mu       sync.Mutex
	group    *group              // the last one that was charged
	answered map[int64]time.Time // last responses the store does not know yet, by entry
	next     time.Time           // earliest send time of the next request
	step     int                 // of the back-off, as the store last had it
	sent     int
	foreign  int
	patience time.Duration // what is left of it
	waiting  time.Time     // until when patience has been taken
	room     room
}

// New returns the budget; base sends the requests that fit.
func New(cfg Config, store Store, base http.RoundTripper) *Budget {
	return &Budget{
		cfg: cfg, store: store, base: base,
		places: make(chan struct{}, max(cfg.InFlight, 1)), charging: make(chan struct{}, 1),
		group: new(group), answered: map[int64]time.Time{}, patience: cfg.Patience,
	}
}

// Sent returns how many requests this process sent or is sending, and how many of
// them the service throttled although our own log had room (foreign use).
func (b *Budget) Sent() (requests, foreign int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.foreign
}

// RoundTrip waits for a place in flight and for MinInterval, charges the request
// and sends it. Errors of its own are *ExhaustedError, when the budget is used up,
// and *StoreError; in both cases nothing was sent, with two exceptions: for a read, a
// *StoreError can also follow a 429 or a success whose effect on the cooldown could
// not be stored; and it can accompany the error of an unsent request whose slot
// could not be freed. A 429 comes back with a Retry-After of as many seconds as the
// budget is closed.
func (b *Budget) RoundTrip(req *http.Request) (resp *http.Response, err error) {
	ctx := req.Context()
	select {
	case b.places <- struct{}{}:
	case <-ctx.Done():
		return nil, errors.Join(context.Cause(ctx), closeBody(req))
	}
	leave := sync.OnceFunc(func() { <-b.places })
	defer func() {
		if err != nil {
			leave()
		}
	}()

	// Charge: the request is durable in the log before anything is sent. A process
	// killed from here on has used the slot, because nobody knows whether the request
	// was sent: it stays charged as one that was never answered.
	e, err := b.charge(ctx)
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}

	// Send.
	var conn connection
	resp, err = b.base.RoundTrip(req.WithContext(conn.trace(ctx)))
	switch {
	case err != nil && conn.never():
		// Nothing was sent, so the slot is free again. If the store fails, it stays
		// taken, as after a kill.
		return nil, errors.Join(err, b.release(ctx, e))
	case err != nil:
		// The request may still be under way, so the log counts it as unanswered,
		// unless its time is up.
		if now := b.cfg.Now(); now.Sub(e.sent) >= b.cfg.Timeout {
			b.answer(e, now)
		}
		return nil, err
	}

	// Enter the answer. The store learns of it with the next charge or Flush; a kill
	// before that holds the slot for longer, as if the answer had never come.
	b.answer(e, b.cfg.Now())

	// Throttle. The answer of a write tells whether it took effect, so nothing is
	// worth losing it: a store that fails refuses the next request anyway.
	if err := b.throttle(ctx, resp); err != nil && isRead(req) {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = &body{resp.Body, leave}
	return resp, nil
}

// charge waits for MinInterval and takes a slot for the request. If the limit is used up
// it waits for one as far as Patience goes.
func (b *Budget) charge(ctx context.Context) (*entry, error) {
	defer b.beginCharge()()
	if b.cfg.MinInterval > 0 {
		// By the monotonic clock of time.Now, not that of the log: setting a clock
		// does not change how long a request waits.
		b.mu.Lock()
		now := time.Now()
		wait := max(0, b.next.Sub(now))
		b.next = now.Add(wait + b.cfg.MinInterval)
		b.mu.Unlock()
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
	for {
		e, free, err := b.take(ctx)
		if err != nil || free.IsZero() {
			return e, err
		}
		b.staleRoom()
		cooldown, err := b.cooldown(ctx)
		if err != nil {
			return nil, err
		}
		refusal := &ExhaustedError{Budget: b.cfg.Name, Limit: b.cfg.Limit, Until: free, Throttled: cooldown.Equal(free)}
		wait, ok := b.takePatience(refusal)
		if !ok {
			return nil, refusal
		}
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// takePatience returns how long to wait for the slot that a refusal names, and
// takes that from what is left of Patience; not ok if that is not enough. It goes by
// the monotonic clock, as MinInterval does.
func (b *Budget) takePatience(refusal *ExhaustedError) (wait time.Duration, ok bool) {
	if refusal.Throttled || b.cfg.Patience <= 0 {
		return 0, false
	}
	wait = max(0, refusal.Until.Sub(b.cfg.Now()))
	b.mu.Lock()
	defer b.mu.Unlock()
	begin := time.Now()
	end := begin.Add(wait)
	if b.waiting.After(begin) { // another request waits already
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

// Renew restores the budget's whole Patience: a run begins.
func (b *Budget) Renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patience = b.cfg.Patience
}

// throttle closes the budget after a 429, and forgets earlier ones after a success.
// The Retry-After of the 429 then says for how long nothing is sent.
func (b *Budget) throttle(ctx context.Context, resp *http.Response) error {
	b.mu.Lock()
	backedOff := b.step > 0
	b.mu.Unlock()
	throttled := resp.StatusCode == http.StatusTooManyRequests
	if !throttled && (resp.StatusCode >= http.StatusMultipleChoices || !backedOff) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	b.throttling.Lock()
	defer b.throttling.Unlock()
	closed, err := b.cooldown(ctx)
	now := b.cfg.Now()
	switch {
	case err != nil:
		return err
	case !throttled && closed.After(now):
		return nil // the request was in flight when the budget closed
	case !throttled:
		return b.setCooldown(ctx, time.Time{}, 0)
	}

	b.mu.Lock()
	b.foreign++
	step := b.step
	b.mu.Unlock()
	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	wait := b.cfg.RetryAfter(resp.Header)
	// Where several requests in flight are throttled, the budget is closed already:
	// they are one step.
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
	resp.Header.Set("Retry-After", strconv.FormatInt(int64(seconds), 10))
	return nil
}

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

func (b *Budget) setCooldown(ctx context.Context, until time.Time, step int) error {
	if err := b.store.Cooldown(ctx, b.cfg.Name, b.cfg.Now(), until, step); err != nil {
		return &StoreError{err}
	}
	b.mu.Lock()
	b.step, b.room.cooldown = step, until
	b.room.changes++
	b.mu.Unlock()
	return nil
}

// connection follows one request to its connection, to know whether any of it can
// have left this machine.
type connection struct{ asked, got atomic.Bool }

// trace adds to the traces of ctx.
func (c *connection) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	})
}

// never reports, once the transport has returned an error, that it asked for a
// connection and got none: the name was not resolved, the connection or the TLS
// handshake failed, a proxy refused the tunnel, or the request was given up
// before. net/http may hand over a connection to a request that was given up, and
// would write to it, but it reports the connection before it returns; the request
// then counts as sent. With a transport that reports no connections every request
// counts as sent.
func (c *connection) never() bool { return c.asked.Load() && !c.got.Load() }

// body gives the place in flight back when it is closed.
type body struct {
	io.ReadCloser
	leave func()
}

func (b *body) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

func isRead(req *http.Request) bool {
	return req.Method == "" || req.Method == http.MethodGet || req.Method == http.MethodHead
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
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
	why := fmt.Sprintf("%d requests an hour are used up", e.Limit)
	if e.Throttled {
		why = "the service throttled us (429)"
	}
	return fmt.Sprintf("%s budget: %s; next request at %s", e.Budget, why, e.Until.UTC().Format(time.RFC3339))
}

// Unwrap makes errors.Is(err, ErrExhausted) true.
func (e *ExhaustedError) Unwrap() error { return ErrExhausted }

// RetryAt returns Until; the client looks for it to know that retrying is useless.
func (e *ExhaustedError) RetryAt() time.Time { return e.Until }

// StoreError says that the request log could not be written: either nothing was
// sent, or a request that was sent may not be entered as answered.
type StoreError struct{ Err error }

func (e *StoreError) Error() string { return "request log: " + e.Err.Error() }

// Unwrap returns the store's error.
func (e *StoreError) Unwrap() error { return e.Err }

// RetryAt returns the zero time: retrying is useless until someone repairs the store.
func (e *StoreError) RetryAt() time.Time { return time.Time{} }
