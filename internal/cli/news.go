package cli

import (
	"context"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/events"
	"github.com/docgauge/docgauge/internal/notify"
)

// stopGrace is how long people are told things at a stop.
const stopGrace = 3 * time.Second

// news tells people what a single export has brought. Nil: nobody wants to know.
type news struct {
	app      *app.App
	watcher  *events.Watcher
	notifier *notify.Notifier
}

func (a *Program) openNews(ctx context.Context, opened *app.App) (*news, error) {
	notifier, err := opened.NewNotifier()
	if err != nil || notifier == nil {
		return nil, err
	}
	n := &news{opened, events.New(opened, time.Time{}), notifier}
	if err := n.watcher.Begin(ctx); err != nil {
		opened.Log.Warn("not everything can be told", "error", err)
	}
	return n, nil
}

// tell derives what people are to be told, and delivers what it can in a short time; the
// rest stays in the outbox for the next run. It is no failure of the export.
func (n *news) tell(ctx context.Context) {
	if n == nil {
		return
	}
	ctx, cancel := clock.Outlive(ctx, stopGrace, deliveryTimeout)
	defer cancel()
	if err := n.watcher.Evaluate(ctx); err != nil {
		n.app.Log.Warn("some notifications could not be sent", "error", err)
	}
	if _, err := n.notifier.Deliver(ctx); err != nil {
		n.app.Log.Warn("notifications not delivered: the next run does it", "error", err)
	}
}
