package daemon

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/journal"
	"github.com/docgauge/docgauge/internal/prompts"
	"github.com/docgauge/docgauge/internal/view"
)

const (
	// pullsEvery is the maximum time between two passes over the pull requests, pullsPause the minimum.
	pullsEvery = time.Minute
	pullsPause = time.Second
)

// queue is the prompt queue of a daemon.
type queue struct {
	jobs   *jobs.Queue
	folder *prompts.Folder
	pulls  *app.Pulls
	// moved says that a job may have a new pull request.
	moved clock.Signal
	stand guarded[standing]
}

// standing is the result of the last pass.
type standing struct {
	prompts jobs.Prompts
	// refused: nothing is sent because the service refused a key.
	refused bool
}

// openQueue opens the queue, if one is configured.
func (d *daemon) openQueue() (err error) {
	if d.app.Config.PromptsDir == "" {
		return nil
	}
	q := &queue{moved: clock.NewSignal()}
	if q.pulls, err = d.app.NewPulls(); err != nil {
		return err
	}
	if q.folder, err = app.OpenPrompts(d.app.Config); err != nil {
		return config.Problems{err.Error()}
	}
	q.jobs = d.app.NewQueue(func() {
		d.changed.Send()
		q.moved.Send()
	})
	d.queue = q
	d.snapshot.Queue = func(ctx context.Context, out *view.Snapshot) error {
		return d.app.ShowQueue(ctx, q.stand.get().prompts, out)
	}
	return nil
}

// queueLoop runs the queue until ctx ends.
func (d *daemon) queueLoop(ctx context.Context) error {
	q := d.queue
	if err := q.jobs.Recover(ctx); err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stop cut it short
		}
		return err
	}
	_, err := q.jobs.Run(ctx, q.folder, jobs.UntilStopped, func(r jobs.Report) error {
		now := standing{jobs.Prompts{Planned: r.Result.Planned}, r.Result.Queue.Paused == journal.PausedUnauthorized}
		switch {
		case r.Folder != nil:
			now.prompts.Problem = r.Folder.Error()
		case r.State != nil:
			now.prompts.Problem = r.State.Error()
		}
		q.stand.change(func(s *standing) { *s = now })
		if err := d.app.API.FlushAgents(context.WithoutCancel(ctx)); err != nil {
			d.app.Log.Error("answers not entered in the budget", "error", err)
		}
		d.events.Wake()
		d.changed.Send()
		return nil
	})
	return err
}

// pullsLoop follows the pull requests of the jobs until ctx ends. The queue finds the results in the
// state.
func (d *daemon) pullsLoop(ctx context.Context) {
	var last clock.LastError
	for {
		next, err := d.queue.pulls.Pass(ctx)
		if ctx.Err() == nil && last.IsNew(err) {
			d.app.Log.Error("pull requests not followed", "error", err)
		}
		d.changed.Send()
		d.outcomesDue.Send()
		if clock.Sleep(ctx, pullsPause) != nil {
			return
		}
		wait := pullsEvery
		if !next.IsZero() {
			wait = min(wait, max(0, next.Sub(d.app.Now())))
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		case <-d.queue.moved:
		}
	}
}

// problem says why no prompt is sent until an operator acts; empty otherwise.
func (q *queue) problem() string {
	if q == nil {
		return ""
	}
	s := q.stand.get()
	if s.prompts.Problem == "" && s.refused {
		return "the service refused the key; the queue continues when it changes"
	}
	return s.prompts.Problem
}
