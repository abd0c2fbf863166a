// Package budget keeps requests inside an hourly limit: an http.RoundTripper
// that writes each request to a durable log before it is sent and frees its
// slot one hour after the response, or at once where certainly nothing was sent.
//
// Invariant: in no span of one hour do more than Limit requests reach the
// service from all processes that share the store, whatever is killed in
// between; and while a slot is free no request is refused. A 429 closes the
// budget for everybody. Without a limit requests are written in groups, for a
// limit that is set later: a crash loses those of the last second.
//
// It does not retry and does not decide what is worth a request.
package budget

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

const (
	// Span is the length of the sliding budget.
	Span = time.Hour
	// storeTimeout bounds a write that must not be cut by the request's own context.
	storeTimeout = 15 * time.Second
)

// Store is the durable request log (package state).
type Store interface {
	// Charge enters a request unless limit slots are occupied or a cooldown is
	// on; id 0 means not entered, and free is when to ask again. A slot is
	// occupied until span after its response, which is taken to have come after
	// unanswered where it was never entered. now is called while no other
	// process can charge. A limit of 0 enters nothing; only a cooldown refuses.
	// What it costs does not depend on the length of the log.
	Charge(ctx context.Context, budget string, limit int, now func() time.Time, span, unanswered time.Duration, answered map[int64]time.Time) (id int64, free time.Time, err error)
	// Note enters requests that no limit held back: count with a response, the last
	// at done, and those of sent without one yet, whose ids it returns in order.
	Note(ctx context.Context, budget string, now func() time.Time, span, unanswered time.Duration, count int, done time.Time, sent []time.Time, answered map[int64]time.Time) (ids []int64, err error)
	// Release takes out the entry of a request that was never sent.
	Release(ctx context.Context, id int64) error
	// Occupied returns how many slots are occupied for longer than soon, and when the
	// cooldown ends or ended.
	Occupied(ctx context.Context, budget string, now func() time.Time, soon, span, unanswered time.Duration) (taken int, cooldown time.Time, err error)
	// Answered enters when responses came.
	Answered(ctx context.Context, answered map[int64]time.Time) error
	// Cooldown closes the budget until a time, or opens it (zero time).
	Cooldown(ctx context.Context, budget string, until time.Time, step int) error
	// Throttles returns when the cooldown ends or ended, and its step.
	Throttles(ctx context.Context, budget string) (until time.Time, step int, err error)
}

// Config says what is limited.
type Config struct {
	// Name of the budget in the store; all processes with that name share it.
	Name string
	// Limit is requests per hour; 0 is unlimited (a 429 still closes it).
	Limit int
	// MinInterval is the least time between two requests of this process, taken
	// before they are charged.
	MinInterval time.Duration
	// Timeout of one request: how long one that was never answered can have lasted.
	// After it a request that failed can no longer reach the service.
	Timeout time.Duration
	// InFlight is the most requests at once; a request is in flight until its
	// response's body is closed.
	InFlight int
	// Patience is how long this process waits in all, until Renew, for slots that
	// free soon, instead of refusing requests; it never waits for a cooldown. Waits
	// at the same time count once. A run that begins exactly an hour after the one
	// before it comes a moment before the slots of that one are free.
	Patience time.Duration
	// RetryAfter reads a 429's Retry-After; 0 if there is none worth heeding.
	RetryAfter func(http.Header) time.Duration
	// Now is the clock of what is stored.
	Now func() time.Time
}

// Budget is one budget of this process.
type Budget struct {
	cfg   Config
	store Store
	base  http.RoundTripper
	slots chan struct{}

	// heeding lets one response at a time change the cooldown.
	heeding sync.Mutex

	mu       sync.Mutex
	answered map[int64]time.Time // responses the store does not know yet
	noted    []*entry            // requests the store does not know yet; without a limit only
	wrote    time.Time           // when they were last written
	next     time.Time           // earliest send time of the next request
	step     int                 // of the back-off, as the store last had it
	sent     int
	foreign  int
	patience time.Duration // what is left of it
	waiting  time.Time     // until when patience has been taken
	room     room
}

// New returns the budget; base sends what fits.
func New(cfg Config, store Store, base http.RoundTripper) *Budget {
	return &Budget{
		cfg: cfg, store: store, base: base,
		slots: make(chan struct{}, max(cfg.InFlight, 1)), answered: map[int64]time.Time{}, patience: cfg.Patience,
	}
}

// Sent returns how many requests this process sent, or is sending, and how many
// of them were throttled by the service although our own log had room (foreign use).
func (b *Budget) Sent() (requests, foreign int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.foreign
}

// RoundTrip waits for a place in flight and for MinInterval, charges the request
// and sends it. Errors of its own: *ExhaustedError with the budget used up and
// *StoreError, both before anything is sent; of a read a *StoreError can also come
// after a 429 or a success whose effect on the cooldown could not be stored, and
// beside the error of a request that was not sent whose slot could not be freed.
// A 429 comes back with a Retry-After of as many seconds as the budget is closed.
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

// send charges the request, sends it, and notes what came of it. A process killed
// between the charge and the end of the request leaves the entry behind: nobody
// knows whether it was sent, so it stays charged as one that was never answered.
func (b *Budget) send(req *http.Request) (*http.Response, error) {
	e, err := b.charge(req.Context())
	if err != nil {
		return nil, errors.Join(err, closeBody(req))
	}
	var conn connection
	resp, err := b.base.RoundTrip(req.WithContext(conn.trace(req.Context())))
	if err != nil && conn.never() {
		return nil, errors.Join(err, b.release(req.Context(), e))
	}
	if err != nil {
		b.gaveUp(e)
		return nil, err
	}
	b.answer(e, b.cfg.Now())
	// The answer of a write says whether it took effect: nothing is worth losing
	// it. A store that fails refuses the next request.
	if err := b.heed(req.Context(), resp); err != nil && isRead(req) {
		return nil, errors.Join(err, resp.Body.Close())
	}
	return resp, nil
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
