package state

import (
	"context"
	"database/sql"
	"errors"

	"github.com/docgauge/docgauge/internal/analytics"
)

// PageList is the pages with the most visitors of one reading of a window, in
// order.
type PageList struct {
	analytics.Key
	Revision int32
	Pages    []analytics.Row
}

// SetPages keeps the pages with the most visitors of a reading, for the gauges,
// in place of those of an older window of its project and granularity or of an
// older reading. Where a newer one is kept it changes nothing.
func (db *DB) SetPages(ctx context.Context, rev analytics.Revision, pages []analytics.Row) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if newer, err := hasPagesOf(ctx, tx, rev); err != nil || newer {
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO newest_pages VALUES (?,?,?,?,?)`,
			rev.Project, rev.Granularity, rev.From, rev.To, rev.Number)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM pages WHERE project = ? AND granularity = ?`, rev.Project, rev.Granularity)
		if err != nil {
			return err
		}
		return insertPages(ctx, tx, rev.Key, pages)
	})
}

// hasPagesOf reports whether pages of the reading, or of a newer one, are kept.
func hasPagesOf(ctx context.Context, tx *sql.Tx, rev analytics.Revision) (bool, error) {
	var from analytics.Date
	var number int32
	err := tx.QueryRowContext(ctx, `SELECT window_start, revision FROM newest_pages WHERE project = ? AND granularity = ?`,
		rev.Project, rev.Granularity).Scan(&from, &number)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return from > rev.From || from == rev.From && number >= rev.Number, err
}

func insertPages(ctx context.Context, tx *sql.Tx, k analytics.Key, pages []analytics.Row) error {
	insert, err := tx.PrepareContext(ctx, `INSERT INTO pages VALUES (?,?,?,?,?,?,?)`)
	if err != nil {
		return err
	}
	defer insert.Close()
	for i, p := range pages {
		if _, err := insert.ExecContext(ctx, k.Project, k.Granularity, i, p.Path, p.Human, p.AI, p.Total); err != nil {
			return err
		}
	}
	return nil
}

// Pages returns the pages kept, at most n of each project and granularity, in
// key order.
func (db *DB) Pages(ctx context.Context, n int) ([]PageList, error) {
	rows, err := db.sql.QueryContext(ctx, `
		SELECT w.project, w.granularity, w.window_start, w.window_end, w.revision, p.path, p.human, p.ai, p.total
		FROM newest_pages w LEFT JOIN pages p
		  ON p.project = w.project AND p.granularity = w.granularity AND p.place < ?
		ORDER BY w.project, w.granularity, p.place`, n)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []PageList
	for rows.Next() {
		var l PageList
		var path sql.NullString
		var human, ai, total sql.NullInt64
		if err := rows.Scan(&l.Project, &l.Granularity, &l.From, &l.To, &l.Revision, &path, &human, &ai, &total); err != nil {
			return nil, wrap(db.dir, err)
		}
		if n := len(out); n == 0 || out[n-1].Key != l.Key {
			out = append(out, l)
		}
		if path.Valid {
			last := &out[len(out)-1]
			last.Pages = append(last.Pages, analytics.Row{Path: path.String, Human: human.Int64, AI: ai.Int64, Total: total.Int64})
		}
	}
	return out, wrap(db.dir, rows.Err())
}
