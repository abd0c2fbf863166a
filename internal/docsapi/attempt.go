package docsapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

const (
	// maxErrorBody is how much of an error's body is read; more costs the connection.
	maxErrorBody = 64 << 10
	// maxPooled is the largest buffer that is kept for the next answer.
	maxPooled = 1 << 20
)

// answer is what came back, without its body; the zero answer is none.
type answer struct {
	status int
	header http.Header
	// began is when the transport asked for a connection, zero if it never did:
	// what was refused before, or waited in vain, was no attempt.
	began, ended time.Time
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// attempt sends r once. The error is nil only if r.decode took the answer.
func (c *Client) attempt(ctx context.Context, r call) *Error {
	key, err := r.key.current()
	if err != nil {
		return r.refuse(err)
	}
	body := buffers.Get().(*bytes.Buffer)
	defer recycle(body)
	start := time.Now()
	got, err := c.exchange(ctx, r, key, body)
	took := time.Since(start)
	if err == nil && r.takes(got.status) {
		err = r.decode(body.Bytes())
	}
	e := r.judge(got, body.Bytes(), err, key)
	c.logAttempt(ctx, r, got.status, took, e)
	if !got.began.IsZero() {
		c.observe(Attempt{Endpoint: r.endpoint, Key: r.key.name, Status: got.status, Duration: got.ended.Sub(got.began)})
	}
	return e
}

func (c *Client) logAttempt(ctx context.Context, r call, status int, took time.Duration, e *Error) {
	attrs := []slog.Attr{
		slog.String("method", r.method), slog.String("project", r.project),
		r.about, slog.Int("status", status), slog.Duration("duration", took),
	}
	if e != nil {
		attrs = append(attrs, slog.String("reason", e.Message))
	}
	c.log.LogAttrs(ctx, slog.LevelDebug, "api request", attrs...)
}

func recycle(buffer *bytes.Buffer) {
	if buffer.Cap() <= maxPooled {
		buffer.Reset()
		buffers.Put(buffer)
	}
}

// exchange sends one request and reads its answer's body. The transport
// is called directly: no redirect, no cookie, no retry can come from an
// http.Client.
func (c *Client) exchange(ctx context.Context, r call, key string, body *bytes.Buffer) (got answer, err error) {
	req, watch, err := r.request(ctx)
	defer watch.stop()
	defer func() { got.began, got.ended = watch.begin(), time.Now() }()
	if err != nil {
		return got, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := r.send.RoundTrip(req)
	if err != nil {
		return got, watch.explain(req.Context(), err)
	}
	defer resp.Body.Close()
	got.status, got.header = resp.StatusCode, resp.Header
	if err := r.readBody(body, resp); err != nil {
		return got, watch.explain(req.Context(), err)
	}
	return got, nil
}

// readBody reads to the end, so that the connection can be used again.
func (r call) readBody(body *bytes.Buffer, resp *http.Response) error {
	limit, whole := int64(maxErrorBody), r.takes(resp.StatusCode)
	if whole {
		limit = maxBody
	}
	n, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errCut, err)
	case n > limit && whole:
		err := fmt.Errorf("%w: it is over %d MiB", errShape, maxBody>>20)
		if isPage(body.Bytes()) {
			return malformed{err}
		}
		return err
	}
	return nil
}
