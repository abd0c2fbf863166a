package sinks

import (
	"context"
	"fmt"
	"iter"

	"golang.org/x/sync/errgroup"

	"github.com/docgauge/docgauge/internal/analytics"
)

// Each calls read for each window, atOnce of them at the same time, and yields the results
// except nil without an error. It returns false when yield does. No goroutine outlives it.
// The sink's name is for the error after ctx has ended.
func Each(ctx context.Context, sink string, keys iter.Seq[analytics.Key], atOnce int,
	read func(context.Context, analytics.Key) (*Shown, error), yield func(Shown, error) bool) (more bool) {
	type result struct {
		shown *Shown
		err   error
	}
	within, stop := context.WithCancel(ctx)
	defer stop()
	results := make(chan result)
	go func() {
		defer close(results)
		var readers errgroup.Group
		readers.SetLimit(atOnce)
		for key := range keys {
			if within.Err() != nil {
				break
			}
			readers.Go(func() error {
				shown, err := read(within, key)
				select {
				case results <- result{shown, err}:
				case <-within.Done():
				}
				return nil
			})
		}
		_ = readers.Wait()
	}()
	more = true
	for r := range results {
		switch {
		case !more: // wait for the end of the goroutines
		case r.shown != nil:
			more = yield(*r.shown, r.err)
		case r.err != nil:
			more = yield(Shown{}, r.err)
		}
		if !more {
			stop()
		}
	}
	if more && ctx.Err() != nil {
		more = yield(Shown{}, fmt.Errorf("%s sink: %w", sink, context.Cause(ctx)))
	}
	return more
}
