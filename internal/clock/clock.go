// Package clock waits. Every wait ends with its context and returns the cause
// that the context was given. Everything runs on package time, so it works in
// bubbles of testing/synctest.
//
// It has no interface of a clock: persisted times take a now func() time.Time.
package clock

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"
)

// Sleep waits for d and returns nil, or returns context.Cause(ctx) as soon as ctx
// has ended. A wait of 0 or less asks ctx alone. A caller that must not spin gives
// its minimum: Sleep(ctx, max(d, time.Second)).
func Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Seconds is a duration in the form of logs: in seconds, to the millisecond.
func Seconds(d time.Duration) float64 {
	return float64(d.Round(time.Millisecond).Milliseconds()) / 1000
}

// Jitter returns d plus or minus up to a fifth, so that clients that failed
// together do not come back together.
func Jitter(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5+1) }

// Backoff returns the pause after so many consecutive failures: first, and growth times as long after each further
// one, up to most (first if that is longer).
func Backoff(first, most time.Duration, growth float64, failures int) time.Duration {
	grown := float64(first) * math.Pow(growth, float64(max(failures-1, 0)))
	return max(first, time.Duration(min(grown, float64(most))))
}

// Outlive returns a context that ends after limit, or grace after ctx has ended, whichever comes first, so that work
// in progress at a stop is finished and not cut short. If ctx has ended already, the grace begins now. After the
// grace its cause is the cause of ctx.
func Outlive(ctx context.Context, grace, limit time.Duration) (context.Context, context.CancelFunc) {
	long, end := context.WithCancelCause(context.WithoutCancel(ctx))
	long, cancel := context.WithTimeout(long, limit)
	stop := context.AfterFunc(ctx, func() {
		if Sleep(long, grace) == nil {
			end(context.Cause(ctx))
		}
	})
	return long, func() {
		stop()
		cancel()
		end(nil)
	}
}

// UntilAllEnd returns a context that is cancelled when the last of callers is, with its cause: work
// for several of them continues while one still waits for it. It requires at least one.
func UntilAllEnd(callers ...context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(callers[0]))
	var left atomic.Int64
	left.Store(int64(len(callers)))
	var stops []func() bool
	for _, caller := range callers {
		gone := func() {
			if left.Add(-1) == 0 {
				cancel(context.Cause(caller))
			}
		}
		if caller.Err() != nil {
			gone() // now, not at some time
		} else {
			stops = append(stops, context.AfterFunc(caller, gone))
		}
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel(nil)
	}
}

// Later returns the later of two moments.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Tolerance is the difference that two clocks may have without one of them being called wrong.
const Tolerance = 5 * time.Minute

// IsFuture reports whether t, the recorded time of a past event, is in the future: a clock that was
// ahead has written it, and it cannot be trusted.
func IsFuture(t, now time.Time) bool { return t.After(now.Add(Tolerance)) }
