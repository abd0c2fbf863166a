package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// ofWindow selects the rows of a window; windowOf returns its arguments, and more.
const ofWindow = ` WHERE project = ?1 AND granularity = ?2 AND window_start = ?3 AND window_end = ?4`

func windowOf(k analytics.Key, more ...any) []any {
	return append([]any{k.Project, k.Granularity, k.From, k.To}, more...)
}

// Entry is what the ledger knows of one window: its newest revision, and which
// sinks have it.
type Entry struct {
	analytics.Revision
	analytics.Provenance
	// Sinks maps each sink that is owed the revision or has it to the time of its
	// commit; the zero time while it is owed. It is empty if the window is lost.
	Sinks map[string]time.Time `json:"sinks"`
}

// Lost reports whether no sink has the revision and none will be given it: the window must
// be read again.
func (e Entry) Lost() bool { return len(e.Sinks) == 0 }

// Entries returns the newest revision of every window, in key order.
func (db *DB) Entries(ctx context.Context) ([]Entry, error) {
	var out []Entry
	err := db.EachEntry(ctx, func(e Entry) { out = append(out, e) })
	return out, err
}

// EachEntry calls do with the newest revision of every window, in key order. do must not
// use the state.
func (db *DB) EachEntry(ctx context.Context, do func(Entry)) error {
	type row struct {
		entry Entry
		sink  sql.NullString
		at    time.Time
	}
	fields := func(r *row) []any {
		e := &r.entry
		return []any{
			&e.Project, &e.Granularity, &e.From, &e.To, &e.Number, &e.Settled, &e.Verified,
			&e.Rows, &e.Totals.Human, &e.Totals.AI, &e.Totals.Total, instant{&e.ExportedAt},
			&e.Requests, &e.Checksum, &e.MovedRows, &e.RepeatedRows, &r.sink, instant{&r.at},
		}
	}
	var e Entry
	names := map[string]string{} // millions of entries share a few names
	name := func(s string) string {
		if _, known := names[s]; !known {
			names[s] = s
		}
		return names[s]
	}
	err := each(ctx, db.sql, fields, func(r row) {
		if e.Sinks == nil || e.Key != r.entry.Key {
			if e.Sinks != nil {
				do(e)
			}
			e = r.entry
			e.Project, e.Granularity = name(e.Project), analytics.Granularity(name(string(e.Granularity)))
			e.Sinks = map[string]time.Time{}
		}
		if r.sink.Valid {
			e.Sinks[name(r.sink.String)] = r.at
		}
	}, `
		SELECT r.project, r.granularity, r.window_start, r.window_end, r.revision, r.settled, r.verified,
		       r.row_count, r.human, r.ai, r.total, r.exported_at,
		       r.requests, r.checksum, r.moved_rows, r.repeated_rows, d.sink, d.committed_at
		FROM revisions r
		LEFT JOIN deliveries d USING (project, granularity, window_start, window_end, revision)
		WHERE r.revision = (SELECT max(m.revision) FROM revisions m
		  WHERE m.project = r.project AND m.granularity = r.granularity
		    AND m.window_start = r.window_start AND m.window_end = r.window_end)
		ORDER BY r.project, r.granularity, r.window_start, r.window_end, d.sink`)
	if err == nil && e.Sinks != nil {
		do(e)
	}
	return db.wrap(ctx, err)
}

// Record enters a sealed revision and owes it to the given sinks. Recording a
// revision again changes nothing, so it can be repeated after a crash. A window that
// was read is no longer set aside.
func (db *DB) Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := insertRevision(ctx, tx, rev, prov); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM set_aside`+ofWindow, windowOf(rev.Key)...); err != nil {
			return err
		}
		for _, sink := range sinks {
			if err := owe(ctx, tx, rev, sink); err != nil {
				return err
			}
		}
		return nil
	})
}

func insertRevision(ctx context.Context, tx *sql.Tx, r analytics.Revision, p analytics.Provenance) error {
	_, err := tx.ExecContext(ctx, `
		INSERT INTO revisions VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		windowOf(r.Key, r.Number, r.Settled, r.Verified, r.Rows,
			r.Totals.Human, r.Totals.AI, r.Totals.Total, r.ExportedAt.UnixMicro(),
			p.Requests, p.Checksum, p.MovedRows, p.RepeatedRows)...)
	return err
}

func owe(ctx context.Context, tx *sql.Tx, r analytics.Revision, sink string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO deliveries VALUES (?,?,?,?,?,?,NULL) ON CONFLICT DO NOTHING`,
		windowOf(r.Key, r.Number, sink)...)
	return err
}

// Committed enters that sink has the revision since at, and counts the window
// and its rows; a repetition is not counted twice.
func (db *DB) Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := owe(ctx, tx, rev, sink); err != nil {
			return err
		}
		first, err := changed(tx.ExecContext(ctx, `
			UPDATE deliveries SET committed_at = ?5`+ofWindow+` AND revision = ?6 AND sink = ?7 AND committed_at IS NULL`,
			windowOf(rev.Key, at.UnixMicro(), rev.Number, sink)...))
		if err != nil || !first {
			return err
		}
		return addAll(ctx, tx, []Count{
			{"windows_committed_total", Labels("project", rev.Project, "sink", sink), 1},
			{"rows_written_total", Labels("sink", sink), max(rev.Rows, 0)},
		})
	})
}

// Forget takes back a revision that no sink has: the former one is the newest again, or,
// where there is none, the window is lost, and so due again. It refuses to forget one that
// a sink committed.
func (db *DB) Forget(ctx context.Context, rev analytics.Revision) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		const ofRevision = ofWindow + ` AND revision = ?5`
		revision := windowOf(rev.Key, rev.Number)
		var committed int
		err := tx.QueryRowContext(ctx, `SELECT count(committed_at) FROM deliveries`+ofRevision, revision...).Scan(&committed)
		if err != nil {
			return err
		}
		if committed > 0 {
			return fmt.Errorf("forget %s revision %d: a sink has committed it", rev.Key, rev.Number)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM deliveries`+ofRevision, revision...); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM revisions`+ofRevision+` AND EXISTS (SELECT 1 FROM revisions`+ofWindow+` AND revision < ?5)`, revision...)
		return err
	})
}

// Restore enters what a sink shows, for a ledger that was lost. Revisions that
// are there already stay as they are.
func (db *DB) Restore(ctx context.Context, sink string, revs []analytics.Revision) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		for _, r := range revs {
			if err := insertRevision(ctx, tx, r, analytics.Provenance{}); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `
				INSERT INTO deliveries VALUES (?,?,?,?,?,?,?)
				ON CONFLICT DO UPDATE SET committed_at = coalesce(committed_at, excluded.committed_at)`,
				windowOf(r.Key, r.Number, sink, r.ExportedAt.UnixMicro())...)
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// Amend replaces what the ledger says of the window of e: the newest revision, and
// which sinks have it or are owed it; none makes the window due again. The caller has
// looked at the sinks.
func (db *DB) Amend(ctx context.Context, e Entry) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := deleteLedger(ctx, tx, ofWindow, windowOf(e.Key)...); err != nil {
			return err
		}
		return enter(ctx, tx, e)
	})
}

// Disbelieve takes the time and the settling from readings that were made after latest, or of
// windows that end after it: a clock that was ahead made them. Their numbers stay. It returns
// how many there were.
func (db *DB) Disbelieve(ctx context.Context, latest time.Time) (n int64, err error) {
	day := analytics.DateOf(latest)
	err = db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `UPDATE revisions SET exported_at = ?1, settled = 0, verified = 0
			WHERE exported_at <> ?1 AND (exported_at > ?2 OR window_end > ?3)`, analytics.Unbelieved.UnixMicro(), latest.UnixMicro(), day)
		if err == nil {
			n, err = res.RowsAffected()
		}
		if err != nil || n == 0 {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM newest_pages WHERE window_end > ?`, day)
		return err
	})
	return n, err
}

// ReplaceLedger replaces the whole ledger by entries.
func (db *DB) ReplaceLedger(ctx context.Context, entries []Entry) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := deleteLedger(ctx, tx, ""); err != nil {
			return err
		}
		for _, e := range entries {
			if err := enter(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	})
}

// deleteLedger removes revisions and their deliveries.
func deleteLedger(ctx context.Context, tx *sql.Tx, where string, args ...any) error {
	for _, table := range []string{"deliveries", "revisions"} {
		if _, err := tx.ExecContext(ctx, "DELETE FROM "+table+where, args...); err != nil {
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
			windowOf(e.Key, e.Number, sink, committed)...)
		if err != nil {
			return err
		}
	}
	return nil
}
