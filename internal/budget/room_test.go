package budget_test

import (
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/budget"
)

func wantRoom(t *testing.T, b *budget.Budget, want int, wantLimited bool) {
	t.Helper()
	free, limited, err := b.Room(t.Context())
	if err != nil || free != want || limited != wantLimited {
		t.Errorf("room for %d, limited %v, %v; want %d, %v", free, limited, err, want, wantLimited)
	}
}

func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := &broken{DB: openStore(t)}, &service{conn: made}
		b, other := newBudget(5, store, svc), newBudget(5, store, svc)
		wantRoom(t, b, 5, true)
		for left := range 3 {
			wantStatus(t, b, 200)
			wantRoom(t, b, 4-left, true)
		}
		if store.looks != 1 {
			t.Errorf("%d looks into the store", store.looks)
		}
		wantStatus(t, other, 200)
		time.Sleep(time.Second)
		wantRoom(t, b, 1, true) // what another process took shows now
		wantRoom(t, newBudget(2, store, svc), 0, true)
		svc.conn = refused
		_, _ = send(t.Context(), b)
		wantRoom(t, b, 1, true) // what was never sent takes none
		svc.conn = made
		wantStatus(t, b, 200)
		wantRoom(t, b, 0, true)
		check(t, b.Flush(t.Context()))
		check(t, other.Flush(t.Context()))
		time.Sleep(budget.Span + time.Microsecond)
		wantRoom(t, b, 5, true)
		store.looks = 0
		for range 1000 {
			wantRoom(t, b, 5, true)
			time.Sleep(10 * time.Millisecond)
		}
		if store.looks > 10 {
			t.Errorf("%d looks in ten seconds", store.looks)
		}
	})
}

// TestRoomInACooldown is none, with a limit or without, and at once.
func TestRoomInACooldown(t *testing.T) {
	for _, limit := range []int{0, 10} {
		synctest.Test(t, func(t *testing.T) {
			store, svc := openStore(t), &service{conn: made}
			b, other := newBudget(limit, store, svc), newBudget(limit, store, svc)
			wantRoom(t, b, limit, limit > 0)
			wantRoom(t, other, limit, limit > 0)
			throttle(t, b, svc, time.Minute)
			wantRoom(t, b, 0, true)
			wantRefusal(t, other, true, time.Minute)
			wantRoom(t, other, 0, true)
			time.Sleep(time.Minute + time.Microsecond)
			wantRoom(t, b, max(0, limit-1), limit > 0)
		})
	}
}

// TestRoomWhileCharging: a request that waits for its turn has its slot already.
func TestRoomWhileCharging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := config(3, time.Now)
		cfg.MinInterval = time.Minute
		b := budget.New(cfg, openStore(t), &service{conn: made})
		wantStatus(t, b, 200)
		done := make(chan struct{})
		go func() {
			wantStatus(t, b, 200)
			close(done)
		}()
		synctest.Wait()
		wantRoom(t, b, 1, true)
		<-done
		wantRoom(t, b, 1, true)
	})
}

// TestRoomAfterTheClockWasSetBack comes back within a day for who only asks.
func TestRoomAfterTheClockWasSetBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		wall, svc := new(wallClock), &service{conn: made}
		b := budget.New(config(1, wall.now), openStore(t), svc)
		throttle(t, b, svc, time.Minute)
		wantRoom(t, b, 0, true)
		wall.set(-365 * 24 * time.Hour)
		wantRoom(t, b, 0, true)
		time.Sleep(24 * time.Hour)
		wantRoom(t, b, 1, true)
	})
}

func TestRoomFailsWithTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(3, &broken{DB: openStore(t), throttles: true}, nil)
		free, limited, err := b.Room(t.Context())
		wantStoreError(t, err)
		if free != 0 || !limited {
			t.Errorf("room for %d, limited %v", free, limited)
		}
	})
}

// TestRoomIsThere: whatever this process has sent, as many requests as it names
// can be sent at once.
func TestRoomIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(rt, "limit")
		pauses := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 300 * time.Millisecond, 2 * time.Second, 20 * time.Minute, time.Hour}), 1, 30).Draw(rt, "pauses")
		conns := rapid.SliceOfN(rapid.SampledFrom([]conn{refused, made, made}), 30, 30).Draw(rt, "connections")
		use := rapid.SliceOfN(rapid.IntRange(0, 3), 30, 30).Draw(rt, "uses")
		synctest.Test(t, func(t *testing.T) {
			svc := &service{there: time.Millisecond, back: time.Millisecond}
			b := newBudget(limit, openStore(t), svc)
			for i, pause := range pauses {
				time.Sleep(pause)
				free, limited, err := b.Room(t.Context())
				if err != nil || !limited || free > limit {
					t.Errorf("room for %d, limited %v, %v", free, limited, err)
				}
				svc.conn = conns[i]
				for range min(free, use[i]) {
					if _, err := send(t.Context(), b); err != nil && svc.conn == made {
						t.Errorf("room for %d: %v", free, err)
					}
				}
			}
		})
	})
}
