package state_test

import (
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/docgauge/docgauge/internal/state"
)

// TestLogAgrees: after anything that can happen to a log, a charge refuses until
// the moment that a look at the whole log names, and the count of its slots is
// their sum.
func TestLogAgrees(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		db, err := state.OpenExisting("nowhere")
		check(t, err)
		defer db.Close()
		clock, open := now, []int64{}
		ask := func() time.Time { return clock }
		for range rapid.IntRange(1, 60).Draw(rt, "events") {
			clock = clock.Add(time.Duration(rapid.Int64Range(0, int64(span/4)).Draw(rt, "pause")))
			answered := map[int64]time.Time{}
			if len(open) > 0 && rapid.Bool().Draw(rt, "answers") {
				answered[open[0]] = clock
				open = open[1:]
			}
			switch rapid.IntRange(0, 5).Draw(rt, "event") {
			case 0:
				count := rapid.IntRange(0, 4).Draw(rt, "count")
				sent := []time.Time{clock, clock.Add(-time.Second)}[:rapid.IntRange(0, 2).Draw(rt, "open")]
				ids, err := db.Note(t.Context(), "b", ask, span, unanswered, count, clock.Add(-time.Minute), sent, answered)
				check(t, err)
				if len(ids) != len(sent) {
					rt.Fatalf("%d ids of %d requests", len(ids), len(sent))
				}
				open = append(open, ids...)
			case 1:
				if len(open) > 0 {
					check(t, db.Release(t.Context(), open[len(open)-1]))
					open = open[:len(open)-1]
				}
				check(t, db.Answered(t.Context(), answered))
			case 2:
				clock = clock.Add(-time.Duration(rapid.Int64Range(0, int64(2*span)).Draw(rt, "set back")))
				fallthrough
			default:
				limit := rapid.IntRange(1, 8).Draw(rt, "limit")
				check(t, db.Answered(t.Context(), answered))
				u, err := db.Usage(t.Context(), "b", 1_000, clock, span, unanswered)
				check(t, err)
				soon := time.Duration(rapid.Int64Range(0, int64(span)).Draw(rt, "soon"))
				if rapid.Bool().Draw(rt, "now") {
					soon = 0
				}
				taken, _, err := db.Occupied(t.Context(), "b", ask, soon, span, unanswered)
				check(t, err)
				want := 0
				for _, frees := range u.Slots {
					if frees.After(clock.Add(soon)) {
						want++
					}
				}
				if taken != want {
					rt.Fatalf("%d slots are occupied for longer than %v, the log holds %v", taken, soon, u.Slots)
				}
				id, free, err := db.Charge(t.Context(), "b", limit, ask, span, unanswered, nil)
				check(t, err)
				if want := u.Free(limit, clock); !free.Equal(want) || (id == 0) != !want.IsZero() {
					rt.Fatalf("limit %d at %v: entry %d, free at %v; the log says %v, of %v", limit, clock, id, free, want, u.Slots)
				}
				if id != 0 {
					open = append(open, id)
				}
			}
		}
	})
}

// TestNoteGroups: requests without a limit lie in few entries, and a limit knows
// each of them.
func TestNoteGroups(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	ids, err := db.Note(t.Context(), "b", at(time.Second), span, unanswered, 1000, now, []time.Time{now}, nil)
	check(t, err)
	if entries := rows(t, dir); entries != 2 || len(ids) != 1 {
		t.Errorf("%d entries, ids %v", entries, ids)
	}
	wantFree(t, db, 1001, time.Second, span)
	wantFree(t, db, 1, time.Second, unanswered+span)
	_, err = db.Note(t.Context(), "b", at(2*time.Second), span, unanswered, 0, time.Time{}, nil, map[int64]time.Time{ids[0]: now.Add(2 * time.Second)})
	check(t, err)
	wantFree(t, db, 1, 2*time.Second, 2*time.Second+span)
	// What is older than the span is dropped, by the next group too.
	_, err = db.Note(t.Context(), "b", at(2*span), span, unanswered, 7, now.Add(2*span), nil, nil)
	check(t, err)
	if entries := rows(t, dir); entries != 1 {
		t.Errorf("%d entries after two hours", entries)
	}
}

// TestNoteFailsWhole: an error leaves no entry and no answer.
func TestNoteFailsWhole(t *testing.T) {
	dir := t.TempDir()
	db := open(t, dir)
	id := wantSlot(t, db, 5, 0)
	_, err := raw(t, dir).Exec("CREATE TRIGGER no BEFORE INSERT ON requests WHEN NEW.done_at IS NULL BEGIN SELECT raise(ABORT, 'no'); END")
	check(t, err)
	ids, err := db.Note(t.Context(), "b", at(time.Second), span, unanswered, 3, now, []time.Time{now}, map[int64]time.Time{id: now})
	if err == nil || ids != nil {
		t.Errorf("ids %v, %v", ids, err)
	}
	wantMessage(t, err, filepath.Join(dir, state.FileName))
	u, err := db.Usage(t.Context(), "b", 1_000, now, span, unanswered)
	if want := now.Add(unanswered + span); err != nil || len(u.Slots) != 1 || !u.Slots[0].Equal(want) {
		t.Errorf("slots %v, %v; want one at %v", u.Slots, err, want)
	}
}

func TestRelease(t *testing.T) {
	db := open(t, t.TempDir())
	never, answered := wantSlot(t, db, 2, 0), wantSlot(t, db, 2, 0)
	check(t, db.Answered(t.Context(), map[int64]time.Time{answered: now}))
	for range 2 { // once more frees nothing more
		check(t, db.Release(t.Context(), never))
		check(t, db.Release(t.Context(), answered))
	}
	wantSlot(t, db, 2, 0)
	wantFree(t, db, 2, 0, span)
}

// TestOccupiedAfterTheClockWasSetBack: who only asks for room gets the budget back
// in a day, not in a year.
func TestOccupiedAfterTheClockWasSetBack(t *testing.T) {
	db := open(t, t.TempDir())
	wantSlot(t, db, 1, 0)
	check(t, db.Cooldown(t.Context(), "b", now.Add(time.Hour), 1))
	back := -365 * 24 * time.Hour
	for _, tc := range []struct {
		at    time.Duration
		taken int
		until time.Duration
	}{{back, 1, back + 24*time.Hour}, {back + span + unanswered, 0, back + 24*time.Hour}} {
		taken, until, err := db.Occupied(t.Context(), "b", at(tc.at), 0, span, unanswered)
		if err != nil || taken != tc.taken || !until.Equal(now.Add(tc.until)) {
			t.Errorf("at %v: %d slots, cooldown until %v, %v; want %d, %v", tc.at, taken, until, err, tc.taken, now.Add(tc.until))
		}
	}
}

// TestUsageIsBounded: a log without a limit can hold far more slots than a limit has.
func TestUsageIsBounded(t *testing.T) {
	db := open(t, t.TempDir())
	for i, count := range []int{1 << 40, 3} {
		done := now.Add(time.Duration(i) * time.Second)
		_, err := db.Note(t.Context(), "b", at(time.Minute), span, unanswered, count, done, nil, nil)
		check(t, err)
	}
	u, err := db.Usage(t.Context(), "b", 1_000, now.Add(time.Minute), span, unanswered)
	check(t, err)
	if n := len(u.Slots); n != 1_000 || !u.Free(3, now).Equal(now.Add(time.Second+span)) || !u.Free(4, now).Equal(now.Add(span)) {
		t.Errorf("%d slots; free at %v and %v", n, u.Free(3, now), u.Free(4, now))
	}
	wantFree(t, db, 1_000_000, time.Minute, span)
}

// TestChargeDoesNotReadTheLog: with 100,000 entries it once took a thousand times
// as long as with none. The best of several charges depends on no load.
func TestChargeDoesNotReadTheLog(t *testing.T) {
	cost := func(entries, limit int) time.Duration {
		dir := t.TempDir()
		db := open(t, dir)
		fill(t, dir, entries)
		best := time.Duration(math.MaxInt64)
		for i := range 40 {
			begin := time.Now()
			charge(t, db, limit, time.Duration(i)*time.Millisecond, nil)
			best = min(best, time.Since(begin))
		}
		return best
	}
	empty := cost(0, 1_000_000)
	for name, got := range map[string]time.Duration{
		"a charge": cost(100_000, 1_000_000), "a refusal": cost(100_000, 100_000), "a refusal with a lower limit": cost(100_000, 90),
	} {
		if got > 20*empty {
			t.Errorf("%s takes %v with 100,000 entries, %v with none", name, got, empty)
		}
	}
}

// TestRequestsAreCounted: a log of a former docgauge keeps its slots.
func TestRequestsAreCounted(t *testing.T) {
	dir := t.TempDir()
	db := raw(t, dir)
	scripts, err := filepath.Glob("migrations/*.sql")
	check(t, err)
	version := 0
	for ; filepath.Base(scripts[version]) != "0006_requests.sql"; version++ {
		script, err := os.ReadFile(scripts[version])
		check(t, err)
		_, err = db.Exec(string(script))
		check(t, err)
	}
	_, err = db.Exec("INSERT INTO requests (budget, sent_at, done_at) VALUES ('b', ?1, ?1), ('b', ?1, NULL), ('c', ?1, NULL)", now.UnixMicro())
	check(t, err)
	_, err = db.Exec("PRAGMA user_version = " + string(rune('0'+version)))
	check(t, err)
	check(t, db.Close())
	got := open(t, dir)
	wantFree(t, got, 2, 0, span)
	wantFree(t, got, 1, 0, unanswered+span)
	u, err := got.Usage(t.Context(), "c", 1_000, now, span, unanswered)
	check(t, err)
	if d := gocmp.Diff([]time.Time{now.Add(unanswered + span)}, u.Slots); d != "" {
		t.Errorf("slots (-want +got):\n%s", d)
	}
}

// rows returns how many entries the log holds.
func rows(t *testing.T, dir string) (n int) {
	t.Helper()
	check(t, raw(t, dir).QueryRow("SELECT count(*) FROM requests").Scan(&n))
	return n
}
