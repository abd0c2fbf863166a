package jobs

import (
	"context"
	"errors"
	"fmt"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// messages sends the jobs that were just read as completed their next follow-up,
// each its own, by the protocol of a create: intent, POST, outcome.
func (p *pass) messages(ctx context.Context) error {
	for _, seq := range p.completed {
		job := p.jobs[seq]
		// What does not go now goes when it is read again.
		if over(ctx) || p.queue.Paused != "" {
			break
		}
		if p.blocked(job.Project) {
			continue
		}
		err := p.message(ctx, job)
		if errors.Is(err, journal.ErrRaced) {
			err = nil // an operator gave it up
		}
		if err = errors.Join(err, p.reload(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// blocked reports whether the service, or the budget, takes nothing of a project
// for a time.
func (p *pass) blocked(project string) bool {
	for _, job := range p.jobs {
		if _, blocks := p.blocks(job); blocks && job.Project == project {
			return true
		}
	}
	return false
}

// message sends a job its next follow-up.
func (p *pass) message(ctx context.Context, job journal.Job) error {
	if job.State != journal.Active {
		return nil
	}
	whole, err := p.journal.Job(ctx, job.Seq)
	if err != nil {
		return err
	}
	if whole.Version != job.Version || job.Sent >= len(whole.FollowUps) {
		return journal.ErrRaced
	}
	text := whole.FollowUps[job.Sent]
	job.Sending = true
	entered, err := p.apply(ctx, journal.Change{Job: job, From: job.State, At: p.now(), Cause: followUp(job) + " is being sent"})
	if err != nil {
		return p.notSent(err, job)
	}
	job = entered[0]
	o := &outcome{job: job, mark: p.cfg.KeyMark(), stopped: ctx}
	o.got, o.err = p.client.SendMessage(ctx, job.Project, job.JobID, text)
	if o.err == nil && o.got.ID != job.JobID {
		o.err = fmt.Errorf("the message was for job %s, and the service answered with job %s", job.JobID, o.got.ID)
	}
	p.log(o)
	o.changes = p.sent
	err = p.settle(ctx, o)
	p.count(judge(o.err), &p.Messages)
	return err
}

// followUp names the follow-up that is next.
func followUp(job journal.Job) string {
	return fmt.Sprintf("follow-up %d of %d", job.Sent+1, job.Messages)
}

// notSent is for an intent that may be in the journal or not, as notBegun.
func (q *Queue) notSent(cause error, job journal.Job) error {
	if errors.Is(cause, journal.ErrRaced) {
		return cause
	}
	q.owed = func(ctx context.Context) error {
		entered, err := q.journal.Job(ctx, job.Seq)
		if err != nil || !entered.Sending || entered.State != journal.Active {
			return err
		}
		entered.Sending = false
		_, err = q.apply(ctx, journal.Change{Job: entered, From: entered.State, At: q.now(), Cause: "the journal could not be written: nothing was sent"})
		return err
	}
	return cause
}

// sent is what a message came to.
func (q *Queue) sent(o *outcome, job journal.Job, queue journal.Queue) []journal.Change {
	now, name := q.now(), followUp(job)
	v, got, err := judge(o.err), o.got, o.err
	change := journal.Change{From: job.State, At: now}
	switch v {
	case accepted:
		job.Sending, job.Sent, job.Reason = false, job.Sent+1, ""
		q.took(&job, got, now)
		job.SeenActive = !got.Ended() && got.Status != ""
		change.Cause = name + " accepted"
	case inDoubt:
		job.State, job.InDoubt, job.Reason = journal.Unknown, true, fmt.Sprintf("%s: %v", name, err)
	case rejected:
		// The job itself is completed; what it has done stands.
		job.Sending, job.State, job.Ended = false, journal.Completed, now
		job.Reason = fmt.Sprintf("%s was rejected, and so none after it was sent: %v", name, err)
	default:
		job.Sending, job.Reason = false, fmt.Sprintf("%s was not taken: %v", name, err)
		q.retryLater(o, &job, v, now)
	}
	if change.Cause == "" {
		change.Cause = job.Reason
	}
	change.Job, change.Note = job, q.noteJob(now, job)
	return q.withQueue(change, queue, v, o)
}
