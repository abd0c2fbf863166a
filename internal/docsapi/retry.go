package docsapi

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	maxAttempts = 5
	retryBase   = time.Second
	// maxHonoured is the longest Retry-After that is waited for here; after a
	// longer one the caller decides.
	maxHonoured = 30 * time.Second
)

// read sends r until it succeeds, fails for good, or has had its attempts.
// Reads alone come here: they can be repeated.
func (c *Client) read(ctx context.Context, r call) error {
	for n := 1; ; n++ {
		e := c.attempt(ctx, r)
		if e == nil {
			return nil
		}
		if e.Outcome == Transient && ctx.Err() != nil {
			return ctx.Err()
		}
		if n == maxAttempts || !retryable(e) {
			return e
		}
		wait := max(fullJitter(n), e.RetryAfter)
		c.log.LogAttrs(ctx, slog.LevelWarn, "api request will be retried",
			slog.String("project", r.project), r.about, slog.Int("attempt", n),
			slog.Duration("wait", wait), slog.Int("status", e.Status), slog.String("reason", e.Message))
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// retryable reports whether another attempt now is of use. After a 429 or a
// refusal of the transport it is the budget that knows when, not this loop.
func retryable(e *Error) bool {
	_, refused := errors.AsType[refusal](e.Err)
	return e.Outcome == Transient && e.Status != http.StatusTooManyRequests && !refused && e.RetryAfter <= maxHonoured
}

// fullJitter returns the wait after attempt n, uniform in [0, 2^(n-1) s].
func fullJitter(n int) time.Duration { return rand.N(retryBase<<(n-1) + 1) }
