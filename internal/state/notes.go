package state

import (
	"context"
	"database/sql"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// SetAside keeps a window that failed until a time; what was noted of it before
// is replaced.
func (db *DB) SetAside(ctx context.Context, a analytics.Aside) error {
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO set_aside VALUES (?,?,?,?,?,?,?,?,?)`,
		a.Project, a.Granularity, a.From, a.To, a.Reason, a.Detail, a.Failures, a.Since.UnixMicro(), a.Until.UnixMicro())
	return wrap(db.dir, err)
}

// Asides returns the windows that failed when they were last read, in key order:
// also those whose time is over. Record takes a window out.
func (db *DB) Asides(ctx context.Context) ([]analytics.Aside, error) {
	rows, err := db.sql.QueryContext(ctx, `
		SELECT project, granularity, window_start, window_end, reason, detail, failures, since, until
		FROM set_aside ORDER BY project, granularity, window_start, window_end`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []analytics.Aside
	for rows.Next() {
		var a analytics.Aside
		var since, until int64
		if err := rows.Scan(&a.Project, &a.Granularity, &a.From, &a.To, &a.Reason, &a.Detail, &a.Failures, &since, &until); err != nil {
			return nil, wrap(db.dir, err)
		}
		a.Since, a.Until = time.UnixMicro(since).UTC(), time.UnixMicro(until).UTC()
		out = append(out, a)
	}
	return out, wrap(db.dir, rows.Err())
}

func clearAside(ctx context.Context, tx *sql.Tx, k analytics.Key) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM set_aside WHERE project = ? AND granularity = ? AND window_start = ? AND window_end = ?`,
		k.Project, k.Granularity, k.From, k.To)
	return err
}

// Movement is how often in a row, and when last, windows of a project and
// granularity moved in the way that kind names.
type Movement struct {
	Project     string
	Granularity analytics.Granularity
	Kind        string
	Times       int
	At          time.Time
}

// SetMovement keeps a movement in place of the former one of its kind.
func (db *DB) SetMovement(ctx context.Context, project string, g analytics.Granularity, kind string, times int, at time.Time) error {
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO movements VALUES (?,?,?,?,?)`, project, g, kind, times, at.UnixMicro())
	return wrap(db.dir, err)
}

// Movements returns every movement kept.
func (db *DB) Movements(ctx context.Context) ([]Movement, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT project, granularity, kind, times, at FROM movements`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []Movement
	for rows.Next() {
		var m Movement
		var at int64
		if err := rows.Scan(&m.Project, &m.Granularity, &m.Kind, &m.Times, &at); err != nil {
			return nil, wrap(db.dir, err)
		}
		m.At = time.UnixMicro(at).UTC()
		out = append(out, m)
	}
	return out, wrap(db.dir, rows.Err())
}

// SetPageRows keeps how many rows the service puts on a page of the project.
func (db *DB) SetPageRows(ctx context.Context, project string, rows int) error {
	_, err := db.sql.ExecContext(ctx, `INSERT OR REPLACE INTO page_sizes VALUES (?,?)`, project, rows)
	return wrap(db.dir, err)
}

// PageRows returns how many rows a page has, of the projects where that was kept.
func (db *DB) PageRows(ctx context.Context) (map[string]int, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT project, rows FROM page_sizes`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var project string
		var n int
		if err := rows.Scan(&project, &n); err != nil {
			return nil, wrap(db.dir, err)
		}
		out[project] = n
	}
	return out, wrap(db.dir, rows.Err())
}
