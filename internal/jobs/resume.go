package jobs

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// unknownPause is how long the queue pauses at most once the service answers.
	unknownPause = time.Hour
	// probeEvery is how often the service is asked whether it answers again.
	probeEvery = time.Minute
	// probeID is the id of a job that is asked for where none is known: that it is not
	// found is an answer.
	probeID = "docgauge-probe"
)

// resume ends a pause whose reason is gone.
func (p *pass) resume(ctx context.Context) error {
	switch p.queue.Paused {
	case journal.PausedUnauthorized:
		if mark := p.cfg.KeyMark(); mark != p.queue.KeyMark {
			return p.goOn(ctx, "the key has changed")
		}
	case journal.PausedUnknown:
		return p.afterDoubt(ctx)
	}
	return nil
}

// afterDoubt ends the pause for jobs in doubt once the service has answered since,
// and somebody has said so or an hour has passed.
func (p *pass) afterDoubt(ctx context.Context) error {
	now := p.now()
	queue := p.queue
	released := !queue.Released.IsZero() && !queue.Released.Before(queue.Since)
	if queue.Answered.Before(queue.Since) {
		if !p.answers && !p.probe(ctx, now) {
			return nil
		}
		queue.Answered = now
	}
	switch {
	case released:
		return p.goOnWith(ctx, queue, 0, "released, and the service answers")
	case now.Sub(queue.Since) >= unknownPause:
		// The next one in doubt pauses it again.
		return p.goOnWith(ctx, queue, unknownsInARow-1, "an hour has passed, and the service answers")
	case queue.Answered.Equal(p.queue.Answered):
		return nil
	}
	if _, err := p.enter(ctx, journal.Change{Queue: &queue}); err != nil {
		return err
	}
	return p.reload(ctx)
}

// probe asks the service for a job, and reports whether it answered.
func (p *pass) probe(ctx context.Context, now time.Time) bool {
	if since := now.Sub(p.probed); 0 <= since && since < probeEvery && p.queue.Released.Before(p.probed) {
		return false
	}
	p.probed = now
	asked := journal.Job{JobID: probeID, Project: p.last().Project}
	for _, job := range p.where(func(j journal.Job) bool { return j.JobID != "" }) {
		asked = job
	}
	if asked.Project == "" {
		return false
	}
	r := p.readOne(ctx, asked)
	return r.err == nil || docsapi.IsNotFound(r.err)
}

func (p *pass) goOn(ctx context.Context, cause string) error {
	return p.goOnWith(ctx, p.queue, p.queue.Unknowns, cause)
}

func (p *pass) goOnWith(ctx context.Context, queue journal.Queue, unknowns int, cause string) error {
	why := queue.Paused
	queue.Paused, queue.Since, queue.Detail, queue.KeyMark, queue.Unknowns = "", time.Time{}, "", "", unknowns
	done, err := p.enter(ctx, journal.Change{Queue: &queue, From: journal.State(why), At: p.now(), Cause: cause})
	if err != nil {
		return err
	}
	if done {
		p.cfg.Logger.Info("prompt queue goes on", "reason", string(why), "cause", cause)
	}
	return p.reload(ctx)
}
