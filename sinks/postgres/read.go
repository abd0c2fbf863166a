package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// windowsAtOnce is the number of windows that one statement lists.
const windowsAtOnce = 1000

// Revisions yields what readers see, after it has brought the schema up to date.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return sinks.Listing(ctx, s, func() error {
		_, err := s.open(ctx)
		return s.explain(err)
	})
}

// Inspect yields what readers see of each window in scope. It lists them in pages, and
// reads rows by one statement a window: each sees one state of both tables, and is closed
// before the caller gets the result. Before docgauge has made its tables, Inspect yields nothing.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return sinks.Inspection(sinkName, func(yield func(sinks.Shown, error) bool) error {
		return s.explain(s.inspect(ctx, scope, yield))
	})
}

func (s *Sink) inspect(ctx context.Context, scope sinks.Scope, yield func(sinks.Shown, error) bool) error {
	ses, err := s.reading(ctx)
	if err != nil {
		return err
	}
	for rev, err := range ses.windows(ctx, scope) {
		if err != nil {
			return err
		}
		shown := sinks.Shown{Revision: rev}
		if scope.Rows {
			if shown, err = ses.sum(ctx, rev.Key); errors.Is(err, fs.ErrNotExist) {
				continue // it has just been deleted by hand
			}
		}
		if _, ok := errors.AsType[sinks.Fault](err); err != nil && !ok {
			return err
		}
		if !yield(shown, err) {
			return sinks.ErrStop
		}
	}
	if !scope.Rows {
		return nil
	}
	return ses.withoutTotals(ctx, scope, yield)
}

// windows yields the totals of the windows in scope, in pages, in the order of the key.
func (ses *session) windows(ctx context.Context, scope sinks.Scope) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		w := within(scope)
		query := fmt.Sprintf(`SELECT %s, human, ai, total, page_count, %s FROM %s
			WHERE (%[1]s) > ($1, $2, $3::date, $4::date) AND ($5::text[] IS NULL OR project = ANY($5))
			AND ($6::text[] IS NULL OR granularity = ANY($6))
			AND window_start >= $7::date AND window_end <= $8::date ORDER BY %[1]s LIMIT %[4]d`,
			keyColumns, revisionColumns, ses.in(totalsTable), windowsAtOnce)
		after := []any{"", "", "0001-01-01", "0001-01-01"}
		for {
			page, err := ses.page(ctx, query, append(after, w.projects, w.granularities, w.from, w.to)...)
			for _, rev := range page {
				if scope.Has(rev.Key) && !yield(rev, nil) {
					return
				}
			}
			if err != nil {
				yield(analytics.Revision{}, err)
			}
			if err != nil || len(page) < windowsAtOnce {
				return
			}
			after = keyValues(page[len(page)-1].Key)
		}
	}
}

// bounds are the limits of a query. They include all windows in a scope, and perhaps more.
type bounds struct {
	projects, granularities []string // nil is any
	from, to                string
}

func within(scope sinks.Scope) bounds {
	b := bounds{projects: scope.Projects, from: "-infinity", to: "infinity"}
	for _, g := range scope.Granularities {
		b.granularities = append(b.granularities, string(g))
	}
	if w := scope.Within; w != (analytics.Window{}) {
		b.from, b.to = w.From.String(), w.To.String()
	}
	if scope.Keys == nil {
		return b
	}
	// The dates and projects of the windows that are named: mostly they are few.
	var all analytics.Window
	projects := map[string]bool{}
	b.projects = []string{}
	for k := range scope.Keys {
		if len(projects) == 0 {
			all = k.Window
		}
		all.From, all.To = min(all.From, k.From), max(all.To, k.To)
		if !projects[k.Project] {
			projects[k.Project] = true
			b.projects = append(b.projects, k.Project)
		}
	}
	b.from, b.to = all.From.String(), all.To.String()
	return b
}

// page reads revisions of totals.
func (ses *session) page(ctx context.Context, query string, arguments ...any) (revs []analytics.Revision, err error) {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	rows, err := ses.pool.Query(ctx, query, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (rev analytics.Revision, err error) {
		var key sinks.ScannedKey
		err = row.Scan(key.Into(&rev.Totals.Human, &rev.Totals.AI, &rev.Totals.Total, &rev.Rows, &rev.Number,
			&rev.Settled, &rev.Verified, &rev.ExportedAt)...)
		rev.Key, rev.ExportedAt = key.Key(), rev.ExportedAt.UTC()
		return rev, err
	})
}

// window reads one window: its totals, and then its rows in the given order, as one
// statement, so of one state of both tables.
func (ses *session) window(ctx context.Context, key analytics.Key, order string,
	use func(rev analytics.Revision, rows iter.Seq2[shownRow, error]) error) error {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	const where = "(" + keyColumns + ") = ($1, $2, $3::date, $4::date)"
	rows, err := ses.pool.Query(ctx, fmt.Sprintf(`SELECT human, ai, total, page_count, %[1]s, path, path_bytes FROM (
			SELECT 0 AS part, human, ai, total, page_count, %[1]s,
				'' COLLATE "C" AS path, NULL::bytea AS path_bytes FROM %[2]s WHERE %[3]s
			UNION ALL
			SELECT 1, human, ai, total, 0, %[1]s, path, path_bytes FROM %[4]s WHERE %[3]s
		) both_tables ORDER BY part%[5]s`,
		revisionColumns, ses.in(totalsTable), where, ses.in(visitorsTable), order), keyValues(key)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	var r shownRow
	into := []any{&r.Human, &r.AI, &r.Total, &r.count, &r.number, &r.settled, &r.verified, &r.exported, &r.Path,
		&r.whole}
	next := func() error {
		err := rows.Scan(into...)
		if r.whole != nil {
			r.Path = string(r.whole)
		}
		return err
	}
	if !rows.Next() {
		return cmp.Or(rows.Err(), fmt.Errorf("%s has no row for it: %w", totalsTable, fs.ErrNotExist))
	}
	if err := next(); err != nil {
		return err
	}
	rev := analytics.Revision{Key: key, Number: r.number, Settled: r.settled, Verified: r.verified,
		Totals: r.Totals(), Rows: r.count, ExportedAt: r.exported.UTC()}
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

// shownRow is a row with its revision columns.
type shownRow struct {
	analytics.Row
	whole             []byte // path_bytes
	count             int64  // of the totals
	number            int32
	settled, verified bool
	exported          time.Time
}

// isOf reports whether the row says that it is of rev.
func (r shownRow) isOf(rev analytics.Revision) bool {
	return r.number == rev.Number && r.settled == rev.Settled && r.verified == rev.Verified &&
		r.exported.Equal(rev.ExportedAt)
}

// sum adds up the rows of a window. Rows of another revision than that of the totals are
// a fault.
func (ses *session) sum(ctx context.Context, key analytics.Key) (shown sinks.Shown, err error) {
	err = ses.window(ctx, key, "", func(rev analytics.Revision, rows iter.Seq2[shownRow, error]) error {
		shown.Revision = rev
		other, found := shownRow{}, false
		for r, err := range rows {
			if err != nil {
				return err
			}
			shown.Sum.Add(r.Row)
			if !r.isOf(rev) {
				other, found = r, true
			}
		}
		if !found {
			return nil
		}
		return sinks.Fault{Sink: sinkName, Key: key, Kind: sinks.Disagree,
			Err: fmt.Errorf("%s has rows of revision %d of %s, %s shows revision %d of %s",
				visitorsTable, other.number, other.exported.UTC().Format(time.DateTime), totalsTable, rev.Number,
				rev.ExportedAt.Format(time.DateTime))}
	})
	return shown, err
}

// withoutTotals yields a fault for each window that has rows, and no totals. It goes from
// window to window by the primary key.
func (ses *session) withoutTotals(ctx context.Context, scope sinks.Scope, yield func(sinks.Shown, error) bool) error {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	rows, err := ses.pool.Query(ctx, fmt.Sprintf(`WITH RECURSIVE k AS (
			(SELECT %[1]s FROM %[2]s ORDER BY %[1]s LIMIT 1)
			UNION ALL
			SELECT n.* FROM k CROSS JOIN LATERAL (SELECT %[1]s FROM %[2]s v
				WHERE (v.project, v.granularity, v.window_start, v.window_end)
					> (k.project, k.granularity, k.window_start, k.window_end)
				ORDER BY %[1]s LIMIT 1) n
		) SELECT %[1]s FROM k WHERE (%[1]s) NOT IN (SELECT %[1]s FROM %[3]s) LIMIT %[4]d`,
		keyColumns, ses.in(visitorsTable), ses.in(totalsTable), windowsAtOnce))
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (analytics.Key, error) {
		var key sinks.ScannedKey
		err := row.Scan(key.Into()...)
		return key.Key(), err
	})
	for _, key := range keys {
		fault := sinks.Fault{Sink: sinkName, Key: key, Kind: sinks.Disagree,
			Err: fmt.Errorf("%s has rows of a window that %s has not", visitorsTable, totalsTable)}
		if scope.Has(key) && !yield(sinks.Shown{}, fault) {
			return sinks.ErrStop
		}
	}
	return err
}

// Window writes what readers see of rev's window to a window file in dir. Rows that are
// not those of one whole revision are an error.
func (s *Sink) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (w sinks.Sealed, done func() error, err error) {
	ses, err := s.reading(ctx)
	if err == nil {
		err = ses.window(ctx, rev.Key, ", "+pathBytes, func(rev analytics.Revision,
			rows iter.Seq2[shownRow, error]) error {
			w, done, err = sinks.WindowFile(dir, &sinks.Visitors, rev, onlyOf(rev, rows))
			return err
		})
	}
	return w, done, s.explain(err)
}

// onlyOf yields rows, which must be of rev.
func onlyOf(rev analytics.Revision, rows iter.Seq2[shownRow, error]) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		for r, err := range rows {
			if err == nil && !r.isOf(rev) {
				err = fmt.Errorf("%s has rows of revision %d, %s shows revision %d", visitorsTable, r.number,
					totalsTable, rev.Number)
			}
			if !yield(r.Row, err) || err != nil {
				return
			}
		}
	}
}
