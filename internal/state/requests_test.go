package state_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/docgauge/docgauge/internal/state"
)

const (
	span       = time.Hour
	unanswered = time.Minute
)

func at(d time.Duration) func() time.Time {
	return func() time.Time { return now.Add(d) }
}

// charge charges the budget "b" at now + d and returns the id, and free as the
// time since now (0: not refused).
func charge(t *testing.T, db *state.DB, limit int, d time.Duration, answered map[int64]time.Time) (int64, time.Duration) {
	t.Helper()
	id, free, err := db.Charge(t.Context(), "b", limit, at(d), span, unanswered, answered)
	check(t, err)
	if free.IsZero() != (id != 0) && limit > 0 {
		t.Errorf("id %d with free %v", id, free)
	}
	if free.IsZero() {
		return id, 0
	}
	return id, free.Sub(now)
}

func wantFree(t *testing.T, db *state.DB, limit int, d, want time.Duration) {
	t.Helper()
	if id, free := charge(t, db, limit, d, nil); id != 0 || free != want {
		t.Errorf("charge at %v: id %d, free at %v; want a refusal until %v", d, id, free, want)
	}
}

func wantSlot(t *testing.T, db *state.DB, limit int, d time.Duration) int64 {
	t.Helper()
	id, free := charge(t, db, limit, d, nil)
	if id == 0 {
		t.Errorf("charge at %v is refused until %v", d, free)
	}
	return id
}

func TestChargeSlots(t *testing.T) {
	db := open(t, t.TempDir())
	first := wantSlot(t, db, 2, 0)
	wantSlot(t, db, 2, time.Second)
	wantFree(t, db, 2, 2*time.Second, unanswered+span)
	check(t, db.Answered(t.Context(), map[int64]time.Time{first: now.Add(3*time.Second + time.Nanosecond)}))
	wantFree(t, db, 2, 4*time.Second, 3*time.Second+time.Microsecond+span)                                 // rounded up
	wantFree(t, db, 1, 4*time.Second, time.Second+unanswered+span)                                         // a lower limit waits for the second
	wantFree(t, db, 2, 3*time.Second+span, 3*time.Second+time.Microsecond+span)                            // not a moment early
	wantSlot(t, db, 2, 3*time.Second+span+time.Microsecond)                                                // not a moment late
	wantFree(t, db, 2, 3*time.Second+span+2*time.Microsecond, time.Second+unanswered+span)                 // the second was never answered
	if id, _, err := db.Charge(t.Context(), "c", 1, at(0), span, unanswered, nil); err != nil || id == 0 { // another budget has its own slots
		t.Errorf("another budget: id %d, %v", id, err)
	}
}

// TestBudgetsExpireApart: what counts as unanswered in one budget says
// nothing of another.
func TestBudgetsExpireApart(t *testing.T) {
	db := open(t, t.TempDir())
	_, _, err := db.Charge(t.Context(), "slow", 1, at(0), span, time.Hour, nil)
	check(t, err)
	wantSlot(t, db, 1, span+30*time.Minute)
	_, free, err := db.Charge(t.Context(), "slow", 1, at(span+30*time.Minute), span, time.Hour, nil)
	if want := now.Add(2 * time.Hour); err != nil || !free.Equal(want) {
		t.Errorf("the slow budget is free at %v, want %v; %v", free, want, err)
	}
}

func TestLateAnswerMeetsNoOtherRequest(t *testing.T) {
	db := open(t, t.TempDir())
	old := wantSlot(t, db, 1, 0)
	later := 2 * span
	if id := wantSlot(t, db, 1, later); id == old {
		t.Errorf("id %d is used again", id)
	}
	check(t, db.Answered(t.Context(), map[int64]time.Time{old: now}))
	wantFree(t, db, 1, later, later+unanswered+span)
}

func TestClockSetBack(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, back := range []time.Duration{time.Millisecond, time.Second, time.Hour, year} {
		db := open(t, t.TempDir())
		answered := wantSlot(t, db, 2, -time.Second)
		wantSlot(t, db, 2, 0)
		// It is -back now by the clock, and no time has passed.
		id, free := charge(t, db, 2, -back, map[int64]time.Time{answered: now})
		if want := span - back; id != 0 || free != want {
			t.Errorf("set back %v: id %d, free at %v, want %v", back, id, free, want)
		}
		wantFree(t, db, 1, -back, unanswered+span-back)
		u, err := db.Usage(t.Context(), "b", 1_000, now.Add(-back), span, unanswered)
		check(t, err)
		want := []time.Time{now.Add(span - back), now.Add(unanswered + span - back)}
		if d := gocmp.Diff(want, u.Slots); d != "" {
			t.Errorf("set back %v: slots (-want +got):\n%s", back, d)
		}
		// From then on time passes for them as for any other.
		wantFree(t, db, 2, span-back-time.Microsecond, span-back)
		wantSlot(t, db, 2, span-back)
	}
}

// TestUsageChangesNothing: looking with a clock set back is not settling.
func TestUsageChangesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	wantSlot(t, db, 1, 0)
	u, err := db.Usage(t.Context(), "b", 1_000, now.Add(-10*time.Hour), span, unanswered)
	check(t, err)
	if want := now.Add(-10*time.Hour + unanswered + span); len(u.Slots) != 1 || !u.Slots[0].Equal(want) {
		t.Errorf("slots %v, want one at %v", u.Slots, want)
	}
	wantFree(t, db, 1, time.Second, unanswered+span)
}

// TestChargeTakesTheTimeUnderTheLock: while it asks for the time no other
// process can write, so nothing it meets can be newer unless the clock was set back.
func TestChargeTakesTheTimeUnderTheLock(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	other := raw(t, dir)
	_, err := other.Exec("PRAGMA busy_timeout = 0")
	check(t, err)
	var refused error
	_, _, err = db.Charge(t.Context(), "b", 1, func() time.Time {
		_, refused = other.Exec("INSERT INTO requests (budget, sent_at) VALUES ('b', 1)")
		return now
	}, span, unanswered, nil)
	check(t, err)
	if refused == nil || !strings.Contains(refused.Error(), "locked") {
		t.Errorf("another process wrote meanwhile: %v", refused)
	}
}

func TestCooldown(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	check(t, db.Cooldown(t.Context(), "b", now.Add(5*time.Minute), 2))
	check(t, db.Close())
	db = open(t, dir)
	until, step, err := db.Throttles(t.Context(), "b")
	if err != nil || step != 2 || !until.Equal(now.Add(5*time.Minute)) {
		t.Errorf("after opening again: until %v, step %d, %v", until, step, err)
	}
	wantFree(t, db, 3, 0, 5*time.Minute)
	wantFree(t, db, 0, 0, 5*time.Minute) // without a limit too
	wantSlot(t, db, 3, 5*time.Minute)
	if id, free := charge(t, db, 0, 5*time.Minute, nil); id != 0 || free != 0 {
		t.Errorf("without a limit: id %d, refused until %v", id, free)
	}
	check(t, db.Cooldown(t.Context(), "b", time.Time{}, 0))
	if until, step, err := db.Throttles(t.Context(), "b"); err != nil || step != 0 || !until.IsZero() {
		t.Errorf("after opening: until %v, step %d, %v", until, step, err)
	}
}

// TestCooldownIsCapped: with the clock set back by a year the budget opens
// after a day, not after a year.
func TestCooldownIsCapped(t *testing.T) {
	for _, limit := range []int{0, 5} {
		db := open(t, t.TempDir())
		check(t, db.Cooldown(t.Context(), "b", now.Add(time.Hour), 1))
		back := -365 * 24 * time.Hour
		wantFree(t, db, limit, back, back+24*time.Hour)
		wantFree(t, db, limit, back+time.Hour, back+24*time.Hour)
		if _, free := charge(t, db, limit, back+24*time.Hour, nil); free != 0 {
			t.Errorf("limit %d: still closed until %v", limit, free)
		}
	}
}

func TestUsageFree(t *testing.T) {
	slots := []time.Time{now.Add(1 * time.Minute), now.Add(2 * time.Minute), now.Add(3 * time.Minute)}
	for _, tc := range []struct {
		limit    int
		cooldown time.Duration // since now, 0: none
		want     time.Duration // since now, 0: free
	}{
		{4, 0, 0}, {3, 0, time.Minute}, {2, 0, 2 * time.Minute}, {1, 0, 3 * time.Minute}, {0, 0, 0},
		{4, time.Minute, time.Minute}, {3, 30 * time.Second, time.Minute}, {3, 5 * time.Minute, 5 * time.Minute},
		{0, time.Minute, time.Minute}, {4, -time.Minute, 0},
	} {
		u := state.Usage{Slots: slots}
		if tc.cooldown != 0 {
			u.Cooldown = now.Add(tc.cooldown)
		}
		want := time.Time{}
		if tc.want != 0 {
			want = now.Add(tc.want)
		}
		if got := u.Free(tc.limit, now); !got.Equal(want) {
			t.Errorf("limit %d, cooldown %v: free at %v, want %v", tc.limit, tc.cooldown, got, want)
		}
	}
}

// TestChargeFailsWhole: an error leaves neither an entry nor an answer.
func TestChargeFailsWhole(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	id := wantSlot(t, db, 5, 0)
	_, err := raw(t, dir).Exec("CREATE TRIGGER no BEFORE INSERT ON requests BEGIN SELECT raise(ABORT, 'no'); END")
	check(t, err)
	got, free, err := db.Charge(t.Context(), "b", 5, at(time.Second), span, unanswered, map[int64]time.Time{id: now.Add(time.Second)})
	if err == nil || got != 0 || !free.IsZero() {
		t.Errorf("id %d, free %v, %v", got, free, err)
	}
	wantMessage(t, err, filepath.Join(dir, state.FileName))
	u, err := db.Usage(t.Context(), "b", 1_000, now.Add(time.Second), span, unanswered)
	if want := now.Add(unanswered + span); err != nil || len(u.Slots) != 1 || !u.Slots[0].Equal(want) {
		t.Errorf("slots %v, %v; want one at %v", u.Slots, err, want)
	}
}
