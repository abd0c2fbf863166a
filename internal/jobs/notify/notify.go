// Package notify delivers the notifications of the prompt queue to a URL, each as
// one JSON POST. It hides HTTP, signing and the pauses between tries.
//
// Invariant: a notification leaves the outbox once the receiver answered it with
// 2xx, or after three days of trying, which is logged; so it comes at least once,
// and a receiver tells repetitions by X-Docgauge-Delivery. Neither the secret nor
// the URL beyond its host is in an error or a log: webhook URLs are secrets too.
//
// A POST has the headers X-Docgauge-Event (the kind), X-Docgauge-Delivery and,
// with a secret, X-Docgauge-Signature: sha256=<hex>, the HMAC-SHA256 of the body.
// Redirects are not followed.
//
// It does not say what is notified or how that is put (package jobs).
package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// timeout bounds one delivery.
	timeout = 10 * time.Second
	// After a delivery that failed comes a pause of firstPause, then twice that, up
	// to lastPause.
	firstPause = 10 * time.Second
	lastPause  = time.Hour
	// maxAge is when a notification is given up.
	maxAge = 72 * time.Hour
	// batch is how many notifications are taken from the outbox at once.
	batch = 100
	// idle is between two looks at the outbox where nobody wakes the notifier.
	idle = time.Minute
)

// Outbox keeps the notifications that are not delivered yet (package state).
type Outbox interface {
	// Notes returns up to n of them, those to be tried first first.
	Notes(ctx context.Context, n int) ([]journal.Note, error)
	NoteDone(ctx context.Context, id int64) error
	// NoteFailed counts a failure; the next try is at next.
	NoteFailed(ctx context.Context, id int64, next time.Time) error
}

// Config says where notifications go.
type Config struct {
	// URL is where: https, or http for a loopback host. It may hold a token.
	URL string `json:"-"`
	// Secret returns the key of the signature, empty for none; nil is none.
	Secret func() string `json:"-"`
	// Transport sends; nil means one of its own.
	Transport http.RoundTripper `json:"-"`
	// UserAgent is sent with each; empty means "docgauge".
	UserAgent string
	Now       func() time.Time
	Logger    *slog.Logger
}

// Notifier delivers. One Deliver or Run at a time.
type Notifier struct {
	cfg    Config
	target *url.URL
	outbox Outbox
	wake   chan struct{}
	// quiet is until when nothing is tried, after failures failures in a row.
	quiet    time.Time
	failures int
	jitter   func(time.Duration) time.Duration
}

// CheckURL says whether notifications can go to raw; the error does not quote it.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("DOCGAUGE_NOTIFY_URL: want a URL with scheme and host, like https://hooks.example.com/docgauge")
	case u.User != nil:
		return nil, errors.New("DOCGAUGE_NOTIFY_URL: must not hold user or password; sign with DOCGAUGE_NOTIFY_SECRET, or put a token into its path")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("DOCGAUGE_NOTIFY_URL: http would send prompts' titles and links in the clear to %s; use https (http is for loopback hosts only)", u.Hostname())
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("DOCGAUGE_NOTIFY_URL: want https://, or http:// for a loopback host")
	}
	u.Fragment = ""
	return u, nil
}

func isLoopback(host string) bool {
	return strings.EqualFold(host, "localhost") || net.ParseIP(host).IsLoopback()
}

// New returns the notifier of an outbox. The error is that of CheckURL.
func New(cfg Config, outbox Outbox) (*Notifier, error) {
	target, err := parse(cfg.URL)
	if err != nil {
		return nil, err
	}
	if cfg.Secret == nil {
		cfg.Secret = func() string { return "" }
	}
	if cfg.Transport == nil {
		cfg.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	if cfg.UserAgent == "" {
		cfg.UserAgent = "docgauge"
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Notifier{cfg: cfg, target: target, outbox: outbox, wake: make(chan struct{}, 1), jitter: jitter}, nil
}

// jitter returns d, a fifth more or less.
func jitter(d time.Duration) time.Duration { return d*4/5 + rand.N(d*2/5+1) }
