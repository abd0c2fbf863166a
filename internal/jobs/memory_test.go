package jobs

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/docgauge/docgauge/internal/journal"
)

// memory is a journal in memory. TestJournals compares it with the journal of package state.
type memory struct {
	jobs      map[int64]journal.Job
	last      int64
	queue     journal.Queue
	history   map[int64][]journal.Transition
	events    []journal.Event
	recurring map[string]journal.Recurring
	pulls     []journal.PullRequest
	finished  map[string]int // by project and result
	lost      error          // of Present
}

func newMemory() *memory {
	return &memory{
		jobs: map[int64]journal.Job{}, queue: journal.Queue{Version: 1}, history: map[int64][]journal.Transition{},
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
	next.jobs, next.history, next.finished = maps.Clone(m.jobs), maps.Clone(m.history), maps.Clone(m.finished)
	next.events = slices.Clip(m.events)
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

// change makes one change, as package state does.
func (m *memory) change(c journal.Change) (job journal.Job, err error) {
	if job = c.Job; job.Prompt != "" {
		stored, known := m.jobs[job.Seq]
		isNew := job.JobID != "" && (stored.JobID != job.JobID || stored.Project != job.Project)
		for _, seq := range slices.Sorted(maps.Keys(m.jobs)) {
			switch other := m.jobs[seq]; {
			case seq == job.Seq:
			case isNew && other.JobID == job.JobID && other.Project == job.Project:
				return job, &journal.TakenError{JobID: job.JobID, By: seq, Prompt: other.Prompt}
			case job.Seq == 0 && other.Prompt == job.Prompt && other.Firing.Equal(job.Firing) && other.Try == job.Try:
				err = cmp.Or(err, fmt.Errorf("prompt %s: %w", job.Prompt, journal.ErrDuplicate))
			}
		}
		switch {
		case err != nil:
			return job, err
		case job.Seq == 0:
			m.last++
			job.Seq, job.Version = m.last, 0
		case !known || stored.Version != job.Version || stored.State != c.From:
			return job, fmt.Errorf("job %d: %w", job.Seq, journal.ErrRaced)
		}
		job.Version++
		m.jobs[job.Seq] = job
		if job.Text == "" {
			kept := job
			kept.Text, kept.FollowUps = stored.Text, stored.FollowUps
			m.jobs[job.Seq] = kept
			job.FollowUps = nil
		}
		if result := job.Result(); result != "" && !c.From.Ended() {
			m.finished[job.Project+" "+result]++
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
		m.history[job.Seq] = append(slices.Clip(m.history[job.Seq]),
			journal.Transition{At: c.At, Job: job.Seq, From: c.From, To: to, Cause: c.Cause})
	}
	if c.Event != nil {
		event := *c.Event
		event.ID, event.Next = int64(len(m.events)+1), event.At
		m.events = append(m.events, event)
	}
	return job, nil
}
