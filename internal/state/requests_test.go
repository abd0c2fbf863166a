package state_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/state"
)

const (
	span       = time.Hour
	unanswered = time.Minute
	life       = time.Second // of a group
)

func at(d time.Duration) func() time.Time {
	return func() time.Time { return now.Add(d) }
}

// logAt is the log of the budget "b" at now + d.
func logAt(db *state.DB, d time.Duration) state.BudgetLog {
	return state.BudgetLog{DB: db, Name: "b", Span: span, Unanswered: unanswered, Now: at(d)}
}

// charge charges the budget "b" at now + d and returns the id, and free as the
// time since now (0: not refused).
func charge(
	t *testing.T, db *state.DB, limit int, d time.Duration, answered map[int64]time.Time,
) (int64, time.Duration) {
	t.Helper()
	id, slots, free, err := logAt(db, d).Charge(t.Context(), limit, 1, life, answered)
	check(t, err)
	if free.IsZero() != (id != 0) || (slots == 1) != (id != 0) {
		t.Errorf("id %d of %d slots with free %v", id, slots, free)
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

// wantSlots fails unless the slots that are occupied at now + d free at these times since now.
func wantSlots(t *testing.T, db *state.DB, d time.Duration, want ...time.Duration) {
	t.Helper()
	var got []time.Duration
	for _, frees := range must(db.Usage(t.Context(), "b", now.Add(d)))(t).Slots(1_000) {
		got = append(got, frees.Sub(now))
	}
	same(t, want, got)
}

// answer enters that the last response to an entry came at now + d.
func answer(t *testing.T, db *state.DB, id int64, d time.Duration) {
	t.Helper()
	check(t, logAt(db, 0).Answered(t.Context(), map[int64]time.Time{id: now.Add(d)}))
}

func TestChargeSlots(t *testing.T) {
	db := open(t, t.TempDir())
	first := wantSlot(t, db, 2, 0)
	wantSlot(t, db, 2, time.Second)
	wantFree(t, db, 2, 2*time.Second, unanswered+span)
	answer(t, db, first, 3*time.Second+time.Nanosecond)
	wantFree(t, db, 2, 4*time.Second, 3*time.Second+time.Microsecond+span) // rounded up
	// A lower limit waits for the second.
	wantFree(t, db, 1, 4*time.Second, time.Second+unanswered+span)
	// Not a moment early, not a moment late.
	wantFree(t, db, 2, 3*time.Second+span, 3*time.Second+time.Microsecond+span)
	wantSlot(t, db, 2, 3*time.Second+span+time.Microsecond)
	// The second was never answered.
	wantFree(t, db, 2, 3*time.Second+span+2*time.Microsecond, time.Second+unanswered+span)
	other := logAt(db, 0) // another budget has its own slots
	other.Name = "c"
	if id, _, _, err := other.Charge(t.Context(), 1, 1, life, nil); err != nil || id == 0 {
		t.Errorf("another budget: id %d, %v", id, err)
	}
}

// TestBudgetsExpireApart: the time after which requests count as unanswered holds for one budget alone.
func TestBudgetsExpireApart(t *testing.T) {
	db := open(t, t.TempDir())
	slow := state.BudgetLog{DB: db, Name: "slow", Span: span, Unanswered: time.Hour, Now: at(0)}
	_, _, _, err := slow.Charge(t.Context(), 1, 1, life, nil)
	check(t, err)
	wantSlot(t, db, 1, span+30*time.Minute)
	slow.Now = at(span + 30*time.Minute)
	_, _, free, err := slow.Charge(t.Context(), 1, 1, life, nil)
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
	answer(t, db, old, 0)
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
		wantSlots(t, db, -back, span-back, unanswered+span-back)
		// From then on they age like any other.
		wantFree(t, db, 2, span-back-time.Microsecond, span-back)
		wantSlot(t, db, 2, span-back)
	}
}

// TestUsageChangesNothing: reading with a clock set back does not move entries.
func TestUsageChangesNothing(t *testing.T) {
	db := open(t, t.TempDir())
	wantSlot(t, db, 1, 0)
	wantSlots(t, db, -10*time.Hour, -10*time.Hour+unanswered+span)
	wantFree(t, db, 1, time.Second, unanswered+span)
}

// TestChargeTakesTheTimeUnderTheLock: while it asks for the time no other
// process can write, so nothing it meets can be newer unless the clock was set back.
func TestChargeTakesTheTimeUnderTheLock(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	other := raw(t, dir)
	must(other.Exec("PRAGMA busy_timeout = 0"))(t)
	var refused error
	log := logAt(db, 0)
	log.Now = func() time.Time {
		_, refused = other.Exec("INSERT INTO requests (budget, slots, set_at, frees_at) VALUES ('b', 1, 1, 1)")
		return now
	}
	_, _, _, err := log.Charge(t.Context(), 1, 1, life, nil)
	check(t, err)
	if refused == nil || !strings.Contains(refused.Error(), "locked") {
		t.Errorf("another process wrote meanwhile: %v", refused)
	}
}

func TestCooldown(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	check(t, logAt(db, 0).Cooldown(t.Context(), now.Add(5*time.Minute), 2))
	check(t, db.Close())
	db = open(t, dir)
	throttles := func(wantUntil time.Time, wantStep int) {
		t.Helper()
		until, step, err := logAt(db, 0).Throttles(t.Context())
		if err != nil || step != wantStep || !until.Equal(wantUntil) {
			t.Errorf("until %v, step %d, %v", until, step, err)
		}
	}
	throttles(now.Add(5*time.Minute), 2)
	wantFree(t, db, 3, 0, 5*time.Minute)
	wantFree(t, db, 0, 0, 5*time.Minute) // without a limit too
	wantSlot(t, db, 3, 5*time.Minute)
	wantSlot(t, db, 0, 5*time.Minute)
	check(t, logAt(db, 0).Cooldown(t.Context(), time.Time{}, 0))
	throttles(time.Time{}, 0)
}

// TestCooldownAfterTheClockWasSetBack: with the clock set back by a year the budget opens
// after as long as the service asked for, not after a year.
func TestCooldownAfterTheClockWasSetBack(t *testing.T) {
	for _, limit := range []int{0, 5} {
		db := open(t, t.TempDir())
		check(t, logAt(db, 0).Cooldown(t.Context(), now.Add(time.Hour), 1))
		back := -365 * 24 * time.Hour
		u := must(db.Usage(t.Context(), "b", now.Add(back)))(t)
		if !u.Cooldown.Equal(now.Add(back + time.Hour)) {
			t.Errorf("limit %d: shown as closed until %v", limit, u.Cooldown)
		}
		wantFree(t, db, limit, back, back+time.Hour)
		wantFree(t, db, limit, back+30*time.Minute, back+time.Hour)
		if _, free := charge(t, db, limit, back+time.Hour, nil); free != 0 {
			t.Errorf("limit %d: still closed until %v", limit, free)
		}
	}
}

func TestUsageFree(t *testing.T) {
	db := open(t, t.TempDir())
	for minute := range time.Duration(3) {
		id := wantSlot(t, db, 0, 0)
		answer(t, db, id, (minute+1)*time.Minute-span)
	}
	for _, tc := range []struct {
		limit    int
		cooldown time.Duration // since now, 0: none
		want     time.Duration // since now, 0: free
	}{
		{4, 0, 0}, {3, 0, time.Minute}, {2, 0, 2 * time.Minute}, {1, 0, 3 * time.Minute}, {0, 0, 0},
		{4, time.Minute, time.Minute}, {3, 30 * time.Second, time.Minute}, {3, 5 * time.Minute, 5 * time.Minute},
		{0, time.Minute, time.Minute}, {4, -time.Minute, 0},
	} {
		u := must(db.Usage(t.Context(), "b", now))(t)
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
	must(raw(t, dir).Exec("CREATE TRIGGER no BEFORE INSERT ON requests BEGIN SELECT raise(ABORT, 'no'); END"))(t)
	answered := map[int64]time.Time{id: now.Add(time.Second)}
	got, slots, free, err := logAt(db, time.Second).Charge(t.Context(), 5, 1, life, answered)
	if err == nil || got != 0 || slots != 0 || !free.IsZero() {
		t.Errorf("id %d of %d slots, free %v, %v", got, slots, free, err)
	}
	wantMessage(t, err, filepath.Join(dir, state.FileName))
	wantSlots(t, db, time.Second, unanswered+span)
}

// TestLogAgrees: after any events, a charge refuses until the moment that the whole
// log gives, and the count of slots is their sum.
func TestLogAgrees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db := must(state.OpenExisting("nowhere"))(t)
		defer db.Close()
		clock, open := now, []int64{}
		log := logAt(db, 0)
		log.Now = func() time.Time { return clock }
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			clock = clock.Add(time.Duration(rapid.Int64Range(0, int64(span/4)).Draw(rt, "pause")))
			answered := map[int64]time.Time{}
			if len(open) > 0 && rapid.Bool().Draw(rt, "answers") {
				answered[open[0]] = clock
				open = open[1:]
			}
			switch rapid.IntRange(0, 5).Draw(rt, "event") {
			case 0:
				check(t, log.Answered(t.Context(), answered))
				id, _, _, err := log.Charge(t.Context(), 0, rapid.IntRange(1, 4).Draw(rt, "most"), life, nil)
				check(t, err)
				open = append(open, id)
			case 1:
				check(t, log.Answered(t.Context(), answered))
				if len(open) > 0 {
					check(t, log.Release(t.Context(), open[len(open)-1], rapid.IntRange(1, 4).Draw(rt, "given back")))
				}
			case 2:
				clock = clock.Add(-time.Duration(rapid.Int64Range(0, int64(2*span)).Draw(rt, "set back")))
				fallthrough
			default:
				limit := rapid.IntRange(1, 8).Draw(rt, "limit")
				check(t, log.Answered(t.Context(), answered))
				u := must(db.Usage(t.Context(), "b", clock))(t)
				soon := time.Duration(rapid.Int64Range(0, int64(span)).Draw(rt, "soon"))
				if rapid.Bool().Draw(rt, "now") {
					soon = 0
				}
				taken, _, err := log.Occupied(t.Context(), soon)
				check(t, err)
				want := 0
				for _, frees := range u.Slots(1_000) {
					if frees.After(clock.Add(soon)) {
						want++
					}
				}
				if taken != want {
					rt.Fatalf("%d slots are occupied for longer than %v, the log holds %v", taken, soon, u.Slots(1_000))
				}
				id, _, free, err := log.Charge(t.Context(), limit, 1, life, nil)
				check(t, err)
				if want := u.Free(limit, clock); !free.Equal(want) || (id == 0) != !want.IsZero() {
					rt.Fatalf("limit %d at %v: entry %d, free at %v; the log says %v, of %v", limit, clock, id, free,
						want, u.Slots(1_000))
				}
				if id != 0 {
					open = append(open, id)
				}
			}
		}
	})
}

// group charges most requests at now + d and returns the entry and its slots.
func group(t *testing.T, db *state.DB, limit, most int, d time.Duration) (id int64, slots int) {
	t.Helper()
	id, slots, _, err := logAt(db, d).Charge(t.Context(), limit, most, life, nil)
	check(t, err)
	return id, slots
}

// TestGroups: a group takes one entry; its slots count, each of them, from its last
// response on, or from the last moment at which it can have been sent.
func TestGroups(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	id, slots := group(t, db, 0, 1000, 0)
	if n := rows(t, dir); n != 1 || slots != 1000 {
		t.Errorf("%d entries, %d slots", n, slots)
	}
	wantFree(t, db, 1000, 0, life+unanswered+span)
	wantFree(t, db, 1, life, life+unanswered+span)
	wantSlot(t, db, 1001, life)
	answer(t, db, id, life)
	wantFree(t, db, 1001, 2*life, life+span)
	// What is older than the span is dropped.
	wantSlot(t, db, 1, 2*span)
	if n := rows(t, dir); n != 1 {
		t.Errorf("%d entries after two hours", n)
	}
}

// TestGroupsShrink: a group takes a tenth of the free slots, and at least one.
func TestGroupsShrink(t *testing.T) {
	db, taken := open(t, t.TempDir()), 0
	for taken < 1000 {
		_, slots := group(t, db, 1000, 50, 0)
		if want := max(1, min(50, (1000-taken)/10)); slots != want {
			t.Fatalf("%d slots of %d that are free, want %d", slots, 1000-taken, want)
		}
		taken += slots
	}
	if id, slots := group(t, db, 1000, 50, 0); id != 0 || slots != 0 {
		t.Errorf("entry %d with %d slots of none", id, slots)
	}
}

func TestRelease(t *testing.T) {
	db := open(t, t.TempDir())
	never, answered := wantSlot(t, db, 2, 0), wantSlot(t, db, 2, 0)
	answer(t, db, answered, 0)
	for range 2 { // once more frees nothing more
		check(t, logAt(db, 0).Release(t.Context(), never, 1))
		check(t, logAt(db, 0).Release(t.Context(), answered, 1))
	}
	wantSlot(t, db, 2, 0)
	wantFree(t, db, 2, 0, span)
	id, _ := group(t, db, 0, 5, 0)
	check(t, logAt(db, 0).Release(t.Context(), id, 3)) // of 7, 4 are left
	wantFree(t, db, 4, 0, span)
	wantSlot(t, db, 5, 0)
}

// TestOccupiedAfterTheClockWasSetBack: a caller that does not charge gets the budget
// back in an hour, not in a year.
func TestOccupiedAfterTheClockWasSetBack(t *testing.T) {
	db := open(t, t.TempDir())
	wantSlot(t, db, 1, 0)
	check(t, logAt(db, 0).Cooldown(t.Context(), now.Add(time.Hour), 1))
	back := -365 * 24 * time.Hour
	for _, tc := range []struct {
		at    time.Duration
		taken int
		until time.Duration
	}{{back, 1, back + time.Hour}, {back + span + unanswered, 0, back + time.Hour}} {
		taken, until, err := logAt(db, tc.at).Occupied(t.Context(), 0)
		if err != nil || taken != tc.taken || !until.Equal(now.Add(tc.until)) {
			t.Errorf("at %v: %d slots, cooldown until %v, %v; want %d, %v", tc.at, taken, until, err, tc.taken,
				now.Add(tc.until))
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if _, _, err := logAt(db, 0).Occupied(ended, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("not read: %v", err)
	}
}

// TestUsageIsBounded: a log without a limit can hold far more slots than a limit has.
func TestUsageIsBounded(t *testing.T) {
	db := open(t, t.TempDir())
	for i, count := range []int{1 << 40, 3} {
		id, _ := group(t, db, 0, count, time.Duration(i)*time.Second)
		answer(t, db, id, time.Duration(i)*time.Second)
	}
	u := must(db.Usage(t.Context(), "b", now.Add(time.Minute)))(t)
	n := len(u.Slots(1_000))
	if n != 1_000 || !u.Free(3, now).Equal(now.Add(time.Second+span)) || !u.Free(4, now).Equal(now.Add(span)) {
		t.Errorf("%d slots; free at %v and %v", n, u.Free(3, now), u.Free(4, now))
	}
	wantFree(t, db, 1_000_000, time.Minute, span)
}

// TestUnconfirmedCooldown: a cooldown that a wrong clock entered lasts from the confirmation on, and begins anew only
// once.
func TestUnconfirmedCooldown(t *testing.T) {
	for _, off := range []time.Duration{-48 * time.Hour, -time.Minute, 72 * time.Hour} {
		db := open(t, t.TempDir())
		log := logAt(db, off)
		log.Confirmed = func() bool { return false }
		check(t, log.Cooldown(t.Context(), now.Add(off+time.Hour), 1))
		if doubt, err := log.InDoubt(t.Context(), 3); err != nil || !doubt {
			t.Errorf("%v: in doubt: %t, %v", off, doubt, err)
		}
		check(t, logAt(db, time.Minute).Answered(t.Context(), nil)) // a process ends
		until, _, err := logAt(db, time.Minute).Throttles(t.Context())
		if err != nil || !until.Equal(now.Add(time.Minute+time.Hour)) {
			t.Errorf("%v: closed until %v, %v", off, until, err)
		}
		wantFree(t, db, 3, 50*time.Minute, time.Minute+time.Hour)
		wantSlot(t, db, 3, time.Minute+time.Hour)
	}
}

// rows returns how many entries the log holds.
func rows(t *testing.T, dir string) (n int) {
	t.Helper()
	check(t, raw(t, dir).QueryRow("SELECT count(*) FROM requests").Scan(&n))
	return n
}

// TestUnconfirmedClock: a clock that nothing has confirmed frees no slot, whichever way it is wrong. What it
// enters counts from the confirmation on.
func TestUnconfirmedClock(t *testing.T) {
	for _, off := range []time.Duration{-48 * time.Hour, -2 * time.Hour, 2 * time.Hour, 72 * time.Hour} {
		db := open(t, t.TempDir())
		unconfirmed := logAt(db, off)
		unconfirmed.Confirmed = func() bool { return false }
		wantDoubt := func(limit int, want bool) {
			t.Helper()
			if got, err := unconfirmed.InDoubt(t.Context(), limit); err != nil || got != want {
				t.Errorf("%v, limit %d: in doubt: %v, %v", off, limit, got, err)
			}
		}
		wantSlot(t, db, 2, 0)
		wantDoubt(2, false)
		if id, _, _, err := unconfirmed.Charge(t.Context(), 2, 1, life, nil); err != nil || id == 0 {
			t.Fatalf("%v: a slot is free by any clock: %v", off, err)
		}
		wantDoubt(2, true)
		if id, _, free, err := unconfirmed.Charge(t.Context(), 2, 1, life, nil); err != nil || id != 0 || free.IsZero() {
			t.Errorf("%v: charged %d, free at %v, %v", off, id, free, err)
		}
		// The right clock, a second later, takes what the other one entered to be from now.
		wantFree(t, db, 2, time.Second, span+unanswered)
		wantSlot(t, db, 2, span+unanswered)
		wantFree(t, db, 2, span+unanswered, time.Second+span+unanswered)
	}
}
