package docsapi

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// maxErrorBody is how much of an error's body is read; more costs the connection.
	maxErrorBody = 64 << 10
	// maxPooled is the largest buffer that is kept for the next answer.
	maxPooled = 1 << 20
)

// call is one read of the API, and what errors and logs name it by.
type call struct {
	op, project string
	endpoint    string // for metrics
	offset      int
	// url is without query, which is kept apart.
	url, query string
	// decode reads the body of a 200 answer; it must not keep it.
	decode func(body []byte) error
}

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
	key, err := currentKey(c.key)
	if err != nil {
		return r.fail(err)
	}
	body := buffers.Get().(*bytes.Buffer)
	defer recycle(body)
	start := time.Now()
	got, err := c.exchange(ctx, r, key, body)
	took := time.Since(start)
	if err == nil && got.status == http.StatusOK {
		err = r.decode(body.Bytes())
	}
	e := r.judge(got, body.Bytes(), err, key)
	c.logAttempt(ctx, r, got.status, took, e)
	if !got.began.IsZero() {
		c.observe(Attempt{Endpoint: r.endpoint, Status: got.status, Duration: got.ended.Sub(got.began)})
	}
	return e
}

func (c *Client) logAttempt(ctx context.Context, r call, status int, took time.Duration, e *Error) {
	attrs := []slog.Attr{
		slog.String("method", http.MethodGet), slog.String("project", r.project),
		slog.Int("offset", r.offset), slog.Int("status", status), slog.Duration("duration", took),
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
	ctx, watch := newWatch(ctx, c.timeout)
	defer watch.stop()
	defer func() { got.began, got.ended = watch.begin(), time.Now() }()
	// A body that net/http cannot rewind keeps it from sending a GET again by
	// itself on a stale connection, past the budget. Being empty, it puts nothing
	// on the wire of HTTP/1.1.
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+"?"+r.query, io.NopCloser(strings.NewReader("")))
	if err != nil {
		return got, fmt.Errorf("%w: %w", errNotSent, err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.userAgent)
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return got, watch.explain(ctx, err)
	}
	defer resp.Body.Close()
	got.status, got.header = resp.StatusCode, resp.Header
	if err := readBody(body, resp); err != nil {
		return got, watch.explain(ctx, err)
	}
	return got, nil
}

// readBody reads to the end, so that the connection can be used again.
func readBody(body *bytes.Buffer, resp *http.Response) error {
	limit := int64(maxErrorBody)
	if resp.StatusCode == http.StatusOK {
		limit = maxBody
	}
	n, err := body.ReadFrom(io.LimitReader(resp.Body, limit+1))
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", errCut, err)
	case n > limit && resp.StatusCode == http.StatusOK:
		return fmt.Errorf("%w: it is over %d MiB", errShape, maxBody>>20)
	}
	return nil
}

// judge returns nil for a success, else the error that says what happened.
func (r call) judge(got answer, body []byte, err error, key string) *Error {
	outcome, after := classify(http.MethodGet, got.status, got.header, err)
	if outcome == OK {
		return nil
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		after = max(0, min(time.Until(refused.RetryAt()), maxRetryAfter))
	}
	e := &Error{
		Op: r.op, Method: http.MethodGet, URL: r.url,
		Status: got.status, Outcome: outcome, RetryAfter: after,
		Message: redact(message(got, body, err), key),
	}
	if err != nil {
		e.Err = &opaque{redact(err.Error(), key), err}
	}
	return e
}

// fail returns the permanent error of a call that was given up without sending.
func (r call) fail(err error) *Error {
	return &Error{Op: r.op, Method: http.MethodGet, URL: r.url, Outcome: Permanent, Message: err.Error(), Err: err}
}

// message joins what we advise, what went wrong here, and what the service says.
func message(got answer, body []byte, err error) string {
	var parts []string
	if advice := match(got.status, err).advice; advice != "" {
		parts = append(parts, advice)
	}
	if err != nil {
		parts = append(parts, err.Error())
	}
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	switch {
	case got.status != http.StatusOK && len(body) > 0:
		parts = append(parts, "the service says: "+serviceWords(body))
	case errors.Is(err, errShape) && media != "application/json":
		parts = append(parts, "content type "+cmp.Or(media, "not given"))
	}
	return strings.Join(parts, "; ")
}
