package budget_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/budget"
)

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
		{n: 0, limit: 90, want: 0}, {n: 90, limit: 90, want: 0}, {n: 91, limit: 90, want: 60}, {n: 180, limit: 90, want: 60}, {n: 181, limit: 90, want: 120},
		{n: 1, limit: 2, slots: []int{5, 9}, want: 5}, {n: 2, limit: 2, slots: []int{5, 9}, want: 9}, {n: 3, limit: 2, slots: []int{5, 9}, want: 65},
		{n: 1, limit: 1, slots: []int{5, 9}, want: 9}, // the limit was lowered
		{n: 2, limit: 2, slots: []int{61}, want: 60},  // the free slot comes round before the occupied one
		{n: 3, limit: 2, slots: []int{61}, want: 61},
		{n: 1, limit: 2, cooldown: 30, want: 30}, {n: 3, limit: 2, cooldown: 30, want: 90}, {n: 2, limit: 2, slots: []int{5, 40}, cooldown: 30, want: 40},
		{n: 1, limit: 2, cooldown: -30, want: 0}, {n: 0, limit: 2, cooldown: 30, want: 30},
		{n: 1000, limit: 0, want: 0}, {n: 1000, limit: 0, cooldown: 7, want: 7}, {n: 5, limit: -1, slots: []int{5}, want: 0},
		{n: 3, limit: math.MaxInt, slots: []int{5}, want: 0}, {n: 100_001, limit: 1, want: 60 * 100_000},
	} {
		cooldown := time.Time{}
		if tc.cooldown != 0 {
			cooldown = minutes(tc.cooldown)[0]
		}
		got := budget.Finish(tc.n, tc.limit, start, minutes(tc.slots...), cooldown)
		if want := minutes(tc.want)[0]; !got.Equal(want) {
			t.Errorf("%+v: done after %v, want %v", tc, got.Sub(start), want.Sub(start))
		}
	}
	if got := budget.Finish(math.MaxInt, 1, start, nil, time.Time{}); !got.After(start) {
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
		got := budget.Finish(requests, limit, start, minutes(used...), minutes(closed)[0])
		if want := minutes(last)[0]; !got.Equal(want) {
			t.Fatalf("done after %v, Finish says %v", want.Sub(start), got.Sub(start))
		}
	})
}
