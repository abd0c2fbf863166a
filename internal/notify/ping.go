package notify

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	// pingTimeout bounds one ping, pingTries how often it is tried, after pingPause.
	pingTimeout = 5 * time.Second
	pingTries   = 2
	pingPause   = time.Second
	// pingURL is the variable that holds the monitor's URL.
	pingURL = "DOCGAUGE_PING_URL"
)

// Monitor is a monitor of cron jobs, such as healthchecks.io, that expects a GET after
// each export.
type Monitor struct {
	target    *url.URL
	transport http.RoundTripper
	userAgent string
}

// CheckPingURL returns why raw cannot be the URL of a monitor; the error does not quote
// it.
func CheckPingURL(raw string) error {
	_, err := parse(pingURL, raw)
	return err
}

// NewMonitor returns the monitor with a URL. The error is that of CheckPingURL.
func NewMonitor(raw, userAgent string) (*Monitor, error) {
	target, err := parse(pingURL, raw)
	if err != nil {
		return nil, err
	}
	return &Monitor{target: target, transport: newTransport(), userAgent: userAgent}, nil
}

// Ping says that an export was good, or with the path /fail that it was not. It takes
// a few seconds at most. The error names the host only.
func (m *Monitor) Ping(ctx context.Context, good bool) error {
	to := m.target
	if !good {
		to = m.target.JoinPath("fail")
	}
	var err error
	for n := range pingTries {
		if n > 0 && clock.Sleep(ctx, pingPause) != nil {
			break
		}
		if err = m.get(ctx, to); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%s: %s: %w", pingURL, m.target.Host, err)
}

func (m *Monitor) get(ctx context.Context, to *url.URL) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), http.NoBody)
	if err != nil {
		return redacted(err, to)
	}
	req.Header.Set("User-Agent", m.userAgent)
	status, err := roundTrip(m.transport, req)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("no answer within %v", pingTimeout)
	case err != nil:
		return redacted(err, to, m.target.Path)
	case status < 200 || status > 299:
		return fmt.Errorf("HTTP %d %s", status, http.StatusText(status))
	}
	return nil
}
