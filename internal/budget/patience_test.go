package budget_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
)

func patientBudget(limit int, patience time.Duration, store budget.Store, base http.RoundTripper) *budget.Budget {
	cfg := config(limit, time.Now)
	cfg.Patience = patience
	return budget.New(cfg, store, base)
}

// TestRunsAnHourApart: a run that begins exactly an hour after the one before it
// comes a moment early for each slot; with patience it sends as much.
func TestRunsAnHourApart(t *testing.T) {
	for patience, want := range map[time.Duration]int{0: 90, time.Minute: 3 * 90} {
		synctest.Test(t, func(t *testing.T) {
			store, svc := openStore(t), &service{there: 100 * time.Millisecond, back: 200 * time.Millisecond, conn: made}
			begin := time.Now()
			for run := range 3 {
				time.Sleep(time.Until(begin.Add(time.Duration(run) * budget.Span)))
				b := patientBudget(90, patience, store, svc)
				for range 90 {
					if _, err := send(t.Context(), b); err != nil {
						if patience > 0 {
							t.Fatalf("run %d: %v", run, err)
						}
						break
					}
				}
				check(t, b.Flush(t.Context()))
				if took := time.Since(begin) - time.Duration(run)*budget.Span; took > 28*time.Second {
					t.Errorf("run %d took %v", run, took)
				}
			}
			if got := svc.count(); patience > 0 && got != want || patience == 0 && got >= 3*90 {
				t.Errorf("patience %v: %d requests in 3 runs, want %d", patience, got, want)
			}
			if err := withinLimit(svc.arrivals(), 90); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPatienceEnds: all waits of a run together are no longer than it, and a wait
// that it does not reach for is not begun.
func TestPatienceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{conn: made}
		first := newBudget(4, store, svc)
		for range 4 { // at 0, 40, 80 and 120 s
			wantStatus(t, first, 200)
			check(t, first.Flush(t.Context()))
			time.Sleep(40 * time.Second)
		}
		time.Sleep(budget.Span - 4*40*time.Second - 10*time.Second)
		b := patientBudget(4, time.Minute, store, svc)
		begin := time.Now()
		wantStatus(t, b, 200) // waits 10 s
		wantStatus(t, b, 200) // waits 40 s
		if waited := time.Since(begin).Truncate(time.Millisecond); waited != 50*time.Second {
			t.Errorf("waited %v", waited)
		}
		begin = time.Now()
		wantRefusal(t, b, false, 40*time.Second-(time.Since(begin)))
		if !time.Now().Equal(begin) {
			t.Errorf("waited %v in vain", time.Since(begin))
		}
		b.Renew()
		wantStatus(t, b, 200)
	})
}

// TestWaitsAtOnceCountOnce: four that wait for the same half minute have waited
// half a minute.
func TestWaitsAtOnceCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{conn: made}
		first := newBudget(4, store, svc)
		for range 4 {
			wantStatus(t, first, 200)
		}
		check(t, first.Flush(t.Context()))
		time.Sleep(budget.Span - 30*time.Second)
		b := patientBudget(4, 31*time.Second, store, svc)
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() { wantStatus(t, b, 200) })
		}
		all.Wait()
		if err := withinLimit(svc.arrivals(), 4); err != nil {
			t.Error(err)
		}
	})
}

// TestNoPatienceForACooldown: the service has said for how long.
func TestNoPatienceForACooldown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []int{0, 10} {
			svc := new(service)
			b := patientBudget(limit, time.Hour, openStore(t), svc)
			throttle(t, b, svc, 2*time.Second)
			wantRefusal(t, b, true, 2*time.Second)
		}
	})
}

func TestCancelledWhileItWaitsForASlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		svc := &service{conn: made}
		b := patientBudget(1, 2*budget.Span, openStore(t), svc)
		wantStatus(t, b, 200)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		reqBody := &body{Reader: strings.NewReader("x")}
		if _, err := b.RoundTrip((&http.Request{Body: reqBody}).WithContext(ctx)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if !reqBody.closed || svc.count() != 1 || len(b.Places()) != 0 {
			t.Errorf("body closed %v, sent %d, places taken %d", reqBody.closed, svc.count(), len(b.Places()))
		}
	})
}
