package clickhouse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"
)

// dialer makes connections whose writes end after the read timeout: the driver
// gives a deadline to what it reads only, and a server that stands still would
// hold a window forever.
func dialer(o *clickhouse.Options) func(context.Context, string) (net.Conn, error) {
	return func(ctx context.Context, addr string) (net.Conn, error) {
		conn, err := (&net.Dialer{Timeout: o.DialTimeout}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return nil, err
		}
		bounded := boundedConn{conn.(*net.TCPConn), o.ReadTimeout}
		if o.TLS == nil || o.Protocol == clickhouse.HTTP {
			return bounded, nil
		}
		return encrypt(ctx, bounded, addr, o)
	}
}

// boundedConn is a TCPConn, so that the driver can look whether it still stands.
type boundedConn struct {
	*net.TCPConn
	patience time.Duration
}

func (c boundedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.patience)); err != nil {
		return 0, err
	}
	return c.TCPConn.Write(p)
}

func encrypt(ctx context.Context, conn net.Conn, addr string, o *clickhouse.Options) (net.Conn, error) {
	config := o.TLS.Clone()
	if config.ServerName == "" {
		config.ServerName, _, _ = net.SplitHostPort(addr)
	}
	ctx, cancel := context.WithTimeout(ctx, o.DialTimeout)
	defer cancel()
	encrypted := tls.Client(conn, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		_ = conn.Close() // the handshake's error tells more
		return nil, err
	}
	return encrypted, nil
}

// guard refuses redirects: the headers carry the password, and the HTTP client
// would send them along. It ends an answer that stands still.
type guard struct {
	base     http.RoundTripper
	patience time.Duration
}

func (g guard) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(r.Context())
	resp, err := g.base.RoundTrip(r.WithContext(ctx))
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		_ = resp.Body.Close()
		cancel(nil)
		return nil, errRedirect{resp.StatusCode}
	}
	stop := time.AfterFunc(g.patience, func() { cancel(errSilent{g.patience}) })
	stop.Stop()
	resp.Body = &answer{resp.Body, ctx, stop, cancel, g.patience}
	return resp, nil
}

// answer is the body of an answer of which a part must come now and then.
type answer struct {
	io.ReadCloser
	ctx      context.Context
	stop     *time.Timer
	cancel   context.CancelCauseFunc
	patience time.Duration
}

func (a *answer) Read(p []byte) (int, error) {
	a.stop.Reset(a.patience)
	n, err := a.ReadCloser.Read(p)
	a.stop.Stop()
	if silent, ok := errors.AsType[errSilent](context.Cause(a.ctx)); ok && err != nil && !errors.Is(err, io.EOF) {
		err = silent
	}
	return n, err
}

func (a *answer) Close() error {
	a.stop.Stop()
	a.cancel(nil)
	return a.ReadCloser.Close()
}

// errSilent is the error of an answer that broke off.
type errSilent struct{ patience time.Duration }

func (e errSilent) Error() string   { return fmt.Sprintf("the server said nothing for %s", e.patience) }
func (e errSilent) Timeout() bool   { return true }
func (e errSilent) Temporary() bool { return true }

type errRedirect struct{ status int }

func (e errRedirect) Error() string {
	return fmt.Sprintf("the server redirects to another address (HTTP %d), which docgauge does not follow, since the password would go along: name that address in the DSN", e.status)
}
