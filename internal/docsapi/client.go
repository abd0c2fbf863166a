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
	// Endpoint names the operation: "visitors".
	Endpoint string
	// Status is the answer's HTTP status, 0 where none came.
	Status int
	// Duration is from the request for a connection to the end of the answer.
	Duration time.Duration
}

// StaticKey is a Config.APIKey that never changes.
func StaticKey(key string) func() string { return func() string { return key } }

// Client reads from the service. It is safe for use by many goroutines.
type Client struct {
	base      string
	key       func() string
	transport http.RoundTripper
	timeout   time.Duration
	userAgent string
	log       *slog.Logger
	observe   func(Attempt)
}

// New checks cfg and returns its client; nothing is sent. The error names every
// problem and no secret.
func New(cfg Config) (*Client, error) {
	base, baseErr := parseBase(cfg.BaseURL)
	if cfg.APIKey == nil {
		cfg.APIKey = StaticKey("")
	}
	_, keyErr := currentKey(cfg.APIKey)
	if err := errors.Join(baseErr, keyErr); err != nil {
		return nil, err
	}
	timeout := cmp.Or(cfg.Timeout, defaultTimeout)
	if cfg.Transport == nil {
		cfg.Transport = NewTransport(1, timeout)
	}
	if cfg.Observe == nil {
		cfg.Observe = func(Attempt) {}
	}
	return &Client{
		observe:   cfg.Observe,
		base:      base,
		key:       cfg.APIKey,
		transport: cfg.Transport,
		timeout:   timeout,
		userAgent: cmp.Or(cfg.UserAgent, defaultUserAgent),
		log:       cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler)),
	}, nil
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
