package state

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// LastDone returns when the duty was last done, the zero time if never.
func (db *DB) LastDone(ctx context.Context, duty string) (time.Time, error) {
	var at int64
	err := db.sql.QueryRowContext(ctx, `SELECT done_at FROM duties WHERE name = ?`, duty).Scan(&at)
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, wrap(db.dir, err)
	}
	return time.UnixMicro(at).UTC(), nil
}

// SetDone keeps that the duty was done at the given time.
func (db *DB) SetDone(ctx context.Context, duty string, at time.Time) error {
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO duties VALUES (?,?)`, duty, at.UnixMicro())
	return wrap(db.dir, err)
}
