package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// memory is a journal in memory. TestJournals compares it with that of package state.
type memory struct {
	jobs      map[int64]journal.Job
	last      int64
	queue     journal.Queue
	events    map[int64][]journal.Transition
	notes     []journal.Event
	recurring map[string]journal.Recurring
	pulls     []journal.PullRequest
	finished  map[string]int // by project and result
	lost      error          // of Present
}

func newMemory() *memory {
	return &memory{
		jobs: map[int64]journal.Job{}, queue: journal.Queue{Version: 1}, events: map[int64][]journal.Transition{},
		recurring: map[string]journal.Recurring{}, finished: map[string]int{},
	}
}

func (m *memory) Present() error { return m.lost }

func (m *memory) Jobs(context.Context) ([]journal.Job, error) {
	out := slices.SortedFunc(maps.Values(m.jobs), func(a, b journal.Job) int { return cmp.Compare(a.Seq, b.Seq) })
	for i := range out {
		out[i].Text, out[i].FollowUps = "", nil
	}
	return out, nil
}

func (m *memory) Job(_ context.Context, seq int64) (journal.Job, error) {
	job, ok := m.jobs[seq]
	if !ok {
		return job, fmt.Errorf("job %d: %w", seq, journal.ErrNoJob)
	}
	return job, nil
}

func (m *memory) Queue(context.Context) (journal.Queue, error) {
	return m.queue, nil
}

func (m *memory) Recurring(context.Context) (map[string]journal.Recurring, error) {
	return maps.Clone(m.recurring), nil
}

func (m *memory) PullStates(context.Context) ([]journal.PullRequest, error) {
	return slices.Clone(m.pulls), nil
}

func (m *memory) See(_ context.Context, prompt, schedule string, at time.Time) error {
	known := m.recurring[prompt]
	if known.Schedule == schedule && known.Since.Before(at) {
		at = known.Since
	}
	m.recurring[prompt] = journal.Recurring{Schedule: schedule, Since: at}
	return nil
}

func (m *memory) Apply(_ context.Context, changes ...journal.Change) (out []journal.Job, err error) {
	next := *m
	next.jobs, next.events, next.finished = maps.Clone(m.jobs), maps.Clone(m.events), maps.Clone(m.finished)
	next.notes = slices.Clip(m.notes)
	for _, c := range changes {
		job, err := next.change(c)
		if err != nil {
			return nil, err
		}
		out = append(out, job)
	}
	*m = next
	return out, nil
}

func (m *memory) change(c journal.Change) (job journal.Job, err error) {
	if c.Job.Prompt != "" {
		if job, err = m.put(c); err != nil {
			return job, err
		}
	}
	to := job.State
	if c.Queue != nil {
		if c.Queue.Version != m.queue.Version {
			return job, fmt.Errorf("the queue: %w", journal.ErrRaced)
		}
		m.queue = *c.Queue
		m.queue.Version++
		if job.Seq == 0 {
			to = journal.State(m.queue.Paused)
		}
	}
	if c.Cause != "" {
		m.events[job.Seq] = append(slices.Clip(m.events[job.Seq]),
			journal.Transition{At: c.At, Job: job.Seq, From: c.From, To: to, Cause: c.Cause})
	}
	if c.Event != nil {
		note := *c.Event
		note.ID, note.Next = int64(len(m.notes)+1), note.At
		m.notes = append(m.notes, note)
	}
	return job, nil
}

func (m *memory) put(c journal.Change) (journal.Job, error) {
	job := c.Job
	if err := m.checkID(job); err != nil {
		return job, err
	}
	if job.Seq == 0 {
		for _, other := range m.jobs {
			if other.Prompt == job.Prompt && other.Firing.Equal(job.Firing) && other.Try == job.Try {
				return job, fmt.Errorf("prompt %s: %w", job.Prompt, journal.ErrDuplicate)
			}
		}
		m.last++
		job.Seq, job.Version = m.last, 0
	} else if now, ok := m.jobs[job.Seq]; !ok || now.Version != job.Version || now.State != c.From {
		return job, fmt.Errorf("job %d: %w", job.Seq, journal.ErrRaced)
	}
	job.Version++
	if stored := m.jobs[job.Seq]; job.Text == "" {
		job.Text, job.FollowUps = stored.Text, stored.FollowUps
		m.jobs[job.Seq] = job
		job.Text, job.FollowUps = "", nil
	} else {
		m.jobs[job.Seq] = job
	}
	if result := job.Result(); result != "" && !c.From.Ended() {
		m.finished[job.Project+" "+result]++
	}
	return job, nil
}

func (m *memory) checkID(job journal.Job) error {
	if has := m.jobs[job.Seq]; job.JobID == "" || has.JobID == job.JobID && has.Project == job.Project {
		return nil
	}
	for _, seq := range slices.Sorted(maps.Keys(m.jobs)) {
		if other := m.jobs[seq]; other.JobID == job.JobID && other.Project == job.Project && seq != job.Seq {
			return &journal.TakenError{JobID: job.JobID, By: seq, Prompt: other.Prompt}
		}
	}
	return nil
}
