package jobs

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/schedule"
)

const (
	day = 24 * time.Hour
	// maxWait is longer than any wait for a retry. A time further ahead was written
	// before the clock was set back.
	maxWait = 25 * time.Hour
)

// view is the journal as it was read at one moment.
type view struct {
	at        time.Time
	queue     journal.Queue
	recurring map[string]journal.Recurring
	jobs      []journal.Job          // oldest first, without their texts
	newest    map[string]journal.Job // by prompt
	// pulls are the pull requests by link; nil where nothing depends on them.
	pulls map[string]journal.PullRequest
}

func readJournal(ctx context.Context, j Journal, now time.Time) (*view, error) {
	v := &view{at: now}
	var err error
	if v.jobs, err = j.Jobs(ctx); err != nil {
		return nil, err
	}
	if v.queue, err = j.Queue(ctx); err != nil {
		return nil, err
	}
	if v.recurring, err = j.Recurring(ctx); err != nil {
		return nil, err
	}
	v.correctFirings()
	v.newest = journal.Newest(v.jobs)
	return v, nil
}

// correctFirings gives the jobs of firings that only a clock that was ahead can have decided a
// place right after the firing before them. Otherwise they would be the newest, and their
// prompts would not fire, until their time comes. That depends on the journal alone, not on
// now, and is not written back: a clock that is behind changes nothing for good.
func (v *view) correctFirings() {
	type firing struct {
		prompt string
		at     time.Time
	}
	last, corrected := map[string]time.Time{}, map[firing]time.Time{}
	for i := range v.jobs {
		job := &v.jobs[i]
		f := firing{job.Prompt, job.Firing}
		if at, known := corrected[f]; known { // another try
			job.Firing = at
		} else if v.isMisfired(*job) {
			job.Firing = clock.Later(last[job.Prompt], time.UnixMicro(0).UTC()).Add(time.Microsecond)
			corrected[f] = job.Firing
		}
		last[job.Prompt] = clock.Later(last[job.Prompt], job.Firing)
	}
}

// isMisfired reports whether a job is of a later firing than the next one.
func (v *view) isMisfired(job journal.Job) bool {
	if !job.Firing.After(v.at) {
		return false
	}
	cron, err := schedule.ParseCron(v.recurring[job.Prompt].Schedule)
	if err != nil {
		return clock.IsFuture(job.Firing, v.at)
	}
	return job.Firing.After(cron.Next(v.at))
}

// where returns the jobs that match, oldest first.
func (v *view) where(match func(journal.Job) bool) []journal.Job {
	var out []journal.Job
	for _, job := range v.jobs {
		if match(job) {
			out = append(out, job)
		}
	}
	return out
}

// isAhead reports whether a time is still to come, and plausible.
func (v *view) isAhead(t time.Time) bool {
	return t.After(v.at) && !t.After(v.at.Add(maxWait))
}

// lastBegun returns the job that was begun last.
func (v *view) lastBegun() (last journal.Job) {
	for _, job := range v.jobs {
		if !job.Begun.Before(last.Begun) {
			last = job
		}
	}
	return last
}

// charges returns when the jobs that count against the cap per day were charged,
// oldest first.
func charges(all []journal.Job, now time.Time) []time.Time {
	var out []time.Time
	for _, job := range all {
		if job.Charged.After(now.Add(-day)) {
			out = append(out, job.Charged)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

// Usage returns how many jobs count against the caps: those begun within 24 hours,
// and those at work.
func Usage(all []journal.Job, now time.Time) (perDay, active int) {
	for _, job := range all {
		if job.State.Occupies() {
			active++
		}
	}
	return len(charges(all, now)), active
}

// firing returns the firing of a recurring prompt that is to be caught up (zero: none)
// and the next one.
func (v *view) firing(p prompts.Prompt) (due, next time.Time) {
	base := v.at
	if seen, ok := v.recurring[p.ID]; ok && seen.Schedule == p.Schedule.String() && seen.Since.Before(base) {
		base = seen.Since
	}
	if job, ok := v.newest[p.ID]; ok && job.Firing.After(base) {
		base = job.Firing
	}
	if before := p.NotBefore.Add(-time.Microsecond); before.After(base) {
		base = before
	}
	due, next = firings(p.Schedule, base, v.at)
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

// textAt is a text, by its digest, and where it is: the path of a file, or the id of
// a prompt.
type textAt struct{ where, digest string }

// renames finds prompts that look renamed: without an id a prompt is identified by its
// path, so under another path it would be sent a second time. See the package comment.
type renames struct {
	at time.Time
	// gone are jobs, by digest and oldest first, whose text is no longer where it was.
	// They keep it from being sent under another path.
	gone map[string][]journal.Job
	// decided are those of gone for which another prompt was held as renamed, and the
	// operator has decided about it: further copies of the text are copies.
	decided map[textAt]bool
}

func (v *view) renames(found prompts.Scanned) renames {
	present := map[textAt]bool{}
	for _, p := range found.Prompts {
		present[textAt{p.Path, p.Digest}], present[textAt{p.ID, p.Digest}] = true, true
	}
	r := renames{at: v.at, gone: map[string][]journal.Job{}, decided: map[textAt]bool{}}
	for _, job := range v.jobs {
		// A file that is invalid now, or still changing, does not show that the text is
		// present: it may be another one.
		isPresent := present[textAt{job.Path, job.Digest}] || present[textAt{job.Prompt, job.Digest}]
		switch {
		case isPresent && job.RenamedFrom != "" && job.State != journal.Held:
			r.decided[textAt{job.RenamedFrom, job.Digest}] = true
		case isPresent, job.State == journal.Pending, job.State == journal.Rejected, job.State == journal.Expired:
			// The service never had the text of these three, and nobody stopped it.
		default:
			r.gone[job.Digest] = append(r.gone[job.Digest], job)
		}
	}
	return r
}

// from returns the path that a prompt looks renamed from: of several paths the one
// with the same file name, else the newest. It is empty if the prompt may be sent. job
// is the newest of the prompt, if there is one: a pending job with the text of the file
// was examined before, or released.
func (r renames) from(p prompts.Prompt, job journal.Job) (from string) {
	examined := job.Seq != 0 && (job.State != journal.Pending || job.Digest == p.Digest)
	if examined || p.HasID() || p.Recurs() || expired(p, r.at) {
		return ""
	}
	for _, job := range r.gone[p.Digest] {
		if r.decided[textAt{job.Path, job.Digest}] {
			continue
		}
		if from == "" || path.Base(from) != path.Base(p.Path) || path.Base(job.Path) == path.Base(p.Path) {
			from = job.Path
		}
	}
	return from
}

// holdRenamed holds a prompt that looks renamed; job is its newest, if there is one.
func holdRenamed(p prompts.Prompt, job journal.Job, from string, now time.Time) journal.Change {
	before := job.State
	if job.Seq == 0 {
		job = newJob(p, journal.Held)
	}
	job.State, job.Reason, job.RenamedFrom, job.Digest = journal.Held, "it looks renamed from "+from, from, p.Digest
	job.Next, job.Blocked, job.Refusals = time.Time{}, time.Time{}, 0
	return journal.Change{Job: job, From: before, At: now, Cause: job.Reason}
}

// newJob is the first job of a prompt.
func newJob(p prompts.Prompt, state journal.State) journal.Job {
	return journal.Job{
		Prompt: p.ID, Try: 1, Project: p.Project, Title: p.Title, Path: p.Path, Digest: p.Digest,
		ConcurrencyKey: p.ConcurrencyKey, Resubmit: p.Resubmit, Pages: p.Pages, State: state,
	}
}
