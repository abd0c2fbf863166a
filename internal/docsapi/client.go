// Package docsapi is the client of the documentation service's REST API. It hides
// HTTP: which request an operation is, how its answer is checked, what each failure
// means, and which failures are retried.
//
// request.go sends a request. The other files follow the sections of the service's specification:
// reports.go 4.3, page.go 2.2 and 2.3, jobs.go 2.1, 3, 4.1, 4.2 and 4.4, secrets.go 5, errors.go 7.
//
// Invariants:
//   - Each attempt is one call of the transport and, over [NewTransport] and [NewWriteTransport],
//     at most one request on the wire, so that a budget placed there counts exactly.
//   - A read that failed for a time is retried, a write never, not even by net/http.
//   - An answer is whole or an error: a cut body, a missing field or an invalid count never becomes
//     numbers, an answer without its job's id never becomes a job. Two paths never become one.
//   - The key is in the Authorization header and the prompt in the request's body, and neither is in
//     errors, logs or printed values. If the service quotes a prompt, pieces of it under 24 bytes
//     can remain.
//   - A redirect is never followed.
//   - A read fails while this machine's clock differs by minutes from the Date headers (clock.go).
//
// A write ends in one of four ways, and its caller asks in this order:
//
//	err == nil        accepted
//	IsNotSent(err)    not sent: no connection, a budget's refusal, a wrong call
//	IsInDoubt(err)    in doubt: it may have been accepted
//	else              not accepted: Permanent, or Transient
//
// A write ends with its caller's context until it has a connection; from then on its own deadline
// ends it, or 25 s after the end of that context.
package docsapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/analytics"
)

const (
	defaultTimeout   = 60 * time.Second
	defaultUserAgent = "docgauge"

	connectTimeout = 10 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeader      = 64 << 10
	readBuffer     = 32 << 10
	writeBuffer    = 16 << 10
)

// ClientOptions configures a Client.
type ClientOptions struct {
	// BaseURL is the URL that the paths of the specification are relative to: https,
	// or http for a loopback host. A path prefix and a trailing slash are allowed.
	BaseURL string
	// APIKey returns the current key, "<prefix>_<secret>". It is called before each attempt, so that
	// a key can be replaced. It is a function, whose result fmt, json and slog cannot print.
	APIKey func() string `json:"-"`
	// WriteAPIKey returns the key for POSTs; nil means APIKey.
	WriteAPIKey func() string `json:"-"`
	// Transport sends each read of visitors; nil means NewTransport for one request
	// in flight. If an error of it has a method RetryAt() time.Time, nothing may be
	// sent before that time: it is returned at once, wrapped.
	Transport http.RoundTripper `json:"-"`
	// WriteTransport returns the transport for a project's POSTs, with NewWriteTransport at the bottom; nil means
	// NewWriteTransport alone. Its errors count like errors of Transport.
	WriteTransport func(project string) http.RoundTripper `json:"-"`
	// JobPath is the path for reading one agent job, which the specification
	// leaves open; empty means defaultJobPath. See CheckJobPath.
	JobPath string
	// Timeout bounds one attempt, from the moment Transport asks for a
	// connection to the last byte of the answer; 0 means 60 s. A wait inside
	// Transport before that (for a budget) is bounded by the context alone.
	Timeout time.Duration
	// Attempts is how often a read is tried; 0 means 5 times.
	Attempts int
	// UserAgent is sent with every request; empty means "docgauge".
	UserAgent string
	// Now is this machine's clock, as far as the caller decides by it; nil means time.Now.
	Now func() time.Time `json:"-"`
	// Logger gets one debug line per attempt and a warning per retry; nil means none.
	Logger *slog.Logger `json:"-"`
	// Observe, if not nil, is called with each attempt that asked for a connection, in
	// the goroutine that made it.
	Observe func(Attempt) `json:"-"`
}

// The operations in Attempt, besides the reports, which have their own names.
const (
	endpointCreate  = "agent_create"
	endpointMessage = "agent_message"
	endpointJob     = "agent_job"
)

// Attempt describes one request and its outcome.
type Attempt struct {
	// Endpoint names the operation: one of the Endpoint constants.
	Endpoint string
	// Key names the key it was made with: KeyAdmin or KeyWrite.
	Key string
	// Status is the answer's HTTP status, 0 where none came.
	Status int
	// RetryAfter is how long the service or the transport asked to wait.
	RetryAfter time.Duration
	// Duration is from the request for a connection to the end of the answer.
	Duration time.Duration
}

// IsReport reports whether it asked for a page of a report.
func (a Attempt) IsReport() bool {
	return a.Endpoint != endpointCreate && a.Endpoint != endpointMessage && a.Endpoint != endpointJob
}

// StaticKey returns a ClientOptions.APIKey that never changes.
func StaticKey(key string) func() string { return func() string { return key } }

// Client talks to the service. It is safe for use by many goroutines.
type Client struct {
	options      ClientOptions
	base         string
	admin, write credential
	// jobTransport sends the reads of agent jobs, past any budget: the service's known
	// hourly limits are on analytics requests and on agent POSTs, not on these.
	jobTransport http.RoundTripper
	clock        *clockCheck
}

// New checks cfg and returns its client; nothing is sent. The error names every
// problem and no secret.
func New(cfg ClientOptions) (*Client, error) {
	if cfg.APIKey == nil {
		cfg.APIKey = StaticKey("")
	}
	cfg.JobPath = cmp.Or(cfg.JobPath, defaultJobPath)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.Attempts = cmp.Or(cfg.Attempts, maxAttempts)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, defaultUserAgent)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Transport == nil {
		cfg.Transport = NewTransport(1, cfg.Timeout)
	}
	if cfg.WriteTransport == nil {
		shared := NewWriteTransport(cfg.Timeout)
		cfg.WriteTransport = func(string) http.RoundTripper { return shared }
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Attempt) {}
	}

	base, err := ParseBaseURL(cfg.BaseURL)
	admin := credential{KeyAdmin, keyVariable, cfg.APIKey}
	write := admin
	_, adminErr := admin.current()
	err = errors.Join(err, adminErr)
	if cfg.WriteAPIKey != nil {
		write = credential{KeyWrite, writeKeyVariable, cfg.WriteAPIKey}
		_, writeErr := write.current()
		err = errors.Join(err, writeErr)
	}
	if err = errors.Join(err, CheckJobPath(cfg.JobPath)); err != nil {
		return nil, err
	}
	return &Client{
		options: cfg, base: base, admin: admin, write: write,
		jobTransport: NewTransport(1, cfg.Timeout), clock: &clockCheck{now: cfg.Now, asking: make(chan struct{}, 1)},
	}, nil
}

// versioned is a path that ends in the beginning of an operation's path.
var versioned = regexp.MustCompile(`/(v1(/analytics(/.*)?)?|v2(/agent(/.*)?)?)/?$`)

// ParseBaseURL returns raw without its trailing slash. Errors do not quote raw, which
// may contain a misplaced secret.
func ParseBaseURL(raw string) (string, error) {
	u, err := analytics.ParseServiceURL(raw, analytics.URLRules{
		Example: "https://api.example.com", CredentialsIn: "the key goes into DOCGAUGE_API_KEY",
	})
	if err == nil && versioned.MatchString(u.Path) {
		err = errors.New("must end before /v1 or /v2, which docgauge adds itself")
	}
	if err != nil {
		return "", fmt.Errorf("DOCGAUGE_BASE_URL: %w", err)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// NewTransport returns the base transport for reads: it keeps one idle
// connection for each of concurrency requests in flight, asks for gzip and
// unpacks it, uses the proxy of the environment, and waits timeout for the
// header of an answer.
//
// It speaks HTTP/1.1 only. There, with the bodies that [Client] gives its requests,
// net/http sends each request once; over HTTP/2 the same body would make each
// GET carry an empty data frame.
func NewTransport(concurrency int, timeout time.Duration) *http.Transport {
	t := newTransport(connectTimeout)
	t.ResponseHeaderTimeout, t.IdleConnTimeout = timeout, idleTimeout
	t.MaxIdleConns, t.MaxIdleConnsPerHost = max(concurrency, 1), max(concurrency, 1)
	t.ReadBufferSize = readBuffer
	return t
}

// NewWriteTransport returns the base transport for POSTs: HTTP/1.1 with a fresh
// connection for each, so that none can fail because its connection is stale and
// net/http has no reason to send it again. A header that fits the write buffer
// leaves with its body, or not at all (see deadline.gotConn). timeout bounds the
// connecting, if it is below 10 s. Only [Client] bounds the wait for the answer, so
// that there is one clock and one message.
func NewWriteTransport(timeout time.Duration) *http.Transport {
	t := newTransport(min(timeout, connectTimeout))
	t.WriteBufferSize = writeBuffer
	t.DisableKeepAlives, t.DisableCompression = true, true
	return t
}

// newTransport bounds the dialing, and the TLS handshake, by connect.
func newTransport(connect time.Duration) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: connect}).DialContext,
		TLSHandshakeTimeout:    connect,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              protocols,
	}
}
