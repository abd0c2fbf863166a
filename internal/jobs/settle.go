package jobs

import (
	"context"
	"errors"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
)

// settle enters what came of a call about a job, as build makes it from the queue
// as it is. What the service did cannot be asked again, so where the journal
// cannot be written it is owed, and nothing more is sent until it is there. The
// process must not end before: then the job is in doubt.
func (q *Queue) settle(ctx context.Context, job journal.Job, got docsapi.Job, build func(journal.Queue) []journal.Change) error {
	pay := func(ctx context.Context) error { return q.enterOutcome(ctx, job, build) }
	err := pay(ctx)
	if err == nil {
		return nil
	}
	q.owed = pay
	q.cfg.Logger.Error("outcome not entered: docgauge must go on until the journal can be written", "prompt", job.Prompt, "job", job.Seq, "job_id", got.ID, "error", err)
	return err
}

// raceTries is how often a change is made up anew because somebody else changed
// the queue meanwhile.
const raceTries = 5

func (q *Queue) enterOutcome(ctx context.Context, job journal.Job, build func(journal.Queue) []journal.Change) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lingering)
	defer cancel()
	var raced error
	for range raceTries {
		queue, err := q.journal.Queue(ctx)
		if err != nil {
			return err
		}
		if _, raced = q.apply(ctx, build(queue)...); !errors.Is(raced, journal.ErrRaced) {
			return raced
		}
		now, err := q.journal.Job(ctx, job.Seq)
		if err != nil {
			return err
		}
		if now.Version != job.Version {
			// The change before failed and was made all the same: nobody else moves on
			// what is being sent.
			return nil
		}
	}
	return raced
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
func (p *pass) log(job journal.Job, got docsapi.Job, err error) {
	log := p.cfg.Logger.With("prompt", job.Prompt, "project", job.Project, "job", job.Seq, "attempt", job.Attempt)
	what := "create"
	if job.Sending {
		what = followUp(job)
	}
	if err == nil {
		log.Info("agent job sent", "what", what, "job_id", got.ID)
		return
	}
	log.Warn("agent job not sent", "what", what, "outcome", string(judge(err)), "reason", err)
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
