package budget

import (
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/state"
)

func wantAvailable(t *testing.T, b *Budget, want int, wantLimited bool) {
	t.Helper()
	free, limited, err := b.Available(t.Context())
	if err != nil || free != want || limited != wantLimited {
		t.Errorf("%d available, limited %v, %v; want %d, %v", free, limited, err, want, wantLimited)
	}
}

func TestAvailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, svc := &broken{BudgetLog: openLog(t)}, &service{conn: made}
		b, other := newBudget(5, store, svc), newBudget(5, store, svc)
		wantAvailable(t, b, 5, true)
		for left := range 3 {
			wantStatus(t, b, 200)
			wantAvailable(t, b, 4-left, true)
		}
		if store.reads != 1 {
			t.Errorf("the log was read %d times", store.reads)
		}
		wantStatus(t, other, 200)
		time.Sleep(time.Second)
		wantAvailable(t, b, 1, true) // the other process's slots show now
		wantAvailable(t, newBudget(2, store, svc), 0, true)
		svc.conn = refused
		_, _ = send(t.Context(), b)
		wantAvailable(t, b, 1, true) // an unsent request takes none
		svc.conn = made
		wantStatus(t, b, 200)
		wantAvailable(t, b, 0, true)
		check(t, b.Flush(t.Context()))
		check(t, other.Flush(t.Context()))
		time.Sleep(Span + time.Microsecond)
		wantAvailable(t, b, 5, true)
		store.reads = 0
		for range 1000 {
			wantAvailable(t, b, 5, true)
			time.Sleep(10 * time.Millisecond)
		}
		if store.reads > 10 {
			t.Errorf("%d reads of the log in ten seconds", store.reads)
		}
	})
}

// TestAvailableInAGroup: the rest of a group is available to its own process alone.
func TestAvailableInAGroup(t *testing.T) {
	inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
		b, sent := grown(t, 1000, store, svc)
		wantStatus(t, b, 200)
		time.Sleep(time.Second)
		wantAvailable(t, b, 1000-sent-1, true)
		other := newBudget(1000, store, svc)
		wantAvailable(t, other, 1000-occupied(t, store), true)
		for range 3 { // a new group
			wantStatus(t, b, 200)
		}
		wantAvailable(t, b, 1000-sent-4, true)
		check(t, b.Flush(t.Context()))
		time.Sleep(time.Second)
		for _, b := range []*Budget{b, other} {
			wantAvailable(t, b, 1000-sent-4, true)
		}
		wantStatus(t, b, 200)
		time.Sleep(2 * Span) // the rest of a group is free for all
		wantAvailable(t, b, 1000, true)
	})
}

// TestAvailableInACooldown: nothing is available, with a limit or without, from the 429 on.
func TestAvailableInACooldown(t *testing.T) {
	for _, limit := range []int{0, 10} {
		inBubble(t, func(t *testing.T, store state.BudgetLog, svc *service) {
			b, other := newBudget(limit, store, svc), newBudget(limit, store, svc)
			wantAvailable(t, b, limit, limit > 0)
			wantAvailable(t, other, limit, limit > 0)
			throttle(t, b, svc, time.Minute)
			wantAvailable(t, b, 0, true)
			wantRefusal(t, other, true, time.Minute)
			wantAvailable(t, other, 0, true)
			time.Sleep(time.Minute + time.Microsecond)
			wantAvailable(t, b, max(0, limit-1), limit > 0)
		})
	}
}

// TestAvailableWhileCharging: a request that waits for its turn has its slot already.
func TestAvailableWhileCharging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg := options(3, time.Now)
		cfg.MinInterval = time.Minute
		b := New(cfg, openLog(t), &service{conn: made})
		wantStatus(t, b, 200)
		done := make(chan struct{})
		go func() {
			wantStatus(t, b, 200)
			close(done)
		}()
		synctest.Wait()
		wantAvailable(t, b, 1, true)
		<-done
		wantAvailable(t, b, 1, true)
	})
}

// TestClockSetBackInACooldown: the budget opens within a day, not after a year, with a limit or without.
func TestClockSetBackInACooldown(t *testing.T) {
	for _, limit := range []int{0, 2} {
		inBubble(t, func(t *testing.T, log state.BudgetLog, svc *service) {
			wall := new(wallClock)
			b := New(options(limit, wall.now), by(wall.now, log), svc)
			throttle(t, b, svc, time.Minute)
			wall.set(-365 * 24 * time.Hour)
			wantAvailable(t, b, 0, true)
			if _, err := send(t.Context(), b); !isExhausted(err) {
				t.Errorf("got %v", err)
			}
			time.Sleep(24 * time.Hour)
			wantAvailable(t, b, limit, limit > 0)
			wantStatus(t, b, 200)
		})
	}
}

func TestAvailableFailsWithTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(3, &broken{BudgetLog: openLog(t), throttles: true}, nil)
		free, limited, err := b.Available(t.Context())
		wantLogError(t, err)
		if free != 0 || !limited {
			t.Errorf("%d available, limited %v", free, limited)
		}
	})
}

// TestAvailableIsThere: as many requests as Available says can be sent at once, after any history.
func TestAvailableIsThere(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limit := rapid.OneOf(rapid.IntRange(1, 5), rapid.SampledFrom([]int{200, 500})).Draw(rt, "limit")
		pause := rapid.SampledFrom([]time.Duration{
			0, 300 * time.Millisecond, 2 * time.Second, 20 * time.Minute, time.Hour,
		})
		pauses := rapid.SliceOfN(pause, 1, 30).Draw(rt, "pauses")
		conns := rapid.SliceOfN(rapid.SampledFrom([]conn{refused, made, made}), 30, 30).Draw(rt, "connections")
		use := rapid.SliceOfN(rapid.IntRange(0, limit/100+5), 30, 30).Draw(rt, "uses")
		synctest.Test(t, func(t *testing.T) {
			svc := &service{there: time.Millisecond, back: time.Millisecond}
			b := newBudget(limit, openLog(t), svc)
			for i, pause := range pauses {
				time.Sleep(pause)
				free, limited, err := b.Available(t.Context())
				if err != nil || !limited || free > limit {
					t.Errorf("%d available, limited %v, %v", free, limited, err)
				}
				svc.conn = conns[i]
				for range min(free, use[i]) {
					if _, err := send(t.Context(), b); err != nil && svc.conn == made {
						t.Errorf("%d available: %v", free, err)
					}
				}
			}
		})
	})
}

var start = time.Date(2026, 10, 5, 13, 37, 11, 0, time.UTC)

// minutes returns the times so many minutes after start.
func minutes(after ...int) []time.Time {
	out := make([]time.Time, len(after))
	for i, m := range after {
		out[i] = start.Add(time.Duration(m) * time.Minute)
	}
	return out
}

func TestFinish(t *testing.T) {
	for _, tc := range []struct {
		n, limit int
		slots    []int // minutes
		cooldown int   // minutes, 0: none
		want     int   // minutes
	}{
		{n: 0, limit: 90, want: 0}, {n: 91, limit: 90, want: 60}, {n: 3, limit: 2, slots: []int{5, 9}, want: 65},
		{n: 1, limit: 1, slots: []int{5, 9}, want: 9}, // the limit was lowered
		{n: 2, limit: 2, slots: []int{61}, want: 60},  // the free slot comes round before the occupied one
		{n: 3, limit: 2, slots: []int{61}, want: 61},
		{n: 1, limit: 2, cooldown: 30, want: 30}, {n: 3, limit: 2, cooldown: 30, want: 90},
		{n: 2, limit: 2, slots: []int{5, 40}, cooldown: 30, want: 40},
		{n: 1, limit: 2, cooldown: -30, want: 0}, {n: 0, limit: 2, cooldown: 30, want: 30},
		{n: 1000, limit: 0, want: 0}, {n: 1000, limit: 0, cooldown: 7, want: 7},
		{n: 5, limit: -1, slots: []int{5}, want: 0},
		{n: 3, limit: math.MaxInt, slots: []int{5}, want: 0}, {n: 100_001, limit: 1, want: 60 * 100_000},
	} {
		cooldown := time.Time{}
		if tc.cooldown != 0 {
			cooldown = minutes(tc.cooldown)[0]
		}
		got := Finish(tc.n, tc.limit, start, minutes(tc.slots...), cooldown)
		if want := minutes(tc.want)[0]; !got.Equal(want) {
			t.Errorf("%+v: done after %v, want %v", tc, got.Sub(start), want.Sub(start))
		}
	}
	if got := Finish(math.MaxInt, 1, start, nil, time.Time{}); !got.After(start) {
		t.Errorf("overflows: %v", got)
	}
}

// TestFinishIsWhatASlidingHourAllows sends as early as a sliding hour lets it,
// minute by minute, and compares the last moment. Slots of requests that were
// never answered free more than an hour from now.
func TestFinishIsWhatASlidingHourAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		used := rapid.SliceOfN(rapid.IntRange(1, 70), 0, limit).Draw(t, "minutes until the used slots free")
		requests := rapid.IntRange(1, 100).Draw(t, "requests")
		closed := rapid.IntRange(0, 90).Draw(t, "minutes until the cooldown ends")
		slices.Sort(used)
		free := map[int]int{0: limit - len(used)}
		for _, minute := range used {
			free[minute]++
		}
		last, left := 0, requests
		for minute := 0; left > 0; minute++ {
			sent := 0
			if minute >= closed {
				sent = min(free[minute], left)
				last = minute
			}
			left -= sent
			free[minute+1] += free[minute] - sent
			free[minute+60] += sent
		}
		got := Finish(requests, limit, start, minutes(used...), minutes(closed)[0])
		if want := minutes(last)[0]; !got.Equal(want) {
			t.Fatalf("done after %v, Finish says %v", want.Sub(start), got.Sub(start))
		}
	})
}
