package state

import (
	"context"
	"database/sql"
	"time"
)

// Observation adds to one bucket of a histogram.
type Observation struct {
	// Name is the metric's name without the docgauge_ prefix.
	Name string
	// Labels is made by the function of that name.
	Labels string
	Bucket int
	// Count is how many observations these are, Sum what they add up to.
	Count int64
	Sum   time.Duration
}

// Tally adds to counters and histograms and sets flags, all at once or not at all.
func (db *DB) Tally(ctx context.Context, counts []Count, observed []Observation, flags []Flag) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		if err := addAll(ctx, tx, counts); err != nil {
			return err
		}
		if err := observeAll(ctx, tx, observed); err != nil {
			return err
		}
		return setAll(ctx, tx, flags)
	})
}

func observeAll(ctx context.Context, tx *sql.Tx, observed []Observation) error {
	for _, o := range observed {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO histograms VALUES (?,?,?,?,?)
			ON CONFLICT DO UPDATE SET count = count + excluded.count, sum = sum + excluded.sum`,
			o.Name, o.Labels, o.Bucket, o.Count, o.Sum.Microseconds())
		if err != nil {
			return err
		}
	}
	return nil
}

// Histograms returns every bucket that is not empty, by name, labels and bucket.
func (db *DB) Histograms(ctx context.Context) ([]Observation, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT name, labels, bucket, count, sum FROM histograms ORDER BY name, labels, bucket`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []Observation
	for rows.Next() {
		var o Observation
		var micros int64
		if err := rows.Scan(&o.Name, &o.Labels, &o.Bucket, &o.Count, &micros); err != nil {
			return nil, wrap(db.dir, err)
		}
		o.Sum = time.Duration(micros) * time.Microsecond
		out = append(out, o)
	}
	return out, wrap(db.dir, rows.Err())
}

// Flag is what was last found, like that a key is refused.
type Flag struct {
	Name string
	// Labels is made by the function of that name.
	Labels string
	On     bool
}

func setAll(ctx context.Context, tx *sql.Tx, flags []Flag) error {
	for _, f := range flags {
		if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO flags VALUES (?,?,?)`, f.Name, f.Labels, f.On); err != nil {
			return err
		}
	}
	return nil
}

// FlagOn returns what was last kept, false if nothing was.
func (db *DB) FlagOn(ctx context.Context, name string, labels ...string) (bool, error) {
	var on bool
	err := db.sql.QueryRowContext(ctx, `SELECT coalesce(max(value), 0) FROM flags WHERE name = ? AND labels = ?`,
		name, Labels(labels...)).Scan(&on)
	return on, wrap(db.dir, err)
}
