package jobs

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

const (
	day = 24 * time.Hour
	// maxWait is longer than any wait for a retry. A time further ahead was written
	// before the clock was set back.
	maxWait = 25 * time.Hour
)

// queueState is the content of the journal at one moment.
type queueState struct {
	now       time.Time
	queue     journal.Queue
	recurring map[string]journal.Recurring
	jobs      []journal.Job          // oldest first, without their texts
	newest    map[string]journal.Job // by prompt
	// pulls are the pull requests by link; nil where nothing depends on them: neither the
	// caps nor a prompt of the folder.
	pulls map[string]journal.PullRequest
}

func readState(ctx context.Context, o Options, j jobStore, found prompts.Scanned) (_ *queueState, err error) {
	s := &queueState{now: o.Now().UTC().Truncate(time.Microsecond)}
	if s.jobs, err = j.Jobs(ctx); err != nil {
		return nil, err
	}
	if s.queue, err = j.Queue(ctx); err != nil {
		return nil, err
	}
	if s.recurring, err = j.Recurring(ctx); err != nil {
		return nil, err
	}
	waits := func(p prompts.Prompt) bool { return len(p.Merged) > 0 }
	if o.MaxOpenPulls > 0 || o.MaxReviewAge > 0 || slices.ContainsFunc(found.Prompts, waits) {
		known, err := j.PullStates(ctx)
		if err != nil {
			return nil, err
		}
		s.pulls = PullsByLink(s.jobs, known)
	}
	s.correctFirings()
	s.newest = journal.Newest(s.jobs)
	return s, nil
}

// correctFirings gives the jobs of firings that only a clock that was ahead can have decided a
// place right after the firing before them. Otherwise they would be the newest until their time
// comes, and their prompts would not fire. The result depends on the journal alone, not on now.
func (s *queueState) correctFirings() {
	type firing struct {
		prompt string
		at     time.Time
	}
	last, corrected := map[string]time.Time{}, map[firing]time.Time{}
	for i := range s.jobs {
		job := &s.jobs[i]
		f := firing{job.Prompt, job.Firing}
		if at, known := corrected[f]; known { // another try
			job.Firing = at
		} else if s.isMisfired(*job) {
			job.Firing = clock.Later(last[job.Prompt], time.UnixMicro(0).UTC()).Add(time.Microsecond)
			corrected[f] = job.Firing
		}
		last[job.Prompt] = clock.Later(last[job.Prompt], job.Firing)
	}
}

// isMisfired reports whether a job belongs to a later firing than the next one.
func (s *queueState) isMisfired(job journal.Job) bool {
	if !job.Firing.After(s.now) {
		return false
	}
	cron, err := schedule.ParseCron(s.recurring[job.Prompt].Schedule)
	if err != nil {
		return clock.IsFuture(job.Firing, s.now)
	}
	return job.Firing.After(cron.Next(s.now))
}

// isAhead reports whether a time is still to come, and plausible.
func (s *queueState) isAhead(t time.Time) bool {
	return t.After(s.now) && !t.After(s.now.Add(maxWait))
}

// lastBegun returns the job that was begun last.
func (s *queueState) lastBegun() (last journal.Job) {
	for _, job := range s.jobs {
		if !job.Begun.Before(last.Begun) {
			last = job
		}
	}
	return last
}

// firing returns the firing of a recurring prompt that is to be caught up (zero: none)
// and the next one.
func (s *queueState) firing(p prompts.Prompt) (due, next time.Time) {
	base := s.now
	if seen, ok := s.recurring[p.ID]; ok && seen.Schedule == p.Schedule.String() && seen.Since.Before(base) {
		base = seen.Since
	}
	if job, ok := s.newest[p.ID]; ok && job.Firing.After(base) {
		base = job.Firing
	}
	if before := p.NotBefore.Add(-time.Microsecond); before.After(base) {
		base = before
	}
	due, next = firings(p.Schedule, base, s.now)
	if expired(p, next) {
		next = time.Time{}
	}
	return due, next
}

// firings returns, of the firings after base, the newest up to now (zero: none) and
// the first after now. Those before the newest are missed for good.
func firings(c schedule.Cron, base, now time.Time) (due, next time.Time) {
	first := c.Next(base)
	if first.IsZero() || first.After(now) {
		return time.Time{}, first
	}
	if strings.HasPrefix(c.String(), "@every ") {
		every := c.Next(first).Sub(first)
		due = first.Add(now.Sub(first) / every * every)
		return due, due.Add(every)
	}
	// Backwards from now in growing steps, not forwards from base: that can be years
	// of minutes.
	from := base
	for back := time.Hour; now.Add(-back).After(base); back *= 2 {
		if !c.Next(now.Add(-back)).After(now) {
			from = now.Add(-back)
			break
		}
	}
	for next = c.Next(from); !next.IsZero() && !next.After(now); next = c.Next(next) {
		due = next
	}
	return due, next
}

// expired reports whether a prompt may no longer begin at a time.
func expired(p prompts.Prompt, at time.Time) bool {
	return !p.Expires.IsZero() && !at.Before(p.Expires)
}
