package state

import (
	"context"
	"database/sql"
	"strconv"
	"strings"
	"time"
)

// Count is an addition to one counter.
type Count struct {
	// Name is the metric's name without the docgauge_ prefix.
	Name string
	// Labels is made by the function of that name.
	Labels string
	Value  int64
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

// Pairs returns what [Labels] was given. Text that it did not make yields none.
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

// Count adds n to a counter that goes on over processes; labels are name, value
// pairs.
func (db *DB) Count(ctx context.Context, name string, n int64, labels ...string) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		return addAll(ctx, tx, []Count{{name, Labels(labels...), n}})
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

// Counters returns all counters, by name and labels.
func (db *DB) Counters(ctx context.Context) ([]Count, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT name, labels, value FROM counters ORDER BY name, labels`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []Count
	for rows.Next() {
		var c Count
		if err := rows.Scan(&c.Name, &c.Labels, &c.Value); err != nil {
			return nil, wrap(db.dir, err)
		}
		out = append(out, c)
	}
	return out, wrap(db.dir, rows.Err())
}

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

// keptRuns bounds the history of runs.
const keptRuns = 1000

// BeginRun enters a run that starts now and returns its id, which grows by one
// each run.
func (db *DB) BeginRun(ctx context.Context, now time.Time) (int64, error) {
	var id int64
	err := db.tx(ctx, func(tx *sql.Tx) error {
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

// successDuty is the name under which the end of the last good run is kept.
const successDuty = "export"

// EndRun enters how the run ended, whether that was a success, and adds what
// was observed of it; a repetition changes nothing.
func (db *DB) EndRun(ctx context.Context, r Run, good bool, observed ...Observation) error {
	return db.tx(ctx, func(tx *sql.Tx) error {
		res, err := tx.ExecContext(ctx, `
			UPDATE runs SET finished_at = ?, outcome = ?, message = ?, windows = ?, requests = ?
			WHERE id = ? AND finished_at IS NULL`,
			r.Finished.UnixMicro(), r.Outcome, r.Message, r.Windows, r.Requests, r.ID)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		if good {
			if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO duties VALUES (?,?)`, successDuty, r.Finished.UnixMicro()); err != nil {
				return err
			}
		}
		if err := observeAll(ctx, tx, observed); err != nil {
			return err
		}
		return addAll(ctx, tx, []Count{{"export_runs_total", Labels("outcome", r.Outcome), 1}})
	})
}

// LastSuccess returns when the last good run ended, the zero time if none did.
func (db *DB) LastSuccess(ctx context.Context) (time.Time, error) {
	return db.LastDone(ctx, successDuty)
}

// LastRuns returns the newest n runs, newest first.
func (db *DB) LastRuns(ctx context.Context, n int) ([]Run, error) {
	rows, err := db.sql.QueryContext(ctx, `
		SELECT id, started_at, finished_at, coalesce(outcome, ''), coalesce(message, ''), windows, requests
		FROM runs ORDER BY id DESC LIMIT ?`, n)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []Run
	for rows.Next() {
		var r Run
		var started int64
		var finished sql.NullInt64
		if err := rows.Scan(&r.ID, &started, &finished, &r.Outcome, &r.Message, &r.Windows, &r.Requests); err != nil {
			return nil, wrap(db.dir, err)
		}
		r.Started, r.Finished = time.UnixMicro(started).UTC(), fromMicros(finished)
		out = append(out, r)
	}
	return out, wrap(db.dir, rows.Err())
}
