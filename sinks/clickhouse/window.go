package clickhouse

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/archive"
	"github.com/docgauge/docgauge/sinks"
)

// Window writes what the views show of rev's window to a window file in dir; done
// removes it. Rows that are not those of one whole revision are an error.
func (s *Sink) Window(ctx context.Context, rev analytics.Revision, dir string) (w sinks.Sealed, done func() error, err error) {
	path := filepath.Join(dir, rand.Text())
	if err := s.write(ctx, rev.Key, path); err != nil {
		return nil, nil, s.explain(err)
	}
	done = func() error { return os.Remove(path) }
	file, err := archive.Open(path)
	if err != nil {
		return nil, nil, errors.Join(err, done())
	}
	return file, done, nil
}

func (s *Sink) write(ctx context.Context, key analytics.Key, path string) (err error) {
	l, err := s.look(ctx)
	if err != nil {
		return err
	}
	if l == nil {
		return fs.ErrNotExist
	}
	defer func() { err = errors.Join(err, l.done()) }()
	revs, err := l.shown(ctx, is(key))
	if err != nil {
		return err
	}
	if len(revs) != 1 {
		return fmt.Errorf("%s shows %d readings: %w", totalsView, len(revs), fs.ErrNotExist)
	}
	wrote, err := archive.Write(path, revs[0], l.rows(ctx, revs[0]))
	if err == nil && wrote.Rows != revs[0].Rows {
		err = errors.Join(fmt.Errorf("%s shows %d rows, %s says %d", visitorsView, wrote.Rows, totalsView, revs[0].Rows), os.Remove(path))
	}
	return err
}

// rows yields the rows of a reading, by path.
func (l *looker) rows(ctx context.Context, rev analytics.Revision) iter.Seq2[analytics.Row, error] {
	return func(yield func(analytics.Row, error) bool) {
		rows, err := l.conn.Query(ctx, fmt.Sprintf("SELECT path, human, ai, total FROM %s WHERE %s AND revision = %d ORDER BY path",
			l.in(visitorsView), is(rev.Key), rev.Number))
		if err != nil {
			yield(analytics.Row{}, err)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var r analytics.Row
			err := rows.Scan(&r.Path, &r.Human, &r.AI, &r.Total)
			if !yield(r, err) || err != nil {
				return
			}
		}
		if err := rows.Err(); err != nil {
			yield(analytics.Row{}, err)
		}
	}
}
