package state

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Reading is a reading of windows that were named by their dates. It continues over several
// runs.
type Reading struct {
	// Name is the selection of its windows.
	Name  string    `json:"-"`
	Began time.Time `json:"began_at"`
	// Done is when a run found that every window was read since; zero before that.
	Done time.Time `json:"done_at,omitzero"`
}

// keptReadings bounds the history of readings.
const keptReadings = 1000

// FindReading returns the reading of that name, the zero one if there is none.
func (db *DB) FindReading(ctx context.Context, name string) (Reading, error) {
	r := Reading{Name: name}
	err := db.sql.QueryRowContext(ctx, `SELECT began_at, done_at FROM readings WHERE name = ?`, name).
		Scan(instant{&r.Began}, instant{&r.Done})
	if errors.Is(err, sql.ErrNoRows) {
		return Reading{}, nil
	}
	return r, db.wrap(ctx, err)
}

// SetReading keeps a reading in place of the former one of its name.
func (db *DB) SetReading(ctx context.Context, r Reading) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		done := sql.NullInt64{Int64: r.Done.UnixMicro(), Valid: !r.Done.IsZero()}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO readings VALUES (?,?,?)`, r.Name, r.Began.UnixMicro(), done)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `
			DELETE FROM readings WHERE name NOT IN (SELECT name FROM readings ORDER BY began_at DESC, name LIMIT ?)`, keptReadings)
		return err
	})
}
