package postgres

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"

	"github.com/jackc/pgx/v5"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/sinks"
)

// windowsAtOnce is the number of windows that one statement lists.
const windowsAtOnce = 1000

// Revisions yields what readers see, after it has brought the tables of visitors up to date. Check and Replace make
// the tables of another report: they are created with the first window.
func (s *Sink) Revisions(ctx context.Context) iter.Seq2[analytics.Revision, error] {
	return sinks.Listing(ctx, s, func() error {
		_, err := s.open(ctx, analytics.VisitorsReport)
		return s.explain(err)
	})
}

// Inspect yields what readers see of each window in scope. It lists them in pages, and
// reads rows by one statement a window: each sees one state of both tables, and is closed
// before the caller gets the result. Before docgauge has made its tables, Inspect yields nothing.
func (s *Sink) Inspect(ctx context.Context, scope sinks.Scope) iter.Seq2[sinks.Shown, error] {
	return sinks.Inspection(sinkName, s.offered, s.explain,
		func(report analytics.Report, yield func(sinks.Shown, error) bool) error {
			return s.inspect(ctx, report, scope, yield)
		})
}

func (s *Sink) inspect(
	ctx context.Context, report analytics.Report, scope sinks.Scope, yield func(sinks.Shown, error) bool,
) error {
	ses, err := s.reading(ctx, report)
	if err != nil {
		return err
	}
	for rev, err := range ses.list(ctx, scope) {
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
	return ses.withoutWindow(ctx, scope, yield)
}

// list yields the windows in scope, in pages, in the order of the key.
func (ses *session) list(ctx context.Context, scope sinks.Scope) iter.Seq2[analytics.Revision, error] {
	return func(yield func(analytics.Revision, error) bool) {
		w := within(ses.data.report, scope)
		query := fmt.Sprintf(`SELECT %s, %[5]s, %[2]s FROM %[3]s
			WHERE (%[1]s) > ($1, $2, $3::date, $4::date) AND ($5::text[] IS NULL OR project = ANY($5))
			AND ($6::text[] IS NULL OR granularity = ANY($6))
			AND window_start >= $7::date AND window_end <= $8::date ORDER BY %[1]s LIMIT %[4]d`,
			keyColumns, revisionColumns, ses.in(ses.data.windows.name), windowsAtOnce,
			names(ses.data.shown()))
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

func within(report analytics.Report, scope sinks.Scope) bounds {
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
		if k.Report != report {
			continue
		}
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

// page reads revisions of windows.
func (ses *session) page(ctx context.Context, query string, arguments ...any) (revs []analytics.Revision, err error) {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	rows, err := ses.query(ctx, ses.pool, query, arguments...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (rev analytics.Revision, err error) {
		key := sinks.ScannedKey{Report: ses.data.report}
		var into []any
		if !ses.data.shape.Site {
			into = rev.Totals.Pointers()
		}
		into = append(into, &rev.Humans, &rev.Rows, &rev.Number, &rev.Settled, &rev.Verified, &rev.ExportedAt)
		err = row.Scan(key.Into(into...)...)
		rev.Key, rev.ExportedAt = key.Key(), rev.ExportedAt.UTC()
		return rev, err
	})
}

// withoutWindow yields a fault for each window that has rows, and no row of windows. It goes from
// window to window by the primary key.
func (ses *session) withoutWindow(ctx context.Context, scope sinks.Scope, yield func(sinks.Shown, error) bool) error {
	ctx, cancel := ses.limit(ctx)
	defer cancel()
	rows, err := ses.query(ctx, ses.pool, fmt.Sprintf(`WITH RECURSIVE k AS (
			(SELECT %[1]s FROM %[2]s ORDER BY %[1]s LIMIT 1)
			UNION ALL
			SELECT n.* FROM k CROSS JOIN LATERAL (SELECT %[1]s FROM %[2]s v
				WHERE (v.project, v.granularity, v.window_start, v.window_end)
					> (k.project, k.granularity, k.window_start, k.window_end)
				ORDER BY %[1]s LIMIT 1) n
		) SELECT %[1]s FROM k WHERE (%[1]s) NOT IN (SELECT %[1]s FROM %[3]s) LIMIT %[4]d`,
		keyColumns, ses.in(ses.data.rows.name), ses.in(ses.data.windows.name), windowsAtOnce))
	if err != nil {
		return err
	}
	keys, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (analytics.Key, error) {
		key := sinks.ScannedKey{Report: ses.data.report}
		err := row.Scan(key.Into()...)
		return key.Key(), err
	})
	for _, key := range keys {
		fault := sinks.Fault{Sink: sinkName, Key: key, Kind: sinks.Disagree,
			Err: fmt.Errorf("%s has rows of a window that %s has not", ses.data.rows.name, ses.data.windows.name)}
		if scope.Has(key) && !yield(sinks.Shown{}, fault) {
			return sinks.ErrStop
		}
	}
	return err
}

// Window writes what readers see of rev's window to a window file in dir. Rows that do not make up one whole
// revision are an error.
func (s *Sink) Window(
	ctx context.Context, rev analytics.Revision, dir string,
) (w sinks.Sealed, done func() error, err error) {
	ses, err := s.reading(ctx, rev.Report)
	if err == nil {
		w, done, err = ses.file(ctx, rev.Key, dir)
	}
	return w, done, s.explain(err)
}
