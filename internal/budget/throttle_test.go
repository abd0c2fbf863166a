package budget

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/state"
)

func TestRetryAfterIsHeeded(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		b := newBudget(10, store, svc)
		throttle(t, b, svc, 42*time.Second)
		wantRefusal(t, b, true, 42*time.Second)
		wantRefusal(t, newBudget(10, store, svc), true, 42*time.Second)
		time.Sleep(42*time.Second + time.Microsecond)
		wantStatus(t, b, 200)
		if sent, foreign := b.Sent(); sent != 2 || foreign != 1 {
			t.Errorf("sent %d, foreign %d", sent, foreign)
		}
	})
}

// bursts is a service that accepts five requests in a second, and says 429 to others, with Retry-After.
type bursts struct {
	*service
	after    time.Duration
	accepted []time.Time
	refused  int
}

func (s *bursts) RoundTrip(req *http.Request) (*http.Response, error) {
	w := ways{conn: made}
	s.mu.Lock()
	now := time.Now()
	s.accepted = slices.DeleteFunc(s.accepted, func(at time.Time) bool { return now.Sub(at) >= time.Second })
	if len(s.accepted) < 5 {
		s.accepted = append(s.accepted, now)
	} else {
		s.refused++
		w.status, w.header = 429, http.Header{"Retry-After": {s.after.String()}}
	}
	s.mu.Unlock()
	return s.service.RoundTrip(req.WithContext(context.WithValue(req.Context(), waysKey{}, w)))
}

// TestBurstLimit: a 429 that ends within a minute is waited for, and from then on requests are sent no faster than the
// service accepts them. It does not count as foreign use, and the budget does not show as closed.
func TestBurstLimit(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		limited := &bursts{service: svc, after: time.Second}
		o := options(90, time.Now)
		o.Patience = time.Minute
		b := New(o, store, limited)
		for accepted := 0; accepted < 60; {
			status, err := send(t.Context(), b)
			if err != nil {
				t.Fatal(err)
			}
			if status == 200 {
				accepted++
			}
			if free, _, err := b.Available(t.Context()); free == 0 || err != nil {
				t.Fatalf("after %d: %d free, %v", accepted, free, err)
			}
		}
		if _, foreign := b.Sent(); foreign != 0 || limited.refused > 5 {
			t.Errorf("%d refused, %d of them foreign use", limited.refused, foreign)
		}
		// A caller that does not wait is refused, as after any 429; a wait ends with its context.
		svc.answers(429, 30*time.Second)
		b = New(o, store, svc)
		wantStatus(t, b, 429)
		wantRefusal(t, newBudget(90, store, svc), true, 30*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := send(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a wait was not ended: %v", err)
		}
	})
}

// TestThrottledForEver: a run waits for ten minutes for a service that always answers 429 for a minute, then ends.
func TestThrottledForEver(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		o := options(90, time.Now)
		o.Patience = time.Minute
		b, start := New(o, store, svc), time.Now()
		svc.answers(429, time.Minute)
		for time.Since(start) < time.Hour {
			if _, err := send(t.Context(), b); err != nil {
				break
			}
		}
		if took := time.Since(start); took < 9*time.Minute || took > 11*time.Minute {
			t.Errorf("waited for %v", took)
		}
		wantRefusal(t, b, true, baseCooldown)
		if _, foreign := b.Sent(); foreign != 1 {
			t.Errorf("%d times foreign use, want 1", foreign)
		}
	})
}

// TestBackOffDoubles: it grows from 5 minutes to an hour, is shared by all processes,
// old and new, and starts again after a success of any of them.
func TestBackOffDoubles(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		processes := []*Budget{newBudget(100, store, svc), newBudget(100, store, svc)}
		for round := range 2 {
			for i, minutes := range []int{5, 10, 20, 40, 60, 60} {
				b := processes[(i+round)%2]
				if i == 4 {
					b = newBudget(100, store, svc) // one that has just begun
				}
				throttle(t, b, svc, 0)
				wantRefusal(t, b, true, time.Duration(minutes)*time.Minute)
				time.Sleep(time.Duration(minutes)*time.Minute + time.Microsecond)
			}
			wantStatus(t, processes[round], 200)
			if until, step, err := store.Throttles(t.Context()); err != nil || step != 0 || !until.IsZero() {
				t.Errorf("after a success: until %v, step %d, %v", until, step, err)
			}
		}
	})
}

// TestThrottledInFlightIsOneStep: several requests that were on their way when the
// service closed count as one step.
func TestThrottledInFlightIsOneStep(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		svc.there, svc.back = time.Second, time.Second
		processes := []*Budget{newBudget(100, store, svc), newBudget(100, store, svc)}
		svc.answers(429, 0)
		done := make(chan struct{})
		for i := range 10 {
			go func() {
				wantStatus(t, processes[i%2], 429)
				done <- struct{}{}
			}()
		}
		for range 10 {
			<-done
		}
		if _, step, err := store.Throttles(t.Context()); err != nil || step != 1 {
			t.Errorf("step %d, %v", step, err)
		}
		for _, b := range processes {
			wantRefusal(t, b, true, 5*time.Minute)
		}
	})
}

// TestSuccessInFlightDoesNotOpen: a 429 that came in between keeps the budget closed.
func TestSuccessInFlightDoesNotOpen(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		b := newBudget(100, store, svc)
		throttle(t, b, svc, 0)
		time.Sleep(5*time.Minute + time.Microsecond)
		svc.back = 10 * time.Second
		slow := make(chan struct{})
		go func() {
			wantStatus(t, b, 200)
			close(slow)
		}()
		synctest.Wait()
		svc.back = 0
		throttle(t, b, svc, 0)
		<-slow
		wantRefusal(t, b, true, 10*time.Minute-10*time.Second)
	})
}

// TestResponseSaysWhenTheBudgetOpens: the Retry-After of a 429 is replaced by the end of the
// cooldown. Several of them while the budget is closed count as one step, with the latest of their ends.
func TestResponseSaysWhenTheBudgetOpens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := openLog(t)
		b := newBudget(100, store, new(service))
		ask := func(back time.Duration, header http.Header, want string) {
			ctx := context.WithValue(t.Context(), waysKey{}, ways{back: back, status: 429, header: header})
			req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := b.RoundTrip(req)
			if err != nil {
				t.Error(err)
				return
			}
			if got := resp.Header.Get("Retry-After"); got != want {
				t.Errorf("after %v: Retry-After %q, want %q", back, got, want)
			}
			if err := resp.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		var all sync.WaitGroup
		all.Go(func() { ask(time.Second, nil, "300") })
		all.Go(func() { ask(2200*time.Millisecond, http.Header{}, "299") })
		all.Go(func() { ask(2500*time.Millisecond, http.Header{"Retry-After": {"7s"}}, "299") })
		all.Go(func() { ask(3*time.Second, http.Header{"Retry-After": {"10m"}}, "600") })
		all.Go(func() { ask(4200*time.Millisecond, http.Header{"Retry-After": {"30s"}}, "599") })
		all.Wait()
		wantRefusal(t, b, true, 10*time.Minute-1200*time.Millisecond)
		if _, step, err := store.Throttles(t.Context()); err != nil || step != 1 {
			t.Errorf("step %d, %v", step, err)
		}
	})
}

// TestFullLogIsNotThrottled: of a full log and a cooldown, a refusal names the one
// that ends later.
func TestFullLogIsNotThrottled(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		b := newBudget(1, store, svc)
		throttle(t, b, svc, time.Minute)
		wantRefusal(t, b, false, Span)
		throttled := newBudget(2, store, svc)
		wantRefusal(t, throttled, true, time.Minute)
	})
}
