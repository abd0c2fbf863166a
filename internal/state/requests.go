package state

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// MaxCooldown is the longest a budget stays closed at one go, whatever the
// service or the clock says.
const MaxCooldown = 24 * time.Hour

// Charge enters a request of the budget, before it is sent, if fewer than limit
// slots are occupied and no cooldown is on; it returns the entry's id. Otherwise
// id is 0, nothing is entered, and free is when to ask again. With a limit of 0
// only a cooldown closes the budget, and nothing is ever entered.
//
// A slot is occupied until span after the response; a request whose response
// was never entered, because it is in flight or its process died, counts as
// answered after unanswered.
//
// answered maps earlier entries to the time of their response; they are entered
// in the same transaction.
//
// A clock set back never frees a slot early: what lies in the future is taken
// to have happened now. That is why now is asked for inside the transaction: a
// time taken before the wait for the lock would put entries of others, made
// during that wait, into the future. A clock set forward does free slots;
// nothing here could tell it from time that passed.
func (db *DB) Charge(ctx context.Context, budget string, limit int, now func() time.Time, span, unanswered time.Duration, answered map[int64]time.Time) (id int64, free time.Time, err error) {
	err = db.tx(ctx, func(tx *sql.Tx) error {
		if err := enterAnswers(ctx, tx, answered); err != nil {
			return err
		}
		at := now()
		if err := settleLog(ctx, tx, budget, at, span, unanswered); err != nil {
			return err
		}
		u, err := usage(ctx, tx, budget, at, span, unanswered)
		if err != nil {
			return err
		}
		if free = u.Free(limit, at); !free.IsZero() || limit == 0 {
			return nil
		}
		res, err := tx.ExecContext(ctx, `INSERT INTO requests (budget, sent_at) VALUES (?, ?)`, budget, ceilMicro(at))
		if err != nil {
			return err
		}
		id, err = res.LastInsertId()
		return err
	})
	if err != nil {
		return 0, time.Time{}, err
	}
	return id, free, nil
}

// ceilMicro returns the first whole microsecond at or after t: a slot must not
// free a fraction of one too early.
func ceilMicro(t time.Time) int64 { return t.Add(time.Microsecond - 1).UnixMicro() }

// Answered enters when responses came.
func (db *DB) Answered(ctx context.Context, answered map[int64]time.Time) error {
	return db.tx(ctx, func(tx *sql.Tx) error { return enterAnswers(ctx, tx, answered) })
}

func enterAnswers(ctx context.Context, tx *sql.Tx, answered map[int64]time.Time) error {
	for id, at := range answered {
		if _, err := tx.ExecContext(ctx, `UPDATE requests SET done_at = ? WHERE id = ?`, ceilMicro(at), id); err != nil {
			return err
		}
	}
	return nil
}

// settleLog pulls what lies in the future to now, and drops the entries whose
// slot is free.
func settleLog(ctx context.Context, tx *sql.Tx, budget string, now time.Time, span, unanswered time.Duration) error {
	_, err := tx.ExecContext(ctx, `
		UPDATE requests SET sent_at = min(sent_at, ?1), done_at = min(done_at, ?1)
		WHERE budget = ?2 AND (sent_at > ?1 OR done_at > ?1)`, ceilMicro(now), budget)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE cooldowns SET until = ?1 WHERE budget = ?2 AND until > ?1`,
		now.Add(MaxCooldown).UnixMicro(), budget)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM requests WHERE budget = ? AND coalesce(done_at, sent_at + ?) + ? <= ?`,
		budget, unanswered.Microseconds(), span.Microseconds(), now.UnixMicro())
	return err
}

// Usage is what occupies a budget.
type Usage struct {
	// Slots are the times at which the occupied slots free, soonest first.
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
	if u.Cooldown.After(now) && u.Cooldown.After(free) {
		free = u.Cooldown
	}
	return free
}

// Usage returns what occupies the budget at now. It changes nothing.
func (db *DB) Usage(ctx context.Context, budget string, now time.Time, span, unanswered time.Duration) (Usage, error) {
	u, err := usage(ctx, db.sql, budget, now, span, unanswered)
	return u, wrap(db.dir, err)
}

type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func usage(ctx context.Context, q querier, budget string, now time.Time, span, unanswered time.Duration) (u Usage, err error) {
	rows, err := q.QueryContext(ctx, `
		SELECT coalesce(min(done_at, ?3), min(sent_at, ?3) + ?1) + ?4 AS frees
		FROM requests WHERE budget = ?5 AND frees > ?2 ORDER BY frees`,
		unanswered.Microseconds(), now.UnixMicro(), ceilMicro(now), span.Microseconds(), budget)
	if err != nil {
		return u, err
	}
	defer rows.Close()
	for rows.Next() {
		var at int64
		if err := rows.Scan(&at); err != nil {
			return u, err
		}
		u.Slots = append(u.Slots, time.UnixMicro(at).UTC())
	}
	if err := rows.Err(); err != nil {
		return u, err
	}
	u.Cooldown, u.Step, err = throttles(ctx, q, budget)
	return u, err
}

func throttles(ctx context.Context, q querier, budget string) (time.Time, int, error) {
	var until int64
	var step int
	err := q.QueryRowContext(ctx, `SELECT until, step FROM cooldowns WHERE budget = ?`, budget).Scan(&until, &step)
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
	return until, step, wrap(db.dir, err)
}

// Cooldown keeps the budget closed until the given time (zero: opens it) and
// remembers the step of its back-off.
func (db *DB) Cooldown(ctx context.Context, budget string, until time.Time, step int) error {
	var micros int64
	if !until.IsZero() {
		micros = ceilMicro(until)
	}
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO cooldowns VALUES (?,?,?)`, budget, micros, step)
	return wrap(db.dir, err)
}
