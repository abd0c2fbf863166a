package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const diedSubmitting = "the process ended while it was being submitted: the service may have accepted it"

// Start heals what a process left that ended at any moment: what was being sent
// is in doubt from then on. It comes once, by itself before the first Pass, and
// only while no other process runs the queue.
func (q *Queue) Start(ctx context.Context) error {
	if q.started {
		return nil
	}
	v, err := q.load(ctx)
	if err != nil {
		return err
	}
	var changes []journal.Change
	left := v.where(func(j journal.Job) bool {
		return j.State == journal.Submitting || j.State == journal.Active && j.Sending
	})
	for _, job := range left {
		from := job.State
		job.State, job.InDoubt, job.Reason = journal.Unknown, true, diedSubmitting
		if from == journal.Submitting {
			job.Charged = v.at // it may have reached the service until just now
		}
		changes = append(changes, journal.Change{Job: job, From: from, At: v.at, Cause: job.Reason, Note: q.noteJob(v.at, job)})
		q.cfg.Logger.Warn("agent job in doubt after a crash", "prompt", job.Prompt, "job", job.Seq, "remedy", resolve(job))
	}
	if len(changes) > 0 {
		_, err = q.apply(ctx, append(changes, q.doubts(v.queue, v.at, len(left))...)...)
	}
	q.started = err == nil
	return err
}

// unknownsInARow is how many creates or messages in a row may be in doubt before
// nothing more is sent. A process that dies of each create would otherwise go
// through all prompts.
const unknownsInARow = 2

// doubts counts n more in doubt, and pauses the queue after too many.
func (q *Queue) doubts(queue journal.Queue, now time.Time, n int) []journal.Change {
	queue.Unknowns += n
	if queue.Unknowns < unknownsInARow || queue.Paused != "" {
		return []journal.Change{{Queue: &queue}}
	}
	detail := fmt.Sprintf("%d creates or messages in a row are in doubt; it goes on once the service answers a read and either an hour has passed or somebody says docgauge jobs release", queue.Unknowns)
	return []journal.Change{q.pause(queue, journal.PausedUnknown, now, detail)}
}

// pause stops the queue.
func (q *Queue) pause(queue journal.Queue, why journal.Pause, now time.Time, detail string) journal.Change {
	queue.Paused, queue.Since, queue.Detail = why, now, detail
	q.cfg.Logger.Warn("prompt queue paused", "reason", string(why), "detail", detail)
	return journal.Change{Queue: &queue, At: now, Cause: detail, Note: q.notePause(now, queue)}
}
