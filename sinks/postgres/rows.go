package postgres

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// copyRows sends the rows of a window by COPY. An error of the rows is returned unchanged,
// and ends the COPY.
func (ses *session) copyRows(ctx context.Context, conn *pgxpool.Conn, w sinks.Sealed) error {
	rev := w.Revision()
	next, stop := iter.Pull2(w.Rows())
	defer stop()
	var row analytics.Record
	fields := ses.data.shape.Fields(&row)
	path := fields.Texts[0]
	values := slices.Concat(keyValues(rev.Key), fields.All(),
		[]any{rev.Number, rev.Settled, rev.Verified, rev.ExportedAt, nil})
	values[2], values[3] = rev.From.Time(), rev.To.Time()
	var broken error
	read, counted := int64(0), int64(0)
	source := pgx.CopyFromFunc(func() (_ []any, err error) {
		var more bool
		if row, err, more = next(); !more || err != nil {
			broken = err
			return nil, err
		}
		if read++; !ses.data.shape.IsOfSite(row) {
			counted++
		}
		values[len(values)-1] = nil
		if p := *path; strings.IndexByte(p, 0) >= 0 || !utf8.ValidString(p) { // text cannot hold it
			values[len(values)-1] = []byte(p)
			*path = strings.ReplaceAll(strings.ToValidUTF8(p, "\ufffd"), "\x00", "\u2400")
		}
		return values, nil
	})
	columns := ses.data.rows.columns[:len(ses.data.rows.columns)-1] // the last one is generated
	took, err := conn.CopyFrom(ctx, ses.identifier(ses.data.rows.name), nameList(columns), source)
	switch {
	case broken != nil:
		return broken
	case err != nil:
		return err
	case counted != max(rev.Rows, 0):
		return fmt.Errorf("the window has %d rows, its file %d", rev.Rows, counted)
	case took != read:
		return fmt.Errorf("the window has %d rows, and the server took %d: %s", read, took, hintTriggers(ses.data.rows.name))
	}
	return nil
}

// shownRow is a row with its revision columns.
type shownRow struct {
	row               analytics.Record
	whole             []byte           // path_bytes
	humans            analytics.Humans // of the window, as count
	count             int64
	number            int32
	settled, verified bool
	exported          time.Time
}

// isOf reports whether the row says that it belongs to rev.
func (r *shownRow) isOf(rev analytics.Revision) bool {
	return r.number == rev.Number && r.settled == rev.Settled && r.verified == rev.Verified &&
		r.exported.Equal(rev.ExportedAt)
}

// window reads one window: its row of windows, and then its rows in the given order after those
// without a path, as one statement, so of one state of both tables.
func (ses *session) window(ctx context.Context, key analytics.Key, order string,
	use func(rev analytics.Revision, rows iter.Seq2[shownRow, error]) error) error {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	const where = "(" + keyColumns + ") = ($1, $2, $3::date, $4::date)"
	var ofWindow []string
	for _, c := range ses.data.ownColumns {
		ofWindow = append(ofWindow, ses.data.windows.orZero(c))
	}
	rows, err := ses.query(ctx, ses.pool, fmt.Sprintf(`SELECT path, %[7]s, path_bytes, humans, count, %[1]s FROM (
			SELECT 0 AS part, '' COLLATE "C" AS path, %[6]s, NULL::bytea AS path_bytes, humans, %[8]s AS count, %[1]s
				FROM %[2]s WHERE %[3]s
			UNION ALL
			SELECT CASE path WHEN '' THEN 1 ELSE 2 END, path, %[7]s, path_bytes, '', 0, %[1]s FROM %[4]s WHERE %[3]s
		) both_tables ORDER BY part%[5]s`,
		revisionColumns, ses.in(ses.data.windows.name), where, ses.in(ses.data.rows.name), order,
		strings.Join(ofWindow, ", "), names(ses.data.ownColumns), ses.data.count.name), keyValues(key)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var r shownRow
	fields := ses.data.shape.Fields(&r.row)
	path := fields.Texts[0]
	into := slices.Concat(fields.All(), []any{&r.whole, &r.humans, &r.count, &r.number, &r.settled, &r.verified,
		&r.exported})
	next := func() error {
		err := rows.Scan(into...)
		if r.whole != nil {
			*path = string(r.whole)
		}
		return err
	}
	if !rows.Next() {
		return cmp.Or(rows.Err(), fmt.Errorf("%s has no row for it: %w", ses.data.windows.name, fs.ErrNotExist))
	}
	if err := next(); err != nil {
		return err
	}
	rev := analytics.Revision{Key: key, Number: r.number, Settled: r.settled, Verified: r.verified, Humans: r.humans,
		Rows: r.count, ExportedAt: r.exported.UTC()}
	if !ses.data.shape.Site {
		rev.Totals = r.row.Counts.Totals()
	}
	return use(rev, func(yield func(shownRow, error) bool) {
		for rows.Next() {
			if err := next(); !yield(r, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(shownRow{}, err)
		}
	})
}

// sum reads the rows of a window. Rows of another revision than the window's are a fault.
func (ses *session) sum(ctx context.Context, key analytics.Key) (shown sinks.Shown, err error) {
	err = ses.window(ctx, key, "", func(rev analytics.Revision, rows iter.Seq2[shownRow, error]) error {
		add, sum := ses.data.shape.Sum()
		var other *shownRow
		for r, err := range rows {
			if err != nil {
				return err
			}
			add(r.row)
			if !r.isOf(rev) {
				other = &r
			}
		}
		shown = sinks.Shown{Revision: rev, Sum: *sum}
		if other == nil {
			return nil
		}
		return sinks.Fault{Sink: sinkName, Key: key, Kind: sinks.Disagree,
			Err: fmt.Errorf("%s has rows of revision %d of %s, %s shows revision %d of %s",
				ses.data.rows.name, other.number, other.exported.UTC().Format(time.DateTime), ses.data.windows.name, rev.Number,
				rev.ExportedAt.Format(time.DateTime))}
	})
	return shown, err
}

// file writes a window as readers see it to a file in dir. It refuses rows that do not make up one whole revision.
func (ses *session) file(
	ctx context.Context, key analytics.Key, dir string,
) (w sinks.Sealed, done func() error, err error) {
	order := ", " + pathBytes
	for _, c := range ses.data.ownColumns {
		if slices.Contains(ses.data.shape.Order, c.name) {
			order += ", " + c.name
		}
	}
	err = ses.window(ctx, key, order, func(rev analytics.Revision, rows iter.Seq2[shownRow, error]) error {
		w, done, err = sinks.WindowFile(dir, rev, func(yield func(analytics.Record, error) bool) {
			for r, err := range rows {
				if err == nil && !r.isOf(rev) {
					err = fmt.Errorf("%s has rows of revision %d, %s shows revision %d", ses.data.rows.name, r.number,
						ses.data.windows.name, rev.Number)
				}
				if !yield(r.row, err) || err != nil {
					return
				}
			}
		})
		return err
	})
	return w, done, err
}
