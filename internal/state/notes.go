package state

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// OpenWindow is the newest reading of a running window; for gauges only.
type OpenWindow struct {
	analytics.Key
	Totals analytics.Totals `json:"totals"`
	ReadAt time.Time        `json:"read_at"`
}

// SetOpen keeps the totals of a running window, read at the given time, in place
// of the former reading of its project and granularity.
func (db *DB) SetOpen(ctx context.Context, k analytics.Key, t analytics.Totals, at time.Time) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO open_windows VALUES (?,?,?,?,?,?,?,?)`,
		windowOf(k, t.Human, t.AI, t.Total, at.UnixMicro())...)
}

// OpenWindows returns the readings of the running windows, in key order.
func (db *DB) OpenWindows(ctx context.Context) ([]OpenWindow, error) {
	return collect(ctx, db, func(w *OpenWindow) []any {
		return []any{
			&w.Project, &w.Granularity, &w.From, &w.To,
			&w.Totals.Human, &w.Totals.AI, &w.Totals.Total, instant{&w.ReadAt},
		}
	}, `
		SELECT project, granularity, window_start, window_end, human, ai, total, read_at
		FROM open_windows ORDER BY project, granularity`)
}

// SetAside keeps a window that failed, in place of what was kept of it before.
func (db *DB) SetAside(ctx context.Context, a analytics.Aside) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO set_aside VALUES (?,?,?,?,?,?,?,?,?)`,
		windowOf(a.Key, a.Reason, a.Detail, a.Failures, a.Since.UnixMicro(), a.Until.UnixMicro())...)
}

// Asides returns the windows that failed when they were last read, in key order:
// also those whose pause is over. Record removes a window.
func (db *DB) Asides(ctx context.Context) ([]analytics.Aside, error) {
	return collect(ctx, db, func(a *analytics.Aside) []any {
		return []any{
			&a.Project, &a.Granularity, &a.From, &a.To,
			&a.Reason, &a.Detail, &a.Failures, instant{&a.Since}, instant{&a.Until},
		}
	}, `
		SELECT project, granularity, window_start, window_end, reason, detail, failures, since, until
		FROM set_aside ORDER BY project, granularity, window_start, window_end`)
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
func (db *DB) SetMovement(
	ctx context.Context, project string, g analytics.Granularity, kind string, times int, at time.Time) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO movements VALUES (?,?,?,?,?)`, project, g, kind, times, at.UnixMicro())
}

// Movements returns every movement kept.
func (db *DB) Movements(ctx context.Context) ([]Movement, error) {
	return collect(ctx, db, func(m *Movement) []any {
		return []any{&m.Project, &m.Granularity, &m.Kind, &m.Times, instant{&m.At}}
	}, `SELECT project, granularity, kind, times, at FROM movements`)
}

// SetPageRows keeps how many rows the service puts on a page of the project.
func (db *DB) SetPageRows(ctx context.Context, project string, rows int) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO page_sizes VALUES (?,?)`, project, rows)
}

// PageRows returns how many rows a page has, of the projects where that is kept.
func (db *DB) PageRows(ctx context.Context) (map[string]int, error) {
	type row struct {
		project string
		rows    int
	}
	out := map[string]int{}
	err := each(ctx, db.sql, func(r *row) []any { return []any{&r.project, &r.rows} },
		func(r row) { out[r.project] = r.rows }, `SELECT project, rows FROM page_sizes`)
	return out, db.wrap(ctx, err)
}

// PageList is the pages with the most visitors in one reading of a window, in
// order.
type PageList struct {
	analytics.Key
	Revision int32
	Pages    []analytics.Row
}

// SetPages keeps the pages with the most visitors of a reading, for the gauges,
// in place of those of an older window of its project and granularity or of an
// older reading. If a newer one is kept it changes nothing.
func (db *DB) SetPages(ctx context.Context, rev analytics.Revision, pages []analytics.Row) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		var from analytics.Date
		var number int32
		err := tx.QueryRowContext(ctx, `SELECT window_start, revision FROM newest_pages WHERE project = ? AND granularity = ?`,
			rev.Project, rev.Granularity).Scan(&from, &number)
		switch {
		case errors.Is(err, sql.ErrNoRows):
		case err != nil:
			return err
		case from > rev.From || from == rev.From && number >= rev.Number:
			return nil
		}
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO newest_pages VALUES (?,?,?,?,?)`, windowOf(rev.Key, rev.Number)...)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM pages WHERE project = ? AND granularity = ?`, rev.Project, rev.Granularity)
		if err != nil {
			return err
		}
		insert, err := tx.PrepareContext(ctx, `INSERT INTO pages VALUES (?,?,?,?,?,?,?)`)
		if err != nil {
			return err
		}
		defer insert.Close()
		for i, p := range pages {
			if _, err := insert.ExecContext(ctx, rev.Project, rev.Granularity, i, p.Path, p.Human, p.AI, p.Total); err != nil {
				return err
			}
		}
		return nil
	})
}

// Pages returns the pages kept, at most n of each project and granularity, in
// key order.
func (db *DB) Pages(ctx context.Context, n int) ([]PageList, error) {
	type row struct {
		list             PageList
		path             sql.NullString
		human, ai, total sql.NullInt64
	}
	fields := func(r *row) []any {
		return []any{
			&r.list.Project, &r.list.Granularity, &r.list.From, &r.list.To, &r.list.Revision,
			&r.path, &r.human, &r.ai, &r.total,
		}
	}
	var out []PageList
	err := each(ctx, db.sql, fields, func(r row) {
		if n := len(out); n == 0 || out[n-1].Key != r.list.Key {
			out = append(out, r.list)
		}
		if r.path.Valid {
			page := analytics.Row{Path: r.path.String, Human: r.human.Int64, AI: r.ai.Int64, Total: r.total.Int64}
			last := &out[len(out)-1]
			last.Pages = append(last.Pages, page)
		}
	}, `
		SELECT w.project, w.granularity, w.window_start, w.window_end, w.revision, p.path, p.human, p.ai, p.total
		FROM newest_pages w LEFT JOIN pages p
		  ON p.project = w.project AND p.granularity = w.granularity AND p.place < ?
		ORDER BY w.project, w.granularity, p.place`, n)
	return out, db.wrap(ctx, err)
}
