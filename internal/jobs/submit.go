package jobs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// submit creates the jobs of the prompts that may go, one after the other: what
// may go is found out anew before each.
func (p *pass) submit(ctx context.Context) error {
	raced := map[string]bool{}
	for ctx.Err() == nil {
		next := p.first(raced)
		if next == nil {
			return nil
		}
		text, err := next.render(ctx, p.cfg, p.at)
		if err != nil {
			p.unrendered[next.ID] = err
			continue
		}
		err = p.create(ctx, *next, text)
		if errors.Is(err, journal.ErrRaced) || errors.Is(err, journal.ErrDuplicate) {
			raced[next.ID] = true // an operator was faster
			err = nil
		}
		if err = errors.Join(err, p.reload(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// first returns the prompt that goes next, nil if none does.
func (p *pass) first(except map[string]bool) *Planned {
	for _, candidate := range p.plan(p.cfg, p.found, p.unrendered) {
		if candidate.Ready() && !except[candidate.ID] {
			return &candidate
		}
	}
	return nil
}

// create makes the intent durable, sends the prompt, and enters what came of it.
// A crash from the intent on leaves it in doubt.
func (p *pass) create(ctx context.Context, next Planned, text prompts.Rendered) error {
	job, from := p.intent(next, text)
	entered, err := p.apply(ctx, journal.Change{Job: job, From: from, At: job.Begun, Cause: "it is being submitted"})
	if err != nil {
		return p.notBegun(err, job)
	}
	job = entered[0]
	o := &outcome{job: job, mark: p.cfg.KeyMark(), stopped: ctx}
	o.got, o.err = p.client.CreateJob(ctx, job.Project, job.Text)
	p.log(o)
	o.changes = p.created
	err = p.settle(ctx, o)
	p.count(judge(o.err), &p.Created)
	return err
}

// intent is the job that is about to be created, and the state it is in until
// then: none if it is new.
func (p *pass) intent(next Planned, text prompts.Rendered) (job journal.Job, from journal.State) {
	job = newJob(next.prompt, journal.Submitting)
	job.Firing = next.Firing
	former, ok := p.of(next.ID)
	if ok && former.State == journal.Pending && (former.Firing.Equal(next.Firing) || !next.prompt.Recurs()) {
		job.Seq, job.Version, job.Tries, from = former.Seq, former.Version, former.Tries, former.State
		job.Firing, job.Attempt, job.RenamedFrom = former.Firing, former.Attempt, former.RenamedFrom
		job.Resubmit = job.Resubmit && former.Resubmit
	}
	job.Text, job.FollowUps, job.Messages = text.Text, text.FollowUps, len(text.FollowUps)
	job.Begun = p.now()
	job.Charged = job.Begun
	return job, from
}

// notBegun is for an intent that may be in the journal or not. Nothing was sent,
// so it is taken back as soon as the journal can be written again.
func (q *Queue) notBegun(cause error, job journal.Job) error {
	if errors.Is(cause, journal.ErrRaced) || errors.Is(cause, journal.ErrDuplicate) {
		return cause
	}
	q.owed = func(ctx context.Context) error {
		all, err := q.journal.Jobs(ctx)
		if err != nil {
			return err
		}
		for _, entered := range all {
			if entered.State != journal.Submitting || entered.Prompt != job.Prompt || entered.Attempt != job.Attempt || !entered.Firing.Equal(job.Firing) {
				continue
			}
			_, err := q.apply(ctx, takenBack(entered, q.now(), "the journal could not be written: nothing was sent"))
			return err
		}
		return nil
	}
	return cause
}

// takenBack makes a job that was not taken wait again.
func takenBack(job journal.Job, now time.Time, reason string) journal.Change {
	from := job.State
	job.State, job.Reason, job.Begun, job.Charged = journal.Pending, reason, time.Time{}, time.Time{}
	return journal.Change{Job: job, From: from, At: now, Cause: reason}
}

// created is what a create came to.
func (q *Queue) created(o *outcome, job journal.Job, queue journal.Queue) []journal.Change {
	now := q.now()
	v := judge(o.err)
	change := journal.Change{From: job.State, At: now}
	switch v {
	case accepted:
		job.State, job.Reason, job.Charged = journal.Active, "", now
		job.JobID = o.got.ID
		q.took(&job, o.got, now)
		change.Cause = "accepted as job " + o.got.ID
	case inDoubt:
		job.State, job.Reason, job.InDoubt, job.Charged = journal.Unknown, o.err.Error(), true, now
		// The service said yes, whatever it made of it: it would say so again.
		job.Resubmit = job.Resubmit && taken(o.err) == nil
	case rejected:
		job.State, job.Reason, job.Ended, job.Begun, job.Charged = journal.Rejected, o.err.Error(), now, time.Time{}, time.Time{}
	default:
		change = takenBack(job, now, o.err.Error())
		job = change.Job
		q.retryLater(o, &job, v, now)
	}
	if change.Cause == "" {
		change.Cause = job.Reason
	}
	change.Job, change.Note = job, q.noteJob(now, job)
	return q.withQueue(change, queue, v, o)
}

// took enters that the service took a create or a message, and what it said.
func (q *Queue) took(job *journal.Job, got docsapi.Job, now time.Time) {
	describe(job, got)
	if job.Created.IsZero() {
		job.Created = now
	}
	job.Accepted, job.Next = now, now.Add(q.pollIn(0, nil))
	job.Tries, job.Polls, job.Missing, job.SeenActive, job.SeenDone = 0, 0, time.Time{}, false, 0
}

// retryLater says when something that was not taken is tried again.
func (q *Queue) retryLater(o *outcome, job *journal.Job, v verdict, now time.Time) {
	switch {
	case o.stopped.Err() != nil && !answered(o.err):
		job.Reason, job.Next = "docgauge was stopped before it was sent", time.Time{}
	case v == unauthorized:
		job.Next = time.Time{} // the pause of the queue holds it
	default:
		job.Tries++
		job.Next = now.Add(q.retryIn(job.Tries, o.err)).Truncate(time.Microsecond)
		job.Blocked = job.Next
	}
}

// withQueue adds to a change what its outcome means for the queue.
func (q *Queue) withQueue(change journal.Change, queue journal.Queue, v verdict, o *outcome) []journal.Change {
	switch {
	case v == inDoubt:
		return append([]journal.Change{change}, q.doubts(queue, change.At, 1)...)
	case v == unauthorized && queue.Paused == "":
		queue.Unknowns, queue.KeyMark = 0, o.mark
		return []journal.Change{change, q.pause(queue, journal.PausedUnauthorized, change.At, refusedKey(o.err))}
	case answered(o.err) && queue.Unknowns > 0:
		queue.Unknowns = 0
		change.Queue = &queue
	}
	return []journal.Change{change}
}

func refusedKey(err error) string {
	return fmt.Sprintf("%v; it goes on when the key changes, or with docgauge jobs release", err)
}
