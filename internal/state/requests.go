package state

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
)

// maxCooldown is the longest that a budget stays closed at a time, whatever the
// service or the clock says.
const maxCooldown = 24 * time.Hour

// freeShare: a group takes one in so many of the free slots, so that no process holds
// many that it does not need while others run out of them.
const freeShare = 10

// Charge enters a group of requests of the budget, before the first of them is sent,
// if fewer than limit slots are occupied and no cooldown is on; it returns the entry's
// id, and of how many requests it is: at most most, and a tenth of the free slots if
// that is more than one. Otherwise id is 0, nothing is entered, and free is when to ask
// again. With a limit of 0 only a cooldown closes the budget. The cost does not depend
// on how much the log holds.
//
// The caller sends the first request at once, the others within life. A group's slots
// are occupied until span after its last response; one whose last response was never
// entered, because it is in flight or its process died, counts as sent as late as
// possible and answered after unanswered.
//
// answered maps earlier entries to the time of their last response; they are entered
// in the same transaction.
//
// A clock that is set back never frees a slot early: a time in the future is taken
// to be now. That is why now is called inside the transaction: a time taken before
// the wait for the lock would put entries that others made during that wait into the
// future. A clock that is set forward does free slots; nothing here could tell it
// from time that passed.
func (db *DB) Charge(ctx context.Context, budget string, limit, most int, now func() time.Time,
	life, span, unanswered time.Duration, answered map[int64]time.Time) (id int64, slots int, free time.Time, err error) {
	err = db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := enterAnswers(ctx, tx, answered); err != nil {
			return err
		}
		at := now()
		taken, cooldown, err := expireSlots(ctx, tx, budget, at, span, unanswered)
		if err != nil {
			return err
		}
		slots = most
		if limit > 0 {
			slots = max(1, min(most, (limit-taken)/freeShare))
		}
		if limit > 0 && taken >= limit {
			if free, err = nextFree(ctx, tx, budget, taken, limit, span, unanswered); err != nil {
				return err
			}
		}
		if free = afterCooldown(free, cooldown, at); !free.IsZero() {
			return nil
		}
		if slots == 1 {
			life = 0
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO requests (budget, sent_at, lasts, slots) VALUES (?,?,?,?)`,
			budget, ceilMicro(at.Add(life)), life.Microseconds(), slots)
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	if err != nil || id == 0 {
		return 0, 0, free, err
	}
	return id, slots, time.Time{}, nil
}

// Release frees n slots of an entry whose requests were never sent. An entry that was
// answered keeps its slots.
func (db *DB) Release(ctx context.Context, id int64, n int) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `UPDATE requests SET slots = slots - ? WHERE id = ? AND done_at IS NULL`, n, id)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM requests WHERE id = ? AND slots <= 0`, id)
		return err
	})
}

// Occupied returns how many slots of the budget are occupied and stay so for
// longer than soon, and when its cooldown ends or ended (zero: none). As Charge
// does, it takes a time in the future to be now, for a caller that does not charge
// while nothing is free.
func (db *DB) Occupied(ctx context.Context, budget string, now func() time.Time, soon, span, unanswered time.Duration) (
	taken int, cooldown time.Time, err error) {
	err = db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		at := now()
		if taken, cooldown, err = expireSlots(ctx, tx, budget, at, span, unanswered); err != nil || soon <= 0 {
			return err
		}
		free, freeUnanswered := at.Add(soon-span), at.Add(soon-span-unanswered)
		var frees int
		err := tx.QueryRowContext(ctx, `
			SELECT coalesce((SELECT sum(slots) FROM requests WHERE budget = ?1 AND done_at <= ?2), 0)
			  + coalesce((SELECT sum(slots) FROM requests WHERE budget = ?1 AND done_at IS NULL AND sent_at <= ?3), 0)`,
			budget, free.UnixMicro(), freeUnanswered.UnixMicro()).Scan(&frees)
		taken -= frees
		return err
	})
	return taken, cooldown, err
}

// ceilMicro returns the first whole microsecond at or after t: a slot must not
// free a fraction of a microsecond too early.
func ceilMicro(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// Answered enters when responses came.
func (db *DB) Answered(ctx context.Context, answered map[int64]time.Time) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error { return enterAnswers(ctx, tx, answered) })
}

func enterAnswers(ctx context.Context, tx *sql.Tx, answered map[int64]time.Time) error {
	for id, at := range answered {
		if _, err := tx.ExecContext(ctx, `UPDATE requests SET done_at = ? WHERE id = ?`, ceilMicro(at), id); err != nil {
			return err
		}
	}
	return nil
}

// expireSlots sets times in the future to now, drops the entries whose slots are
// free, and returns how many slots are occupied, and the end of the cooldown. Each
// statement finds what it changes by an index, and mostly there is nothing.
func expireSlots(ctx context.Context, tx *sql.Tx, budget string, now time.Time, span, unanswered time.Duration) (
	taken int, cooldown time.Time, err error) {
	expired := now.Add(-span)
	for _, change := range []struct {
		query string
		at    int64
	}{
		{`UPDATE requests SET done_at = ?2 WHERE budget = ?1 AND done_at > ?2`, ceilMicro(now)},
		{`UPDATE requests SET sent_at = ?2 + lasts WHERE budget = ?1 AND done_at IS NULL
			AND sent_at > ?2 AND sent_at > ?2 + lasts`, ceilMicro(now)},
		{`UPDATE cooldowns SET until = until - set_at + ?2, set_at = ?2 WHERE budget = ?1 AND set_at > ?2`, now.UnixMicro()},
		{`UPDATE cooldowns SET until = ?2 WHERE budget = ?1 AND until > ?2`, now.Add(maxCooldown).UnixMicro()},
		{`DELETE FROM requests WHERE budget = ?1 AND done_at <= ?2`, expired.UnixMicro()},
		{`DELETE FROM requests WHERE budget = ?1 AND done_at IS NULL AND sent_at <= ?2`, expired.Add(-unanswered).UnixMicro()},
	} {
		if _, err := tx.ExecContext(ctx, change.query, budget, change.at); err != nil {
			return 0, time.Time{}, err
		}
	}
	err = tx.QueryRowContext(ctx, `SELECT coalesce((SELECT taken FROM slots WHERE budget = ?), 0)`, budget).Scan(&taken)
	if err != nil {
		return 0, time.Time{}, err
	}
	cooldown, _, err = throttles(ctx, tx, budget)
	return taken, cooldown, err
}

// nextFree returns when fewer than limit of the taken slots will be occupied. It
// walks through the log from the nearer end: mostly one entry of each kind, more if
// the limit was lowered.
func nextFree(ctx context.Context, tx *sql.Tx, budget string, taken, limit int, span, unanswered time.Duration) (
	time.Time, error) {
	steps, order := taken-limit+1, "ASC"
	if limit < steps {
		steps, order = limit, "DESC"
	}
	rows, err := tx.QueryContext(ctx, strings.ReplaceAll(`
		SELECT at, slots FROM (SELECT done_at AS at, slots FROM requests
		  WHERE budget = ?1 AND done_at IS NOT NULL ORDER BY done_at {order} LIMIT ?2)
		UNION ALL
		SELECT at, slots FROM (SELECT sent_at + ?3 AS at, slots FROM requests
		  WHERE budget = ?1 AND done_at IS NULL ORDER BY sent_at {order} LIMIT ?2)
		ORDER BY at {order}`, "{order}", order), budget, steps, unanswered.Microseconds())
	if err != nil {
		return time.Time{}, err
	}
	defer rows.Close()
	var at int64
	for steps > 0 && rows.Next() {
		var slots int
		if err := rows.Scan(&at, &slots); err != nil {
			return time.Time{}, err
		}
		steps -= slots
	}
	return time.UnixMicro(at).Add(span).UTC(), rows.Err()
}

// Usage is what occupies a budget.
type Usage struct {
	// Slots are the times at which the occupied slots free, soonest first; if more
	// than the limit are occupied, the last ones, because only they matter.
	Slots []time.Time
	// Cooldown is when the service may be asked again; zero if none is on.
	Cooldown time.Time
	// Step counts the throttles that led to the cooldown without a success between.
	Step int
}

// Free returns when a request may be sent: the zero time for now.
func (u Usage) Free(limit int, now time.Time) time.Time {
	var free time.Time
	if limit > 0 && len(u.Slots) >= limit {
		free = u.Slots[len(u.Slots)-limit]
	}
	return afterCooldown(free, u.Cooldown, now)
}

func afterCooldown(free, cooldown, now time.Time) time.Time {
	if cooldown.After(now) && cooldown.After(free) {
		return cooldown
	}
	return free
}

// Usage returns what occupies the budget at now. It changes nothing.
func (db *DB) Usage(ctx context.Context, budget string, limit int, now time.Time, span, unanswered time.Duration) (
	Usage, error) {
	var u Usage
	var err error
	if u.Cooldown, u.Step, err = throttlesAt(ctx, db.sql, budget, now); err != nil {
		return u, db.wrap(ctx, err)
	}
	type row struct {
		frees time.Time
		slots int
	}
	err = each(ctx, db.sql, func(r *row) []any { return []any{instant{&r.frees}, &r.slots} }, func(r row) {
		for range min(r.slots, limit-len(u.Slots)) {
			u.Slots = append(u.Slots, r.frees)
		}
	}, `
		SELECT coalesce(min(done_at, ?3), min(sent_at, ?3 + lasts) + ?1) + ?4 AS frees, slots
		FROM requests WHERE budget = ?5 AND frees > ?2 ORDER BY frees DESC LIMIT ?6`,
		unanswered.Microseconds(), now.UnixMicro(), ceilMicro(now), span.Microseconds(), budget, limit)
	slices.Reverse(u.Slots)
	return u, db.wrap(ctx, err)
}

func throttles(ctx context.Context, q querier, budget string) (time.Time, int, error) {
	return throttlesAt(ctx, q, budget, time.UnixMicro(math.MaxInt64))
}

// throttlesAt is throttles as expireSlots would correct it at now.
func throttlesAt(ctx context.Context, q querier, budget string, now time.Time) (time.Time, int, error) {
	var until int64
	var step int
	err := q.QueryRowContext(ctx, `SELECT CASE WHEN until = 0 THEN 0 ELSE until - max(0, set_at - ?) END, step FROM cooldowns
		WHERE budget = ?`, now.UnixMicro(), budget).Scan(&until, &step)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, 0, nil
	}
	if err != nil || until == 0 {
		return time.Time{}, step, err
	}
	return time.UnixMicro(until).UTC(), step, nil
}

// Throttles returns when the budget's cooldown ends or ended (zero: none) and
// how many throttles led to it.
func (db *DB) Throttles(ctx context.Context, budget string) (time.Time, int, error) {
	until, step, err := throttles(ctx, db.sql, budget)
	return until, step, db.wrap(ctx, err)
}

// Cooldown keeps the budget closed from the time at until the given time (zero: opens it)
// and remembers the step of its back-off.
func (db *DB) Cooldown(ctx context.Context, budget string, at, until time.Time, step int) error {
	var micros int64
	if !until.IsZero() {
		micros = ceilMicro(until)
	}
	return db.exec(ctx, `INSERT OR REPLACE INTO cooldowns VALUES (?,?,?,?)`, budget, micros, step, at.UnixMicro())
}
