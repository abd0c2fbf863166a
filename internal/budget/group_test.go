package budget

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/state"
)

// TestAnswersSurviveAStoreFailure: answers that could not be entered are entered later.
func TestAnswersSurviveAStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &broken{BudgetLog: openLog(t), answered: true}
		b := newBudget(2, store, &service{there: time.Second, back: time.Second})
		wantStatus(t, b, 200)
		wantLogError(t, b.Flush(t.Context()))
		store.charge = true
		_, err := send(t.Context(), b)
		wantLogError(t, err)
		store.answered = false
		check(t, b.Flush(t.Context()))
		wantRefusal(t, newBudget(1, store.BudgetLog, nil), false, Span)
	})
}

// TestKilled: with groups or without, the log has every request of a process that was
// killed, and bounds how many more it has.
func TestKilled(t *testing.T) {
	for limit, most := range map[int]int{0: 1000, 90: 1, 1000: 10, 100_000: 1000} {
		for _, requests := range []int{1, 2, 7, 60} {
			inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
				svc.back = time.Millisecond
				b := newBudget(limit, store, svc)
				for range requests {
					wantStatus(t, b, 200)
				}
				more := occupied(t, store) - requests
				if more < 0 || more >= most || more > 4*requests {
					t.Errorf("limit %d: the log has %d more than %d requests", limit, more, requests)
				}
				// A request without a response in the log may have been sent as late as a second after its entry, and may have
				// lasted as long as a request may.
				time.Sleep(timeout + Span)
				if n := occupied(t, store); n != 0 && limit == 90 {
					t.Errorf("limit %d: %d slots are occupied for too long", limit, n)
				}
				time.Sleep(time.Second)
				if n := occupied(t, store); n != 0 {
					t.Errorf("limit %d: %d slots are occupied for too long", limit, n)
				}
			})
		}
	}
}

// occupied returns how many slots of the log are.
func occupied(t *testing.T, store state.BudgetLog) int {
	t.Helper()
	taken, _, err := store.Occupied(t.Context(), 0)
	check(t, err)
	return taken
}

// TestManyRequestsCostLittle: thousands of requests cost a few writes, and a Flush leaves
// as many slots as were sent.
func TestManyRequestsCostLittle(t *testing.T) {
	for _, limit := range []int{0, 100_000} {
		synctest.Test(t, func(t *testing.T) {
			store := &broken{BudgetLog: openLog(t)}
			b := newBudget(limit, store, &service{back: time.Millisecond, conn: made})
			for range 3000 {
				wantStatus(t, b, 200)
			}
			if store.charges > 10 {
				t.Errorf("limit %d: %d writes", limit, store.charges)
			}
			check(t, b.Flush(t.Context()))
			if n := occupied(t, store.BudgetLog); n != 3000 {
				t.Errorf("limit %d: the log holds %d requests", limit, n)
			}
		})
	}
}

// grown returns a budget whose next group has the largest size, and the number of requests it sent.
func grown(t *testing.T, limit int, store requestLog, svc *service) (b *Budget, sent int) {
	t.Helper()
	b = newBudget(limit, store, svc)
	for range limit / 100 {
		wantStatus(t, b, 200)
	}
	check(t, b.Flush(t.Context()))
	return b, limit / 100
}

// TestGroupEndsAfterASecond: the second is over as soon as either clock says so. The next request
// enters a new group, and the unused slots of the former one are free.
func TestGroupEndsAfterASecond(t *testing.T) {
	for name, pass := range map[string]func(*wallClock){
		"both clocks":        func(*wallClock) { time.Sleep(time.Second) },
		"the machine slept":  func(wall *wallClock) { wall.set(time.Second) },
		"the clock set back": func(wall *wallClock) { wall.set(-time.Millisecond) },
		"set back, a second later": func(wall *wallClock) {
			wall.set(-500 * time.Millisecond)
			time.Sleep(time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				svc, wall := &service{conn: made}, new(wallClock)
				store := &broken{BudgetLog: by(wall.now, openLog(t))}
				b := New(options(1000, wall.now), store, svc)
				for range 3 { // the second group has room for more
					wantStatus(t, b, 200)
				}
				before := store.charges
				wantStatus(t, b, 200)
				if store.charges != before {
					t.Fatal("the second group is used up")
				}
				pass(wall)
				wantStatus(t, b, 200)
				if store.charges != before+1 {
					t.Error("the group was used after its end")
				}
				check(t, b.Flush(t.Context()))
				taken, _, err := store.BudgetLog.Occupied(t.Context(), 0)
				if err != nil || taken != 5 {
					t.Errorf("%d slots of 5 requests, %v", taken, err)
				}
			})
		})
	}
}

// TestGroupOfAnOldEntry: the first request of a group is sent however long its entry
// took, as a request alone is.
func TestGroupOfAnOldEntry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &broken{BudgetLog: openLog(t), slow: 2 * time.Second}
		b := newBudget(1000, store, &service{conn: made})
		for range 8 {
			wantStatus(t, b, 200)
		}
		if store.charges != 8 {
			t.Errorf("%d writes", store.charges)
		}
	})
}

// TestGroupInFlight: the slots of a group are occupied until an hour after its last
// response, or longer if one is lacking.
func TestGroupInFlight(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		b, sent := grown(t, 400, store, svc)
		wantStatus(t, b, 200)
		svc.back = timeout / 2
		done := make(chan struct{})
		go func() {
			wantStatus(t, b, 200)
			close(done)
		}()
		synctest.Wait()
		svc.back = 0
		wantStatus(t, b, 200)
		check(t, b.Flush(t.Context())) // gives the fourth slot back
		late := time.Second + timeout + Span
		wantSlots(t, store, append(slices.Repeat([]time.Duration{Span}, sent), late, late, late)...)
		<-done
		check(t, b.Flush(t.Context()))
		former := slices.Repeat([]time.Duration{Span - timeout/2}, sent)
		wantSlots(t, store, append(former, Span, Span, Span)...)
	})
}

// TestGroupIsGivenBack: where a request cannot be sent, other processes get what its group
// has left, at once.
func TestGroupIsGivenBack(t *testing.T) {
	for name, hinder := range map[string]func(*service){
		"never sent": func(svc *service) { svc.conn = refused },
		"throttled":  func(svc *service) { svc.answers(429, time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
				b, sent := grown(t, 500, store, svc)
				wantStatus(t, b, 200)
				if n := occupied(t, store); n <= sent+1 {
					t.Fatalf("%d slots are taken: no group", n)
				}
				hinder(svc)
				for range 2 { // the one after a 429 is refused
					_, _ = send(t.Context(), b)
				}
				want := sent + 1
				if name == "throttled" {
					want++
				}
				if n := occupied(t, store); n != want {
					t.Errorf("%d slots are taken by %d requests", n, want)
				}
				check(t, b.Flush(t.Context()))
				wantSlots(t, store, slices.Repeat([]time.Duration{Span}, want)...)
			})
		})
	}
}

// TestGiveBackFails: nothing is sent, and the rest of the group stays taken.
func TestGiveBackFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := &broken{BudgetLog: openLog(t)}, &service{conn: made}
		b, _ := grown(t, 500, store, svc)
		wantStatus(t, b, 200)
		before, sent := occupied(t, store.BudgetLog), svc.count()
		store.release = true
		time.Sleep(time.Second)
		_, err := send(t.Context(), b)
		wantLogError(t, err)
		if n := occupied(t, store.BudgetLog); n != before || svc.count() != sent {
			t.Errorf("%d slots, before %d; %d requests, before %d", n, before, svc.count(), sent)
		}
		wantStatus(t, b, 200)
	})
}
