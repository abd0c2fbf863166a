package docsapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

// The phases of an attempt.
const (
	waiting   int32 = iota // for the budget, or for a connection
	connected              // from here on something can have been sent
	abandoned              // a write that was given up while it waited
)

// watch follows one attempt: its deadline, and whether it had a connection.
type watch struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	phase  atomic.Int32
	began  atomic.Pointer[time.Time]
	// payload is the body of a write, nil for a read.
	payload *bytes.Reader
	unhook  func() bool
}

// newWatch returns a context whose deadline begins when the transport asks for a
// connection: a wait for the budget before that is no slowness of the service.
func newWatch(parent context.Context, timeout time.Duration) (context.Context, *watch) {
	ctx, cancel := context.WithCancelCause(parent)
	w := &watch{cancel: cancel, unhook: func() bool { return true }}
	late := fmt.Errorf("no whole answer within %v (DOCGAUGE_TIMEOUT)", timeout)
	w.timer = time.AfterFunc(math.MaxInt64, func() { w.expire(late) })
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			now := time.Now()
			w.began.Store(&now)
			w.timer.Reset(timeout)
		},
		GotConn: func(httptrace.GotConnInfo) { w.gotConn() },
	}), w
}

// newWriteWatch is newWatch for a write with the body payload. It is over with
// parent only until it has a connection: a POST in flight that is cut off is a
// job in doubt of our own making.
func newWriteWatch(parent context.Context, timeout time.Duration, payload *bytes.Reader) (context.Context, *watch) {
	ctx, w := newWatch(context.WithoutCancel(parent), timeout)
	w.payload = payload
	w.unhook = context.AfterFunc(parent, func() { w.giveUp(context.Cause(parent)) })
	if parent.Err() != nil {
		w.giveUp(context.Cause(parent))
	}
	return ctx, w
}

// gotConn begins what can no longer be taken back. net/http may hand over a
// connection although the attempt was given up, and would write the request to
// it. It does not send a body that is shorter than its Content-Length, so an
// emptied one keeps the prompt here whichever came first.
func (w *watch) gotConn() {
	if !w.phase.CompareAndSwap(waiting, connected) && w.phase.Load() == abandoned {
		_, _ = w.payload.Seek(0, io.SeekEnd)
	}
}

// giveUp ends a write that has no connection yet.
func (w *watch) giveUp(cause error) {
	if w.phase.CompareAndSwap(waiting, abandoned) {
		w.cancel(cause)
	}
}

func (w *watch) expire(late error) {
	if w.payload != nil {
		w.giveUp(late)
	}
	w.cancel(late)
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
	w.unhook()
	w.timer.Stop()
	w.cancel(nil)
}

// explain returns why the attempt under ctx failed with err: its deadline if
// that ended it, and whether anything can have been sent.
func (w *watch) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if w.phase.Load() != connected {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return err
}
