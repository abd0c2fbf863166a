package jobs

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// readsAtOnce is how many jobs are read at the same time.
	readsAtOnce = 4
	// readsTimeout bounds one job's read, with the client's retries.
	readsTimeout = 90 * time.Second
	// lostAfter is for how long a job is not found before it is lost.
	lostAfter = 10 * time.Minute
	// A job that is completed right after it took a message may just not have begun:
	// that counts once it was read so often, so long after.
	doneReads = 2
	doneAfter = 30 * time.Second
)

// reading is one read of a job.
type reading struct {
	job journal.Job
	got docsapi.Job
	err error
}

// poll reads the jobs that are due, and enters what that shows.
func (p *pass) poll(ctx context.Context) error {
	due := p.where(func(j journal.Job) bool { return j.State == journal.Active && !p.waits(j.Next) })
	readings := p.read(ctx, due)
	if len(readings) == 0 {
		return nil
	}
	var silent []journal.Change
	var refused error
	for _, r := range readings {
		p.Polled++
		if r.err == nil || docsapi.IsNotFound(r.err) {
			p.answers = true
		}
		if docsapi.IsUnauthorized(r.err) {
			refused = r.err
		}
		change := p.follow(r)
		if change.Cause == "" {
			silent = append(silent, change)
			continue
		}
		done, err := p.enter(ctx, change)
		if err != nil {
			return err
		}
		if done {
			p.ended(change.Job)
		}
	}
	if err := p.enterEach(ctx, silent); err != nil {
		return err
	}
	if err := p.refuse(ctx, refused); err != nil {
		return err
	}
	return p.reload(ctx)
}

// read asks for many jobs at once, and returns the readings in their order,
// without those that were cut off by the end of ctx.
func (p *pass) read(ctx context.Context, due []journal.Job) []reading {
	all := make([]reading, len(due))
	places := make(chan struct{}, readsAtOnce)
	var readers sync.WaitGroup
	for i, job := range due {
		places <- struct{}{}
		readers.Go(func() {
			defer func() { <-places }()
			all[i] = p.readOne(ctx, job)
		})
	}
	readers.Wait()
	kept := all[:0]
	for _, r := range all {
		if r.err == nil || ctx.Err() == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func (p *pass) readOne(ctx context.Context, job journal.Job) reading {
	ctx, cancel := context.WithTimeout(ctx, readsTimeout)
	defer cancel()
	got, err := p.client.Job(ctx, job.Project, job.JobID)
	return reading{job, got, err}
}

// enterEach enters changes nobody needs to hear of: together, or one by one where
// one of them comes too late.
func (p *pass) enterEach(ctx context.Context, changes []journal.Change) error {
	if len(changes) == 0 {
		return nil
	}
	_, err := p.apply(ctx, changes...)
	if !errors.Is(err, journal.ErrRaced) {
		return err
	}
	for _, change := range changes {
		if _, err := p.enter(ctx, change); err != nil {
			return err
		}
	}
	return nil
}

// refuse pauses the queue where a read was refused for its key.
func (p *pass) refuse(ctx context.Context, err error) error {
	if err == nil || p.queue.Paused != "" {
		return nil
	}
	queue := p.queue
	queue.KeyMark = p.cfg.KeyMark()
	_, err = p.enter(ctx, p.pause(queue, journal.PausedUnauthorized, p.now(), refusedKey(err)))
	return err
}

// follow is what a reading means for its job.
func (p *pass) follow(r reading) journal.Change {
	now, job := p.now(), r.job
	change := journal.Change{From: job.State, At: now}
	if job.Accepted.After(now) {
		job.Accepted = now // the clock was set back
	}
	job.Polls++
	job.Next = now.Add(p.pollIn(job.Polls, r.err))
	switch {
	case r.err == nil:
		describe(&job, r.got)
		job.Reason, job.Missing = "", time.Time{}
		job.State, change.Cause = p.stateOf(&job, r.got, now)
	case docsapi.IsNotFound(r.err):
		job.State, change.Cause = missing(&job, now)
	default:
		job.Reason = "the last read failed: " + r.err.Error()
	}
	if job.State.Ended() {
		job.Ended, job.Next = now, time.Time{}
		change.Note = p.noteJob(now, job)
	}
	change.Job = job
	return change
}

// stateOf tells from what was read whether it is the end of the job, and which. A
// job that is completed and has follow-ups left goes on.
func (p *pass) stateOf(job *journal.Job, got docsapi.Job, now time.Time) (state journal.State, cause string) {
	switch got.Status {
	case docsapi.StatusFailed:
		return journal.Failed, "the service says it failed"
	case docsapi.StatusArchived:
		return journal.Archived, "the service says it was archived"
	case docsapi.StatusCompleted:
	default:
		job.SeenActive, job.SeenDone = true, 0
		return journal.Active, ""
	}
	if !isDone(job, now) {
		return journal.Active, ""
	}
	if job.Sent < job.Messages {
		p.completed = append(p.completed, job.Seq)
		return journal.Active, ""
	}
	if job.PRLink != "" {
		return journal.Completed, "completed, with " + job.PRLink
	}
	return journal.Completed, "completed, without a pull request"
}

// isDone reports whether a job that was read as completed is: after a message that
// can still be the state from before.
func isDone(job *journal.Job, now time.Time) bool {
	if job.Sent == 0 || job.SeenActive {
		return true
	}
	if now.Sub(job.Accepted) >= doneAfter {
		job.SeenDone++
	}
	return job.SeenDone >= doneReads
}

// missing is what it means that the service does not know the job.
func missing(job *journal.Job, now time.Time) (state journal.State, cause string) {
	if job.Missing.IsZero() || job.Missing.After(now) {
		job.Missing = now
	}
	job.Reason = "the service does not know it since " + clock(job.Missing)
	if now.Sub(job.Missing) < lostAfter {
		return job.State, ""
	}
	job.Reason = fmt.Sprintf("the service does not know it, for %v", lostAfter)
	return journal.Lost, job.Reason
}

// ended counts and logs a job that came to its end.
func (p *pass) ended(job journal.Job) {
	p.Ended++
	p.cfg.Logger.Info("agent job ended", "prompt", job.Prompt, "job", job.Seq, "job_id", job.JobID, "state", string(job.State), "pr_link", job.PRLink)
}
