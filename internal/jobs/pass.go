package jobs

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// Result is what a pass did, and how things stand after it.
type Result struct {
	// Created and Messages count what the service took, Polled the reads, Ended the
	// jobs that came to an end, Unknown what is newly in doubt, Rejected what the
	// service does not take.
	Created, Messages, Polled, Ended, Unknown, Rejected int

	Planned []Planned
	Queue   journal.Queue
	// Following counts the jobs that are at work, Next is when one of them is read next.
	Following int
	Next      time.Time
}

// Settled reports whether nothing goes on by itself soon: no job is at work, and
// what waits does so for a person, for a prompt that does, or for its time.
func (r Result) Settled() bool {
	for _, p := range r.Planned {
		waits := p.State == journal.Pending || p.State == journal.Unknown && r.Queue.Paused == ""
		if waits && p.Why.passes() {
			return false
		}
	}
	return r.Following == 0
}

// Pass does what is to be done now: it reads the jobs that are due, sends the
// follow-ups of those completed, and submits the prompts that may go. The error is
// ErrNewState, or that of the journal; then nothing was begun that is not in it.
func (q *Queue) Pass(ctx context.Context, found prompts.Scanned) (Result, error) {
	p := &pass{Queue: q, found: found, unrendered: map[string]error{}}
	err := p.run(ctx)
	if p.view == nil {
		return p.Result, err
	}
	p.Planned, p.Result.Queue = p.plan(q.cfg, found, p.unrendered), p.queue
	for _, job := range p.jobs {
		if job.State != journal.Active && job.State != journal.Submitting {
			continue
		}
		p.Following++
		if job.State == journal.Active && (p.Next.IsZero() || job.Next.Before(p.Next)) {
			p.Next = job.Next
		}
	}
	return p.Result, err
}

// pass is one pass.
type pass struct {
	*Queue
	*view
	Result
	found prompts.Scanned
	// unrendered are prompts, by id, whose template could not be filled in.
	unrendered map[string]error
	// answers: the service answered a read. completed are jobs, by number, that are
	// and have follow-ups left.
	answers   bool
	completed []int64
}

func (p *pass) run(ctx context.Context) error {
	if err := p.Start(ctx); err != nil {
		return err
	}
	if err := p.payOwed(ctx); err != nil {
		return err
	}
	if err := p.journal.Present(); err != nil {
		return err
	}
	if err := p.reload(ctx); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{p.clockSetBack, p.poll, p.resume, p.messages, p.adoptState, p.tidy, p.submit} {
		// What is under way at the end of ctx is done, nothing new begins.
		if over(ctx) {
			break
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// over reports whether nothing new is to begin.
func over(ctx context.Context) bool { return ctx.Err() != nil }

func (p *pass) reload(ctx context.Context) (err error) {
	v, err := p.load(context.WithoutCancel(ctx))
	if err == nil {
		p.view = v
	}
	return err
}

func (p *pass) adoptState(ctx context.Context) error { return p.adopt(ctx, p.view, p.found) }

// payOwed enters what came of an earlier call.
func (q *Queue) payOwed(ctx context.Context) error {
	if q.owed == nil {
		return nil
	}
	if err := q.owed(ctx); err != nil {
		return err
	}
	q.owed = nil
	return nil
}

// clockSetBack takes what lies in the future to have happened now: it would count
// against the cap per day, or hold the queue up, for as long as the clock was
// wrong.
func (p *pass) clockSetBack(ctx context.Context) error {
	var changes []journal.Change
	for _, job := range p.where(func(j journal.Job) bool { return j.Charged.After(p.at) }) {
		job.Charged = p.at
		changes = append(changes, journal.Change{Job: job, From: job.State})
	}
	if p.queue.Since.After(p.at) {
		queue := p.queue
		queue.Since = p.at
		changes = append(changes, journal.Change{Queue: &queue})
	}
	if len(changes) == 0 {
		return nil
	}
	if _, err := p.enter(ctx, changes...); err != nil {
		return err
	}
	return p.reload(ctx)
}
