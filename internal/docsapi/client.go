package docsapi

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	defaultTimeout   = 60 * time.Second
	defaultUserAgent = "docgauge"
)

// Config is what a Client is made from.
type Config struct {
	// BaseURL is what the paths of the specification are relative to: https, or
	// http for a loopback host. A path prefix and a trailing slash are allowed.
	BaseURL string
	// APIKey returns the current key, "<prefix>_<secret>". It is asked before
	// each attempt, so that a key can be replaced while the process runs. It is a
	// function because fmt, json and slog cannot print what a function returns.
	APIKey func() string `json:"-"`
	// Transport sends each attempt; nil means NewTransport for one request in
	// flight. An error of it that has a method RetryAt() time.Time says that
	// nothing may be sent before then: it is returned at once, wrapped.
	Transport http.RoundTripper `json:"-"`
	// WriteAPIKey returns the key for POSTs; nil means APIKey.
	WriteAPIKey func() string `json:"-"`
	// JobPath is the path that one agent job is read at, which the specification
	// leaves open; empty means DefaultJobPath. See CheckJobPath.
	JobPath string
	// JobTransport sends the reads of agent jobs: the service's known hourly limits
	// are on analytics requests and on agent POSTs, not on these. nil means
	// NewTransport for one request in flight.
	JobTransport http.RoundTripper `json:"-"`
	// WriteTransport returns what sends a project's POSTs, NewWriteTransport at the
	// bottom; nil means that alone. Its errors count as those of Transport do.
	WriteTransport func(project string) http.RoundTripper `json:"-"`
	// WriteTimeout is the Timeout of POSTs; 0 means 60 s. A POST that has its
	// connection is ended by nothing else.
	WriteTimeout time.Duration
	// Timeout bounds one attempt, from the moment Transport asks for a
	// connection to the last byte of the answer; 0 means 60 s. A wait inside
	// Transport before that (for a budget) is bounded by the context alone.
	Timeout time.Duration
	// UserAgent is sent with every request; empty means "docgauge".
	UserAgent string
	// Logger gets one debug line per attempt and a warning per retry; nil means none.
	Logger *slog.Logger `json:"-"`
	// Observe is told each attempt that asked for a connection, in the goroutine
	// that made it; nil means nobody is.
	Observe func(Attempt) `json:"-"`
}

// Attempt is one request and what came of it.
type Attempt struct {
	// Endpoint names the operation: one of the Endpoint constants.
	Endpoint string
	// Key names the key it was made with: KeyAdmin or KeyWrite.
	Key string
	// Status is the answer's HTTP status, 0 where none came.
	Status int
	// Duration is from the request for a connection to the end of the answer.
	Duration time.Duration
}

// StaticKey is a Config.APIKey that never changes.
func StaticKey(key string) func() string { return func() string { return key } }

// Client talks to the service. It is safe for use by many goroutines.
type Client struct {
	base, jobPath         string
	admin, write          credential
	transport             http.RoundTripper
	jobTransport          http.RoundTripper
	writeTransport        func(project string) http.RoundTripper
	timeout, writeTimeout time.Duration
	userAgent             string
	log                   *slog.Logger
	observe               func(Attempt)
}

// New checks cfg and returns its client; nothing is sent. The error names every
// problem and no secret.
func New(cfg Config) (*Client, error) {
	base, baseErr := parseBase(cfg.BaseURL)
	admin := adminCredential(cfg.APIKey)
	write := writeCredential(cfg.WriteAPIKey, admin)
	_, adminErr := admin.current()
	var writeErr error
	if cfg.WriteAPIKey != nil {
		_, writeErr = write.current()
	}
	cfg = cfg.withDefaults()
	if err := errors.Join(baseErr, adminErr, writeErr, CheckJobPath(cfg.JobPath)); err != nil {
		return nil, err
	}
	return &Client{
		base: base, jobPath: cfg.JobPath,
		admin: admin, write: write,
		transport: cfg.Transport, jobTransport: cfg.JobTransport, writeTransport: cfg.WriteTransport,
		timeout: cfg.Timeout, writeTimeout: cfg.WriteTimeout,
		userAgent: cfg.UserAgent, log: cfg.Logger, observe: cfg.Observe,
	}, nil
}

// withDefaults fills in what New's caller left open, the keys apart.
func (cfg Config) withDefaults() Config {
	cfg.JobPath = cmp.Or(cfg.JobPath, DefaultJobPath)
	cfg.Timeout = cmp.Or(cfg.Timeout, defaultTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, defaultTimeout)
	cfg.UserAgent = cmp.Or(cfg.UserAgent, defaultUserAgent)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	if cfg.Transport == nil {
		cfg.Transport = NewTransport(1, cfg.Timeout)
	}
	if cfg.JobTransport == nil {
		cfg.JobTransport = NewTransport(1, cfg.Timeout)
	}
	if cfg.WriteTransport == nil {
		shared := NewWriteTransport(cfg.WriteTimeout)
		cfg.WriteTransport = func(string) http.RoundTripper { return shared }
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Attempt) {}
	}
	return cfg
}

// parseBase returns raw without its trailing slash. Errors do not quote raw: a
// misplaced secret may be in it.
func parseBase(raw string) (string, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return "", errors.New("DOCGAUGE_BASE_URL: want a URL with scheme and host, like https://api.example.com")
	case u.User != nil:
		return "", errors.New("DOCGAUGE_BASE_URL: must not hold user or password; the key goes into DOCGAUGE_API_KEY")
	case strings.ContainsAny(raw, "?#"):
		return "", errors.New("DOCGAUGE_BASE_URL: must not have a query or a fragment")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return "", fmt.Errorf("DOCGAUGE_BASE_URL: http would send the key in the clear to %s; use https (http is for loopback hosts only)", u.Hostname())
	case u.Scheme != "http" && u.Scheme != "https":
		return "", errors.New("DOCGAUGE_BASE_URL: want https://, or http:// for a loopback host")
	}
	return strings.TrimRight(u.String(), "/"), nil
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}
