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
	"time"
)

// call is one operation of the API, and what errors and logs name it by.
type call struct {
	method, op, project string
	endpoint            string    // for metrics
	about               slog.Attr // for logs; the zero one is left out
	// url is without query, which is kept apart.
	url, query string
	// missing says what to check after a 404.
	missing string

	key     credential
	send    http.RoundTripper
	timeout time.Duration
	// prompt is what a write tells the agent, and payload the body that holds it.
	// The prompt is in no text that comes out of here.
	prompt  string
	payload []byte
	// decode reads the body of a success; it must not keep it.
	decode func(body []byte) error
}

func (r call) isWrite() bool { return r.method == http.MethodPost }

// takes reports whether an answer with status can be a success.
func (r call) takes(status int) bool {
	return status == http.StatusOK || r.isWrite() && 200 <= status && status <= 299
}

// request returns what to send, under a context that the watch ends.
func (r call) request(ctx context.Context) (req *http.Request, w *watch, err error) {
	if !r.isWrite() {
		ctx, w = newWatch(ctx, r.timeout)
		// A body that net/http cannot rewind keeps it from sending a GET again by
		// itself on a stale connection, past the budget. Being empty, it puts nothing
		// on the wire of HTTP/1.1.
		req, err = http.NewRequestWithContext(ctx, r.method, r.target(), io.NopCloser(strings.NewReader("")))
		return req, w, err
	}
	payload := bytes.NewReader(r.payload)
	ctx, w = newWriteWatch(ctx, r.timeout, payload)
	req, err = http.NewRequestWithContext(ctx, r.method, r.target(), payload)
	if err != nil {
		return nil, w, err
	}
	req.GetBody = nil // without it net/http cannot send the body a second time
	req.Header.Set("Content-Type", "application/json")
	return req, w, nil
}

func (r call) target() string {
	if r.query == "" {
		return r.url
	}
	return r.url + "?" + r.query
}

// judge returns nil for a success, else the error that says what happened.
func (r call) judge(got answer, body []byte, err error, key string) *Error {
	outcome, after := classify(r.method, got.status, got.header, err)
	if outcome == OK {
		return nil
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		after = max(0, min(time.Until(refused.RetryAt()), maxRetryAfter))
	}
	e := &Error{
		Op: r.op, Method: r.method, URL: r.url,
		Status: got.status, Outcome: outcome, RetryAfter: after, FromAPI: isObject(body),
		Message: r.redact(r.message(outcome, got, body, err), key),
	}
	if err != nil {
		e.Err = &opaque{r.redact(err.Error(), key), err}
	}
	return e
}

// fail returns the permanent error of a call that was given up.
func (r call) fail(err error) *Error {
	return &Error{Op: r.op, Method: r.method, URL: r.url, Outcome: Permanent, Message: err.Error(), Err: err}
}

// refuse is fail for a call that must not be sent.
func (r call) refuse(err error) *Error {
	e := r.fail(err)
	e.Err = &opaque{err.Error(), fmt.Errorf("%w: %w", ErrNotSent, err)}
	return e
}

// message joins what we advise, what went wrong here, and what the service says.
func (r call) message(outcome Outcome, got answer, body []byte, err error) string {
	var parts []string
	if outcome == InDoubt {
		parts = append(parts, "the service may have accepted it")
	}
	if advice := match(got.status, err).advice; advice != "" {
		parts = append(parts, strings.NewReplacer("{key}", r.key.variable, "{missing}", r.missing).Replace(advice))
	}
	if err != nil {
		parts = append(parts, err.Error())
	}
	media, _, _ := mime.ParseMediaType(got.header.Get("Content-Type"))
	switch {
	case (got.status != http.StatusOK || r.isWrite()) && len(body) > 0:
		parts = append(parts, "the service says: "+serviceWords(body[:min(len(body), maxErrorBody)]))
	case errors.Is(err, errShape) && media != "application/json":
		parts = append(parts, "content type "+cmp.Or(media, "not given"))
	}
	return strings.Join(parts, "; ")
}

// redact makes text fit to leave the package: without key and prompt, on one line,
// printable, capped.
func (r call) redact(text, key string) string {
	return capped(withoutPrompt(withoutKey(text, key), oneLine(r.prompt)))
}
