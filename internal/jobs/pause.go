package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// unknownsInARow is how many creates or follow-ups in a row may be in doubt before
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

// Recover puts in doubt what a killed process was sending. It runs once, before the
// first pass, and only while no other process runs the queue.
func (q *Queue) Recover(ctx context.Context) error {
	if q.recovered {
		return nil
	}
	v, err := readJournal(ctx, q.journal, q.now())
	if err != nil {
		return err
	}
	var changes []journal.Change
	for _, job := range v.jobs {
		from := job.State
		switch {
		case from == journal.Submitting:
			job.Charged = v.at // it may have reached the service until just now
		case from == journal.Active && job.Sending:
		default:
			continue
		}
		job.State, job.InDoubt = journal.Unknown, true
		job.Reason = "the process ended while it was being submitted: the service may have accepted it"
		note := q.noteJob(v.at, job)
		changes = append(changes, journal.Change{Job: job, From: from, At: v.at, Cause: job.Reason, Event: note})
		q.cfg.Logger.Warn("agent job in doubt after a crash", "prompt", job.Prompt, "job", job.Seq, "remedy",
			Remedy(job))
	}
	if n := len(changes); n > 0 {
		_, err = q.apply(ctx, append(changes, q.countUnknown(v.queue, v.at, n)...)...)
	}
	q.recovered = err == nil
	return err
}

// countUnknown counts n more in doubt, and pauses the queue after too many.
func (q *Queue) countUnknown(queue journal.Queue, now time.Time, n int) []journal.Change {
	queue.Unknowns += n
	if queue.Unknowns < unknownsInARow || queue.Paused != "" {
		return []journal.Change{{Queue: &queue}}
	}
	detail := fmt.Sprintf("%d creates or messages in a row are in doubt; it goes on once the service answers a read "+
		"and either an hour has passed or somebody says docgauge jobs release", queue.Unknowns)
	return []journal.Change{q.pause(queue, journal.PausedUnknown, now, detail)}
}

// pause stops the queue from sending.
func (q *Queue) pause(queue journal.Queue, why journal.Pause, now time.Time, detail string) journal.Change {
	queue.Paused, queue.Since, queue.Detail = why, now, detail
	q.cfg.Logger.Warn("prompt queue paused", "reason", string(why), "detail", detail)
	note := q.note(notice{
		Event: notePaused, At: now, Text: "the prompt queue is paused: " + detail,
		Queue: &noticeQueue{Paused: queue.Paused, Since: queue.Since, Detail: queue.Detail},
	})
	return journal.Change{Queue: &queue, At: now, Cause: detail, Event: note}
}

func keyRefused(err error) string {
	return fmt.Sprintf("%v; it goes on when the key changes, or with docgauge jobs release", err)
}

// resume ends a pause whose reason is gone. After two in doubt that needs an answer of
// the service since then, and a release or an hour.
func (p *pass) resume(ctx context.Context) error {
	now, queue := p.q.now(), p.view.queue
	switch queue.Paused {
	case journal.PausedUnauthorized:
		if p.q.cfg.KeyMark() != queue.KeyMark {
			return p.endPause(ctx, queue, "the key has changed")
		}
		return nil
	case journal.PausedUnknown:
	default:
		return nil
	}
	if queue.Answered.Before(queue.Since) {
		if !p.answered && !p.probe(ctx, now) {
			return nil
		}
		queue.Answered = now
	}
	switch {
	case !queue.Released.IsZero() && !queue.Released.Before(queue.Since):
		queue.Unknowns = 0
		return p.endPause(ctx, queue, "released, and the service answers")
	case now.Sub(queue.Since) >= unknownPause:
		queue.Unknowns = unknownsInARow - 1 // the next one in doubt pauses it again
		return p.endPause(ctx, queue, "an hour has passed, and the service answers")
	case queue.Answered.Equal(p.view.queue.Answered):
		return nil
	}
	return p.applyAndReload(ctx, journal.Change{Queue: &queue})
}

// probe reads a job, and reports whether the service answered.
func (p *pass) probe(ctx context.Context, now time.Time) bool {
	q := p.q
	if since := now.Sub(q.probed); 0 <= since && since < probeEvery && p.view.queue.Released.Before(q.probed) {
		return false
	}
	q.probed = now
	job := journal.Job{JobID: probeID, Project: p.view.lastBegun().Project}
	for _, known := range p.view.jobs {
		if known.JobID != "" {
			job = known
		}
	}
	if job.Project == "" {
		return false
	}
	r := q.read(ctx, job)
	return r.err == nil || docsapi.IsNotFound(r.err)
}

func (p *pass) endPause(ctx context.Context, queue journal.Queue, cause string) error {
	why := queue.Paused
	queue.Paused, queue.Since, queue.Detail, queue.KeyMark = "", time.Time{}, "", ""
	err := p.applyAndReload(ctx, journal.Change{Queue: &queue, From: journal.State(why), At: p.q.now(), Cause: cause})
	if err == nil && p.view.queue.Paused == "" {
		p.q.cfg.Logger.Info("prompt queue goes on", "reason", string(why), "cause", cause)
	}
	return err
}
