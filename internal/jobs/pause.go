package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// unknownsInARow is how many consecutive creates or follow-ups may be in doubt before
	// nothing more is sent. A process that dies of each create would otherwise go
	// through all prompts.
	unknownsInARow = 2
	// unknownPause is how long the queue pauses at most, once the service answers.
	unknownPause = time.Hour
	// probeEvery is how often the service is asked whether it answers again.
	probeEvery = time.Minute
	// probeID is asked for where no job is known: "not found" is an answer.
	probeID = "docgauge-probe"
)

// Recover marks the sends of a killed process as in doubt. It runs once, before the
// first pass, and only while no other process runs the queue.
func (q *Queue) Recover(ctx context.Context) error {
	if q.recovered {
		return nil
	}
	s, err := readState(ctx, q.opt, q.journal, prompts.Scanned{})
	if err != nil {
		return err
	}
	var changes []journal.Change
	for _, job := range s.jobs {
		from := job.State
		switch {
		case from == journal.Submitting:
			// It may have reached the service until just now. The clock may be behind.
			job.Charged = clock.Later(job.Charged, s.now)
		case from == journal.Active && job.Sending:
		default:
			continue
		}
		job.State, job.InDoubt = journal.Unknown, true
		job.Reason = "the process ended while it was being submitted: the service may have accepted it"
		changes = append(changes,
			journal.Change{Job: job, From: from, At: s.now, Cause: job.Reason, Event: q.jobEvent(s.now, job)})
		q.opt.Logger.Warn("agent job in doubt after a crash", "prompt", job.Prompt, "job", job.Seq, "remedy",
			Remedy(job))
	}
	if n := len(changes); n > 0 {
		_, err = q.apply(ctx, append(changes, q.countUnknown(s.queue, s.now, n))...)
	}
	q.recovered = err == nil
	return err
}

// countUnknown counts n more in doubt, and pauses the queue after too many.
func (q *Queue) countUnknown(queue journal.Queue, now time.Time, n int) journal.Change {
	queue.Unknowns += n
	if queue.Unknowns < unknownsInARow || queue.Paused != "" {
		return journal.Change{Queue: &queue}
	}
	detail := fmt.Sprintf("%d creates or messages in a row are in doubt; it continues once the service answers a read "+
		"and either an hour has passed or you run docgauge jobs release", queue.Unknowns)
	return q.pause(queue, journal.PausedUnknown, now, detail)
}

// pause stops the queue from sending.
func (q *Queue) pause(queue journal.Queue, why journal.Pause, now time.Time, detail string) journal.Change {
	queue.Paused, queue.Since, queue.Detail = why, now, detail
	q.opt.Logger.Warn("prompt queue paused", "reason", string(why), "detail", detail)
	paused := view.Event{Event: "paused", At: now, Text: "the prompt queue is paused: " + detail, Queue: &queue}
	return journal.Change{Queue: &queue, At: now, Cause: detail, Event: q.event(paused)}
}

// pauseForKey pauses the queue until the keys differ from those that the service refused, which have the mark. The
// present ones may differ already: then these do not count as refused.
func (q *Queue) pauseForKey(queue journal.Queue, mark string, creates bool, err error) journal.Change {
	if queue.KeyMark = mark; mark == q.opt.KeyMark() {
		q.opt.RefuseKey(creates)
	}
	return q.pause(queue, journal.PausedUnauthorized, q.now(), keyRefused(err))
}

func keyRefused(err error) string {
	return fmt.Sprintf("%v; it continues when the key changes, or with docgauge jobs release", err)
}

// resume ends a pause whose reason is gone. After two in doubt that needs an answer of
// the service since then, and a release or an hour.
func (p *pass) resume(ctx context.Context) error {
	now, queue := p.q.now(), p.state.queue
	cause := ""
	switch {
	case queue.Paused == journal.PausedUnauthorized:
		if p.q.opt.KeyMark() == queue.KeyMark {
			return nil
		}
		cause = "the key has changed"
	case queue.Paused != journal.PausedUnknown:
		return nil
	case queue.Answered.Before(queue.Since) && !p.answered && !p.probe(ctx, now):
		return nil
	default:
		if queue.Answered.Before(queue.Since) {
			queue.Answered = now
		}
		switch {
		case !queue.Released.IsZero() && !queue.Released.Before(queue.Since):
			queue.Unknowns = 0
			cause = "released, and the service answers"
		case now.Sub(queue.Since) >= unknownPause:
			queue.Unknowns = unknownsInARow - 1 // the next one in doubt pauses it again
			cause = "an hour has passed, and the service answers"
		case queue.Answered.Equal(p.state.queue.Answered):
			return nil
		default:
			return p.applyAndReload(ctx, journal.Change{Queue: &queue})
		}
	}
	why := queue.Paused
	queue.Paused, queue.Since, queue.Detail, queue.KeyMark = "", time.Time{}, "", ""
	err := p.applyAndReload(ctx, journal.Change{Queue: &queue, From: journal.State(why), At: now, Cause: cause})
	if err == nil && p.state.queue.Paused == "" {
		p.q.opt.Logger.Info("prompt queue continues", "reason", string(why), "cause", cause)
	}
	return err
}

// probe reads a job, and reports whether the service answered.
func (p *pass) probe(ctx context.Context, now time.Time) bool {
	q := p.q
	if since := now.Sub(q.probed); 0 <= since && since < probeEvery && p.state.queue.Released.Before(q.probed) {
		return false
	}
	q.probed = now
	job := journal.Job{JobID: probeID, Project: p.state.lastBegun().Project}
	for _, known := range p.state.jobs {
		if known.JobID != "" {
			job = known
		}
	}
	if job.Project == "" {
		return false
	}
	_, err := q.read(ctx, job)
	return err == nil || docsapi.IsNotFound(err)
}
