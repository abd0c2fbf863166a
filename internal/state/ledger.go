package state

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Entry is what the ledger knows of one window: its newest revision, and which
// sinks have it.
type Entry struct {
	analytics.Revision
	analytics.Provenance
	// Sinks maps each sink owed or holding the revision to the time of its
	// commit; the zero time while it is owed.
	Sinks map[string]time.Time `json:"sinks"`
}

// Entries returns the newest revision of every window, in key order.
func (db *DB) Entries(ctx context.Context) ([]Entry, error) {
	rows, err := db.sql.QueryContext(ctx, `
		SELECT r.project, r.granularity, r.window_start, r.window_end, r.revision, r.settled, r.verified,
		       r.row_count, r.human, r.ai, r.total, r.exported_at, r.requests, r.checksum, r.moved_rows, r.repeated_rows, d.sink, d.committed_at
		FROM revisions r
		LEFT JOIN deliveries d USING (project, granularity, window_start, window_end, revision)
		WHERE r.revision = (SELECT max(m.revision) FROM revisions m
		  WHERE m.project = r.project AND m.granularity = r.granularity
		    AND m.window_start = r.window_start AND m.window_end = r.window_end)
		ORDER BY r.project, r.granularity, r.window_start, r.window_end, d.sink`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []Entry
	for rows.Next() {
		e, sink, at, err := scanEntry(rows)
		if err != nil {
			return nil, wrap(db.dir, err)
		}
		if n := len(out); n == 0 || out[n-1].Key != e.Key {
			out = append(out, e)
		}
		if sink.Valid {
			out[len(out)-1].Sinks[sink.String] = fromMicros(at)
		}
	}
	return out, wrap(db.dir, rows.Err())
}

func scanEntry(rows *sql.Rows) (e Entry, sink sql.NullString, at sql.NullInt64, err error) {
	var exported int64
	err = rows.Scan(&e.Project, &e.Granularity, &e.From, &e.To, &e.Number, &e.Settled, &e.Verified,
		&e.Rows, &e.Totals.Human, &e.Totals.AI, &e.Totals.Total, &exported,
		&e.Requests, &e.Checksum, &e.MovedRows, &e.RepeatedRows, &sink, &at)
	e.ExportedAt = time.UnixMicro(exported).UTC()
	e.Sinks = map[string]time.Time{}
	return e, sink, at, err
}

func fromMicros(v sql.NullInt64) time.Time {
	if !v.Valid {
		return time.Time{}
	}
	return time.UnixMicro(v.Int64).UTC()
}

// Record enters a sealed revision and owes it to the given sinks. Recording a
// revision that is there already changes nothing, so that it can be done again
// after a crash. A window that was read is no longer set aside.
func (db *DB) Record(ctx context.Context, rev analytics.Revision, prov analytics.Provenance, sinks []string) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := insertRevision(ctx, tx, rev, prov); err != nil {
			return err
		}
		if err := clearAside(ctx, tx, rev.Key); err != nil {
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
		r.Project, r.Granularity, r.From, r.To, r.Number, r.Settled, r.Verified, r.Rows,
		r.Totals.Human, r.Totals.AI, r.Totals.Total, r.ExportedAt.UnixMicro(),
		p.Requests, p.Checksum, p.MovedRows, p.RepeatedRows)
	return err
}

func owe(ctx context.Context, tx *sql.Tx, r analytics.Revision, sink string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO deliveries VALUES (?,?,?,?,?,?,NULL) ON CONFLICT DO NOTHING`,
		r.Project, r.Granularity, r.From, r.To, r.Number, sink)
	return err
}

// Committed enters that sink has the revision since at, and counts the window
// and its rows; a repetition is not counted twice.
func (db *DB) Committed(ctx context.Context, rev analytics.Revision, sink string, at time.Time) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := owe(ctx, tx, rev, sink); err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `
			UPDATE deliveries SET committed_at = ? WHERE committed_at IS NULL AND sink = ? AND revision = ?
			AND project = ? AND granularity = ? AND window_start = ? AND window_end = ?`,
			at.UnixMicro(), sink, rev.Number, rev.Project, rev.Granularity, rev.From, rev.To)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return addAll(ctx, tx, []Count{
			{"windows_committed_total", Labels("project", rev.Project, "sink", sink), 1},
			{"rows_written_total", Labels("sink", sink), max(rev.Rows, 0)},
		})
	})
}

// Forget takes a revision out that no sink has, so that its window is due
// again. It refuses to forget one that a sink committed.
func (db *DB) Forget(ctx context.Context, rev analytics.Revision) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		key := []any{rev.Project, rev.Granularity, rev.From, rev.To, rev.Number}
		const where = ` WHERE project = ? AND granularity = ? AND window_start = ? AND window_end = ? AND revision = ?`
		var held int
		if err := tx.QueryRowContext(ctx, `SELECT count(committed_at) FROM deliveries`+where, key...).Scan(&held); err != nil {
			return err
		}
		if held > 0 {
			return fmt.Errorf("forget %s revision %d: a sink has committed it", rev.Key, rev.Number)
		}
		if _, err := tx.ExecContext(ctx, `DELETE FROM deliveries`+where, key...); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM revisions`+where, key...)
		return err
	})
}

// Restore enters what a sink shows, for a ledger that was lost. Revisions that
// are there already stay as they are.
func (db *DB) Restore(ctx context.Context, sink string, revs []analytics.Revision) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		for _, r := range revs {
			if err := insertRevision(ctx, tx, r, analytics.Provenance{}); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `
				INSERT INTO deliveries VALUES (?,?,?,?,?,?,?)
				ON CONFLICT DO UPDATE SET committed_at = coalesce(committed_at, excluded.committed_at)`,
				r.Project, r.Granularity, r.From, r.To, r.Number, sink, r.ExportedAt.UnixMicro())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// OpenWindow is the newest reading of a running window; for gauges only.
type OpenWindow struct {
	analytics.Key
	Totals analytics.Totals `json:"totals"`
	ReadAt time.Time        `json:"read_at"`
}

// SetOpen keeps the totals of a running window, read at the given time, in place
// of the former reading of its project and granularity.
func (db *DB) SetOpen(ctx context.Context, k analytics.Key, t analytics.Totals, at time.Time) error {
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO open_windows VALUES (?,?,?,?,?,?,?,?)`,
		k.Project, k.Granularity, k.From, k.To, t.Human, t.AI, t.Total, at.UnixMicro())
	return wrap(db.dir, err)
}

// OpenWindows returns the readings of the running windows, in key order.
func (db *DB) OpenWindows(ctx context.Context) ([]OpenWindow, error) {
	rows, err := db.sql.QueryContext(ctx, `
		SELECT project, granularity, window_start, window_end, human, ai, total, read_at
		FROM open_windows ORDER BY project, granularity`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []OpenWindow
	for rows.Next() {
		var w OpenWindow
		var at int64
		if err := rows.Scan(&w.Project, &w.Granularity, &w.From, &w.To, &w.Totals.Human, &w.Totals.AI, &w.Totals.Total, &at); err != nil {
			return nil, wrap(db.dir, err)
		}
		w.ReadAt = time.UnixMicro(at).UTC()
		out = append(out, w)
	}
	return out, wrap(db.dir, rows.Err())
}
