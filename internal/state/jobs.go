package state

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

// How much of the past is kept. The newest job of a prompt is kept for ever, and so is any that has
// not ended: without it the prompt would be sent again.
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
	seen_active, seen_done, renamed_from, cost, cost_unit, tokens, estimate, pages`

// jobFields returns the fields of a job, to read it into and to write it from.
func jobFields(j *journal.Job) []any {
	return []any{
		&j.Prompt, instant{&j.Firing}, &j.Try, &j.Project, &j.Title, &j.Path, &j.Digest, &j.ConcurrencyKey, &j.Resubmit,
		&j.Messages, &j.Sent, &j.Sending, &j.State, &j.Reason, &j.InDoubt,
		&j.JobID, &j.Status, &j.Repository, &j.Ref, &j.Model, &j.PRLink,
		instant{&j.Begun}, instant{&j.Created}, instant{&j.Ended}, instant{&j.Charged}, instant{&j.Accepted},
		instant{&j.Next}, &j.Refusals, instant{&j.Blocked}, &j.Polls, instant{&j.Missing}, &j.SeenActive, &j.SeenDone,
		&j.RenamedFrom, &j.Cost, &j.CostUnit, &j.Tokens, &j.Estimate, texts{&j.Pages},
	}
}

// selectJobs reads the columns of jobRow.
const selectJobs = `SELECT seq, version, ` + jobColumns + ` FROM jobs`

func jobRow(j *journal.Job) []any { return append([]any{&j.Seq, &j.Version}, jobFields(j)...) }

// Jobs returns the jobs of the journal, oldest first, without their texts.
func (db *DB) Jobs(ctx context.Context) ([]journal.Job, error) {
	return list(ctx, db, jobRow, selectJobs+` ORDER BY seq`)
}

// Job returns one job with its texts. The error is journal.ErrNoJob if it does not exist.
func (db *DB) Job(ctx context.Context, seq int64) (j journal.Job, err error) {
	err = db.write(ctx, func(t *tx) {
		if !t.get(jobRow(&j), selectJobs+` WHERE seq = ?`, seq) {
			t.fail(fmt.Errorf("job %d: %w", seq, journal.ErrNoJob))
		}
		var followUps []byte
		if t.get([]any{&j.Text, &followUps}, `SELECT text, follow_ups FROM job_texts WHERE job = ?`, seq) {
			t.fail(json.Unmarshal(followUps, &j.FollowUps))
		}
	})
	return j, err
}

// History returns the newest transitions of a job, oldest first; the queue's own for 0.
func (db *DB) History(ctx context.Context, seq int64) ([]journal.Transition, error) {
	return list(ctx, db, func(e *journal.Transition) []any {
		return []any{instant{&e.At}, &e.Job, &e.From, &e.To, &e.Cause}
	}, `SELECT at, job, from_state, to_state, cause FROM job_events WHERE job = ? ORDER BY id`, seq)
}

// Counters of costs, in Millionths. JobCost has the estimates of the created jobs, reportedCost what
// the ended ones cost by the service.
const (
	JobCost      = "agent_job_cost" + Millionths
	reportedCost = "agent_job_reported_cost" + Millionths
	// Millionths ends the name of a counter whose metric has whole units, and ends in _total.
	Millionths = "_millionths"
)

// Apply makes the changes, all or none of them, and returns the changed jobs, with Seq and
// Version. A job that ends is counted in agent_jobs_finished_total, and its cost in reportedCost or
// itself in agent_jobs_cost_unknown_total; one that is now known to be created in JobCost. Errors:
// journal.ErrRaced, journal.ErrDuplicate and journal.TakenError, or one that names the database.
func (db *DB) Apply(ctx context.Context, changes ...journal.Change) ([]journal.Job, error) {
	out := make([]journal.Job, len(changes))
	err := db.write(ctx, func(t *tx) {
		for i, c := range changes {
			out[i] = t.apply(c)
		}
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// apply makes one change: of the job, of the queue, in the history, and in the outbox.
func (t *tx) apply(c journal.Change) journal.Job {
	job := c.Job
	if job.Prompt != "" {
		t.writeJob(&job, c)
	}
	to := job.State
	if q := c.Queue; q != nil {
		written := t.exec(`UPDATE queue SET version = version + 1, paused = ?, since = ?, detail = ?, answered_at = ?,
			released_at = ?, unknowns = ?, adopted = ?, restored = ?, key_mark = ? WHERE version = ?`,
			q.Paused, instant{&q.Since}, q.Detail, instant{&q.Answered},
			instant{&q.Released}, q.Unknowns, q.Adopted, q.Restored, q.KeyMark, q.Version) > 0
		if !written {
			t.fail(fmt.Errorf("the queue: %w", journal.ErrRaced))
		}
		if job.Seq == 0 {
			to = journal.State(q.Paused)
		}
	}
	if c.Cause != "" {
		t.exec(`INSERT INTO job_events (job, at, from_state, to_state, cause) VALUES (?,?,?,?,?)`,
			job.Seq, instant{&c.At}, c.From, to, c.Cause)
		t.exec(`DELETE FROM job_events WHERE job = ?1 AND id <=
			(SELECT id FROM job_events WHERE job = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2)`, job.Seq, keptEvents)
	}
	if c.Event != nil {
		t.insertEvent(*c.Event)
	}
	return job
}

func (t *tx) writeJob(job *journal.Job, c journal.Change) {
	isCreated := false // now, for the first time
	if job.JobID != "" {
		// The id of another job is refused. An id that the job has already stays, even if the
		// journal has it twice.
		taken := journal.TakenError{JobID: job.JobID}
		if t.get([]any{&taken.By, &taken.Prompt}, `SELECT seq, prompt FROM jobs
			WHERE project = ?1 AND job_id = ?2 AND seq <> ?3
			AND NOT EXISTS (SELECT 1 FROM jobs WHERE seq = ?3 AND project = ?1 AND job_id = ?2) ORDER BY seq LIMIT 1`,
			job.Project, job.JobID, job.Seq) {
			t.fail(&taken)
		}
		isCreated = !t.get([]any{new(int)}, `SELECT 1 FROM jobs WHERE seq = ? AND job_id <> ''`, job.Seq)
	}

	fields := jobFields(job)
	values := strings.Repeat(",?", len(fields))
	if job.Seq == 0 {
		var entered int64
		entered, job.Seq = t.insert(`INSERT INTO jobs (version, `+jobColumns+`) VALUES (1`+values+`)
			ON CONFLICT (prompt, firing, attempt) DO NOTHING`, fields...)
		if entered == 0 {
			t.fail(fmt.Errorf("prompt %s, try %d: %w", job.Prompt, job.Try, journal.ErrDuplicate))
		}
		job.Version = 1
		t.pruneJobs(job.Prompt, c.At)
	} else {
		entered := t.exec(`UPDATE jobs SET version = version + 1, (`+jobColumns+`) = (`+values[1:]+`)
			WHERE seq = ? AND version = ? AND state = ?`, append(fields, job.Seq, job.Version, string(c.From))...)
		if entered == 0 {
			t.fail(fmt.Errorf("job %d of prompt %s: %w", job.Seq, job.Prompt, journal.ErrRaced))
		}
		job.Version++
	}
	if job.Text != "" {
		followUps, err := json.Marshal(job.FollowUps)
		t.fail(err)
		t.exec(`INSERT OR REPLACE INTO job_texts VALUES (?,?,?)`, job.Seq, job.Text, string(followUps))
	}

	if job.State == journal.Submitting || job.Sending {
		t.exec(`UPDATE queue SET begun = begun + 1`)
	}
	millionths := func(cost float64) int64 { return int64(math.Round(cost * 1e6)) }
	if estimate := millionths(job.Estimate); isCreated && estimate > 0 {
		t.count(Count{JobCost, Labels("project", job.Project), estimate})
	}
	result := job.Result()
	if result == "" || c.From.Ended() {
		return
	}
	t.count(Count{"agent_jobs_finished_total", Labels("project", job.Project, "result", result), 1})
	if journal.IsPriced(result) && job.Cost != nil {
		t.count(Count{reportedCost, Labels("project", job.Project, "unit", job.CostUnit), millionths(*job.Cost)})
	} else {
		t.count(Count{"agent_jobs_cost_unknown_total", Labels("project", job.Project), 1})
	}
}

// pruneJobs removes the old jobs of a prompt.
func (t *tx) pruneJobs(prompt string, now time.Time) {
	var old []int64
	t.fail(scan(t.ctx, t.sql, jobRow, func(job journal.Job) {
		if job.State.Ended() && job.Charged.Before(now.Add(-keptCharged)) {
			old = append(old, job.Seq)
		}
	}, selectJobs+` WHERE prompt = ? ORDER BY seq DESC LIMIT -1 OFFSET ?`, prompt, keptJobs))
	for _, seq := range old {
		t.exec(`DELETE FROM job_events WHERE job = ?`, seq)
		t.exec(`DELETE FROM jobs WHERE seq = ?`, seq)
	}
}

// Queue returns the state of the queue as a whole.
func (db *DB) Queue(ctx context.Context) (q journal.Queue, err error) {
	err = db.get(ctx, []any{
		&q.Version, &q.Paused, instant{&q.Since}, &q.Detail,
		instant{&q.Answered}, instant{&q.Released}, &q.Unknowns, &q.Adopted, &q.Restored, &q.KeyMark,
	}, `SELECT version, paused, since, detail, answered_at, released_at, unknowns, adopted, restored, key_mark
		FROM queue`)
	return q, err
}

// Identity distinguishes a state from others, and from the same one at another time.
type Identity struct {
	// ID is made with the state; a copy of it has the same.
	ID string
	// Begun counts the creates and follow-ups whose intent was entered.
	Begun int64
	// Adopted is journal.Queue.Adopted.
	Adopted bool
}

// Identity returns the identity of this state.
func (db *DB) Identity(ctx context.Context) (i Identity, err error) {
	err = db.get(ctx, []any{&i.ID, &i.Begun, &i.Adopted}, `SELECT id, begun, adopted FROM queue`)
	return i, err
}

// SetRestored enters that begun creates and follow-ups were begun, more than this state has.
// Nothing is sent until the operator has decided about its prompts.
func (db *DB) SetRestored(ctx context.Context, begun int64) error {
	return db.exec(ctx, `UPDATE queue SET version = version + 1, begun = max(begun, ?), restored = 1, adopted = 0`,
		begun)
}

// Recurring returns the prompts with a schedule that were seen, by id.
func (db *DB) Recurring(ctx context.Context) (map[string]journal.Recurring, error) {
	type row struct {
		prompt string
		journal.Recurring
	}
	out := map[string]journal.Recurring{}
	err := scan(ctx, db.reads, func(r *row) []any { return []any{&r.prompt, &r.Schedule, instant{&r.Since}} },
		func(r row) { out[r.prompt] = r.Recurring }, `SELECT * FROM recurring`)
	return out, db.wrap(ctx, err)
}

// See keeps since when a prompt has had its schedule. If the schedule is the known one, the earlier
// time stays.
func (db *DB) See(ctx context.Context, prompt, schedule string, at time.Time) error {
	return db.exec(ctx, `INSERT INTO recurring VALUES (?,?,?) ON CONFLICT DO UPDATE SET
		since = CASE WHEN schedule = excluded.schedule THEN min(since, excluded.since) ELSE excluded.since END,
		schedule = excluded.schedule`, prompt, schedule, instant{&at})
}

// PullRequests returns all pull requests, by link.
func (db *DB) PullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx, `SELECT known FROM pull_requests ORDER BY link`)
}

// PullStates returns all pull requests, by link, without Changed, Pages and ETags, which are long.
func (db *DB) PullStates(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx,
		`SELECT json_remove(known, '$.changed', '$.pages', '$.mapped', '$.etags') FROM pull_requests ORDER BY link`)
}

// FollowedPullRequests returns those that are not Final, by link.
func (db *DB) FollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return db.pullRequests(ctx, `SELECT known FROM pull_requests WHERE final = 0 ORDER BY link`)
}

func (db *DB) pullRequests(ctx context.Context, query string) ([]journal.PullRequest, error) {
	rows, err := list(ctx, db, func(known *[]byte) []any { return []any{known} }, query)
	if err != nil {
		return nil, err
	}
	pulls := make([]journal.PullRequest, len(rows))
	for i, known := range rows {
		if err := json.Unmarshal(known, &pulls[i]); err != nil {
			return nil, db.wrap(ctx, err)
		}
	}
	return pulls, nil
}

// UnfollowedPullRequests returns the pull requests of jobs that are not among PullRequests, with
// link and project alone.
func (db *DB) UnfollowedPullRequests(ctx context.Context) ([]journal.PullRequest, error) {
	return list(ctx, db, func(p *journal.PullRequest) []any { return []any{&p.Link, &p.Project} }, `
		SELECT pr_link, project FROM jobs WHERE seq IN (SELECT min(seq) FROM jobs WHERE pr_link <> '' GROUP BY pr_link)
		AND pr_link NOT IN (SELECT link FROM pull_requests) ORDER BY seq`)
}

// SetPullRequests keeps the pull requests, all or none; each replaces the former one of its link.
func (db *DB) SetPullRequests(ctx context.Context, pulls ...journal.PullRequest) error {
	return db.write(ctx, func(t *tx) {
		for _, p := range pulls {
			known, err := json.Marshal(p)
			t.fail(err)
			t.exec(`INSERT OR REPLACE INTO pull_requests VALUES (?,?,?,?,?,?)`,
				p.Link, p.Project, p.State, instant{&p.Next}, p.Final, string(known))
		}
	})
}
