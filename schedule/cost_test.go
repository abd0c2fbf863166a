package schedule_test

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/schedule"
)

func TestRequests(t *testing.T) {
	for rows, want := range map[int64]int{
		analytics.TotalsOnlyRows: 1, 0: 1, 1: 1, 250: 1, 251: 2, 500: 2, 501: 3, 25_000: 100,
	} {
		if got := schedule.Requests(rows); got != want {
			t.Errorf("Requests(%d) = %d, want %d", rows, got, want)
		}
	}
	if got := schedule.Requests(math.MaxInt64); got <= 0 {
		t.Errorf("Requests overflows: %d", got)
	}
}

func TestBacklog(t *testing.T) {
	for _, tc := range []struct {
		requests, limit, available int
		want                       time.Duration
	}{
		{0, 90, 0, 0}, {90, 90, 90, 0}, {91, 90, 90, time.Hour}, {180, 90, 90, time.Hour}, {181, 90, 90, 2 * time.Hour},
		{1, 90, 0, time.Hour}, {90, 90, -5, time.Hour}, {1000, 0, 0, 0}, {1000, -1, 0, 0},
	} {
		if got := schedule.Backlog(tc.requests, tc.limit, tc.available); got != tc.want {
			t.Errorf("Backlog(%d, %d, %d) = %s, want %s", tc.requests, tc.limit, tc.available, got, tc.want)
		}
	}
	if got := schedule.Backlog(math.MaxInt, 1, 0); got <= 0 {
		t.Errorf("Backlog overflows: %s", got)
	}
}

// TestBacklogIsWhatASlidingHourAllows sends as early as a sliding hour lets it
// and compares the last moment: never later than Backlog says, and never a
// whole hour before it.
func TestBacklogIsWhatASlidingHourAllows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 20).Draw(t, "limit")
		used := rapid.SliceOfN(rapid.IntRange(1, 60), 0, limit).Draw(t, "minutes until the used slots free")
		requests := rapid.IntRange(1, 100).Draw(t, "requests")
		free := map[int]int{0: limit - len(used)}
		for _, minute := range used {
			free[minute]++
		}
		last, left := 0, requests
		for minute := 0; left > 0; minute++ {
			sent := min(free[minute], left)
			left -= sent
			free[minute+1] += free[minute] - sent
			free[minute+60] += sent
			last = minute
		}
		got := schedule.Backlog(requests, limit, limit-len(used))
		if finish := time.Duration(last) * time.Minute; finish > got || got > 0 && finish <= got-time.Hour {
			t.Fatalf("done after %s, Backlog says %s", finish, got)
		}
	})
}
