package state

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

// ErrReported: another process has reported the condition since it was looked up; nothing was entered.
var ErrReported = errors.New("another process has reported it already")

// Reported is a condition that an event has reported and that has not ended.
type Reported struct {
	// Condition names it, like "export_failing/1790000000000000".
	Condition string
	At        time.Time
	// Value grows each time that the same condition is reported again.
	Value int64
}

// Report is the result of one evaluation.
type Report struct {
	// Reported are new conditions, or known ones with a larger value.
	Reported []Reported
	// Over are the conditions that have ended: they may be reported again.
	Over   []string
	Events []journal.Event
}

// Reported returns the conditions that were reported and have not ended, by name.
func (db *DB) Reported(ctx context.Context) (map[string]Reported, error) {
	out := map[string]Reported{}
	err := scan(ctx, db.reads, func(r *Reported) []any { return []any{&r.Condition, instant{&r.At}, &r.Value} },
		func(r Reported) { out[r.Condition] = r }, `SELECT * FROM reported`)
	return out, db.wrap(ctx, err)
}

// Report enters the events and their conditions, all or nothing. After ErrReported nothing was
// entered.
func (db *DB) Report(ctx context.Context, r Report) error {
	return db.write(ctx, func(t *tx) {
		for _, c := range r.Reported {
			entered := t.exec(`INSERT INTO reported VALUES (?,?,?)
				ON CONFLICT DO UPDATE SET at = excluded.at, value = excluded.value WHERE value < excluded.value`,
				c.Condition, instant{&c.At}, c.Value) > 0
			if !entered {
				t.fail(fmt.Errorf("%s: %w", c.Condition, ErrReported))
			}
		}
		for _, condition := range r.Over {
			t.exec(`DELETE FROM reported WHERE name = ?`, condition)
		}
		for _, e := range r.Events {
			t.insertEvent(e)
		}
	})
}

func (t *tx) insertEvent(e journal.Event) {
	at := instant{&e.At}
	t.exec(`INSERT INTO events (kind, at, body, next_at) VALUES (?,?,?,?)`, e.Kind, at, e.Body, at)
}

// Events returns up to n events that are not delivered, in the order in which they are to be tried.
func (db *DB) Events(ctx context.Context, n int) ([]journal.Event, error) {
	return list(ctx, db, func(e *journal.Event) []any {
		return []any{&e.ID, &e.Kind, instant{&e.At}, &e.Body, &e.Tries, instant{&e.Next}, instant{&e.Begun}, &e.InDoubt}
	}, `SELECT * FROM events ORDER BY next_at, id LIMIT ?`, n)
}

// EventBegun enters that an event is sent now. If it was being sent before, by a process that did
// not enter the outcome, that delivery is in doubt. It reports false, and changes nothing, if the
// event has changed since it was read.
func (db *DB) EventBegun(ctx context.Context, e journal.Event, at time.Time) (mine bool, err error) {
	err = db.write(ctx, func(t *tx) {
		mine = t.exec(`UPDATE events SET begun_at = ?, in_doubt = in_doubt + (begun_at <> 0)
			WHERE id = ? AND begun_at = ? AND tries = ?`, instant{&at}, e.ID, instant{&e.Begun}, e.Tries) > 0
	})
	return mine, err
}

// EventDone removes an event that was delivered or given up.
func (db *DB) EventDone(ctx context.Context, id int64) error {
	return db.exec(ctx, `DELETE FROM events WHERE id = ?`, id)
}

// EventFailed counts a delivery that failed, but may have arrived if it is in doubt; the next is at
// the given time.
func (db *DB) EventFailed(ctx context.Context, id int64, next time.Time, inDoubt bool) error {
	return db.exec(ctx, `UPDATE events SET tries = tries + 1, begun_at = 0, in_doubt = in_doubt + ?, next_at = ?
		WHERE id = ?`, inDoubt, instant{&next}, id)
}
