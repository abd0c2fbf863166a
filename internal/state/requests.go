package state

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// maxCooldown bounds one closing of a budget, whatever the service or the clock says.
const maxCooldown = 24 * time.Hour

// freeShare: a group takes one in freeShare of the free slots, so that no process holds many unused
// ones while others run out of them.
const freeShare = 10

// BudgetLog is the log of the requests of one budget.
//
// An entry is a group of requests. Its slots are occupied until Span after its last response; one
// whose last response was never entered, because it is in flight or its process died, counts as
// sent as late as possible and answered after Unanswered.
//
// A wrong clock never frees a slot early, as long as the service shows which clock is wrong. While
// Confirmed reports false, this process's clock may be wrong in either direction, so it changes no
// time in the log and frees nothing: every entry counts, also an old one, because a clock that is
// ahead looks like time that passed. What such a clock enters is unsure: if it is behind, the entry
// would look old by the right one. With the clock confirmed, entries and cooldowns that are unsure or
// from the future are taken to be from now, and old entries are removed. InDoubt reports that a
// request waits for that confirmation alone.
//
// If the clock and the service are wrong together, each jump forward can free the slots once.
//
// Now is called inside the transaction: a time taken before the wait for the lock would put entries
// that others made during that wait into the future.
type BudgetLog struct {
	DB *DB
	// Name of the budget; all processes with that name share it.
	Name             string
	Span, Unanswered time.Duration
	Now              func() time.Time
	// Confirmed reports whether the service has confirmed Now; nil means always.
	Confirmed func() bool
	// SetBack, if not nil, is called when confirmed entries from the future were taken to be from now.
	SetBack func()
}

func (l BudgetLog) isConfirmed() bool { return l.Confirmed == nil || l.Confirmed() }

// unconfirmedFor is how long an unconfirmed clock leaves a slot taken that is free by that clock.
const unconfirmedFor = time.Minute

// Charge enters a group of requests, before the first of them is sent, if fewer than limit slots
// are occupied and no cooldown is on; it returns the entry's id, and how many requests it has: at
// most most, and a tenth of the free slots if that is more than one. Otherwise id is 0, nothing is
// entered, and free is when to ask again. With a limit of 0 only a cooldown closes the budget.
//
// The caller sends the first request at once, the others within life. answered is as in Answered;
// it is entered in the same transaction.
func (l BudgetLog) Charge(ctx context.Context, limit, most int, life time.Duration, answered map[int64]time.Time) (
	id int64, slots int, free time.Time, err error,
) {
	err = l.DB.write(ctx, func(t *tx) {
		l.enterAnswers(t, answered)
		now := l.Now()
		u := l.expire(t, now)
		if free = u.Free(limit, now); t.err != nil || !free.IsZero() {
			return
		}
		slots = most
		if limit > 0 {
			slots = max(1, min(most, (limit-u.Taken)/freeShare))
		}
		if slots == 1 {
			life = 0
		}
		_, id = t.insert(`INSERT INTO requests (budget, slots, set_at, frees_at, unsure) VALUES (?,?,?,?,?)`,
			l.Name, slots, now.UnixMicro(), ceilMicro(now.Add(life+l.Unanswered+l.Span)), !l.isConfirmed())
	})
	if err != nil || id == 0 {
		return 0, 0, free, err
	}
	return id, slots, time.Time{}, nil
}

// Release frees n slots of an entry whose requests were never sent. An entry that was answered
// keeps its slots.
func (l BudgetLog) Release(ctx context.Context, id int64, n int) error {
	return l.DB.write(ctx, func(t *tx) {
		t.exec(`UPDATE requests SET slots = slots - ? WHERE id = ? AND NOT answered`, n, id)
		t.exec(`DELETE FROM requests WHERE id = ? AND slots <= 0`, id)
	})
}

// Answered enters when the last responses to entries came.
func (l BudgetLog) Answered(ctx context.Context, answered map[int64]time.Time) error {
	return l.DB.write(ctx, func(t *tx) { l.enterAnswers(t, answered) })
}

func (l BudgetLog) enterAnswers(t *tx, answered map[int64]time.Time) {
	if l.isConfirmed() {
		l.confirmCooldown(t, l.Now().UnixMicro())
	}
	for id, at := range answered {
		t.exec(`UPDATE requests SET answered = 1, set_at = ?, frees_at = ?, unsure = ? WHERE id = ?`,
			at.UnixMicro(), ceilMicro(at.Add(l.Span)), !l.isConfirmed(), id)
	}
}

// confirmCooldown takes a cooldown that is unsure or from the future to begin now, by a confirmed clock.
func (l BudgetLog) confirmCooldown(t *tx, now int64) {
	t.exec(`UPDATE cooldowns SET until = iif(until = 0, 0, until - set_at + ?2), set_at = ?2, unsure = 0
		WHERE budget = ?1 AND (unsure OR set_at > ?2)`, l.Name, now)
}

// ceilMicro returns the first whole microsecond at or after t: a slot must not free a fraction of a
// microsecond too early.
func ceilMicro(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// Occupied returns how many slots are occupied and stay so for longer than soon, and when the
// cooldown ends or ended (zero: none). As Charge does, it moves entries from the future to now, for
// a caller that does not charge while nothing is free.
func (l BudgetLog) Occupied(ctx context.Context, soon time.Duration) (taken int, cooldown time.Time, err error) {
	err = l.DB.write(ctx, func(t *tx) {
		now := l.Now()
		u := l.expire(t, now)
		taken, cooldown = u.Taken, u.Cooldown
		for _, e := range u.entries {
			if !e.frees.After(now.Add(soon)) {
				taken -= e.slots
			}
		}
	})
	return taken, cooldown, err
}

// InDoubt reports whether a request is refused only because the clock is not confirmed: by the clock
// alone a slot is free, or some of the times that refuse it cannot be right.
func (l BudgetLog) InDoubt(ctx context.Context, limit int) (bool, error) {
	if l.isConfirmed() {
		return false, nil
	}
	now := l.Now()
	careful, err := readUsage(ctx, l.DB.sql, l.Name, now, false)
	if err != nil || careful.Free(limit, now).IsZero() {
		return false, l.DB.wrap(ctx, err)
	}
	byClock, err := readUsage(ctx, l.DB.sql, l.Name, now, true)
	if err != nil || byClock.Free(limit, now).IsZero() {
		return err == nil, l.DB.wrap(ctx, err)
	}
	future := now.Add(clock.Tolerance).UnixMicro()
	return get(ctx, l.DB.sql, []any{new(int)}, `SELECT 1 WHERE
		EXISTS (SELECT 1 FROM requests WHERE budget = ?1 AND (unsure OR set_at > ?2)) OR
		EXISTS (SELECT 1 FROM cooldowns WHERE budget = ?1 AND (unsure OR set_at > ?2))`, l.Name, future)
}

// expire returns the occupied slots. If the clock is confirmed, it first takes unsure times and those
// in the future to be from now, and removes the entries whose slots are free.
func (l BudgetLog) expire(t *tx, now time.Time) (u Usage) {
	at, confirmed := now.UnixMicro(), l.isConfirmed()
	if confirmed {
		if l.SetBack != nil && t.get([]any{new(int)}, `SELECT 1 FROM requests
			WHERE budget = ? AND NOT unsure AND set_at > ?`, l.Name, now.Add(clock.Tolerance).UnixMicro()) {
			l.SetBack()
		}
		t.exec(`UPDATE requests SET frees_at = frees_at - set_at + ?2, set_at = ?2, unsure = 0
			WHERE budget = ?1 AND (unsure OR set_at > ?2)`, l.Name, at)
		t.exec(`DELETE FROM requests WHERE budget = ?1 AND frees_at <= ?2`, l.Name, at)
		l.confirmCooldown(t, at)
		t.exec(`UPDATE cooldowns SET until = ?2 WHERE budget = ?1 AND until > ?2`,
			l.Name, now.Add(maxCooldown).UnixMicro())
	}
	if t.err == nil {
		u, t.err = readUsage(t.ctx, t.sql, l.Name, now, confirmed)
	}
	return u
}

// Usage describes the occupied slots of a budget.
type Usage struct {
	// Taken is how many slots are occupied.
	Taken int
	// Cooldown is when the service may be asked again; zero if the budget is open.
	Cooldown time.Time
	// Step counts the throttles that led to the cooldown without a success between.
	Step int

	entries []usedSlots // soonest to free first
}

// usedSlots are the slots of one entry.
type usedSlots struct {
	frees time.Time
	slots int
}

// Usage returns the usage of a budget at now, by a clock that is taken to be right. It changes nothing.
func (db *DB) Usage(ctx context.Context, budget string, now time.Time) (Usage, error) {
	u, err := readUsage(ctx, db.reads, budget, now, true)
	return u, db.wrap(ctx, err)
}

// closedUntil is the end of a cooldown at ?2. As for requests, an unsure time and one in the future count as now.
const closedUntil = `until - iif(unsure, set_at - ?2, max(0, set_at - ?2))`

// readUsage reads the whole log of a budget, which is short: in an hour a process makes a few
// entries a second at most, and fewer than its limit. It takes unsure times, and those in the future, to
// be now. Without byClock no slot is free because of its age.
func readUsage(ctx context.Context, q querier, budget string, now time.Time, byClock bool) (u Usage, err error) {
	var until int64
	_, err = get(ctx, q, []any{&until, &u.Step}, `
		SELECT iif(until = 0, 0, min(`+closedUntil+`, ?3)), step FROM cooldowns WHERE budget = ?1`,
		budget, now.UnixMicro(), now.Add(maxCooldown).UnixMicro())
	if err != nil {
		return u, err
	}
	u.Cooldown = fromMicros(until)
	least := int64(math.MinInt64)
	if !byClock {
		least = now.Add(unconfirmedFor).UnixMicro()
	}
	err = scan(ctx, q, func(e *usedSlots) []any { return []any{instant{&e.frees}, &e.slots} }, func(e usedSlots) {
		u.entries = append(u.entries, e)
		u.Taken += e.slots
	}, `
		SELECT max(frees_at - iif(unsure, set_at - ?2, max(0, set_at - ?2)), ?3) AS frees, slots FROM requests
		WHERE budget = ?1 AND frees > ?2 ORDER BY frees`, budget, now.UnixMicro(), least)
	return u, err
}

// Free returns when a request may be sent under a limit, 0 for none: the zero time for now.
func (u Usage) Free(limit int, now time.Time) (free time.Time) {
	if slots := u.Slots(limit); limit > 0 && len(slots) >= limit {
		free = slots[0]
	}
	if u.Cooldown.After(now) && u.Cooldown.After(free) {
		return u.Cooldown
	}
	return free
}

// Slots returns when the occupied slots free, soonest first: the last ones if more than limit are
// occupied, because only they matter.
func (u Usage) Slots(limit int) (frees []time.Time) {
	for _, e := range slices.Backward(u.entries) {
		for range min(e.slots, limit-len(frees)) {
			frees = append(frees, e.frees)
		}
	}
	slices.Reverse(frees)
	return frees
}

// Throttles returns when the budget's cooldown ends or ended (zero: none) and how many throttles
// led to it.
func (l BudgetLog) Throttles(ctx context.Context) (until time.Time, step int, err error) {
	err = l.DB.get(ctx, []any{instant{&until}, &step}, `
		SELECT iif(until = 0, 0, `+closedUntil+`), step FROM cooldowns WHERE budget = ?1`, l.Name, l.Now().UnixMicro())
	return until, step, err
}

// Cooldown keeps the budget closed from now until the given time (zero: opens it) and remembers the
// step of its back-off.
func (l BudgetLog) Cooldown(ctx context.Context, until time.Time, step int) error {
	var micros int64
	if !until.IsZero() {
		micros = ceilMicro(until)
	}
	return l.DB.exec(ctx, `INSERT OR REPLACE INTO cooldowns VALUES (?,?,?,?,?)`,
		l.Name, micros, step, l.Now().UnixMicro(), !l.isConfirmed())
}
