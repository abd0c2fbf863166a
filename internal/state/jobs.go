package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// How much of the past is kept. The newest job of a prompt is kept for ever, and
// so is any that has not ended: without it the prompt would be sent again.
const (
	// keptJobs is how many of the newest jobs of a prompt are kept.
	keptJobs = 20
	// keptCharged is how long a job is kept that counts against the cap per day.
	keptCharged = 48 * time.Hour
	// keptEvents is how many of the newest events of a job are kept.
	keptEvents = 200
)

// jobColumns are the columns of jobFields, in its order.
const jobColumns = `prompt, firing, attempt, project, title, path, digest, concurrency_key, resubmit,
	messages, sent, sending, state, reason, in_doubt, job_id, status, repository, ref, model, pr_link,
	begun_at, created_at, ended_at, charged_at, accepted_at, next_at, tries, blocked_until, polls, missing_since,
	seen_active, seen_done, renamed_from, cost, pages`

// selectJobs reads what scanFields takes.
const selectJobs = `SELECT seq, version, ` + jobColumns + ` FROM jobs`

// jobFields returns the fields of a job, to read it into and to write it from.
func jobFields(j *journal.Job) []any {
	return []any{
		&j.Prompt, instant{&j.Firing}, &j.Try, &j.Project, &j.Title, &j.Path, &j.Digest, &j.ConcurrencyKey, &j.Resubmit,
		&j.Messages, &j.Sent, &j.Sending, &j.State, &j.Reason, &j.InDoubt,
		&j.JobID, &j.Status, &j.Repository, &j.Ref, &j.Model, &j.PRLink,
		instant{&j.Begun}, instant{&j.Created}, instant{&j.Ended}, instant{&j.Charged}, instant{&j.Accepted}, instant{&j.Next},
		&j.Refusals, instant{&j.Blocked}, &j.Polls, instant{&j.Missing}, &j.SeenActive, &j.SeenDone,
		&j.RenamedFrom, &j.Cost, list{&j.Pages},
	}
}

func scanFields(j *journal.Job) []any { return append([]any{&j.Seq, &j.Version}, jobFields(j)...) }

// Jobs returns the jobs of the journal, oldest first, without their texts.
func (db *DB) Jobs(ctx context.Context) ([]journal.Job, error) {
	return collect(ctx, db, scanFields, selectJobs+` ORDER BY seq`)
}

// Job returns one job with its texts. The error is journal.ErrNoJob if there is
// none.
func (db *DB) Job(ctx context.Context, seq int64) (j journal.Job, err error) {
	err = db.tx(ctx, func(ctx context.Context, tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, selectJobs+` WHERE seq = ?`, seq).Scan(scanFields(&j)...)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("job %d: %w", seq, journal.ErrNoJob)
		}
		if err != nil {
			return err
		}
		var followUps []byte
		err = tx.QueryRowContext(ctx, `SELECT text, follow_ups FROM job_texts WHERE job = ?`, seq).Scan(&j.Text, &followUps)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		if err != nil {
			return err
		}
		return json.Unmarshal(followUps, &j.FollowUps)
	})
	return j, err
}

// HasJob reports whether there is a job of a prompt.
func (db *DB) HasJob(ctx context.Context, prompt string) (has bool, err error) {
	err = db.sql.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM jobs WHERE prompt = ?)`, prompt).Scan(&has)
	return has, db.wrap(ctx, err)
}

// Events returns the newest events of a job, oldest first; those of the queue
// itself for 0.
func (db *DB) Events(ctx context.Context, seq int64) ([]journal.Event, error) {
	return collect(ctx, db, func(e *journal.Event) []any { return []any{instant{&e.At}, &e.Job, &e.From, &e.To, &e.Cause} },
		`SELECT at, job, from_state, to_state, cause FROM job_events WHERE job = ? ORDER BY id`, seq)
}

// JobCost is the name of the counter of what the created jobs cost, in millionths.
const JobCost = "agent_job_cost_millionths"

// Apply makes the changes, all or none of them, and returns their jobs as they
// are now, with Seq and Version. A job that ends is counted in
// agent_jobs_finished_total, and one that is known to be created in JobCost. Errors: journal.ErrRaced, journal.ErrDuplicate and
// journal.TakenError, or one that names the database.
func (db *DB) Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	out := make([]journal.Job, len(changes))
	err := db.tx(ctx, func(ctx context.Context, tx *sql.Tx) (err error) {
		for i, c := range changes {
			if out[i], err = applyChange(ctx, tx, c); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func applyChange(ctx context.Context, tx *sql.Tx, c journal.Change) (job journal.Job, err error) {
	if c.Job.Prompt != "" {
		if job, err = writeJob(ctx, tx, c); err != nil {
			return job, err
		}
	}
	if c.Queue != nil {
		if err := writeQueue(ctx, tx, *c.Queue); err != nil {
			return job, err
		}
	}
	if c.Cause != "" {
		if err := insertEvent(ctx, tx, c, job.Seq); err != nil {
			return job, err
		}
	}
	if c.Note != nil {
		err = enterNote(ctx, tx, *c.Note)
	}
	return job, err
}

func writeJob(ctx context.Context, tx *sql.Tx, c journal.Change) (journal.Job, error) {
	job, write := c.Job, updateJob
	if job.Seq == 0 {
		write = insertJob
	}
	if err := checkJobID(ctx, tx, job); err != nil {
		return job, err
	}
	created, err := isCreated(ctx, tx, job)
	if err != nil {
		return job, err
	}
	if err := write(ctx, tx, &job, c); err != nil {
		return job, err
	}
	if job.State == journal.Submitting || job.Sending {
		if _, err := tx.ExecContext(ctx, `UPDATE queue SET begun = begun + 1`); err != nil {
			return job, err
		}
	}
	if cost := int64(math.Round(job.Cost * 1e6)); created && cost > 0 {
		if err := addAll(ctx, tx, []Count{{JobCost, Labels("project", job.Project), cost}}); err != nil {
			return job, err
		}
	}
	if job.Text != "" {
		followUps, err := json.Marshal(job.FollowUps)
		if err != nil {
			return job, err
		}
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO job_texts VALUES (?,?,?)`,
			job.Seq, job.Text, string(followUps))
		if err != nil {
			return job, err
		}
	}
	if result := job.Result(); result != "" && !c.From.Ended() {
		return job, addAll(ctx, tx, []Count{{"agent_jobs_finished_total", Labels("project", job.Project, "result", result), 1}})
	}
	return job, nil
}

// checkJobID refuses the id of another job. An id that the job has already stays,
// even if the journal has it twice from before this was checked.
func checkJobID(ctx context.Context, tx *sql.Tx, job journal.Job) error {
	if job.JobID == "" {
		return nil
	}
	taken := journal.TakenError{JobID: job.JobID}
	err := tx.QueryRowContext(ctx, `SELECT seq, prompt FROM jobs WHERE project = ?1 AND job_id = ?2 AND seq <> ?3
		AND NOT EXISTS (SELECT 1 FROM jobs WHERE seq = ?3 AND project = ?1 AND job_id = ?2) ORDER BY seq LIMIT 1`,
		job.Project, job.JobID, job.Seq).Scan(&taken.By, &taken.Prompt)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return &taken
}

// isCreated reports whether it becomes known now that the service has the job.
func isCreated(ctx context.Context, tx *sql.Tx, job journal.Job) (now bool, err error) {
	if job.JobID == "" || job.Cost == 0 {
		return false, nil
	}
	err = tx.QueryRowContext(ctx, `SELECT NOT EXISTS (SELECT 1 FROM jobs WHERE seq = ? AND job_id <> '')`, job.Seq).Scan(&now)
	return now, err
}

func insertJob(ctx context.Context, tx *sql.Tx, job *journal.Job, c journal.Change) error {
	job.Version = 1
	fields := jobFields(job)
	res, err := tx.ExecContext(ctx, `INSERT INTO jobs (version, `+jobColumns+`) VALUES (1`+strings.Repeat(",?", len(fields))+`)
		ON CONFLICT (prompt, firing, attempt) DO NOTHING`, fields...)
	if entered, err := changed(res, err); err != nil {
		return err
	} else if !entered {
		return fmt.Errorf("prompt %s, try %d: %w", job.Prompt, job.Try, journal.ErrDuplicate)
	}
	if job.Seq, err = res.LastInsertId(); err != nil {
		return err
	}
	return pruneJobs(ctx, tx, job.Prompt, c.At)
}

func updateJob(ctx context.Context, tx *sql.Tx, job *journal.Job, c journal.Change) error {
	fields := append(jobFields(job), job.Seq, job.Version, string(c.From))
	entered, err := changed(tx.ExecContext(ctx, `UPDATE jobs SET version = version + 1, (`+jobColumns+`) =
		(?`+strings.Repeat(",?", len(fields)-4)+`) WHERE seq = ? AND version = ? AND state = ?`, fields...))
	if err != nil {
		return err
	}
	if !entered {
		return fmt.Errorf("job %d of prompt %s: %w", job.Seq, job.Prompt, journal.ErrRaced)
	}
	job.Version++
	return nil
}

// pruneJobs removes the old jobs of a prompt.
func pruneJobs(ctx context.Context, tx *sql.Tx, prompt string, now time.Time) error {
	var old []int64
	err := each(ctx, tx, scanFields, func(job journal.Job) {
		if job.State.Ended() && job.Charged.Before(now.Add(-keptCharged)) {
			old = append(old, job.Seq)
		}
	}, selectJobs+` WHERE prompt = ? ORDER BY seq DESC LIMIT -1 OFFSET ?`, prompt, keptJobs)
	if err != nil {
		return err
	}
	for _, seq := range old {
		for _, statement := range []string{`DELETE FROM job_events WHERE job = ?`, `DELETE FROM jobs WHERE seq = ?`} {
			if _, err := tx.ExecContext(ctx, statement, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// insertEvent enters what happened to a job or, for seq 0, to the queue, and removes
// the oldest events.
func insertEvent(ctx context.Context, tx *sql.Tx, c journal.Change, seq int64) error {
	to := c.Job.State
	if seq == 0 && c.Queue != nil {
		to = journal.State(c.Queue.Paused)
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO job_events (job, at, from_state, to_state, cause) VALUES (?,?,?,?,?)`,
		seq, instant{&c.At}, c.From, to, c.Cause)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM job_events WHERE job = ?1 AND id <=
		(SELECT id FROM job_events WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, seq, keptEvents)
	return err
}

// Queue returns the state of the queue as a whole: what pauses it.
func (db *DB) Queue(ctx context.Context) (q journal.Queue, err error) {
	err = db.sql.QueryRowContext(ctx, `
		SELECT version, paused, since, detail, answered_at, released_at, unknowns, adopted, restored, key_mark FROM queue`).
		Scan(&q.Version, &q.Paused, instant{&q.Since}, &q.Detail,
			instant{&q.Answered}, instant{&q.Released}, &q.Unknowns, &q.Adopted, &q.Restored, &q.KeyMark)
	return q, db.wrap(ctx, err)
}

func writeQueue(ctx context.Context, tx *sql.Tx, q journal.Queue) error {
	entered, err := changed(tx.ExecContext(ctx, `UPDATE queue SET version = version + 1, paused = ?, since = ?, detail = ?,
		answered_at = ?, released_at = ?, unknowns = ?, adopted = ?, restored = ?, key_mark = ? WHERE version = ?`,
		q.Paused, instant{&q.Since}, q.Detail,
		instant{&q.Answered}, instant{&q.Released}, q.Unknowns, q.Adopted, q.Restored, q.KeyMark, q.Version))
	if err != nil {
		return err
	}
	if !entered {
		return fmt.Errorf("the queue: %w", journal.ErrRaced)
	}
	return nil
}

// Recurring returns the prompts with a schedule that were seen, by id.
func (db *DB) Recurring(ctx context.Context) (map[string]journal.Recurring, error) {
	type row struct {
		prompt string
		journal.Recurring
	}
	out := map[string]journal.Recurring{}
	err := each(ctx, db.sql, func(r *row) []any { return []any{&r.prompt, &r.Schedule, instant{&r.Since}} },
		func(r row) { out[r.prompt] = r.Recurring }, `SELECT prompt, schedule, since FROM recurring`)
	return out, db.wrap(ctx, err)
}

// See keeps since when a prompt has had its schedule. If the schedule is the known
// one, the earlier time stays.
func (db *DB) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	return db.exec(ctx, `INSERT INTO recurring VALUES (?,?,?) ON CONFLICT DO UPDATE SET
		since = CASE WHEN schedule = excluded.schedule THEN min(since, excluded.since) ELSE excluded.since END,
		schedule = excluded.schedule`, prompt, schedule, instant{&at})
}
