package budget

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/state"
)

const timeout = time.Minute

// TestMain: a few stories are enough for the race detector, which makes the log slow. All of them run
// without it.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		_ = flag.Set("rapid.checks", "20") // of which rapid takes a fifth
	}
	os.Exit(m.Run())
}

// inBubble runs a test in a bubble, with a log in memory and a service that answers at once.
func inBubble(t *testing.T, test func(t *testing.T, log state.BudgetLog, svc *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, openLog(t), &service{conn: made}) })
}

// wallClock is the wall clock of this machine; the service has time.Now.
type wallClock struct {
	mu  sync.Mutex
	off time.Duration
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.off)
}

func (c *wallClock) set(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off += d
}

// service answers after a way there and a way back, and records when requests came.
type service struct {
	mu      sync.Mutex
	arrived []time.Time
	// there and back are how long a request and its response take.
	there, back time.Duration
	// status and header of the next response; 0 is 200.
	status int
	header http.Header
	conn   conn
	bodies []*replyBody
}

type replyBody struct {
	io.Reader
	closed bool
}

func (b *replyBody) Close() error { b.closed = true; return nil }

type waysKey struct{}

// ways describes how one request goes; it is in the request's context, or else the
// service's fields say it.
type ways struct {
	there, back time.Duration
	status      int
	header      http.Header
	conn        conn
}

// conn is a transport's report on the connection of a request.
type conn int

const (
	silent  conn = iota // nothing
	refused             // it asked for one and got none
	made                // it has one
	handed              // it has one, after the way there or after the request was given up
)

var errRefused = errors.New("connection refused")

func (s *service) ways(ctx context.Context) ways {
	if w, ok := ctx.Value(waysKey{}).(ways); ok {
		return w
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return ways{s.there, s.back, s.status, s.header, s.conn}
}

func (s *service) RoundTrip(req *http.Request) (*http.Response, error) {
	w, sent := s.ways(req.Context()), time.Now()
	trace := httptrace.ContextClientTrace(req.Context())
	if w.conn != silent {
		trace.GetConn("localhost:80")
	}
	if w.conn == made {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	err := clock.Sleep(req.Context(), w.there)
	if w.conn == refused {
		return nil, cmp.Or(err, errRefused)
	}
	if w.conn == handed {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	if err != nil {
		time.AfterFunc(w.there-time.Since(sent), s.arrive) // although its sender gave up
		return nil, err
	}
	s.arrive()
	if err := clock.Sleep(req.Context(), w.back); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := &replyBody{Reader: strings.NewReader("")}
	s.bodies = append(s.bodies, b)
	return &http.Response{StatusCode: max(w.status, 200), Header: w.header.Clone(), Body: b}, nil
}

func (s *service) arrive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arrived = append(s.arrived, time.Now())
}

// arrivals returns when requests came, in order.
func (s *service) arrivals() []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(slices.Values(s.arrived), time.Time.Compare)
}

func (s *service) count() int { return len(s.arrivals()) }

// answers sets what the next responses are; after is Retry-After, 0 for none.
func (s *service) answers(status int, after time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status, s.header = status, http.Header{}
	if after > 0 {
		s.header.Set("Retry-After", after.String())
	}
}

func retryAfter(h http.Header) time.Duration {
	d, err := time.ParseDuration(h.Get("Retry-After"))
	if err != nil {
		return 0
	}
	return d
}

// openLog opens the request log in memory, at an odd moment.
func openLog(t *testing.T) state.BudgetLog {
	t.Helper()
	time.Sleep(17*time.Minute + 123456789*time.Nanosecond)
	db, err := state.OpenExisting("nowhere")
	check(t, err)
	t.Cleanup(func() { db.Close() })
	return logOf(db)
}

func logOf(db *state.DB) state.BudgetLog {
	return state.BudgetLog{DB: db, Name: "b", Span: Span, Unanswered: timeout, Now: time.Now}
}

// by is the log of a process with another clock.
func by(now func() time.Time, log state.BudgetLog) state.BudgetLog {
	log.Now = now
	return log
}

func newBudget(limit int, log requestLog, s http.RoundTripper) *Budget {
	return New(options(limit, time.Now), log, s)
}

func options(limit int, now func() time.Time) Options {
	return Options{Name: "b", Limit: limit, Timeout: timeout, InFlight: 100, RetryAfter: retryAfter, Now: now}
}

// send sends a request and closes the response.
func send(ctx context.Context, b *Budget) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost/", http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := b.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

func isExhausted(err error) bool {
	_, ok := errors.AsType[*exhaustedError](err)
	return ok
}

func wantStatus(t *testing.T, b *Budget, want int) {
	t.Helper()
	if got, err := send(t.Context(), b); got != want || err != nil {
		t.Errorf("status %d, %v; want %d", got, err, want)
	}
}

// wantRefusal returns when the budget opens again, from now.
func wantRefusal(t *testing.T, b *Budget, throttled bool, after time.Duration) {
	t.Helper()
	_, err := send(t.Context(), b)
	e, ok := errors.AsType[*exhaustedError](err)
	if !ok {
		t.Fatalf("got %v, want an exhaustedError", err)
	}
	got := time.Until(e.RetryAt())
	if diff := got - after; e.Throttled != throttled || diff < 0 || diff > time.Microsecond {
		t.Errorf("refused for %v, throttled %v; want %v, %v", got, e.Throttled, after, throttled)
	}
}

// wantSlots compares when the occupied slots of the log free, from now.
func wantSlots(t *testing.T, log state.BudgetLog, want ...time.Duration) {
	t.Helper()
	u, err := log.DB.Usage(t.Context(), "b", time.Now())
	check(t, err)
	var got []time.Duration
	for _, at := range u.Slots(1_000) {
		got = append(got, time.Until(at).Truncate(time.Millisecond))
	}
	if !slices.Equal(got, want) {
		t.Errorf("slots free in %v, want %v", got, want)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// broken is a log with operations that fail.
type broken struct {
	state.BudgetLog
	charge, throttles, cooldown, answered, release bool
	charges, reads                                 int
	slow                                           time.Duration // a charge, after its entry
}

func (l *broken) Charge(ctx context.Context, limit, most int, life time.Duration, answered map[int64]time.Time) (
	int64, int, time.Time, error,
) {
	l.charges++
	if l.charge {
		return 0, 0, time.Time{}, errDisk
	}
	defer time.Sleep(l.slow)
	return l.BudgetLog.Charge(ctx, limit, most, life, answered)
}

func (l *broken) Throttles(ctx context.Context) (time.Time, int, error) {
	if l.throttles {
		return time.Time{}, 0, errDisk
	}
	return l.BudgetLog.Throttles(ctx)
}

func (l *broken) Cooldown(ctx context.Context, until time.Time, step int) error {
	if l.cooldown {
		return errDisk
	}
	return l.BudgetLog.Cooldown(ctx, until, step)
}

func (l *broken) Answered(ctx context.Context, answered map[int64]time.Time) error {
	if l.answered {
		return errDisk
	}
	return l.BudgetLog.Answered(ctx, answered)
}

func (l *broken) Release(ctx context.Context, id int64, n int) error {
	if l.release {
		return errDisk
	}
	return l.BudgetLog.Release(ctx, id, n)
}

func (l *broken) Occupied(ctx context.Context, soon time.Duration) (int, time.Time, error) {
	l.reads++
	if l.throttles {
		return 0, time.Time{}, errDisk
	}
	return l.BudgetLog.Occupied(ctx, soon)
}

func wantLogError(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*logError](err)
	if !ok || !errors.Is(err, errDisk) || !e.RetryAt().IsZero() || !strings.Contains(err.Error(), "request log") {
		t.Errorf("got %v, want a logError", err)
	}
}

var errDisk = errors.New("disk on fire")

// throttle lets the service answer the next request with 429.
func throttle(t *testing.T, b *Budget, svc *service, after time.Duration) {
	t.Helper()
	svc.answers(429, after)
	wantStatus(t, b, 429)
	svc.answers(200, 0)
}
