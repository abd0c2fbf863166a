package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// ErrTold: another process has reported the matter since it was looked up; nothing was entered.
var ErrTold = errors.New("another process has reported it already")

// Told says that a matter was reported.
type Told struct {
	// Matter names it, like "export_failing/1790000000000000".
	Matter string
	At     time.Time
	// Value is larger each time that the same matter is reported again.
	Value int64
}

// Telling is what is reported at one moment.
type Telling struct {
	// Told are the matters: new ones, or known ones with a larger value.
	Told []Told
	// Over are the matters that have ended: they may be reported again.
	Over []string
	// Notes are the events to be delivered.
	Notes []journal.Note
}

// Told returns the matters that were reported and are not over, by name.
func (db *DB) Told(ctx context.Context) (map[string]Told, error) {
	out := map[string]Told{}
	err := scan(ctx, db.sql, func(r *Told) []any { return []any{&r.Matter, instant{&r.At}, &r.Value} },
		func(r Told) { out[r.Matter] = r }, `SELECT * FROM reported`)
	return out, db.wrap(ctx, err)
}

// Tell enters the events and what they report, all or nothing. After ErrTold nothing was entered.
func (db *DB) Tell(ctx context.Context, r Telling) error {
	return db.write(ctx, func(t *tx) {
		for _, told := range r.Told {
			entered := t.exec(`INSERT INTO reported VALUES (?,?,?)
				ON CONFLICT DO UPDATE SET at = excluded.at, value = excluded.value WHERE value < excluded.value`,
				told.Matter, instant{&told.At}, told.Value) > 0
			if !entered {
				t.fail(fmt.Errorf("%s: %w", told.Matter, ErrTold))
			}
		}
		for _, matter := range r.Over {
			t.exec(`DELETE FROM reported WHERE name = ?`, matter)
		}
		for _, n := range r.Notes {
			t.insertEvent(n)
		}
	})
}

func (t *tx) insertEvent(n journal.Note) {
	t.exec(`INSERT INTO events (kind, at, body, next_at) VALUES (?,?,?,?)`, n.Kind, instant{&n.At}, n.Body, instant{&n.At})
}

// Notes returns up to n events that are not delivered, in the order in which they are to be tried.
func (db *DB) Notes(ctx context.Context, n int) ([]journal.Note, error) {
	return list(ctx, db, func(n *journal.Note) []any {
		return []any{&n.ID, &n.Kind, instant{&n.At}, &n.Body, &n.Tries, instant{&n.Next}, instant{&n.Begun}, &n.InDoubt}
	}, `SELECT * FROM events ORDER BY next_at, id LIMIT ?`, n)
}

// NoteBegun enters that an event is sent now. If it was being sent before, by a process that did
// not enter the outcome, that delivery is in doubt. It reports false, and changes nothing, if the
// event is no longer as it was read.
func (db *DB) NoteBegun(ctx context.Context, n journal.Note, at time.Time) (mine bool, err error) {
	err = db.write(ctx, func(t *tx) {
		mine = t.exec(`UPDATE events SET begun_at = ?, in_doubt = in_doubt + (begun_at <> 0)
			WHERE id = ? AND begun_at = ? AND tries = ?`, instant{&at}, n.ID, instant{&n.Begun}, n.Tries) > 0
	})
	return mine, err
}

// NoteDone removes an event that was delivered or given up.
func (db *DB) NoteDone(ctx context.Context, id int64) error {
	return db.exec(ctx, `DELETE FROM events WHERE id = ?`, id)
}

// NoteFailed counts a delivery that failed, but may have arrived if it is in doubt; the next is at
// the given time.
func (db *DB) NoteFailed(ctx context.Context, id int64, next time.Time, inDoubt bool) error {
	return db.exec(ctx, `UPDATE events SET tries = tries + 1, begun_at = 0, in_doubt = in_doubt + ?, next_at = ?
		WHERE id = ?`, inDoubt, instant{&next}, id)
}
