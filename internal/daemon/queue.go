package daemon

import (
	"context"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

// queue is the prompt queue of a daemon.
type queue struct {
	jobs   *jobs.Queue
	folder *prompts.Folder
	pulls  *app.Pulls
	// moved says that a job may have got a pull request.
	moved chan struct{}

	mu      sync.Mutex
	prompts jobs.Prompts
	// refused: nothing is sent because the service refused a key.
	refused bool
}

// openQueue opens the queue, if one is configured.
func (d *Daemon) openQueue() (err error) {
	if d.app.Config.PromptsDir == "" {
		return nil
	}
	q := &queue{moved: make(chan struct{}, 1)}
	if q.pulls, err = d.app.NewPulls(); err != nil {
		return err
	}
	if q.folder, err = app.OpenPrompts(d.app.Config); err != nil {
		return config.Problems{err.Error()}
	}
	q.jobs = d.app.NewQueue(func() {
		requestOnce(d.changed)
		requestOnce(q.moved)
	})
	d.queue = q
	d.snapshot.Queue = func(ctx context.Context, out *view.Snapshot) error {
		prompts, _ := q.stands()
		return d.app.ShowQueue(ctx, prompts, out)
	}
	return nil
}

// queueLoop runs the queue until ctx ends.
func (d *Daemon) queueLoop(ctx context.Context) error {
	q := d.queue
	if q == nil {
		return nil
	}
	if err := q.jobs.Recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no error
		}
		return err
	}
	_, err := q.jobs.Run(ctx, q.folder, jobs.UntilStopped, func(r jobs.Report) error {
		q.keep(r)
		if err := d.app.API.FlushAgents(context.WithoutCancel(ctx)); err != nil {
			d.app.Log.Error("answers not entered in the budget", "error", err)
		}
		d.events.Wake()
		requestOnce(d.changed)
		return nil
	})
	return err
}

const (
	// pullsEvery is how often it is checked at least which pull requests are due, pullsPause
	// the least time between two checks.
	pullsEvery = time.Minute
	pullsPause = time.Second
)

// pullsLoop follows the pull requests of the jobs until ctx ends. It has no part in the
// queue: what it learns is in the state, where the next pass finds it.
func (d *Daemon) pullsLoop(ctx context.Context) error {
	q := d.queue
	if q == nil {
		return nil
	}
	var problem recurring
	for ctx.Err() == nil {
		next, err := q.pulls.Pass(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // a stop is no error
		}
		if problem.isNew(err) {
			d.app.Log.Error("pull requests not followed", "error", err)
		}
		requestOnce(d.changed)
		requestOnce(d.outcomes.stale)
		_ = clock.Sleep(ctx, pullsPause) // the loop looks at ctx
		wait := pullsEvery
		if !next.IsZero() {
			wait = min(wait, max(0, next.Sub(d.app.Now())))
		}
		due := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-due.C:
		case <-q.moved:
		}
		due.Stop()
	}
	return nil
}

// keep keeps where the prompts stand.
func (q *queue) keep(r jobs.Report) {
	now := jobs.Prompts{Planned: r.Result.Planned}
	switch {
	case r.Folder != nil:
		now.Problem = r.Folder.Error()
	case r.State != nil:
		now.Problem = r.State.Error()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.prompts, q.refused = now, r.Result.Queue.Paused == journal.PausedUnauthorized
}

// stands returns where the prompts stand, and whether the service refused a key.
func (q *queue) stands() (jobs.Prompts, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.prompts, q.refused
}

// status says why no prompt is sent, where somebody must act; empty where nobody must.
func (q *queue) status() string {
	if q == nil {
		return ""
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.prompts.Problem != "":
		return q.prompts.Problem
	case q.refused:
		return "the service refused the key; the queue goes on when it changes"
	}
	return ""
}
