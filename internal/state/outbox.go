package state

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// ErrTold: somebody else has told of the matter meanwhile; nothing was entered.
var ErrTold = errors.New("somebody else has told of it meanwhile")

// Told says that people were told of a matter.
type Told struct {
	// Matter names it, like "export_failing/1790000000000000".
	Matter string
	At     time.Time
	// Value is larger each time that people are told of the same matter again.
	Value int64
}

// Telling is what people are told at one moment.
type Telling struct {
	// Told are the matters: new ones, or known ones with a larger value.
	Told []Told
	// Over are the matters that have ended: they may be told of again.
	Over []string
	// Notes are to be delivered.
	Notes []journal.Note
}

// Told returns the matters that people were told of and that are not over, by name.
func (db *DB) Told(ctx context.Context) (map[string]Told, error) {
	out := map[string]Told{}
	err := each(ctx, db.sql, func(t *Told) []any { return []any{&t.Matter, instant{&t.At}, &t.Value} },
		func(t Told) { out[t.Matter] = t }, `SELECT matter, at, value FROM told`)
	return out, db.wrap(ctx, err)
}

// Tell enters the notes and what they tell of, all or nothing. After ErrTold nothing
// was entered.
func (db *DB) Tell(ctx context.Context, t Telling) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, told := range t.Told {
			entered, err := changed(tx.ExecContext(ctx, `INSERT INTO told VALUES (?,?,?)
				ON CONFLICT DO UPDATE SET at = excluded.at, value = excluded.value WHERE value < excluded.value`,
				told.Matter, instant{&told.At}, told.Value))
			if err != nil {
				return err
			}
			if !entered {
				return fmt.Errorf("%s: %w", told.Matter, ErrTold)
			}
		}
		for _, matter := range t.Over {
			if _, err := tx.ExecContext(ctx, `DELETE FROM told WHERE matter = ?`, matter); err != nil {
				return err
			}
		}
		for _, note := range t.Notes {
			if err := enterNote(ctx, tx, note); err != nil {
				return err
			}
		}
		return nil
	})
}

func enterNote(ctx context.Context, tx *sql.Tx, n journal.Note) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO notes (kind, at, body, tries, next_at) VALUES (?,?,?,0,?)`,
		n.Kind, instant{&n.At}, n.Body, instant{&n.At})
	return err
}

// Notes returns up to n notifications that are not delivered, in the order in which
// they are to be tried.
func (db *DB) Notes(ctx context.Context, n int) ([]journal.Note, error) {
	return collect(ctx, db, func(n *journal.Note) []any {
		return []any{&n.ID, &n.Kind, instant{&n.At}, &n.Body, &n.Tries, instant{&n.Next}, instant{&n.Begun}, &n.InDoubt}
	}, `SELECT id, kind, at, body, tries, next_at, begun_at, in_doubt FROM notes ORDER BY next_at, id LIMIT ?`, n)
}

// NoteBegun enters that a notification is sent now. If it was being sent before, by
// a process that did not enter the outcome, that delivery is in doubt. It reports false,
// and changes nothing, if the note is no longer as it was read.
func (db *DB) NoteBegun(ctx context.Context, n journal.Note, at time.Time) (bool, error) {
	mine, err := changed(db.sql.ExecContext(ctx, `
		UPDATE notes SET begun_at = ?, in_doubt = in_doubt + (begun_at <> 0) WHERE id = ? AND begun_at = ? AND tries = ?`,
		instant{&at}, n.ID, instant{&n.Begun}, n.Tries))
	return mine, db.wrap(ctx, err)
}

// NoteDone removes a notification that was delivered or given up.
func (db *DB) NoteDone(ctx context.Context, id int64) error {
	return db.exec(ctx, `DELETE FROM notes WHERE id = ?`, id)
}

// NoteFailed counts a delivery that failed, and may have arrived all the same if it is
// in doubt; the next is at the given time.
func (db *DB) NoteFailed(ctx context.Context, id int64, next time.Time, inDoubt bool) error {
	return db.exec(ctx, `UPDATE notes SET tries = tries + 1, begun_at = 0, in_doubt = in_doubt + ?, next_at = ? WHERE id = ?`,
		inDoubt, instant{&next}, id)
}
