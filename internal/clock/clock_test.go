package clock_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

var errStopped = errors.New("stopped")

func TestSleepWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range []time.Duration{-time.Hour, 0, time.Nanosecond, 90 * time.Minute} {
			start := time.Now()
			if err := clock.Sleep(t.Context(), d); err != nil {
				t.Errorf("sleep of %v: %v", d, err)
			}
			if got := time.Since(start); got != max(d, 0) {
				t.Errorf("sleep of %v took %v", d, got)
			}
		}
	})
}

func TestSleepReturnsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		start := time.Now()
		time.AfterFunc(time.Second, func() { cancel(errStopped) })
		if err := clock.Sleep(ctx, time.Hour); !errors.Is(err, errStopped) || time.Since(start) != time.Second {
			t.Errorf("stopped after %v with %v, want the cause after 1s", time.Since(start), err)
		}
		for _, d := range []time.Duration{0, time.Hour} {
			if err := clock.Sleep(ctx, d); !errors.Is(err, errStopped) {
				t.Errorf("sleep of %v in an ended context: %v, want the cause", d, err)
			}
		}
		if got := time.Since(start); got != time.Second {
			t.Errorf("an ended context was slept in: %v", got)
		}
	})
}

func TestJitter(t *testing.T) {
	low, high := time.Hour, time.Duration(0)
	for range 10_000 {
		d := clock.Jitter(10 * time.Second)
		low, high = min(low, d), max(high, d)
	}
	const least, most, margin = 8 * time.Second, 12 * time.Second, 40 * time.Millisecond
	if low < least || low > least+margin || high > most || high < most-margin {
		t.Errorf("jitter of 10s is in [%v, %v], want all of [8s, 12s]", low, high)
	}
	if d := clock.Jitter(0); d != 0 {
		t.Errorf("jitter of nothing is %v", d)
	}
}

func TestOutlive(t *testing.T) {
	const never, grace, limit = -1, 8 * time.Second, time.Minute
	for name, test := range map[string]struct {
		stop, want time.Duration // after the begin
		cause      error
	}{
		"never stopped":          {never, limit, context.DeadlineExceeded},
		"stopped before":         {0, grace, errStopped},
		"stopped later":          {20 * time.Second, 28 * time.Second, errStopped},
		"stopped near the limit": {58 * time.Second, limit, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(context.WithValue(t.Context(), t, "kept"))
				defer stop(nil)
				switch test.stop {
				case never:
				case 0:
					stop(errStopped)
				default:
					time.AfterFunc(test.stop, func() { stop(errStopped) })
				}
				start := time.Now()
				long, cancel := clock.Outlive(ctx, grace, limit)
				defer cancel()
				if long.Value(t) != "kept" {
					t.Error("the values of the context are gone")
				}
				<-long.Done()
				if got := time.Since(start); got != test.want || !errors.Is(context.Cause(long), test.cause) {
					t.Errorf("ended after %v with %v, want %v with %v", got, context.Cause(long), test.want, test.cause)
				}
			})
		})
	}
}

// TestOutliveEnds: cancel leaves nothing behind, neither a goroutine nor a timer.
func TestOutliveEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		long, cancel := clock.Outlive(ctx, time.Hour, 2*time.Hour)
		stop(errStopped)
		synctest.Wait()
		start := time.Now()
		cancel()
		synctest.Wait()
		if long.Err() == nil || !time.Now().Equal(start) {
			t.Errorf("after cancel: %v, %v later", long.Err(), time.Since(start))
		}
	})
}

func TestUntilAllEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, endFirst := context.WithCancelCause(t.Context())
		second, endSecond := context.WithCancelCause(t.Context())
		ctx, stop := clock.UntilAllEnd(first, second)
		defer stop()
		endFirst(errors.New("first"))
		synctest.Wait()
		if ctx.Err() != nil {
			t.Error("it ends with the first of two callers")
		}
		last := errors.New("second")
		endSecond(last)
		synctest.Wait()
		if !errors.Is(context.Cause(ctx), last) {
			t.Errorf("after the last caller its cause is %v", context.Cause(ctx))
		}
	})
}

func TestSeconds(t *testing.T) {
	for d, want := range map[time.Duration]string{
		3690690899 * time.Nanosecond: "3.691", 55 * time.Minute: "3300", time.Microsecond: "0",
		1100 * time.Millisecond: "1.1", -time.Second: "-1",
	} {
		if got := fmt.Sprint(clock.Seconds(d)); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{0: 10, 1: 10, 2: 20, 5: 160, 6: 300, 5000: 300} {
		if got := clock.Backoff(10*time.Second, 300*time.Second, 2, failures); got != want*time.Second {
			t.Errorf("after %d failures: %v, want %v s", failures, got, int(want))
		}
	}
	if got := clock.Backoff(time.Hour, time.Minute, 1.5, 2); got != time.Hour {
		t.Errorf("the first is longer than most: %v", got)
	}
}
