package jobs

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/docsapi"
	"github.com/docgauge/docgauge/internal/format"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// readsAtOnce is how many jobs are read at the same time.
	readsAtOnce = 4
	// readTimeout bounds one job's read, with the client's retries.
	readTimeout = 90 * time.Second
	// lostAfter is for how long a job is not found before it is lost.
	lostAfter = 10 * time.Minute
	// A job that is completed right after it accepted a follow-up may not have begun on
	// it. It counts as completed after so many reads, so long after.
	doneReads = 2
	doneAfter = 30 * time.Second
)

// reading is one read of a job.
type reading struct {
	job journal.Job
	got docsapi.Job
	err error
}

// poll reads the jobs that are due, and enters what that shows.
func (p *pass) poll(ctx context.Context) error {
	readings := p.readAll(ctx, p.view.where(func(j journal.Job) bool {
		return j.State == journal.Active && !p.view.isAhead(j.Next)
	}))
	if len(readings) == 0 {
		return nil
	}
	var unchanged []journal.Change
	var refused error
	for _, r := range readings {
		p.result.Polled++
		p.answered = p.answered || r.err == nil || docsapi.IsNotFound(r.err)
		if docsapi.IsUnauthorized(r.err) {
			refused = r.err
		}
		change := p.follow(r)
		if change.Cause == "" {
			unchanged = append(unchanged, change)
			continue
		}
		done, err := p.apply(ctx, change)
		if err != nil {
			return err
		}
		if job := change.Job; done {
			p.result.Ended++
			p.q.cfg.Logger.Info("agent job ended", "prompt", job.Prompt, "job", job.Seq, "job_id", job.JobID,
				"state", string(job.State), "pr_link", job.PRLink)
		}
	}
	// Jobs without news are entered together, or one by one if one of them was changed
	// meanwhile.
	together, err := p.apply(ctx, unchanged...)
	for i := 0; err == nil && !together && i < len(unchanged); i++ {
		_, err = p.apply(ctx, unchanged[i])
	}
	if err != nil {
		return err
	}
	if queue := p.view.queue; refused != nil && queue.Paused == "" {
		queue.KeyMark = p.q.cfg.KeyMark()
		change := p.q.pause(queue, journal.PausedUnauthorized, p.q.now(), keyRefused(refused))
		if _, err := p.apply(ctx, change); err != nil {
			return err
		}
	}
	return p.reload(ctx)
}

// readAll reads several jobs at once. It leaves out the reads that the end of ctx cut
// off.
func (p *pass) readAll(ctx context.Context, due []journal.Job) []reading {
	all := make([]reading, len(due))
	slots := make(chan struct{}, readsAtOnce)
	var readers sync.WaitGroup
	for i, job := range due {
		slots <- struct{}{}
		readers.Go(func() {
			defer func() { <-slots }()
			all[i] = p.q.read(ctx, job)
		})
	}
	readers.Wait()
	kept := all[:0]
	for _, r := range all {
		if r.err == nil || ctx.Err() == nil {
			kept = append(kept, r)
		}
	}
	return kept
}

func (q *Queue) read(ctx context.Context, job journal.Job) reading {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	got, err := q.client.Job(ctx, job.Project, job.JobID)
	return reading{job, got, err}
}

// follow is what a read means for its job: the rows from active of the table of
// states. The change has a cause if the job has ended.
func (p *pass) follow(r reading) journal.Change {
	now, job, cause := p.q.now(), r.job, ""
	if job.Accepted.After(now) {
		job.Accepted = now // the clock was set back
	}
	job.Polls++
	job.Next = now.Add(p.q.pollIn(job.Polls, r.err))
	switch {
	case r.err == nil:
		describe(&job, r.got)
		job.PRLink = cmp.Or(p.pullLink(r.got.PRLink), job.PRLink)
		job.Reason, job.Missing = "", time.Time{}
		job.State, cause = p.stateOf(&job, r.got, now)
	case docsapi.IsNotFound(r.err):
		if job.Missing.IsZero() || job.Missing.After(now) {
			job.Missing = now
		}
		job.Reason = "the service has not known it since " + format.Time(job.Missing)
		if now.Sub(job.Missing) >= lostAfter {
			job.Reason = fmt.Sprintf("the service has not known it for %v", lostAfter)
			job.State, cause = journal.Lost, job.Reason
		}
	default:
		job.Reason = "the last read failed: " + r.err.Error()
	}
	change := journal.Change{From: r.job.State, At: now, Cause: cause}
	if job.State.Ended() {
		job.Ended, job.Next = now, time.Time{}
		change.Event = p.q.noteJob(now, job)
	}
	change.Job = job
	return change
}

// pullLink returns the link of a pull request in the one spelling that the journal has of it:
// that of the first job that had it. By its link a pull request is followed and counted.
func (p *pass) pullLink(given string) string {
	link := analytics.PullLink(given)
	if link == "" {
		return ""
	}
	if p.links == nil {
		p.links = map[string]string{}
		for _, job := range p.view.jobs {
			if key := analytics.PullKey(job.PRLink); p.links[key] == "" {
				p.links[key] = job.PRLink
			}
		}
	}
	key := analytics.PullKey(link)
	p.links[key] = cmp.Or(p.links[key], link)
	return p.links[key]
}

// stateOf tells from a read whether the job has ended, and how. A job that is
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
