package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// Queue returns what holds the whole queue up.
func (db *DB) Queue(ctx context.Context) (q journal.Queue, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT version, paused, since, detail, answered_at, released_at, unknowns, adopted, key_mark FROM queue`).
		Scan(&q.Version, &q.Paused, instant{&q.Since}, &q.Detail, instant{&q.Answered}, instant{&q.Released}, &q.Unknowns, &q.Adopted, &q.KeyMark)
	return q, wrap(db.dir, err)
}

func writeQueue(ctx context.Context, tx *sql.Tx, q journal.Queue) error {
	res, err := tx.ExecContext(ctx, `UPDATE queue SET version = version + 1, paused = ?, since = ?, detail = ?,
		answered_at = ?, released_at = ?, unknowns = ?, adopted = ?, key_mark = ? WHERE version = ?`,
		q.Paused, instant{&q.Since}, q.Detail, instant{&q.Answered}, instant{&q.Released}, q.Unknowns, q.Adopted, q.KeyMark, q.Version)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return fmt.Errorf("the queue: %w", journal.ErrRaced)
	}
	return nil
}

// Recurring returns the prompts with a schedule that were seen, by id.
func (db *DB) Recurring(ctx context.Context) (map[string]journal.Recurring, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT prompt, schedule, since FROM recurring`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	out := map[string]journal.Recurring{}
	for rows.Next() {
		var prompt string
		var r journal.Recurring
		if err := rows.Scan(&prompt, &r.Schedule, instant{&r.Since}); err != nil {
			return nil, wrap(db.dir, err)
		}
		out[prompt] = r
	}
	return out, wrap(db.dir, rows.Err())
}

// See keeps since when a prompt was seen with its schedule. With the schedule it
// had, the earlier time stays.
func (db *DB) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	_, err := db.sql.ExecContext(ctx, `INSERT INTO recurring VALUES (?,?,?) ON CONFLICT DO UPDATE SET
		since = CASE WHEN schedule = excluded.schedule THEN min(since, excluded.since) ELSE excluded.since END,
		schedule = excluded.schedule`, prompt, schedule, instant{&at})
	return wrap(db.dir, err)
}

// Notes returns up to n notifications that are not delivered, those to be tried
// first first.
func (db *DB) Notes(ctx context.Context, n int) ([]journal.Note, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT id, kind, at, body, tries, next_at FROM notes ORDER BY next_at, id LIMIT ?`, n)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []journal.Note
	for rows.Next() {
		var note journal.Note
		if err := rows.Scan(&note.ID, &note.Kind, instant{&note.At}, &note.Body, &note.Tries, instant{&note.Next}); err != nil {
			return nil, wrap(db.dir, err)
		}
		out = append(out, note)
	}
	return out, wrap(db.dir, rows.Err())
}

// NoteDone takes out a notification that was delivered or given up.
func (db *DB) NoteDone(ctx context.Context, id int64) error {
	_, err := db.sql.ExecContext(ctx, `DELETE FROM notes WHERE id = ?`, id)
	return wrap(db.dir, err)
}

// NoteFailed counts a delivery that failed; the next is at the given time.
func (db *DB) NoteFailed(ctx context.Context, id int64, next time.Time) error {
	_, err := db.sql.ExecContext(ctx, `UPDATE notes SET tries = tries + 1, next_at = ? WHERE id = ?`, instant{&next}, id)
	return wrap(db.dir, err)
}
