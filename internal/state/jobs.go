package state

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// instant is a time in a column: microseconds, 0 for the zero time.
type instant struct{ *time.Time }

// Scan reads the column.
func (i instant) Scan(v any) error {
	micros, ok := v.(int64)
	if !ok {
		return fmt.Errorf("a time is %T, not a number", v)
	}
	*i.Time = time.Time{}
	if micros != 0 {
		*i.Time = time.UnixMicro(micros).UTC()
	}
	return nil
}

// Value writes the column.
func (i instant) Value() (driver.Value, error) {
	if i.IsZero() {
		return int64(0), nil
	}
	return i.UnixMicro(), nil
}

// jobColumns are what jobFields returns, in its order.
const jobColumns = `prompt, firing, attempt, project, title, path, digest, concurrency_key, resubmit,
	messages, sent, sending, state, reason, in_doubt, job_id, status, repository, ref, model, pr_link,
	begun_at, created_at, ended_at, charged_at, accepted_at, next_at, tries, blocked_until, polls, missing_since,
	seen_active, seen_done, renamed_from`

// jobFields are to read a job into, and to write it from.
func jobFields(j *journal.Job) []any {
	return []any{
		&j.Prompt, instant{&j.Firing}, &j.Attempt, &j.Project, &j.Title, &j.Path, &j.Digest, &j.ConcurrencyKey, &j.Resubmit,
		&j.Messages, &j.Sent, &j.Sending, &j.State, &j.Reason, &j.InDoubt, &j.JobID, &j.Status, &j.Repository, &j.Ref, &j.Model, &j.PRLink,
		instant{&j.Begun}, instant{&j.Created}, instant{&j.Ended}, instant{&j.Charged}, instant{&j.Accepted}, instant{&j.Next},
		&j.Tries, instant{&j.Blocked}, &j.Polls, instant{&j.Missing}, &j.SeenActive, &j.SeenDone,
		&j.RenamedFrom,
	}
}

func scanJob(row interface{ Scan(...any) error }) (j journal.Job, err error) {
	err = row.Scan(append([]any{&j.Seq, &j.Version}, jobFields(&j)...)...)
	return j, err
}

// Jobs returns the jobs of the journal, oldest first, without what is sent.
func (db *DB) Jobs(ctx context.Context) ([]journal.Job, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT seq, version, `+jobColumns+` FROM jobs ORDER BY seq`)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []journal.Job
	for rows.Next() {
		j, err := scanJob(rows)
		if err != nil {
			return nil, wrap(db.dir, err)
		}
		out = append(out, j)
	}
	return out, wrap(db.dir, rows.Err())
}

// Job returns one job with what is sent. The error is journal.ErrNoJob where
// there is none.
func (db *DB) Job(ctx context.Context, seq int64) (j journal.Job, err error) {
	err = db.tx(ctx, func(tx *sql.Tx) error {
		j, err = scanJob(tx.QueryRowContext(ctx, `SELECT seq, version, `+jobColumns+` FROM jobs WHERE seq = ?`, seq))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("job %d: %w", seq, journal.ErrNoJob)
		}
		if err != nil {
			return err
		}
		return readTexts(ctx, tx, &j)
	})
	return j, err
}

func readTexts(ctx context.Context, tx *sql.Tx, j *journal.Job) error {
	var followUps []byte
	err := tx.QueryRowContext(ctx, `SELECT text, follow_ups FROM job_texts WHERE job = ?`, j.Seq).Scan(&j.Text, &followUps)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return json.Unmarshal(followUps, &j.FollowUps)
}

// Events returns the newest events of a job, oldest first; those of the queue
// itself for 0.
func (db *DB) Events(ctx context.Context, seq int64) ([]journal.Event, error) {
	rows, err := db.sql.QueryContext(ctx, `SELECT at, job, from_state, to_state, cause FROM job_events WHERE job = ? ORDER BY id`, seq)
	if err != nil {
		return nil, wrap(db.dir, err)
	}
	defer rows.Close()
	var out []journal.Event
	for rows.Next() {
		var e journal.Event
		if err := rows.Scan(instant{&e.At}, &e.Job, &e.From, &e.To, &e.Cause); err != nil {
			return nil, wrap(db.dir, err)
		}
		out = append(out, e)
	}
	return out, wrap(db.dir, rows.Err())
}
