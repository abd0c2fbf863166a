package state

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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

// Apply makes the changes, all or none of them, and returns their jobs as they
// are now, with Seq and Version. A job that comes to its end is counted in
// agent_jobs_finished_total. Errors: journal.ErrRaced, journal.ErrDuplicate and
// journal.TakenError, or one that names the database.
func (db *DB) Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	out := make([]journal.Job, len(changes))
	err := db.tx(ctx, func(tx *sql.Tx) (err error) {
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
	if err := insertEvent(ctx, tx, c, job.Seq); err != nil {
		return job, err
	}
	if c.Note == nil {
		return job, nil
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO notes (kind, at, body, tries, next_at) VALUES (?,?,?,0,?)`,
		c.Note.Kind, instant{&c.Note.At}, c.Note.Body, instant{&c.Note.At})
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
	if err := write(ctx, tx, &job, c); err != nil {
		return job, err
	}
	if err := writeTexts(ctx, tx, job); err != nil {
		return job, err
	}
	if result := job.Result(); result != "" && !c.From.Ended() {
		return job, addAll(ctx, tx, []Count{{"agent_jobs_finished_total", Labels("project", job.Project, "result", result), 1}})
	}
	return job, nil
}

// checkJobID refuses the id of another job. One that the job has already stays, also
// where the journal has it twice from before this was checked.
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

func insertJob(ctx context.Context, tx *sql.Tx, job *journal.Job, c journal.Change) error {
	job.Version = 1
	fields := jobFields(job)
	res, err := tx.ExecContext(ctx, `INSERT INTO jobs (version, `+jobColumns+`) VALUES (1`+strings.Repeat(",?", len(fields))+`)
		ON CONFLICT (prompt, firing, attempt) DO NOTHING`, fields...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return fmt.Errorf("prompt %s, attempt %d: %w", job.Prompt, job.Attempt, journal.ErrDuplicate)
	}
	if job.Seq, err = res.LastInsertId(); err != nil {
		return err
	}
	return pruneJobs(ctx, tx, job.Prompt, c.At)
}

func updateJob(ctx context.Context, tx *sql.Tx, job *journal.Job, c journal.Change) error {
	fields := append(jobFields(job), job.Seq, job.Version, string(c.From))
	res, err := tx.ExecContext(ctx, `UPDATE jobs SET version = version + 1, (`+jobColumns+`) =
		(?`+strings.Repeat(",?", len(fields)-4)+`) WHERE seq = ? AND version = ? AND state = ?`, fields...)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil {
		return err
	} else if n == 0 {
		return fmt.Errorf("job %d of prompt %s: %w", job.Seq, job.Prompt, journal.ErrRaced)
	}
	job.Version++
	return nil
}

func writeTexts(ctx context.Context, tx *sql.Tx, job journal.Job) error {
	if job.Text == "" {
		return nil
	}
	followUps, err := json.Marshal(job.FollowUps)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO job_texts VALUES (?,?,?)`, job.Seq, job.Text, string(followUps))
	return err
}

// pruneJobs takes out the old jobs of a prompt.
func pruneJobs(ctx context.Context, tx *sql.Tx, prompt string, now time.Time) error {
	rows, err := tx.QueryContext(ctx, `SELECT seq, version, `+jobColumns+` FROM jobs WHERE prompt = ?
		ORDER BY firing DESC, attempt DESC LIMIT -1 OFFSET ?`, prompt, keptJobs)
	if err != nil {
		return err
	}
	defer rows.Close()
	var old []int64
	for rows.Next() {
		job, err := scanJob(rows)
		if err != nil {
			return err
		}
		if job.State.Ended() && job.Charged.Before(now.Add(-keptCharged)) {
			old = append(old, job.Seq)
		}
	}
	if err := rows.Err(); err != nil {
		return err
	}
	return deleteJobs(ctx, tx, old)
}

func deleteJobs(ctx context.Context, tx *sql.Tx, seqs []int64) error {
	for _, seq := range seqs {
		for _, statement := range []string{`DELETE FROM job_events WHERE job = ?`, `DELETE FROM jobs WHERE seq = ?`} {
			if _, err := tx.ExecContext(ctx, statement, seq); err != nil {
				return err
			}
		}
	}
	return nil
}

// insertEvent enters what happened to a job or, without one, to the queue, and
// takes out what happened long before.
func insertEvent(ctx context.Context, tx *sql.Tx, c journal.Change, seq int64) error {
	if c.Cause == "" {
		return nil
	}
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
