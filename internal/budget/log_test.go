package budget_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/budget"
)

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

// TestAnswersSurviveAStoreFailure: answers that could not be entered are entered later.
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

// TestLimitSetLater: a limit counts the requests that were sent before it was set.
func TestLimitSetLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{there: 100 * time.Millisecond, back: 200 * time.Millisecond, conn: made}
		unlimited := newBudget(0, store, svc)
		for range 80 {
			wantStatus(t, unlimited, 200)
		}
		check(t, unlimited.Flush(t.Context()))
		check(t, unlimited.Flush(t.Context()))
		ended := time.Now()
		limited := newBudget(90, store, svc)
		for range 10 {
			wantStatus(t, limited, 200)
		}
		_, err := send(t.Context(), limited)
		if err == nil {
			t.Error("the 91st request of this hour was sent")
		}
		// Slots free within about a second of their time, and none before it.
		time.Sleep(time.Until(ended.Add(budget.Span + time.Microsecond)))
		for range 80 {
			wantStatus(t, limited, 200)
		}
		if err := withinLimit(svc.arrivals(), 90); err != nil {
			t.Error(err)
		}
	})
}

// TestKilledWithoutALimit: the log has every request older than a second, and every
// single one that came alone.
func TestKilledWithoutALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{back: 300 * time.Millisecond, conn: made}
		b := newBudget(0, store, svc)
		wantStatus(t, b, 200)
		wantSlots(t, store, timeout+budget.Span-300*time.Millisecond)
		for range 9 {
			wantStatus(t, b, 200)
		}
		u, err := store.Usage(t.Context(), "b", 1_000, time.Now(), budget.Span, timeout)
		check(t, err)
		known := 0
		for _, at := range svc.arrivals() {
			if time.Since(at) > time.Second+300*time.Millisecond {
				known++
			}
		}
		if len(u.Slots) < known || known < 5 {
			t.Errorf("the log knows %d requests, %d are older than a second", len(u.Slots), known)
		}
	})
}

// TestUnlimitedCostsLittle: a thousand requests a second cost one write a second.
func TestUnlimitedCostsLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &broken{DB: openStore(t)}
		b := newBudget(0, store, &service{back: time.Millisecond, conn: made})
		begin := time.Now()
		for range 3000 {
			wantStatus(t, b, 200)
		}
		if most := int(time.Since(begin)/time.Second) + 1; store.notes > most {
			t.Errorf("%d writes in %v", store.notes, time.Since(begin))
		}
		check(t, b.Flush(t.Context()))
		taken, _, err := store.DB.Occupied(t.Context(), "b", time.Now, 0, budget.Span, timeout)
		if err != nil || taken != 3000 {
			t.Errorf("the log holds %d requests, %v", taken, err)
		}
	})
}

// TestNotedInFlight: a request that is written before its response came occupies its
// slot until an hour after the response, or longer if none came.
func TestNotedInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := openStore(t), &service{back: 10 * time.Second, conn: made}
		b := newBudget(0, store, svc)
		wantStatus(t, b, 200) // written at once: it is the first
		check(t, b.Flush(t.Context()))
		wantSlots(t, store, budget.Span)
		svc.back = timeout / 2
		done := make(chan struct{})
		go func() {
			wantStatus(t, b, 200)
			close(done)
		}()
		synctest.Wait()
		wantSlots(t, store, budget.Span, budget.Span+timeout)
		<-done
		check(t, b.Flush(t.Context()))
		wantSlots(t, store, budget.Span-timeout/2, budget.Span)
	})
}

// TestWhatHappensWhileNotesAreWritten: a request that is answered meanwhile frees
// its slot in time, and one that was never sent occupies none.
func TestWhatHappensWhileNotesAreWritten(t *testing.T) {
	for _, end := range []conn{made, refused} {
		synctest.Test(t, func(t *testing.T) {
			store, svc := &broken{DB: openStore(t)}, &service{conn: made}
			b := newBudget(0, store, svc)
			wantStatus(t, b, 200) // written before it is sent, as it is the first
			svc.there, svc.conn = 5*time.Second, end
			go func() { _, _ = send(t.Context(), b) }() // only noted
			synctest.Wait()
			store.noting = func() { time.Sleep(10 * time.Second) } // in which it ends
			check(t, b.Flush(t.Context()))
			store.noting = nil
			check(t, b.Flush(t.Context()))
			if store.notes != 2 {
				t.Fatalf("written %d times", store.notes)
			}
			if end == refused {
				wantSlots(t, store.DB, budget.Span-10*time.Second)
			} else {
				wantSlots(t, store.DB, budget.Span-10*time.Second, budget.Span-5*time.Second)
			}
		})
	}
}

// TestNotesSurviveAStoreFailure: requests that were sent are written later; the one
// that the failure refused is not.
func TestNotesSurviveAStoreFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := &broken{DB: openStore(t)}, &service{conn: made}
		b := newBudget(0, store, svc)
		for range 3 {
			wantStatus(t, b, 200)
		}
		store.note = true
		time.Sleep(2 * time.Second)
		for range 2 { // at once again: nothing is sent while the log cannot be written
			_, err := send(t.Context(), b)
			wantStoreError(t, err)
		}
		wantStoreError(t, b.Flush(t.Context()))
		store.note = false
		check(t, b.Flush(t.Context()))
		wantSlots(t, store.DB, slices.Repeat([]time.Duration{budget.Span - 2*time.Second}, 3)...)
		if sent, _ := b.Sent(); sent != 3 || svc.count() != 3 {
			t.Errorf("%d counted as sent, %d arrived", sent, svc.count())
		}
	})
}
