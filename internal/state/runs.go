package state

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

// The outcomes of a run. The first two are good.
const (
	Success     = "success"
	Deferred    = "deferred" // the budget left something for the next runs
	Failed      = "failed"
	Interrupted = "interrupted"
)

// Run is one export run. Outcome is empty while it runs, and stays empty when
// it was killed.
type Run struct {
	ID       int64     `json:"id"`
	Started  time.Time `json:"started_at"`
	Finished time.Time `json:"finished_at,omitzero"`
	Outcome  string    `json:"outcome,omitempty"`
	Message  string    `json:"message,omitempty"`
	Windows  int       `json:"windows"`
	Requests int       `json:"requests"`
}

const (
	// keptRuns bounds the history of runs.
	keptRuns = 1000
	// successDuty is the name under which the end of the last good run is kept.
	successDuty = "export"
)

// BeginRun enters a run that starts now and returns its id, which grows by one
// each run.
func (db *DB) BeginRun(ctx context.Context, now time.Time) (id int64, err error) {
	err = db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO runs (started_at) VALUES (?)`, now.UnixMicro())
		if err != nil {
			return err
		}
		if id, err = res.LastInsertId(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM runs WHERE id <= ?`, id-keptRuns)
		return err
	})
	return id, err
}

// EndRun enters how the run ended, whether that was a success, and adds what
// was observed of it; a repetition changes nothing.
func (db *DB) EndRun(ctx context.Context, r Run, good bool, observed ...Observation) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		first, err := changed(tx.ExecContext(ctx, `
			UPDATE runs SET finished_at = ?, outcome = ?, message = ?, windows = ?, requests = ?
			WHERE id = ? AND finished_at IS NULL`,
			r.Finished.UnixMicro(), r.Outcome, r.Message, r.Windows, r.Requests, r.ID))
		if err != nil || !first {
			return err
		}
		if good {
			_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO duties VALUES (?,?)`, successDuty, r.Finished.UnixMicro())
			if err != nil {
				return err
			}
		}
		if err := observeAll(ctx, tx, observed); err != nil {
			return err
		}
		return addAll(ctx, tx, []Count{{"export_runs_total", Labels("outcome", r.Outcome), 1}})
	})
}

// LastSuccess returns when the last good run ended, the zero time if none did, or if that has
// still to come.
func (db *DB) LastSuccess(ctx context.Context, now time.Time) (time.Time, error) {
	at, err := db.LastDone(ctx, successDuty)
	if clock.IsFuture(at, now) {
		at = time.Time{}
	}
	return at, err
}

// LastRuns returns the newest n runs, newest first.
func (db *DB) LastRuns(ctx context.Context, n int) ([]Run, error) {
	return collect(ctx, db, func(r *Run) []any {
		return []any{&r.ID, instant{&r.Started}, instant{&r.Finished}, &r.Outcome, &r.Message, &r.Windows, &r.Requests}
	}, `
		SELECT id, started_at, finished_at, coalesce(outcome, ''), coalesce(message, ''), windows, requests
		FROM runs ORDER BY id DESC LIMIT ?`, n)
}

// LastDone returns when the duty was last done, the zero time if never.
func (db *DB) LastDone(ctx context.Context, duty string) (at time.Time, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT done_at FROM duties WHERE name = ?`, duty).Scan(instant{&at})
	if errors.Is(err, sql.ErrNoRows) {
		return time.Time{}, nil
	}
	return at, db.wrap(ctx, err)
}

// SetDone keeps that the duty was done at the given time.
func (db *DB) SetDone(ctx context.Context, duty string, at time.Time) error {
	return db.exec(ctx, `INSERT OR REPLACE INTO duties VALUES (?,?)`, duty, at.UnixMicro())
}

// Labels returns the canonical text of name, value pairs: {a="x",b="y"}.
func Labels(pairs ...string) string {
	if len(pairs) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteByte('{')
	for i := 0; i+1 < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i] + "=" + strconv.Quote(pairs[i+1]))
	}
	b.WriteByte('}')
	return b.String()
}

// Pairs returns the arguments of the [Labels] call that made labels. Any other text
// yields none.
func Pairs(labels string) []string {
	var out []string
	rest, ok := strings.CutPrefix(labels, "{")
	for ok && rest != "}" {
		name, tail, found := strings.Cut(rest, "=")
		quoted, err := strconv.QuotedPrefix(tail)
		if !found || err != nil {
			return nil
		}
		value, err := strconv.Unquote(quoted)
		if err != nil {
			return nil
		}
		out = append(out, name, value)
		rest = strings.TrimPrefix(tail[len(quoted):], ",")
	}
	return out
}

// Count is an addition to one counter.
type Count struct {
	// Name is the metric's name without the docgauge_ prefix.
	Name string
	// Labels is made by the function of that name.
	Labels string
	Value  int64
}

// Observation adds to one bucket of a histogram.
type Observation struct {
	// Name is the metric's name without the docgauge_ prefix.
	Name string
	// Labels is made by the function of that name.
	Labels string
	Bucket int
	// Count is the number of observations, Sum their sum.
	Count int64
	Sum   time.Duration
}

// Flag is a finding that is either true or false, like that a key is refused.
type Flag struct {
	Name string
	// Labels is made by the function of that name.
	Labels string
	On     bool
}

// Count adds n to a counter that continues across processes; labels are name, value
// pairs.
func (db *DB) Count(ctx context.Context, name string, n int64, labels ...string) error {
	return db.Tally(ctx, []Count{{name, Labels(labels...), n}}, nil, nil)
}

// Tally adds to counters and histograms and sets flags, all at once or not at all.
func (db *DB) Tally(ctx context.Context, counts []Count, observed []Observation, flags []Flag) error {
	return db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		if err := addAll(ctx, tx, counts); err != nil {
			return err
		}
		if err := observeAll(ctx, tx, observed); err != nil {
			return err
		}
		for _, f := range flags {
			if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO flags VALUES (?,?,?)`, f.Name, f.Labels, f.On); err != nil {
				return err
			}
		}
		return nil
	})
}

func addAll(ctx context.Context, tx *sql.Tx, counts []Count) error {
	for _, c := range counts {
		_, err := tx.ExecContext(ctx, `
			INSERT INTO counters VALUES (?,?,?) ON CONFLICT DO UPDATE SET value = value + excluded.value`,
			c.Name, c.Labels, c.Value)
		if err != nil {
			return err
		}
	}
	return nil
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

// Counters returns all counters, by name and labels.
func (db *DB) Counters(ctx context.Context) ([]Count, error) {
	return collect(ctx, db, func(c *Count) []any { return []any{&c.Name, &c.Labels, &c.Value} },
		`SELECT name, labels, value FROM counters ORDER BY name, labels`)
}

// Histograms returns every bucket that is not empty, by name, labels and bucket.
func (db *DB) Histograms(ctx context.Context) ([]Observation, error) {
	return collect(ctx, db, func(o *Observation) []any { return []any{&o.Name, &o.Labels, &o.Bucket, &o.Count, &o.Sum} },
		`SELECT name, labels, bucket, count, sum * 1000 FROM histograms ORDER BY name, labels, bucket`) // µs to ns
}

// FlagOn returns what was last kept, false if nothing was.
func (db *DB) FlagOn(ctx context.Context, name string, labels ...string) (bool, error) {
	var on bool
	err := db.sql.QueryRowContext(ctx, `SELECT coalesce(max(value), 0) FROM flags WHERE name = ? AND labels = ?`,
		name, Labels(labels...)).Scan(&on)
	return on, db.wrap(ctx, err)
}
