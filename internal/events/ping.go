package events

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
	"github.com/docgauge/docgauge/internal/config"
)

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
	for n := range pingTries {
		if n > 0 && clock.Sleep(ctx, pingPause) != nil {
			break
		}
		if err = get(ctx, transport, to, "docgauge/"+c.Build.Version, target.Path); err == nil {
			return nil
		}
	}
	return fmt.Errorf("DOCGAUGE_PING_URL: %s: %w", target.Host, err)
}

// get sends one ping. Its error does not contain secret, the path that identifies the monitor.
func get(ctx context.Context, transport http.RoundTripper, to *url.URL, userAgent, secret string) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return redacted(err, to)
	}
	req.Header.Set("User-Agent", userAgent)
	status, err := roundTrip(transport, req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", pingTimeout)
	case err != nil:
		return redacted(err, to, secret)
	case status < 200 || status > 299:
		return fmt.Errorf("HTTP %d %s", status, http.StatusText(status))
	}
	return nil
}
