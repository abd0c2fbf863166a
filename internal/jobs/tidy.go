package jobs

import (
	"context"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
)

// tidy moves on what needs no call: prompts that recur are seen, those that look
// renamed are held, jobs that wait for a time that is over expire, and those in doubt
// whose prompts want it get another attempt.
func (p *pass) tidy(ctx context.Context) error {
	if !p.queue.Adopted {
		return nil
	}
	changed := false
	renames := p.renames(p.found)
	for _, file := range p.found.Prompts {
		seen, err := p.see(ctx, file)
		if err != nil {
			return err
		}
		changes := p.tidied(renames, file)
		if changed = changed || seen || len(changes) > 0; len(changes) == 0 {
			continue
		}
		if _, err := p.enter(ctx, changes...); err != nil {
			return err
		}
	}
	if !changed {
		return nil
	}
	return p.reload(ctx)
}

// see begins to count the firings of a prompt, where it or its schedule is new.
func (p *pass) see(ctx context.Context, file prompts.Prompt) (bool, error) {
	if !file.Recurs() {
		return false, nil
	}
	known, ok := p.recurring[file.ID]
	if ok && known.Schedule == file.Schedule.String() && !known.Since.After(p.at) {
		return false, nil
	}
	return true, p.journal.See(ctx, file.ID, file.Schedule.String(), p.at)
}

// tidied is how the newest job of a prompt moves on without a call.
func (p *pass) tidied(renames renames, file prompts.Prompt) []journal.Change {
	job, ok := p.of(file.ID)
	if from := renames.of(file, job); from != "" {
		held := renamed(file, job, from, p.at)
		p.cfg.Logger.Warn("prompt held: it looks renamed", "prompt", file.ID, "from", from, "remedy", Remedy(held.Job))
		return []journal.Change{held}
	}
	switch {
	case !ok:
		return nil
	case job.State == journal.Pending && expired(file, p.at):
		return p.expire(job, "its time was over at "+clock(file.Expires))
	case job.State == journal.Pending && file.Recurs():
		if due, _ := p.firing(file); !due.IsZero() && due.After(job.Firing) {
			return p.expire(job, "its firing was missed: that of "+clock(due)+" comes in its place")
		}
	case resubmits(file, job) && p.queue.Paused == "":
		return again(job, p.at, "on_unknown: resubmit", false)
	}
	return nil
}

func (p *pass) expire(job journal.Job, reason string) []journal.Change {
	job.State, job.Reason, job.Ended = journal.Expired, reason, p.at
	return []journal.Change{{Job: job, From: journal.Pending, At: p.at, Cause: reason}}
}

// again gives a job that has ended or is in doubt another attempt, or a message in
// doubt another try. resubmit reports whether the attempt may be followed by
// another one by itself.
func again(job journal.Job, now time.Time, cause string, resubmit bool) []journal.Change {
	if job.State == journal.Unknown && job.Sending {
		job.State, job.Sending, job.InDoubt, job.Resubmit = journal.Active, false, false, resubmit
		job.Reason, job.Next = cause+": "+followUp(job)+" is sent again", time.Time{}
		return []journal.Change{{Job: job, From: journal.Unknown, At: now, Cause: job.Reason}}
	}
	var changes []journal.Change
	if job.State == journal.Unknown {
		old := job
		old.State, old.Ended = journal.Cancelled, now
		old.Reason = fmt.Sprintf("%s: attempt %d takes its place; the service may have accepted this one", cause, job.Attempt+1)
		changes = append(changes, journal.Change{Job: old, From: journal.Unknown, At: now, Cause: old.Reason})
	}
	next := journal.Job{Prompt: job.Prompt, Firing: job.Firing, Attempt: job.Attempt + 1, Project: job.Project, Title: job.Title, Path: job.Path,
		Digest: job.Digest, ConcurrencyKey: job.ConcurrencyKey, Resubmit: resubmit, State: journal.Pending, Reason: cause}
	return append(changes, journal.Change{Job: next, At: now, Cause: fmt.Sprintf("attempt %d: %s", next.Attempt, cause)})
}
