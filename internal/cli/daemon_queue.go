package cli

import (
	"context"
	"sync"

	"github.com/docgauge/docgauge/internal/jobs"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/jobs/notify"
	"github.com/docgauge/docgauge/internal/prompts"
)

// queueDaemon is the prompt queue of a daemon.
type queueDaemon struct {
	*jobs.Queue
	folder *prompts.Folder
	notes  *notify.Notifier // nil where nobody wants notifications

	mu  sync.Mutex
	now standing
	// refused: nothing is sent because a key was refused.
	refused bool
}

// openQueue opens the queue, if one is configured.
func (d *daemon) openQueue() (err error) {
	if d.PromptsDir == "" {
		return nil
	}
	q := &queueDaemon{}
	if q.folder, err = d.openPrompts(); err != nil {
		return err
	}
	if q.notes, err = newNotifier(d.config, d.db, d.log, d.runner.now); err != nil {
		return problems{err.Error()}
	}
	q.Queue = newQueue(d.config, d.db, d.api, d.stores, d.log, d.runner.now, func() { poke(d.changed) })
	d.queue = q
	return nil
}

func (q *queueDaemon) standing() standing {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.now
}

// runQueue runs the queue until ctx ends.
func (d *daemon) runQueue(ctx context.Context) error {
	if d.queue == nil {
		return nil
	}
	if err := d.queue.Start(ctx); err != nil {
		return err
	}
	var delivery sync.WaitGroup
	defer delivery.Wait()
	if d.queue.notes != nil {
		delivery.Go(func() { d.queue.notes.Run(ctx) })
	}
	d.queue.Run(ctx, d.queue.folder, func(r jobs.Report) {
		d.queue.note(r)
		if err := d.api.agents.flush(context.WithoutCancel(ctx)); err != nil {
			d.log.Error("answers not entered in the budget", "error", err)
		}
		if d.queue.notes != nil {
			d.queue.notes.Wake()
		}
		poke(d.changed)
	})
	return nil
}

// note keeps how the prompts stand.
func (q *queueDaemon) note(r jobs.Report) {
	now := standing{planned: r.Planned}
	switch {
	case r.Folder != nil:
		now.problem = r.Folder.Error()
	case r.State != nil:
		now.problem = r.State.Error()
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now, q.refused = now, r.Result.Queue.Paused == journal.PausedUnauthorized
}
