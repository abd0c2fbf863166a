package facts

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

// ClockMark is what a collector knew of its clock at a time.
type ClockMark struct {
	At     time.Time
	Since  time.Time     // the last mark before a stop that nothing has bridged; zero without one
	Steady time.Duration // how long the clock has gone evenly, while a collector ran
	Jumped bool          // and has not gone evenly for long enough
}

// ClockMark returns the last mark; zero without one.
func (s *Store) ClockMark(ctx context.Context) (m ClockMark, err error) {
	var at, since, steady int64
	err = s.sql.QueryRowContext(ctx, "SELECT at, since, steady, jumped FROM clock").Scan(&at, &since, &steady, &m.Jumped)
	if errors.Is(err, sql.ErrNoRows) {
		return ClockMark{}, nil
	}
	m.At, m.Steady = time.Unix(at, 0).UTC(), time.Duration(steady)*time.Second
	if since != 0 {
		m.Since = time.Unix(since, 0).UTC()
	}
	return m, unusable(err)
}

// KeepClockMark makes a mark durable in the place of the last one.
func (s *Store) KeepClockMark(ctx context.Context, m ClockMark) error {
	return s.write(ctx, func(tx *sql.Tx) error {
		since := int64(0)
		if !m.Since.IsZero() {
			since = m.Since.Unix()
		}
		_, err := tx.Exec("INSERT OR REPLACE INTO clock (id, at, since, steady, jumped) VALUES (1, ?, ?, ?, ?)", m.At.Unix(),
			since, int64(m.Steady/time.Second), m.Jumped)
		return err
	})
}

// FactDays returns the days from from to to, exclusive, of which there are facts of any project but some.
func (s *Store) FactDays(ctx context.Context, from, to analytics.Date, but []string) ([]analytics.Date, error) {
	names, err := json.Marshal(append([]string{}, but...))
	if err != nil {
		return nil, err
	}
	return query(ctx, s.sql, func(row scanner) (d analytics.Date, err error) {
		err = row.Scan(&d)
		return d, err
	}, "SELECT DISTINCT day FROM days WHERE NOT evidence AND day >= ? AND day < ? "+
		"AND project NOT IN (SELECT value FROM json_each(?)) ORDER BY day", int(from), int(to), string(names))
}
