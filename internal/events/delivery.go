package events

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/app"
	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
	"github.com/docgauge/docgauge/internal/journal"
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
	// idle is the time between two reads of the outbox if wake is not sent.
	idle = time.Minute
	// A notification that is being sent belongs to its sender for lease. After that the
	// sender is taken to have died, and the result is unknown.
	lease = 2 * timeout
	// enterTimeout bounds entering an outcome, also at a stop.
	enterTimeout = 15 * time.Second
)

// Notifier delivers the notifications in the outbox of the state. One Deliver or run may be
// under way at a time.
type Notifier struct {
	app       *app.App
	target    *url.URL
	transport http.RoundTripper
	jitter    func(time.Duration) time.Duration
	wake      clock.Signal // makes run read the outbox now
	// After this many consecutive failures nothing is sent until quiet.
	failures int
	quiet    time.Time
}

// ForApp returns the notifier of an app, nil if no notifications are wanted. The error does not
// quote the URL.
func ForApp(a *app.App) (*Notifier, error) {
	if a.Config.NotifyURL == "" {
		return nil, nil
	}
	target, err := config.ParseHookURL("DOCGAUGE_NOTIFY_URL", a.Config.NotifyURL)
	if err != nil {
		return nil, config.Problems{err.Error()}
	}
	return &Notifier{app: a, target: target, transport: newTransport(), jitter: clock.Jitter,
		wake: clock.NewSignal()}, nil
}

func newTransport() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
}

// run delivers the notifications that enter the outbox until ctx ends.
func (n *Notifier) run(ctx context.Context) {
	var last clock.LastError
	for ctx.Err() == nil {
		next, err := n.Deliver(ctx)
		if last.IsNew(err) && ctx.Err() == nil {
			n.app.Log.Error("outbox of notifications not read", "error", err)
		}
		wait := idle
		if !next.IsZero() {
			wait = max(0, min(idle, next.Sub(n.app.Now())))
		}
		select {
		case <-time.After(wait):
		case <-n.wake:
		case <-ctx.Done():
		}
	}
}

// Deliver delivers due notifications, up to the first failure, and returns when to call it again, zero if the outbox
// is empty. The error is an error of the outbox or of ctx; a failure of the receiver is logged, and retried later.
func (n *Notifier) Deliver(ctx context.Context) (next time.Time, err error) {
	for {
		if n.isAhead(n.quiet) {
			return n.quiet, nil
		}
		notes, err := n.app.State.Events(ctx, batch)
		if err != nil {
			return time.Time{}, err
		}
		tried, delivered := false, true
		next = time.Time{}
		for i := 0; i < len(notes) && delivered; i++ {
			if n.isAhead(notes[i].Next) {
				next = sooner(next, notes[i].Next)
				break // those after it are due later
			}
			if until := notes[i].Begun.Add(lease); !notes[i].Begun.IsZero() && n.isAhead(until) {
				next = sooner(next, until)
				continue // another process sends it, or has died doing so
			}
			tried = true
			if delivered, err = n.try(ctx, notes[i]); err != nil {
				return time.Time{}, err
			}
		}
		if !tried {
			return next, nil
		}
	}
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// isAhead reports whether a time is still to come. One too far ahead was written before
// the clock was set back.
func (n *Notifier) isAhead(t time.Time) bool {
	now := n.app.Now()
	return t.After(now) && !t.After(now.Add(2*lastPause))
}

// try delivers one notification, and enters the attempt before and the result after it.
func (n *Notifier) try(ctx context.Context, note journal.Event) (delivered bool, err error) {
	if ctx.Err() != nil {
		return false, context.Cause(ctx)
	}
	if mine, err := n.app.State.EventBegun(ctx, note, n.app.Now()); err != nil || !mine {
		return true, err
	}
	if !note.Begun.IsZero() {
		note.InDoubt++
	}
	log := n.app.Log.With("event", note.Kind, "delivery", delivery(note), "host", n.target.Host)
	// A crash from here on leaves the note as begun: its next delivery is marked.
	inDoubt, failed := n.post(ctx, note)
	now := n.app.Now()
	if failed != nil && ctx.Err() != nil {
		return false, context.Cause(ctx) // it stays begun
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), enterTimeout)
	defer cancel()
	if failed == nil {
		n.failures, n.quiet = 0, time.Time{}
		log.Debug("notification delivered")
		return true, n.app.State.EventDone(ctx, note.ID)
	}
	n.failures++
	n.quiet = now.Add(n.pause(n.failures))
	if age := now.Sub(note.At); age >= maxAge {
		log.Error("notification given up", "tries", note.Tries+1, "age_seconds", clock.Seconds(age), "error", failed)
		return false, n.app.State.EventDone(ctx, note.ID)
	}
	log.Warn("notification not delivered", "tries", note.Tries+1, "error", failed)
	return false, n.app.State.EventFailed(ctx, note.ID, now.Add(n.pause(note.Tries+1)), inDoubt)
}

func (n *Notifier) pause(failures int) time.Duration {
	return n.jitter(clock.Backoff(firstPause, lastPause, 2, failures))
}

// delivery identifies a notification for its receiver, in all tries.
func delivery(note journal.Event) string {
	return strconv.FormatInt(note.At.UnixMicro(), 36) + "-" + strconv.FormatInt(note.ID, 10)
}

// post sends one notification, once. A failure is in doubt if it may have arrived.
func (n *Notifier) post(ctx context.Context, note journal.Event) (inDoubt bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var sent atomic.Bool
	body := Encode(n.app.Config.NotifyFormat, note)
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.target.String(), bytes.NewReader(body))
	if err != nil {
		return false, n.redacted(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "docgauge/"+n.app.Config.Build.Version)
	req.Header.Set("X-Docgauge-Event", note.Kind)
	req.Header.Set("X-Docgauge-Delivery", delivery(note))
	if note.InDoubt > 0 {
		req.Header.Set("X-Docgauge-Possibly-Repeated", "true")
	}
	if secret := n.app.Config.NotifySecret; secret != "" {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		req.Header.Set("X-Docgauge-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
	}
	status, err := roundTrip(n.transport, req)
	if err != nil && status == 0 {
		return sent.Load(), n.redacted(err)
	}
	return status >= 500, err
}

// roundTrip sends a request and returns the status, 0 without an answer; any but 2xx is an error. It is not a
// client: redirects are not followed. The text of the answer is neither kept nor logged.
func roundTrip(transport http.RoundTripper, req *http.Request) (status int, err error) {
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	if status = resp.StatusCode; status < 200 || status > 299 {
		err = fmt.Errorf("HTTP %d %s", status, http.StatusText(status))
	}
	return status, err
}

func (n *Notifier) redacted(err error) error {
	return redacted(err, n.target, string(n.app.Config.NotifySecret))
}

// redacted is err without the secret parts of the URL and other secrets.
func redacted(err error, u *url.URL, secrets ...string) error {
	text := err.Error()
	secrets = append(secrets, u.String(), u.RequestURI(), u.EscapedPath(), u.Path, u.RawQuery)
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

const (
	// A ping is tried pingTries times, each for pingTimeout, with pingPause between. It ends
	// pingGrace after a stop, or after pingLimit.
	pingTries   = 2
	pingTimeout = 5 * time.Second
	pingPause   = time.Second
	pingGrace   = 3 * time.Second
	pingLimit   = 15 * time.Second
)

// Ping reports the result of an export to the monitor at DOCGAUGE_PING_URL, such as
// healthchecks.io, if there is one: a GET, with the path /fail after a bad export. The error
// names the host only; it is to be logged, and does not fail the export.
func Ping(ctx context.Context, c config.Config, good bool) error {
	if c.PingURL == "" {
		return nil
	}
	return ping(ctx, newTransport(), c, good)
}

func ping(ctx context.Context, transport http.RoundTripper, c config.Config, good bool) error {
	target, err := config.ParseHookURL("DOCGAUGE_PING_URL", c.PingURL)
	if err != nil {
		return err
	}
	to := target
	if !good {
		to = target.JoinPath("fail")
	}
	ctx, cancel := clock.Outlive(ctx, pingGrace, pingLimit)
	defer cancel()
	once := func() error {
		ctx, cancel := context.WithTimeout(ctx, pingTimeout)
		defer cancel()
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
		if err != nil {
			return redacted(err, to, target.Path)
		}
		req.Header.Set("User-Agent", "docgauge/"+c.Build.Version)
		status, err := roundTrip(transport, req)
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return fmt.Errorf("no answer within %v", pingTimeout)
		case err != nil && status == 0:
			return redacted(err, to, target.Path) // the path identifies the monitor
		}
		return err
	}
	for n := range pingTries {
		if n > 0 && clock.Sleep(ctx, pingPause) != nil {
			break
		}
		if err = once(); err == nil {
			return nil
		}
	}
	return fmt.Errorf("DOCGAUGE_PING_URL: %s: %w", target.Host, err)
}
