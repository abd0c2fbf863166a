// Package notify delivers the notifications of the prompt queue to a URL, each as
// one JSON POST. It hides HTTP, signing and the pauses between tries.
//
// Invariant: a notification leaves the outbox once the receiver has answered it with
// 2xx, or after three days of trying, which is logged. So each arrives at least once,
// and a receiver recognises repetitions by X-Docgauge-Delivery. Neither the secret nor
// the URL beyond its host is in an error or a log: webhook URLs are secrets too.
//
// A POST has the headers X-Docgauge-Event (the kind), X-Docgauge-Delivery and,
// with a secret, X-Docgauge-Signature: sha256=<hex>, the HMAC-SHA256 of the body.
// Redirects are not followed.
//
// It does not decide what is notified, nor the text (package jobs).
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/jobs/journal"
)

const (
	// timeout bounds one delivery.
	timeout = 10 * time.Second
	// After a failed delivery comes a pause of firstPause, which doubles up to lastPause.
	firstPause = 10 * time.Second
	lastPause  = time.Hour
	// maxAge is the age at which a notification is given up.
	maxAge = 72 * time.Hour
	// batch is how many notifications are read from the outbox at once.
	batch = 100
	// idle is the time between two reads of the outbox if nobody wakes the notifier.
	idle = time.Minute
)

// Outbox keeps the notifications that are not delivered yet (package state).
type Outbox interface {
	// Notes returns up to n of them, in the order in which they are due.
	Notes(ctx context.Context, n int) ([]journal.Note, error)
	NoteDone(ctx context.Context, id int64) error
	// NoteFailed counts a failed try; next is the time of the next one.
	NoteFailed(ctx context.Context, id int64, next time.Time) error
}

// Config says where notifications go.
type Config struct {
	// URL is the receiver's: https, or http for a loopback host. It may hold a token.
	URL string `json:"-"`
	// Secret returns the key of the signature, empty for none; nil is none.
	Secret func() string `json:"-"`
	// Transport sends; nil means one of its own.
	Transport http.RoundTripper `json:"-"`
	// UserAgent is sent with each; empty means "docgauge".
	UserAgent string
	// Jitter spreads the tries; nil means clock.Jitter.
	Jitter func(time.Duration) time.Duration `json:"-"`
	Now    func() time.Time
	Logger *slog.Logger
}

// Notifier delivers notifications. One Deliver or Run may be under way at a time.
type Notifier struct {
	cfg    Config
	target *url.URL
	outbox Outbox
	wake   chan struct{}
	// quiet is until when nothing is sent, after so many failures in a row.
	quiet    time.Time
	failures int
}

// CheckURL returns why notifications cannot go to raw; the error does not quote it.
func CheckURL(raw string) error {
	_, err := parse(raw)
	return err
}

func parse(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	switch {
	case err != nil || u.Hostname() == "":
		return nil, errors.New("DOCGAUGE_NOTIFY_URL: want a URL with scheme and host, " +
			"like https://hooks.example.com/docgauge")
	case u.User != nil:
		return nil, errors.New("DOCGAUGE_NOTIFY_URL: must not hold user or password; " +
			"sign with DOCGAUGE_NOTIFY_SECRET, or put a token into its path")
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return nil, fmt.Errorf("DOCGAUGE_NOTIFY_URL: http would send prompts' titles and links in the clear to %s; "+
			"use https (http is for loopback hosts only)", u.Hostname())
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
	if cfg.Jitter == nil {
		cfg.Jitter = clock.Jitter
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	return &Notifier{cfg: cfg, target: target, outbox: outbox, wake: make(chan struct{}, 1)}, nil
}

// Wake makes Run read the outbox now. It never blocks.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run delivers what is put into the outbox until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	logged := false
	for ctx.Err() == nil {
		next, err := n.Deliver(ctx)
		if err != nil && ctx.Err() == nil && !logged {
			n.cfg.Logger.Error("outbox of notifications not read", "error", err)
		}
		logged = err != nil
		wait := idle
		if !next.IsZero() {
			wait = max(0, min(idle, next.Sub(n.cfg.Now())))
		}
		select {
		case <-time.After(wait):
		case <-n.wake:
		case <-ctx.Done():
		}
	}
}

// Deliver delivers what is due, up to the first failure, and returns when it is to be
// called again: the zero time if the outbox is empty. The error is that of the outbox,
// or of ctx; a failure of the receiver is logged, and tried again later.
func (n *Notifier) Deliver(ctx context.Context) (next time.Time, err error) {
	for {
		if n.isAhead(n.quiet) {
			return n.quiet, nil
		}
		notes, err := n.outbox.Notes(ctx, batch)
		if err != nil || len(notes) == 0 {
			return time.Time{}, err
		}
		for _, note := range notes {
			if n.isAhead(note.Next) {
				return note.Next, nil // those after it are due later
			}
			if delivered, err := n.try(ctx, note); err != nil {
				return time.Time{}, err
			} else if !delivered {
				break
			}
		}
	}
}

// isAhead reports whether a time is still to come. One too far ahead was written before
// the clock was set back.
func (n *Notifier) isAhead(t time.Time) bool {
	now := n.cfg.Now()
	return t.After(now) && !t.After(now.Add(2*lastPause))
}

// try delivers one notification, and enters the outcome.
func (n *Notifier) try(ctx context.Context, note journal.Note) (bool, error) {
	log := n.cfg.Logger.With("event", note.Kind, "delivery", delivery(note), "host", n.target.Host)
	failed := n.post(ctx, note)
	now := n.cfg.Now()
	switch {
	case failed == nil:
		n.failures, n.quiet = 0, time.Time{}
		log.Debug("notification delivered")
		return true, n.outbox.NoteDone(ctx, note.ID)
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	}
	n.failures++
	n.quiet = now.Add(n.pause(n.failures))
	if age := now.Sub(note.At); age >= maxAge {
		log.Error("notification given up", "tries", note.Tries+1, "age", age, "error", failed)
		return false, n.outbox.NoteDone(ctx, note.ID)
	}
	log.Warn("notification not delivered", "tries", note.Tries+1, "error", failed)
	return false, n.outbox.NoteFailed(ctx, note.ID, now.Add(n.pause(note.Tries+1)))
}

func (n *Notifier) pause(failures int) time.Duration {
	return n.cfg.Jitter(min(firstPause<<min(failures-1, 20), lastPause))
}

// delivery identifies a notification for its receiver, in all tries.
func delivery(note journal.Note) string {
	return strconv.FormatInt(note.At.UnixMicro(), 36) + "-" + strconv.FormatInt(note.ID, 10)
}

// post sends one notification, once.
func (n *Notifier) post(ctx context.Context, note journal.Note) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.target.String(), bytes.NewReader(note.Body))
	if err != nil {
		return n.redacted(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", n.cfg.UserAgent)
	req.Header.Set("X-Docgauge-Event", note.Kind)
	req.Header.Set("X-Docgauge-Delivery", delivery(note))
	if secret := n.cfg.Secret(); secret != "" {
		req.Header.Set("X-Docgauge-Signature", "sha256="+sign(secret, note.Body))
	}
	resp, err := n.cfg.Transport.RoundTrip(req) // not a client: redirects are not followed
	if err != nil {
		return n.redacted(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // its text is not logged
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return fmt.Errorf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	return nil
}

// sign returns the HMAC-SHA256 of body in hexadecimal.
func sign(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// redacted is err without the secret parts of the URL.
func (n *Notifier) redacted(err error) error {
	text, u := err.Error(), n.target
	secrets := []string{u.String(), u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery, n.cfg.Secret()}
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: u.Scheme, Host: u.Host}})
	if err == nil && proxy != nil && proxy.User != nil {
		secrets = append(secrets, proxy.User.String())
	}
	for _, secret := range secrets {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return errors.New(text)
}
