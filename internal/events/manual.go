package events

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/coverage"
	"github.com/docgauge/docgauge/internal/jobs/journal"
	"github.com/docgauge/docgauge/internal/view"
)

// Test returns the message that tries a receiver. It needs no state.
func Test(a *app.App) ([]journal.Event, error) {
	note, err := noteOf(a, view.Event{Event: test}, a.Now().UTC().Truncate(time.Second))
	return []journal.Event{note}, err
}

// Digests returns the digest of the newest exported week of each project. What could be made comes
// with the error of what could not.
func Digests(ctx context.Context, a *app.App) (notes []journal.Event, err error) {
	now := a.Now().UTC().Truncate(time.Second)
	ledger, err := coverage.Read(ctx, a.State, now)
	if err != nil {
		return nil, err
	}
	w := &Watcher{app: a}
	outcomes := sync.OnceValue(func() view.Outcomes { return w.outcomes(ctx, now) })
	var errs []error
	for _, project := range a.Config.Projects {
		newest := ledger.Newest(project, analytics.Week, now)
		if newest == nil {
			errs = append(errs, fmt.Errorf("digest of %s: no complete week was exported yet: "+
				"add week to DOCGAUGE_WINDOWS if it is not there, then run docgauge export", project))
			continue
		}
		event, err := w.digestOf(ctx, ledger, *newest, outcomes)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		note, err := noteOf(a, event, now)
		note.At = now.Add(time.Duration(len(notes)) * time.Microsecond) // each has its own delivery id
		errs = append(errs, err)
		notes = append(notes, note)
	}
	return notes, errors.Join(errs...)
}

// Send sends events to DOCGAUGE_NOTIFY_URL now, once each, past the outbox, and returns the host of
// the receiver. The error does not quote the URL.
func Send(ctx context.Context, a *app.App, notes []journal.Event) (host string, err error) {
	n, err := ForApp(a)
	if err != nil || n == nil {
		return "", err
	}
	for _, note := range notes {
		inDoubt, err := n.post(ctx, note)
		if err != nil {
			remedy := "check the URL and DOCGAUGE_NOTIFY_FORMAT (" + string(a.Config.NotifyFormat) + ")"
			if inDoubt {
				remedy = "the message may have arrived"
			}
			return n.target.Host, fmt.Errorf("DOCGAUGE_NOTIFY_URL: %s: %w; %s", n.target.Host, err, remedy)
		}
	}
	return n.target.Host, nil
}
