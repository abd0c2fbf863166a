package budget

import (
	"context"
	"net/http/httptrace"
	"sync/atomic"
)

// connection follows one request down to its connection, to know whether any of
// it can have left this machine.
type connection struct{ asked, got atomic.Bool }

// trace adds to the traces of ctx.
func (c *connection) trace(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { c.asked.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { c.got.Store(true) },
	})
}

// never reports, once the transport has returned an error, that it asked for a
// connection and had none: the name was not resolved, the connection or the TLS
// handshake failed, a proxy refused the tunnel, or the request was given up
// before. net/http may hand over a connection to a request that was given up, and
// would write to it, but it says so before it returns; then, and with a transport
// that says nothing of connections, the request counts as sent.
func (c *connection) never() bool { return c.asked.Load() && !c.got.Load() }
