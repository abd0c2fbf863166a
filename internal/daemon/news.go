package daemon

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/notify"
)

// newsEvery is how often it is derived what people are to be told: what is late, what
// expires and which digest is due change with time.
const newsEvery = time.Minute

// news tells people what happens. Nil: nobody wants to know.
type news struct {
	watcher  *events.Watcher
	notifier *notify.Notifier
	// changed asks for a look at what is to be told now.
	changed chan struct{}
}

// openNews opens what tells people, if anybody wants to know.
func (d *Daemon) openNews(ctx context.Context) error {
	notifier, err := d.app.NewNotifier()
	if err != nil || notifier == nil {
		return err
	}
	d.news = &news{events.New(d.app, d.started), notifier, make(chan struct{}, 1)}
	if err := d.news.watcher.Begin(ctx); err != nil {
		d.app.Log.Warn("not everything can be told", "error", err)
	}
	return nil
}

// wake delivers what is in the outbox.
func (n *news) wake() {
	if n != nil {
		n.notifier.Wake()
	}
}

// runEnded tells what a run has brought.
func (n *news) runEnded() {
	if n != nil {
		requestOnce(n.changed)
	}
}

// newsLoop tells people what happens until ctx ends. What is not delivered then is
// delivered after the next start.
func (d *Daemon) newsLoop(ctx context.Context) error {
	if d.news == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { d.news.notifier.Run(ctx); return nil })
	group.Go(func() error { d.watchNews(ctx); return nil })
	return group.Wait()
}

func (d *Daemon) watchNews(ctx context.Context) {
	tick := time.NewTicker(newsEvery)
	defer tick.Stop()
	var problem recurring
	for {
		err := d.news.watcher.Evaluate(ctx)
		if ctx.Err() != nil {
			return
		}
		if problem.isNew(err) {
			d.app.Log.Warn("some notifications could not be sent", "error", err)
		}
		d.news.wake()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-d.news.changed:
		}
	}
}
