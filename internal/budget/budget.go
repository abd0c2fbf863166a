// Package budget keeps requests inside an hourly limit. It is an http.RoundTripper that writes each
// request to a durable log before sending it, and frees its slot one hour after the response, or at
// once if certainly nothing was sent.
//
// Invariant: in any hour at most Limit requests reach the service from all processes that share the
// log, whatever is killed in between; and no request is refused while a slot is free. A 429 closes
// the budget for all of them. Without a limit, requests are written too, for a limit that is set
// later.
//
// A durable write for each request would cost more than the request: 1 ms on a fast disk. So with a
// limit of 200 or more, or none, a request is charged together with a group of requests that may
// follow within a second without a write. The limit still holds, because the log counts the whole
// group as taken before its first request is sent, and as sent at the end of that second. Slots may
// free late: the slots of a group when its last response is an hour old, and the slots of a killed process as if all
// of its group had been sent and not answered. So a group has at most a hundredth of the limit, a tenth of the free
// slots, and four times the requests that were sent of the group before. The rest of a group is given back after the
// second, a refusal, a failed connection, or Flush.
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
	// logTimeout bounds a write that must not be cut by the request's own context.
	logTimeout = 15 * time.Second
	// baseCooldown follows a 429 without Retry-After; it doubles up to maxCooldown.
	baseCooldown = 5 * time.Minute
	maxCooldown  = time.Hour
	// ShortThrottle is the longest Retry-After of a 429 that a run waits for: it comes from a limit on bursts, not
	// from one on the hour. maxThrottled is how long a run waits for them in all, and maxPace the longest
	// interval between requests that it learns from them.
	ShortThrottle = time.Minute
	maxThrottled  = 10 * time.Minute
	maxPace       = 2 * time.Second
	// shortWait is ShortThrottle and a margin for the clock and the log.
	shortWait = ShortThrottle + time.Second
)

// requestLog is the durable log of the requests of one budget: state.BudgetLog documents it.
type requestLog interface {
	// Charge enters up to most requests as one entry, unless limit slots (0: any number) are
	// occupied or a cooldown is on: then id is 0, and free is when to ask again.
	Charge(ctx context.Context, limit, most int, life time.Duration, answered map[int64]time.Time) (
		id int64, slots int, free time.Time, err error)
	// InDoubt reports whether a request is refused only because the clock is not confirmed.
	InDoubt(ctx context.Context, limit int) (bool, error)
	// Release frees n slots of an entry whose requests were never sent.
	Release(ctx context.Context, id int64, n int) error
	// Occupied returns how many slots are occupied for longer than soon, and when the cooldown ends
	// or ended.
	Occupied(ctx context.Context, soon time.Duration) (taken int, cooldown time.Time, err error)
	// Answered enters when the last responses to entries came.
	Answered(ctx context.Context, answered map[int64]time.Time) error
	// Cooldown closes the budget until a time, or opens it (zero time).
	Cooldown(ctx context.Context, until time.Time, step int) error
	// Throttles returns when the cooldown ends or ended, and its step.
	Throttles(ctx context.Context) (until time.Time, step int, err error)
}

// Options of a Budget.
type Options struct {
	// Name of the budget, for errors.
	Name string
	// Limit is requests per hour; 0 is unlimited (a 429 still closes it).
	Limit int
	// MinInterval is the least time between two requests of this process. A request waits for it
	// before it is charged.
	MinInterval time.Duration
	// Timeout bounds one request: one that was never answered can have lasted that long. After it a
	// failed request can no longer reach the service.
	Timeout time.Duration
	// InFlight is the most concurrent requests; a request is in flight until its response's body is
	// closed.
	InFlight int
	// Patience is how long this process waits in total, until Renew, for slots that free soon,
	// instead of refusing requests. Concurrent waits count once. A run that begins exactly an hour
	// after the one before it starts a moment before the slots of that one are free. Only with
	// Patience does a process wait for a cooldown, if it ends within ShortThrottle.
	Patience time.Duration
	// RetryAfter reads a 429's Retry-After; 0 without a usable one.
	RetryAfter func(http.Header) time.Duration
	// Now is the clock of the log.
	Now func() time.Time
	// Confirm asks the service whether Now is right, past every budget. An error means that it is not. It
	// is called when a slot depends on that, and after a 429; nil means that Now is always right.
	Confirm func(ctx context.Context) error
}

// Budget is one budget of this process.
type Budget struct {
	opts   Options
	log    requestLog
	base   http.RoundTripper
	places chan struct{} // in flight

	// charging lets one request at a time use the group or enter the next one.
	charging chan struct{}
	// throttling lets one response at a time change the cooldown.
	throttling sync.Mutex

	mu       sync.Mutex
	group    *group              // the last one that was charged
	answered map[int64]time.Time // last responses that the log does not have yet, by entry
	next     time.Time           // earliest send time of the next request
	step     int                 // of the back-off, as the log last had it
	sent     int
	waiting  int // requests that are about to be charged
	foreign  int
	patience time.Duration // the rest of it
	// throttled is the rest of maxThrottled. pace is the least interval between requests that short
	// throttles indicate, accepted the number of requests since the last of them.
	throttled time.Duration
	pace      time.Duration
	accepted  int
	patient   time.Time // until when patience has been taken
	cooldown  time.Time // when it ends or ended, as far as this process knows
	cooled    int       // how often this process set the cooldown
	reading   reading
}

// New returns the budget; base sends the requests that fit.
func New(opts Options, log requestLog, base http.RoundTripper) *Budget {
	return &Budget{
		opts: opts, log: log, base: base,
		places: make(chan struct{}, max(opts.InFlight, 1)), charging: make(chan struct{}, 1),
		group: new(group), answered: map[int64]time.Time{}, patience: opts.Patience,
		throttled: maxThrottled,
	}
}

// Sent returns how many requests this process sent or is sending, and how many of them the service
// throttled although our own log had free slots (foreign use).
func (b *Budget) Sent() (requests, foreign int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.foreign
}

// RoundTrip waits for a place in flight and for MinInterval, charges the request and sends it. Its
// own errors are *exhaustedError, when the budget is used up, and *logError; in both cases nothing
// was sent, with two exceptions: for a read, a *logError can also follow a 429 or a success whose
// effect on the cooldown could not be entered; and it can accompany the error of an unsent request
// whose slot could not be freed. A 429 comes back with a Retry-After of as many seconds as the
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

	// Charge: the request is durable in the log before anything is sent. A process killed from here
	// on has used the slot, because it is not known whether the request was sent: it stays charged as
	// one that was never answered.
	e, err := b.charge(ctx)
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}

	// Send. The trace reports whether the transport asked for a connection, and whether it got one.
	var asked, connected atomic.Bool
	resp, err = b.base.RoundTrip(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})))
	switch {
	case err != nil && asked.Load() && !connected.Load():
		// Nothing was sent: the name was not resolved, the connection or the TLS handshake failed, a
		// proxy refused the tunnel, or the request was given up before. net/http may hand over a
		// connection to a request that was given up, and would write to it, but it reports the
		// connection before it returns; the request then counts as sent. With a transport that
		// reports no connections, every request counts as sent.
		return nil, errors.Join(err, b.giveBack(ctx, e.group, 1))
	case err != nil:
		// The request may still be on its way, so the log counts it as unanswered, unless its time is
		// up.
		if now := b.opts.Now(); now.Sub(e.sent) >= b.opts.Timeout {
			b.answer(e, now)
		}
		return nil, err
	}

	// Enter the answer. The log learns of it with the next charge or Flush; a kill before that holds
	// the slot for longer, as if the answer had never come.
	b.answer(e, b.opts.Now())

	// Throttle. The answer of a write says whether it took effect, so it is returned even if the log
	// fails, which refuses the next request anyway.
	isRead := req.Method == "" || req.Method == http.MethodGet || req.Method == http.MethodHead
	if err := b.throttle(ctx, resp); err != nil && isRead {
		return nil, errors.Join(err, resp.Body.Close())
	}
	resp.Body = &body{resp.Body, leave}
	return resp, nil
}

// charge waits for MinInterval and takes a slot for the request. If the limit is used up, it waits
// for one as far as Patience goes.
func (b *Budget) charge(ctx context.Context) (*entry, error) {
	b.mu.Lock()
	b.waiting++
	// Measured by the monotonic clock of time.Now, not by the clock of the log: setting a clock does not change how
	// long a request waits.
	now := time.Now()
	wait := max(0, b.next.Sub(now))
	b.next = now.Add(wait + max(b.opts.MinInterval, min(b.pace, maxPace)))
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.waiting--
		b.mu.Unlock()
	}()
	for {
		if err := clock.Sleep(ctx, wait); err != nil {
			return nil, err
		}
		e, free, err := b.take(ctx)
		if err != nil || free.IsZero() {
			return e, err
		}
		b.mu.Lock()
		b.reading = reading{}
		b.mu.Unlock()
		cooldown, err := b.readCooldown(ctx)
		if err != nil {
			return nil, err
		}
		refusal := &exhaustedError{b.opts.Name, b.opts.Limit, free, !cooldown.Before(free)}
		var enough bool
		if wait, enough = b.takePatience(refusal); !enough {
			return nil, refusal
		}
	}
}

// takePatience returns how long to wait for the slot that a refusal names, and takes that from what
// is left of Patience, if that is enough. It goes by the monotonic clock, as MinInterval does.
func (b *Budget) takePatience(refusal *exhaustedError) (wait time.Duration, enough bool) {
	wait = max(0, refusal.Until.Sub(b.opts.Now()))
	switch {
	case b.opts.Patience <= 0:
		return 0, false
	case refusal.Throttled: // counted where the 429 came
		return wait, wait <= shortWait
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	begin := time.Now()
	end := begin.Add(wait)
	if b.patient.After(begin) { // another request waits already
		begin = b.patient
	}
	more := max(0, end.Sub(begin))
	if more > b.patience {
		return 0, false
	}
	b.patience -= more
	b.patient = begin.Add(more)
	return wait, true
}

// Renew restores the budget's whole Patience: a run begins, or continues after a pause.
func (b *Budget) Renew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.patience, b.throttled, b.pace, b.accepted = b.opts.Patience, maxThrottled, 0, 0
}

// takeShort reports whether a 429 asks for a wait that this process makes, from now, and takes it from what is left
// of maxThrottled; a budget that is closed already costs only the rest. From then on requests are sent no faster
// than the service accepted them.
func (b *Budget) takeShort(wait time.Duration, now, closed time.Time) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	more := max(0, min(wait, now.Add(wait).Sub(closed)))
	if b.opts.Patience <= 0 || wait <= 0 || wait > ShortThrottle || more > b.throttled {
		return false
	}
	b.throttled -= more
	if b.accepted > 0 {
		b.pace, b.accepted = max(b.pace*5/4, wait/time.Duration(b.accepted)), 0
	}
	return true
}

// throttle closes the budget after a 429, and forgets earlier ones after a success. The Retry-After
// of the 429 then says for how long nothing is sent.
func (b *Budget) throttle(ctx context.Context, resp *http.Response) error {
	b.mu.Lock()
	backedOff := b.step > 0
	if resp.StatusCode < http.StatusMultipleChoices {
		b.accepted++
	}
	b.mu.Unlock()
	throttled := resp.StatusCode == http.StatusTooManyRequests
	if !throttled && (resp.StatusCode >= http.StatusMultipleChoices || !backedOff) {
		return nil
	}
	if throttled && b.opts.Confirm != nil {
		_ = b.opts.Confirm(ctx) // a cooldown by a clock that is not confirmed would begin anew once it is
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), logTimeout)
	defer cancel()
	b.throttling.Lock()
	defer b.throttling.Unlock()
	closed, err := b.readCooldown(ctx)
	now := b.opts.Now()
	switch {
	case err != nil:
		return err
	case !throttled && closed.After(now):
		return nil // the request was in flight when the budget closed
	case !throttled:
		return b.setCooldown(ctx, time.Time{}, 0)
	}

	if resp.Header == nil {
		resp.Header = http.Header{}
	}
	wait := b.opts.RetryAfter(resp.Header)
	short := b.takeShort(wait, now, closed)
	b.mu.Lock()
	if !short {
		b.foreign++
	}
	step := b.step
	b.mu.Unlock()
	if !short && b.opts.Patience > 0 && wait > 0 && wait <= ShortThrottle {
		wait = baseCooldown // this run has waited long enough
	}
	// Where several requests in flight are throttled, the budget is closed already: they are one
	// step.
	if wait <= 0 && !closed.After(now) {
		step++
		wait = clock.Backoff(baseCooldown, maxCooldown, 2, step)
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

// readCooldown returns when the cooldown ends or ended, and remembers its step.
func (b *Budget) readCooldown(ctx context.Context) (time.Time, error) {
	until, step, err := b.log.Throttles(ctx)
	if err != nil {
		return until, &logError{err}
	}
	b.mu.Lock()
	b.step = step
	b.mu.Unlock()
	return until, nil
}

func (b *Budget) setCooldown(ctx context.Context, until time.Time, step int) error {
	if err := b.log.Cooldown(ctx, until, step); err != nil {
		return &logError{err}
	}
	b.mu.Lock()
	b.step, b.cooldown = step, until
	b.cooled++
	b.mu.Unlock()
	return nil
}

// body gives the place in flight back when it is closed.
type body struct {
	io.ReadCloser
	leave func()
}

func (b *body) Close() error {
	defer b.leave()
	return b.ReadCloser.Close()
}

func closeBody(req *http.Request) error {
	if req.Body == nil {
		return nil
	}
	return req.Body.Close()
}

// exhaustedError: no request may be sent before Until. Nothing was sent.
type exhaustedError struct {
	Budget string
	Limit  int
	Until  time.Time
	// Throttled: the service said 429, rather than our own log being full.
	Throttled bool
}

func (e *exhaustedError) Error() string {
	why := fmt.Sprintf("%d requests an hour are used up", e.Limit)
	if e.Throttled {
		why = "the service throttled us (429)"
	}
	return fmt.Sprintf("%s budget: %s; next request at %s", e.Budget, why, e.Until.UTC().Format(time.RFC3339))
}

// RetryAt returns Until; the client looks for it to know that retrying is useless.
func (e *exhaustedError) RetryAt() time.Time { return e.Until }

// logError says that the request log could not be written: either nothing was sent, or a request
// that was sent may not be entered as answered.
type logError struct{ Err error }

func (e *logError) Error() string { return "request log: " + e.Err.Error() }

// Unwrap returns the log's error.
func (e *logError) Unwrap() error { return e.Err }

// RetryAt returns the zero time: retrying is useless until the log is repaired.
func (e *logError) RetryAt() time.Time { return time.Time{} }
