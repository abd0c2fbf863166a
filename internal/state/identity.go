package state

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Identity tells a state from others, and from the same one at another time.
type Identity struct {
	// ID is made with the state; a copy of it has the same.
	ID string
	// Begun counts the creates and follow-ups whose intent was entered.
	Begun int64
	// Adopted is that of the queue.
	Adopted bool
}

// Identity returns what tells this state from others.
func (db *DB) Identity(ctx context.Context) (i Identity, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT id, begun, adopted FROM queue`).Scan(&i.ID, &i.Begun, &i.Adopted)
	return i, db.wrap(ctx, err)
}

// RunStarted returns when a run began, the zero time if that is not known.
func (db *DB) RunStarted(ctx context.Context, id int64) (at time.Time, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT started_at FROM runs WHERE id = ?`, id).Scan(instant{&at})
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, db.wrap(ctx, err)
}

// SetRestored enters that so many creates and follow-ups were begun, more than this state
// knows of: until the operator has decided about its prompts, nothing is sent.
func (db *DB) SetRestored(ctx context.Context, begun int64) error {
	return db.exec(ctx, `UPDATE queue SET version = version + 1, begun = max(begun, ?), restored = 1, adopted = 0`, begun)
}
