package jobs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/journal"
)

const (
	// readTimeout bounds one job's read, with the client's retries.
	readTimeout = 90 * time.Second
	// lostAfter is how long a job must not be found before it counts as lost.
	lostAfter = 10 * time.Minute
	// A job that is completed right after it accepted a follow-up may not have begun on
	// it. It counts as completed after doneReads reads at least doneAfter later.
	doneReads = 2
	doneAfter = 30 * time.Second
)

// poll reads the jobs that are due, and enters the results.
func (p *pass) poll(ctx context.Context) error {
	var refused error
	polled, isKey, mark := false, false, p.q.opt.KeyMark()
	for _, job := range p.state.jobs {
		if job.State != journal.Active || p.readsLater(job) {
			continue
		}
		got, err := p.q.read(ctx, job)
		if err != nil && ctx.Err() != nil {
			break // the stop cut the read off
		}
		if _, wrong := errors.AsType[*docsapi.ClockError](err); wrong {
			return err // the time of the next read would be wrong too
		}
		polled = true
		p.answered = p.answered || err == nil || docsapi.IsNotFound(err)
		if docsapi.IsUnauthorized(err) {
			refused, isKey = err, isKey || judge(err) != forbidden
		}
		change := p.follow(job, got, err)
		made, err := p.apply(ctx, change)
		if err != nil {
			return err
		}
		if job := change.Job; made && job.State.Ended() {
			p.result.Ended++
			p.q.opt.Logger.Info("agent job ended", "prompt", job.Prompt, "job", job.Seq, "job_id", job.JobID,
				"state", string(job.State), "pr_link", job.PRLink)
		}
	}
	// A service that answers the reads of other projects refuses only the project of this one (403).
	if queue := p.state.queue; refused != nil && (isKey || !p.answered) && queue.Paused == "" {
		if _, err := p.apply(ctx, p.q.pauseForKey(queue, mark, false, refused)); err != nil {
			return err
		}
	}
	if !polled {
		return nil
	}
	return p.reload(ctx)
}

// readsLater reports whether the next read of a job is still to come. A service that did not answer the last one may
// have said when. Otherwise a time further ahead than two reads are apart was written before the clock was set back.
func (p *pass) readsLater(job journal.Job) bool {
	if job.Reason != "" {
		return p.state.isAhead(job.Next)
	}
	most := 2 * max(maxBackoff, p.q.opt.PollInterval)
	return job.Next.After(p.state.now) && !job.Next.After(p.state.now.Add(most))
}

func (q *Queue) read(ctx context.Context, job journal.Job) (docsapi.Job, error) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	return q.client.Job(ctx, job.Project, job.JobID)
}

// follow returns the change of a job after a read: the rows from active of the table of states. The
// change enters the history if the job has ended.
func (p *pass) follow(job journal.Job, got docsapi.Job, err error) journal.Change {
	change := journal.Change{From: job.State, At: p.q.now()}
	if job.Accepted.After(change.At) {
		job.Accepted = change.At // the clock was set back
	}
	job.Polls++
	job.Next = change.At.Add(p.q.pollIn(job.Polls, err))
	switch {
	case err == nil:
		describe(&job, got)
		job.PRLink = cmp.Or(p.pullLink(got.PRLink), job.PRLink)
		job.Reason, job.Missing = "", time.Time{}
		if job.State, change.Cause = p.stateOf(&job, got, change.At); job.State == journal.Failed {
			job.Reason = got.Failure
		}
		if problem := got.Cost.Problem; job.State.Ended() && problem != "" {
			change.Cause += "; ignored an invalid value of the service: " + problem
			p.q.opt.Logger.Warn("cost of agent job ignored", "prompt", job.Prompt, "job_id", job.JobID, "reason", problem)
		}
	case docsapi.IsNotFound(err):
		if job.Missing.IsZero() || job.Missing.After(change.At) {
			job.Missing = change.At
		}
		job.Reason = "the service has not known it since " + format.Time(job.Missing)
		if change.At.Sub(job.Missing) >= lostAfter {
			job.Reason = fmt.Sprintf("the service has not known it for %v", lostAfter)
			job.State, change.Cause = journal.Lost, job.Reason
		}
	default:
		job.Reason = "the last read failed: " + err.Error()
	}
	if job.State.Ended() {
		job.Ended, job.Next = change.At, time.Time{}
		change.Event = p.q.jobEvent(change.At, job)
	}
	change.Job = job
	return change
}

// pullLink returns the link of a pull request in the one spelling of the journal: the spelling of the first job that
// had it. By its link a pull request is followed and counted.
func (p *pass) pullLink(given string) string {
	link := analytics.PullLink(given)
	if link == "" {
		return ""
	}
	if p.links == nil {
		p.links = map[string]string{}
		for _, job := range p.state.jobs {
			if key := analytics.PullKey(job.PRLink); p.links[key] == "" {
				p.links[key] = job.PRLink
			}
		}
	}
	key := analytics.PullKey(link)
	p.links[key] = cmp.Or(p.links[key], link)
	return p.links[key]
}

// stateOf returns the state of a job after a read, and the reason if it has ended. A job that is
// completed and has follow-ups left stays active.
func (p *pass) stateOf(job *journal.Job, got docsapi.Job, now time.Time) (state journal.State, cause string) {
	switch got.Status {
	case docsapi.StatusFailed:
		return journal.Failed, "the service says it failed"
	case docsapi.StatusArchived:
		return journal.Archived, "the service says it was archived"
	case docsapi.StatusCompleted:
	default:
		job.SeenActive, job.SeenDone = true, 0
		return journal.Active, ""
	}
	if job.Sent > 0 && !job.SeenActive {
		// The status may still be the one from before the follow-up.
		if now.Sub(job.Accepted) >= doneAfter {
			job.SeenDone++
		}
		if job.SeenDone < doneReads {
			return journal.Active, ""
		}
	}
	if job.Sent < job.Messages {
		p.completed = append(p.completed, job.Seq)
		return journal.Active, ""
	}
	if job.PRLink != "" {
		return journal.Completed, "completed, with " + job.PRLink
	}
	return journal.Completed, "completed, without a pull request"
}
