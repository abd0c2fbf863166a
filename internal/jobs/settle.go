package jobs

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// outcome is what came of a create or a message, on its way into the journal.
type outcome struct {
	// job is as the intent left it.
	job journal.Job
	got docsapi.Job
	err error
	// mark is of the keys the call was made with, stopped ended if docgauge was to stop.
	mark    string
	stopped context.Context
	// changes says what it comes to, for the job and the queue as they are; the first
	// change is that of the job.
	changes func(o *outcome, job journal.Job, queue journal.Queue) []journal.Change
	// unsure are changes that failed and may be made all the same.
	unsure []journal.Job
}

// settle enters what came of a call about a job. What the service did cannot be
// asked again, so where the journal cannot be written it is owed, and nothing more
// is sent until it is there. The process must not end before: then the job is in
// doubt.
func (q *Queue) settle(ctx context.Context, o *outcome) error {
	pay := func(ctx context.Context) error { return q.enterOutcome(ctx, o) }
	err := pay(ctx)
	if err == nil {
		return nil
	}
	q.owed = pay
	q.cfg.Logger.Error("outcome not entered: docgauge must go on until the journal can be written", "prompt", o.job.Prompt, "job", o.job.Seq, "job_id", o.got.ID, "error", err)
	return err
}

// raceTries is how often a change is made up anew because somebody else changed
// the job or the queue meanwhile.
const raceTries = 5

// enterOutcome makes up the changes from the job and the queue as they are, until
// the journal takes them. The journal itself says, with the change, whether the id
// is another job's: then it is in doubt.
func (q *Queue) enterOutcome(ctx context.Context, o *outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
	defer cancel()
	job := o.job
	var raced error
	for range raceTries {
		queue, err := q.journal.Queue(ctx)
		if err != nil {
			return err
		}
		changes := o.changes(o, job, queue)
		if job.State.Ended() {
			afterItsEnd(&changes[0], job)
		}
		_, err = q.apply(ctx, changes...)
		switch {
		case err == nil:
			return nil
		case taken(err) != nil:
			o.err = fmt.Errorf("the service took it, and %w: nobody can tell whether it made another", taken(err))
			q.cfg.Logger.Warn("agent job in doubt", "prompt", job.Prompt, "job", job.Seq, "reason", o.err)
			continue
		case !errors.Is(err, journal.ErrRaced):
			o.unsure = append(o.unsure, changes[0].Job)
			return err
		}
		raced = err
		now, err := q.journal.Job(ctx, job.Seq)
		if err != nil {
			return err
		}
		if o.isMade(now) {
			return nil
		}
		// Somebody else moved the job on, or the queue alone. Which messages the service
		// has only the intent knows.
		job = now
		job.Sending, job.Sent = o.job.Sending, o.job.Sent
	}
	return raced
}

// isMade reports whether a job is as a change that failed would have left it.
func (o *outcome) isMade(now journal.Job) bool {
	now.Text, now.FollowUps = "", nil
	return slices.ContainsFunc(o.unsure, func(job journal.Job) bool {
		job.Version++
		job.Text, job.FollowUps = "", nil
		return reflect.DeepEqual(job, now)
	})
}

// afterItsEnd keeps the end somebody gave a job while it was being sent: what the
// service did is entered beside it.
func afterItsEnd(c *journal.Change, ended journal.Job) {
	c.Cause = fmt.Sprintf("%s; it was %s before that was known", c.Cause, ended.State)
	c.Job.State, c.Job.Reason, c.Job.Ended, c.Job.Next, c.Job.Blocked = ended.State, ended.Reason, ended.Ended, time.Time{}, time.Time{}
	c.Job.Sending, c.Note = false, nil
}

// taken returns what says that an id is another job's, nil for any other error.
func taken(err error) *journal.TakenError {
	is, _ := errors.AsType[*journal.TakenError](err)
	return is
}

// enter applies changes and reports whether they were made. They are not where
// somebody else was faster; the next pass makes them up anew.
func (p *pass) enter(ctx context.Context, changes ...journal.Change) (bool, error) {
	_, err := p.apply(ctx, changes...)
	if errors.Is(err, journal.ErrRaced) || errors.Is(err, journal.ErrDuplicate) {
		return false, nil
	}
	return err == nil, err
}

// count counts what a create or a message came to.
func (p *pass) count(v verdict, taken *int) {
	switch v {
	case accepted:
		*taken++
	case inDoubt:
		p.Unknown++
	case rejected:
		p.Rejected++
	}
}

// log has one line for what a create or a message came to.
func (p *pass) log(o *outcome) {
	job := o.job
	log := p.cfg.Logger.With("prompt", job.Prompt, "project", job.Project, "job", job.Seq, "attempt", job.Attempt)
	what := "create"
	if job.Sending {
		what = followUp(job)
	}
	if o.err == nil {
		log.Info("agent job sent", "what", what, "job_id", o.got.ID)
		return
	}
	log.Warn("agent job not sent", "what", what, "outcome", string(judge(o.err)), "reason", o.err)
}

// describe enters what the service says of a job. What it does not say stays.
func describe(job *journal.Job, got docsapi.Job) {
	for _, f := range []struct {
		to   *string
		from string
	}{
		{&job.Status, got.Status}, {&job.Repository, got.Repository}, {&job.Ref, got.Ref},
		{&job.Model, got.Model}, {&job.PRLink, got.PRLink},
	} {
		if f.from != "" {
			*f.to = f.from
		}
	}
	if !got.CreatedAt.IsZero() {
		job.Created = got.CreatedAt.UTC().Truncate(time.Microsecond)
	}
}
