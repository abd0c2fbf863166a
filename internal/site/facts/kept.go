package facts

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/durable"
)

// Question is what an answer is kept for.
type Question struct {
	Report  analytics.Report
	Project string
	Humans  analytics.Humans
	analytics.Window
}

// Kept returns the kept answer of a question as [Store.Keep] got it, if it was made when changed was the
// newest commit of its days; nil without one.
func (s *Store) Kept(ctx context.Context, q Question, changed int64) (text []byte, err error) {
	err = s.sql.QueryRowContext(ctx, "SELECT answer FROM answers WHERE report = ? AND project = ? AND humans = ? "+
		"AND from_day = ? AND to_day = ? AND changed = ?",
		q.Report.String(), q.Project, string(q.Humans), int(q.From), int(q.To), changed).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: kept answers: %w", s.dir, err)
	}
	return text, nil
}

// Keep keeps the answer of a question in place of the former one. changed is what [Store.Changed]
// said before the days were counted: an answer that already has later facts is counted once more, and
// one that lacks facts is never taken for the newest.
func (s *Store) Keep(ctx context.Context, q Question, changed int64, text []byte) error {
	err := s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			"INSERT OR REPLACE INTO answers (report, project, humans, from_day, to_day, changed, answer) "+
				"VALUES (?, ?, ?, ?, ?, ?, ?)",
			q.Report.String(), q.Project, string(q.Humans), int(q.From), int(q.To), changed, text)
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: kept answers: %w", s.dir, err)
	}
	return nil
}

// glance is the time that InUse waits for the child of a process that was killed: all of it passes if a process
// collects.
const glance = 300 * time.Millisecond

// InUse reports whether a process collects into the site.
func (s *Store) InUse() (bool, error) {
	lock, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_RDWR, 0)
	if err != nil {
		return false, err
	}
	held, err := durable.Lock(lock, glance)
	return !held, errors.Join(err, lock.Close())
}
