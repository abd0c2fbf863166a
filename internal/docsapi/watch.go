package docsapi

import (
	"context"
	"fmt"
	"math"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// watch follows one attempt: its deadline, and whether it had a connection.
type watch struct {
	timer     *time.Timer
	cancel    context.CancelCauseFunc
	connected atomic.Bool
	began     atomic.Pointer[time.Time]
}

// newWatch returns a context whose deadline begins when the transport asks for a
// connection: a wait for the budget before that is no slowness of the service.
func newWatch(parent context.Context, timeout time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &watch{cancel: cancel}
	late := fmt.Errorf("no whole answer within %v (DOCGAUGE_TIMEOUT)", timeout)
	w.timer = time.AfterFunc(math.MaxInt64, func() { cancel(late) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			now := time.Now()
			w.began.Store(&now)
			w.timer.Reset(timeout)
		},
		GotConn: func(httptrace.GotConnInfo) { w.connected.Store(true) },
	}), w
}

// begin returns when the transport asked for a connection, the zero time if it
// did not.
func (w *watch) begin() time.Time {
	if at := w.began.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

func (w *watch) stop() {
	w.timer.Stop()
	w.cancel(nil)
}

// explain returns why the attempt under ctx failed with err: its deadline if
// that ended it, and whether anything can have been sent.
func (w *watch) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if !w.connected.Load() {
		return fmt.Errorf("%w: %w", errNotSent, err)
	}
	return err
}
