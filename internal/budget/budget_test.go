package budget_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
	"github.com/docgauge/docgauge/internal/state"
)

// TestProcessesShareOneFile runs two handles of one database on disk, as two
// processes have them; the third comes after the first died without a word.
func TestProcessesShareOneFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir, svc := t.TempDir(), new(service)
		open := func() *budget.Budget {
			db, err := state.Open(dir)
			check(t, err)
			t.Cleanup(func() { db.Close() })
			return newBudget(4, db, svc)
		}
		a, b := open(), open()
		wantStatus(t, a, 200)
		wantStatus(t, b, 200)
		wantStatus(t, a, 200) // this one's answer is never entered
		wantStatus(t, b, 200)
		check(t, b.Flush(t.Context()))
		wantRefusal(t, b, false, budget.Span)
		wantRefusal(t, open(), false, budget.Span)
		time.Sleep(budget.Span)
		for range 3 {
			wantStatus(t, b, 200)
		}
		wantRefusal(t, b, false, timeout)
		if svc.count() != 7 {
			t.Errorf("%d requests reached the service", svc.count())
		}
	})
}

func TestFlushFreesAnHourAfterTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{there: time.Second, back: time.Second}
		b := newBudget(1, store, svc)
		wantStatus(t, b, 200)
		check(t, b.Flush(t.Context()))
		check(t, b.Flush(t.Context()))
		wantRefusal(t, newBudget(1, store, svc), false, budget.Span)
		if sent, foreign := b.Sent(); sent != 1 || foreign != 0 {
			t.Errorf("sent %d, foreign %d", sent, foreign)
		}
	})
}

// TestGivenUpRequestsStayInTheLog: a request without response can still be on
// its way, until its time is up.
func TestGivenUpRequestsStayInTheLog(t *testing.T) {
	for after, occupied := range map[time.Duration]time.Duration{
		time.Second:     timeout - time.Second + budget.Span,
		timeout:         budget.Span,
		timeout + 10000: budget.Span,
	} {
		synctest.Test(t, func(t *testing.T) {
			store := openStore(t)
			b := newBudget(1, store, &service{there: time.Hour})
			ctx, cancel := context.WithTimeout(t.Context(), after)
			defer cancel()
			if _, err := send(ctx, b); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
			check(t, b.Flush(t.Context()))
			wantRefusal(t, b, false, occupied)
			time.Sleep(time.Hour) // until it arrives
		})
	}
}

func TestUnlimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), new(service)
		a, b := newBudget(0, store, svc), newBudget(0, store, svc)
		for range 50 {
			wantStatus(t, a, 200)
		}
		check(t, a.Flush(t.Context()))
		wantSlots(t, store, slices.Repeat([]time.Duration{budget.Span}, 50)...)
		svc.answers(429, 0)
		wantStatus(t, a, 429)
		svc.answers(200, 0)
		wantRefusal(t, a, true, 5*time.Minute)
		wantRefusal(t, b, true, 5*time.Minute)
		if svc.count() != 51 {
			t.Errorf("%d requests reached the service", svc.count())
		}
		time.Sleep(5*time.Minute + time.Microsecond)
		wantStatus(t, b, 200)
	})
}

// TestUnlimitedAfterTheClockWasSetBack: it opens within a day, not after a year.
func TestUnlimitedAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc, wall := openStore(t), new(service), new(wallClock)
		b := budget.New(config(0, wall.now), store, svc)
		svc.answers(429, 0)
		wantStatus(t, b, 429)
		svc.answers(200, 0)
		wall.set(-365 * 24 * time.Hour)
		if _, err := send(t.Context(), b); !errors.Is(err, budget.ErrExhausted) {
			t.Errorf("got %v", err)
		}
		time.Sleep(24 * time.Hour)
		wantStatus(t, b, 200)
	})
}

func TestInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(0, time.Now)
		cfg.InFlight = 2
		svc := new(service)
		b := budget.New(cfg, openStore(t), svc)
		var open []io.Closer
		for range 2 {
			req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
			resp, err := b.RoundTrip(req)
			check(t, err)
			open = append(open, resp.Body)
		}
		third := make(chan error, 1)
		go func() {
			_, err := send(t.Context(), b)
			third <- err
		}()
		synctest.Wait()
		if svc.count() != 2 {
			t.Errorf("%d requests were sent, 2 are in flight", svc.count())
		}
		check(t, open[0].Close())
		check(t, open[0].Close()) // once more frees nothing more
		check(t, <-third)
		if len(b.Places()) != 1 {
			t.Errorf("%d places are taken, one body is open", len(b.Places()))
		}
		check(t, open[1].Close())
	})
}

func TestInFlightIsFreedByErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(2, time.Now)
		cfg.InFlight = 1
		b := budget.New(cfg, openStore(t), &service{there: time.Hour})
		for range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if _, err := send(ctx, b); err == nil {
				t.Error("no error")
			}
			cancel()
		}
		time.Sleep(time.Hour)
	})
}

// TestCancelledWhileItWaits for a place, or for its turn: nothing is sent, and
// the request's body is closed.
func TestCancelledWhileItWaits(t *testing.T) {
	for name, change := range map[string]func(*budget.Config){
		"for a place":  func(c *budget.Config) { c.InFlight = 1 },
		"for its turn": func(c *budget.Config) { c.MinInterval = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cfg, svc := config(5, time.Now), new(service)
				change(&cfg)
				b := budget.New(cfg, openStore(t), svc)
				req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", http.NoBody)
				resp, err := b.RoundTrip(req)
				check(t, err)
				defer resp.Body.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				reqBody := &body{Reader: strings.NewReader("x")}
				if _, err = b.RoundTrip((&http.Request{Body: reqBody}).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if !reqBody.closed || svc.count() != 1 {
					t.Errorf("body closed: %v, requests sent: %d", reqBody.closed, svc.count())
				}
				if sent, _ := b.Sent(); sent != 1 {
					t.Errorf("%d counted as sent", sent)
				}
			})
		})
	}
}

// TestMinInterval: also when so many wait that the last waits for hours, and
// when the clock is set back.
func TestMinInterval(t *testing.T) {
	for _, interval := range []time.Duration{time.Second, 40 * time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			wall, svc := new(wallClock), new(service)
			cfg := config(0, wall.now)
			cfg.MinInterval = interval
			b := budget.New(cfg, openStore(t), svc)
			errs := make(chan error)
			for range 6 {
				go func() {
					_, err := send(t.Context(), b)
					errs <- err
				}()
			}
			for range 3 {
				check(t, <-errs)
			}
			wall.set(-48 * time.Hour)
			for range 3 {
				check(t, <-errs)
			}
			time.Sleep(interval / 2)
			_, err := send(t.Context(), b)
			check(t, err)
			arrived := svc.arrivals()
			for i := range arrived[1:] {
				if d := arrived[i+1].Sub(arrived[i]); d != interval {
					t.Errorf("interval %v: request %d came after %v", interval, i+1, d)
				}
			}
		})
	}
}

// broken is a store of which one operation fails.
type broken struct {
	*state.DB
	charge, throttles, cooldown, answered, release, note bool
	// noting is called before requests are noted, if not nil; notes and looks count.
	noting       func()
	notes, looks int
}

var errDisk = errors.New("disk on fire")

func (s *broken) Charge(ctx context.Context, name string, limit int, now func() time.Time, span, unanswered time.Duration, answered map[int64]time.Time) (int64, time.Time, error) {
	if s.charge {
		return 0, time.Time{}, errDisk
	}
	return s.DB.Charge(ctx, name, limit, now, span, unanswered, answered)
}

func (s *broken) Throttles(ctx context.Context, name string) (time.Time, int, error) {
	if s.throttles {
		return time.Time{}, 0, errDisk
	}
	return s.DB.Throttles(ctx, name)
}

func (s *broken) Cooldown(ctx context.Context, name string, until time.Time, step int) error {
	if s.cooldown {
		return errDisk
	}
	return s.DB.Cooldown(ctx, name, until, step)
}

func (s *broken) Answered(ctx context.Context, answered map[int64]time.Time) error {
	if s.answered {
		return errDisk
	}
	return s.DB.Answered(ctx, answered)
}

func (s *broken) Release(ctx context.Context, id int64) error {
	if s.release {
		return errDisk
	}
	return s.DB.Release(ctx, id)
}

func (s *broken) Note(ctx context.Context, name string, now func() time.Time, span, unanswered time.Duration, count int, done time.Time, sent []time.Time, answered map[int64]time.Time) ([]int64, error) {
	s.notes++
	if s.noting != nil {
		s.noting()
	}
	if s.note {
		return nil, errDisk
	}
	return s.DB.Note(ctx, name, now, span, unanswered, count, done, sent, answered)
}

func (s *broken) Occupied(ctx context.Context, name string, now func() time.Time, soon, span, unanswered time.Duration) (int, time.Time, error) {
	s.looks++
	if s.throttles {
		return 0, time.Time{}, errDisk
	}
	return s.DB.Occupied(ctx, name, now, soon, span, unanswered)
}

func wantStoreError(t *testing.T, err error) {
	t.Helper()
	e, ok := errors.AsType[*budget.StoreError](err)
	if !ok || !errors.Is(err, errDisk) || !e.RetryAt().IsZero() || !strings.Contains(err.Error(), "request log") {
		t.Errorf("got %v, want a StoreError", err)
	}
}

func TestStoreFailureSendsNothing(t *testing.T) {
	for _, limit := range []int{0, 3} {
		for _, store := range []*broken{{charge: limit > 0, note: limit == 0}, {throttles: true}} {
			synctest.Test(t, func(t *testing.T) {
				svc := new(service)
				store.DB = openStore(t)
				b := newBudget(limit, store, svc)
				reqBody := &body{Reader: strings.NewReader("x")}
				_, err := b.RoundTrip((&http.Request{Body: reqBody}).WithContext(t.Context()))
				wantStoreError(t, err)
				if svc.count() != 0 || !reqBody.closed || len(b.Places()) != 0 {
					t.Errorf("sent %d, body closed %v, places taken %d", svc.count(), reqBody.closed, len(b.Places()))
				}
			})
		}
	}
}

// TestStoreFailureAfterA429: the caller learns of it, and the response's body is closed.
func TestStoreFailureAfterA429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := new(service)
		svc.answers(429, 0)
		b := newBudget(3, &broken{DB: openStore(t), cooldown: true}, svc)
		_, err := send(t.Context(), b)
		wantStoreError(t, err)
		if !svc.bodies[0].closed || len(b.Places()) != 0 {
			t.Errorf("body closed %v, places taken %d", svc.bodies[0].closed, len(b.Places()))
		}
	})
}

// TestAnswerOfAWriteIsKept: a store that fails must not make an accepted POST one in doubt.
func TestAnswerOfAWriteIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := new(service)
		svc.answers(429, 0)
		b := newBudget(3, &broken{DB: openStore(t), cooldown: true}, svc)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/", http.NoBody)
		check(t, err)
		resp, err := b.RoundTrip(req)
		if err != nil || resp.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%v, %v", resp, err)
		}
		check(t, resp.Body.Close())
	})
}

// TestAnswersSurviveAStoreFailure: what could not be entered is entered later.
func TestAnswersSurviveAStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &broken{DB: openStore(t), answered: true}
		b := newBudget(2, store, &service{there: time.Second, back: time.Second})
		wantStatus(t, b, 200)
		wantStoreError(t, b.Flush(t.Context()))
		store.charge = true
		_, err := send(t.Context(), b)
		wantStoreError(t, err)
		store.answered = false
		check(t, b.Flush(t.Context()))
		wantRefusal(t, newBudget(1, store.DB, nil), false, budget.Span)
	})
}
