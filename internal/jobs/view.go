package jobs

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	day = 24 * time.Hour
	// maxWait is longer than anything that is ever waited for before the next try. A
	// time further ahead comes from a clock that was set back.
	maxWait = 25 * time.Hour
)

// view is the journal as one pass knows it: as it was read, with what the pass
// did since.
type view struct {
	at        time.Time // of its making
	queue     journal.Queue
	recurring map[string]journal.Recurring
	jobs      map[int64]journal.Job
	newest    map[string]int64 // by prompt
}

func (q *Queue) load(ctx context.Context) (*view, error) { return load(ctx, q.journal, q.now()) }

func load(ctx context.Context, j Journal, now time.Time) (*view, error) {
	all, err := j.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	queue, err := j.Queue(ctx)
	if err != nil {
		return nil, err
	}
	recurring, err := j.Recurring(ctx)
	if err != nil {
		return nil, err
	}
	v := &view{at: now, queue: queue, recurring: recurring, jobs: make(map[int64]journal.Job, len(all)), newest: make(map[string]int64, len(all))}
	for _, job := range all {
		v.set(job)
	}
	return v, nil
}

// set enters a job as it is now.
func (v *view) set(job journal.Job) {
	job.Text, job.FollowUps = "", nil
	v.jobs[job.Seq] = job
	if seq, ok := v.newest[job.Prompt]; !ok || job.Newer(v.jobs[seq]) {
		v.newest[job.Prompt] = job.Seq
	}
}

// of returns the newest job of a prompt.
func (v *view) of(prompt string) (journal.Job, bool) {
	job, ok := v.jobs[v.newest[prompt]]
	return job, ok
}

// where returns the jobs that f is true for, oldest first.
func (v *view) where(f func(journal.Job) bool) []journal.Job {
	var out []journal.Job
	for job := range maps.Values(v.jobs) {
		if f(job) {
			out = append(out, job)
		}
	}
	slices.SortFunc(out, func(a, b journal.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	return out
}

// waits reports whether a time is still to come, and is not nonsense.
func (v *view) waits(until time.Time) bool {
	return until.After(v.at) && !until.After(v.at.Add(maxWait))
}

// charged returns when the jobs that count against the cap per day were charged,
// oldest first.
func (v *view) charged() []time.Time {
	var out []time.Time
	for _, job := range v.jobs {
		if charged(job, v.at) {
			out = append(out, job.Charged)
		}
	}
	slices.SortFunc(out, time.Time.Compare)
	return out
}

func charged(job journal.Job, now time.Time) bool { return job.Charged.After(now.Add(-day)) }

// Usage returns how many jobs count against the caps: those begun within 24
// hours, and those at work.
func Usage(all []journal.Job, now time.Time) (perDay, active int) {
	for _, job := range all {
		if charged(job, now) {
			perDay++
		}
		if job.State.Occupies() {
			active++
		}
	}
	return perDay, active
}

// last returns the job that was begun last.
func (v *view) last() (last journal.Job) {
	for _, job := range v.jobs {
		if job.Begun.After(last.Begun) || job.Begun.Equal(last.Begun) && job.Seq > last.Seq {
			last = job
		}
	}
	return last
}
