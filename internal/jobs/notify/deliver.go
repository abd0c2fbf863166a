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
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/internal/jobs/journal"
)

// Wake makes Run look at the outbox now. It never blocks.
func (n *Notifier) Wake() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// Run delivers what comes into the outbox until ctx ends.
func (n *Notifier) Run(ctx context.Context) {
	said := false
	for ctx.Err() == nil {
		next, err := n.Deliver(ctx)
		if err != nil && ctx.Err() == nil && !said {
			n.cfg.Logger.Error("outbox of notifications not read", "error", err)
		}
		said = err != nil
		n.rest(ctx, next)
	}
}

// rest waits until next, a wake, or the time of the next look.
func (n *Notifier) rest(ctx context.Context, next time.Time) {
	wait := idle
	if !next.IsZero() {
		wait = max(0, min(idle, next.Sub(n.cfg.Now())))
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-n.wake:
	case <-ctx.Done():
	}
}

// Deliver delivers what is due, up to the first failure, and returns when there is
// something to do next: the zero time if the outbox is empty. The error is that of
// the outbox, or of ctx; one of the receiver is logged and tried again.
func (n *Notifier) Deliver(ctx context.Context) (next time.Time, err error) {
	for {
		if now := n.cfg.Now(); n.quiet.After(now) && !n.quiet.After(now.Add(2*lastPause)) {
			return n.quiet, nil
		}
		notes, err := n.outbox.Notes(ctx, batch)
		if err != nil || len(notes) == 0 {
			return time.Time{}, err
		}
		for _, note := range notes {
			if at := n.due(note); !at.IsZero() {
				return at, nil // those after it are due later
			}
			if delivered, err := n.try(ctx, note); err != nil {
				return time.Time{}, err
			} else if !delivered {
				break
			}
		}
	}
}

// due returns when a notification is to be tried, the zero time for now. A time
// too far ahead comes from a clock that was set back.
func (n *Notifier) due(note journal.Note) time.Time {
	now := n.cfg.Now()
	if note.Next.After(now) && !note.Next.After(now.Add(2*lastPause)) {
		return note.Next
	}
	return time.Time{}
}

// try delivers one notification, and enters what came of it.
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
	return n.jitter(min(firstPause<<min(failures-1, 20), lastPause))
}

// delivery identifies a notification for its receiver, over all tries.
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
	resp, err := n.cfg.Transport.RoundTrip(req) // no client: nothing follows a redirect
	if err != nil {
		return n.redacted(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // its words are not ours to log
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

// redacted is err without what is secret of the URL.
func (n *Notifier) redacted(err error) error {
	text := err.Error()
	secrets := []string{n.target.String(), n.target.RequestURI(), n.target.EscapedPath(), n.target.Path, n.target.RawQuery, n.cfg.Secret()}
	if proxy, err := http.ProxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: n.target.Scheme, Host: n.target.Host}}); err == nil && proxy != nil && proxy.User != nil {
		secrets = append(secrets, proxy.User.String())
	}
	for _, secret := range secrets {
		if len(secret) > 1 {
			text = strings.ReplaceAll(text, secret, "[redacted]")
		}
	}
	return errors.New(text)
}
