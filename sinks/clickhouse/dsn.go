package clickhouse

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	clickhouse "github.com/ClickHouse/clickhouse-go/v2"

	"github.com/docgauge/docgauge/sinks"
)

const (
	dialTimeout = 10 * time.Second
	// readTimeout is the time for which the server may send nothing, or accept nothing. It is
	// generous, since a quorum or a merge under load takes long.
	readTimeout     = 2 * time.Minute
	defaultDatabase = "default"
	// connections bounds the connections to the server. Two groups of windows are on their
	// way at once, the second with two statements over HTTP, and users read.
	connections = 4
)

var (
	databaseForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	clusterForm  = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)
)

// schemes are the schemes of a DSN.
var schemes = []string{"clickhouse", "tcp", "http", "https"}

const wantedDSN = "want clickhouse://[user:password@]host:9000/database (native) or " +
	"https://…:8443/database (HTTP); " +
	"?secure=true encrypts the native protocol"

// parse reads a DSN. Errors do not show a part of it that may be a secret in the wrong
// place.
func parse(dsn string) (*clickhouse.Options, error) {
	scheme, rest, ok := strings.Cut(dsn, "://")
	if !ok || !slices.Contains(schemes, scheme) {
		return nil, errors.New(wantedDSN)
	}
	host, parameters, err := sinks.CheckDSN(rest)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return nil, errors.New("a host is missing: " + wantedDSN)
	}
	if scheme == "https" && !parameters.Has("secure") {
		separator := "?"
		if len(parameters) > 0 {
			separator = "&"
		}
		dsn += separator + "secure=true"
	}
	o, err := clickhouse.ParseDSN(dsn)
	if err != nil {
		return nil, withoutValues(err)
	}
	if o.Auth.Database == "" {
		o.Auth.Database = defaultDatabase
	}
	if !databaseForm.MatchString(o.Auth.Database) {
		return nil, fmt.Errorf("the database, which follows host and slash, must match %s", databaseForm)
	}
	fill(o)
	return o, nil
}

// withoutValues cuts what an error of the driver quotes from the DSN.
func withoutValues(err error) error {
	if _, ok := errors.AsType[*url.Error](err); ok {
		return errors.New("not a URL: is the port a number, and are special characters of user and password written " +
			"as %40 for @, %2F for /? " + wantedDSN)
	}
	rule := strings.TrimPrefix(err.Error(), "clickhouse [dsn parse]:")
	if strings.Contains(rule, "with TLS") || strings.Contains(rule, "without TLS") {
		return errors.New("https:// is encrypted and http:// is not: leave the parameter secure out")
	}
	for _, value := range []string{"\"", "strconv.", "time:", "invalid value"} {
		rule, _, _ = strings.Cut(rule, value)
	}
	if rule = strings.Trim(rule, " :"); rule == "" {
		rule = "want a number"
	}
	return fmt.Errorf("a parameter has a wrong value: %s", rule)
}

// fill sets what the DSN leaves open.
func fill(o *clickhouse.Options) {
	if o.DialTimeout == 0 {
		o.DialTimeout = dialTimeout
	}
	if o.ReadTimeout == 0 {
		o.ReadTimeout = readTimeout
	}
	if o.MaxOpenConns == 0 {
		o.MaxOpenConns, o.MaxIdleConns = connections, connections
	}
	if o.Compression == nil {
		o.Compression = &clickhouse.Compression{Method: clickhouse.CompressionLZ4}
	}
	if o.BlockBufferSize == 0 {
		o.BlockBufferSize = 1 // blocks that were read and wait for us: each takes 5 MB
	}
	o.FreeBufOnConnRelease = true // a buffer is as large as a block
	o.DialContext = dialer(o)
	o.TransportFunc = func(t *http.Transport) (http.RoundTripper, error) { return guard{t, o.ReadTimeout}, nil }
}

// dialer makes connections whose writes end after the read timeout: the driver sets a
// deadline for reading only, and a server that stands still would hold a window
// forever.
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

// boundedConn is a TCPConn, so that the driver can check whether it is still connected.
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

// guard refuses redirects, since the HTTP client would send the headers, and the
// password in them, to the other address. It ends an answer that stands still.
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

// answer is the body of an answer that ends if nothing of it comes for too long.
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

// errSilent is the error of an answer that stood still.
type errSilent struct{ patience time.Duration }

func (e errSilent) Error() string   { return fmt.Sprintf("the server said nothing for %s", e.patience) }
func (e errSilent) Timeout() bool   { return true }
func (e errSilent) Temporary() bool { return true }

type errRedirect struct{ status int }

func (e errRedirect) Error() string {
	return fmt.Sprintf("HTTP %d", e.status)
}
