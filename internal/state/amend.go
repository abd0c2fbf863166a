package state

import (
	"context"
	"database/sql"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Amend makes e what the ledger says of its window: the newest revision, and
// which sinks have it or are owed it, whatever it said before. It is for who has
// looked at the sinks.
func (db *DB) Amend(ctx context.Context, e Entry) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := forgetFrom(ctx, tx, e.Key, e.Number); err != nil {
			return err
		}
		return enter(ctx, tx, e)
	})
}

// ForgetWindow takes out all that is known of a window, so that it is due again,
// also where a sink is said to have it: it is for windows that no sink has whole.
func (db *DB) ForgetWindow(ctx context.Context, k analytics.Key) error {
	return db.tx(ctx, func(tx *sql.Tx) error { return forgetFrom(ctx, tx, k, 0) })
}

// ReplaceLedger makes entries all that is known of windows.
func (db *DB) ReplaceLedger(ctx context.Context, entries []Entry) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		for _, table := range []string{"deliveries", "revisions"} {
			if _, err := tx.ExecContext(ctx, "DELETE FROM "+table); err != nil {
				return err
			}
		}
		for _, e := range entries {
			if err := enter(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// forgetFrom takes out the revisions of a window from a number on.
func forgetFrom(ctx context.Context, tx *sql.Tx, k analytics.Key, number int32) error {
	for _, table := range []string{"deliveries", "revisions"} {
		_, err := tx.ExecContext(ctx, "DELETE FROM "+table+" WHERE project = ? AND granularity = ? AND window_start = ? AND window_end = ? AND revision >= ?",
			k.Project, k.Granularity, k.From, k.To, number)
		if err != nil {
			return err
		}
	}
	return nil
}

func enter(ctx context.Context, tx *sql.Tx, e Entry) error {
	if err := insertRevision(ctx, tx, e.Revision, e.Provenance); err != nil {
		return err
	}
	for sink, at := range e.Sinks {
		committed := sql.NullInt64{Int64: at.UnixMicro(), Valid: !at.IsZero()}
		_, err := tx.ExecContext(ctx, `INSERT INTO deliveries VALUES (?,?,?,?,?,?,?)`,
			e.Project, e.Granularity, e.From, e.To, e.Number, sink, committed)
		if err != nil {
			return err
		}
	}
	return nil
}
