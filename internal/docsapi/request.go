package docsapi

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/docgauge/docgauge/internal/clock"
)

const (
	maxAttempts = 5 // by default
	retryBase   = time.Second
	// maxHonoured is the longest Retry-After that is waited for here; after a
	// longer one the caller decides.
	maxHonoured = time.Minute
	// stopGrace is the longest wait of a write for its answer after its caller stopped. It leaves
	// five of the 30 seconds of a stop for entering a write in doubt.
	stopGrace = 25 * time.Second

	maxBody = 16 << 20
	// maxErrorBody is how much of an error's body is read; more costs the connection.
	maxErrorBody = 64 << 10
	// maxPooled is the largest buffer that is kept for the next answer.
	maxPooled = 1 << 20
)

// RetryMessage is the log's message about a request that is tried again, with the fields
// attempt (the one that failed), attempts (the most there are) and reason.
const RetryMessage = "api request will be retried"

// call is one operation of the API: its request, the decoder of its answer, and its names in errors
// and logs.
type call struct {
	method, op, project string
	endpoint            string    // for metrics
	about               slog.Attr // for logs; the zero one is left out
	url, query          string    // url is without the query
	notFound            string    // what to check after a 404

	key     credential
	send    http.RoundTripper
	timeout time.Duration
	// fresh asks for an answer that no cache has kept.
	fresh bool
	// prompt is the text for the agent, which no text that leaves this package contains; payload is
	// the body with the prompt.
	prompt  string
	payload []byte
	// title is a new job's, encoded by RFC 2047; empty = none.
	title string
	// decode reads the body of a success; it must not keep it.
	decode func(body []byte) error
}

func (r call) isWrite() bool { return r.method == http.MethodPost }

// accepts reports whether an answer with status can be a success.
func (r call) accepts(status int) bool {
	return status == http.StatusOK || r.isWrite() && 200 <= status && status <= 299
}

// read sends r until it succeeds, fails for good, or has had all its attempts.
// It is for reads alone: they can be repeated. Where the answer shows this machine's clock
// to be wrong, a second one decides; if it does too, the error is a *ClockError.
func (c *Client) read(ctx context.Context, r call) error {
	for n := 1; ; n++ {
		e := c.attempt(ctx, r)
		switch {
		case e == nil && c.clock.suspects() && !r.fresh:
			r.fresh = true
			continue
		case e == nil:
			return c.clock.verdict(false)
		case e.Outcome == Transient && ctx.Err() != nil:
			return context.Cause(ctx)
		case c.clock.verdict(false) != nil && e.Status == 0:
			return c.clock.verdict(false) // the budget has asked, and sends nothing
		case n == c.options.Attempts || !r.retryable(e):
			return e
		}
		jitter := rand.N(retryBase<<(n-1) + 1) // full jitter: uniform in [0, 2^(n-1) s]
		wait := max(jitter, e.RetryAfter)
		c.options.Logger.LogAttrs(ctx, slog.LevelWarn, RetryMessage,
			slog.String("project", r.project), r.about, slog.Int("attempt", n),
			slog.Float64("wait_seconds", clock.Seconds(wait)), slog.Int("attempts", c.options.Attempts),
			slog.Int("status", e.Status), slog.String("reason", cmp.Or(dialError(e.Err), e.Message)))
		if err := clock.Sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// retryable reports whether another attempt may soon succeed. After a 429 that does not say when, or a
// refusal by the transport, the budget knows when, not this loop. A 429 for an agent job is its queue's.
func (r call) retryable(e *Error) bool {
	_, refused := errors.AsType[refusal](e.Err)
	throttled := e.Status == http.StatusTooManyRequests && (e.RetryAfter == 0 || r.endpoint == endpointJob)
	return e.Outcome == Transient && !throttled && !refused && e.RetryAfter <= maxHonoured
}

// answer is a response without its body; the zero answer stands for none.
type answer struct {
	status int
	header http.Header
	// began is when the transport asked for a connection. It is zero if the
	// transport never did: requests that the budget refused, or that timed out waiting for
	// a slot, do not count as attempts.
	began, ended time.Time
}

var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// attempt sends r once and returns nil only if r.decode took the answer.
func (c *Client) attempt(ctx context.Context, r call) *Error {
	key, err := r.key.current()
	if err != nil {
		return r.refuse(err)
	}
	body := buffers.Get().(*bytes.Buffer)
	defer func() {
		if body.Cap() <= maxPooled {
			body.Reset()
			buffers.Put(body)
		}
	}()
	start := c.clock.moment()
	got, err := c.exchange(ctx, r, key, body)
	took := time.Since(start.monotonic)
	c.clock.note(got, start)
	if err == nil && r.accepts(got.status) {
		err = r.decode(body.Bytes())
	}
	e := r.failure(got, body.Bytes(), err, key)

	attrs := []slog.Attr{
		slog.String("method", r.method), slog.String("project", r.project),
		r.about, slog.Int("status", got.status), slog.Float64("took_seconds", clock.Seconds(took)),
	}
	if e != nil {
		attrs = append(attrs, slog.String("reason", e.Message))
	}
	c.options.Logger.LogAttrs(ctx, slog.LevelDebug, "api request", attrs...)
	if !got.began.IsZero() {
		took := got.ended.Sub(got.began)
		a := Attempt{Endpoint: r.endpoint, Key: r.key.name, Status: got.status, Duration: took}
		if e != nil {
			a.RetryAfter = e.RetryAfter
		}
		c.options.Observe(a)
	}
	return e
}

// exchange sends one request and reads the body of its answer. It calls the
// transport directly, because an http.Client follows redirects, keeps cookies and
// sends requests again.
func (c *Client) exchange(ctx context.Context, r call, key string, body *bytes.Buffer) (got answer, err error) {
	// A body that net/http cannot rewind keeps it from sending a GET again by itself
	// on a stale connection, past the budget. An empty one puts nothing on the wire
	// of HTTP/1.1.
	var content io.Reader = io.NopCloser(strings.NewReader(""))
	var payload *bytes.Reader
	if r.isWrite() {
		payload = bytes.NewReader(r.payload)
		content = payload
	}
	ctx, limit := newDeadline(ctx, r.timeout, payload)
	defer func() {
		limit.detach()
		limit.timer.Stop()
		limit.cancel(nil)
		if at := limit.began.Load(); at != nil {
			got.began = *at
		}
		got.ended = time.Now()
	}()

	target := r.url
	if r.query != "" {
		target += "?" + r.query
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, content)
	if err != nil {
		return got, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	if r.isWrite() {
		req.GetBody = nil // without it net/http cannot send the body a second time
		req.Header.Set("Content-Type", "application/json")
	}
	if r.title != "" {
		req.Header.Set("Docgauge-Title", r.title)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "application/json")
	if r.fresh {
		req.Header.Set("Cache-Control", "no-cache")
	}
	req.Header.Set("User-Agent", c.options.UserAgent)

	resp, err := r.send.RoundTrip(req)
	if err != nil {
		return got, limit.explain(ctx, err)
	}
	defer resp.Body.Close()
	got.status, got.header = resp.StatusCode, resp.Header

	most, success := int64(maxErrorBody), r.accepts(resp.StatusCode)
	if success {
		most = maxBody
	}
	// A body that is read to its end gives its connection back.
	n, err := body.ReadFrom(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return got, limit.explain(ctx, fmt.Errorf("%w: %w", errCut, err))
	case n > most && success:
		err = fmt.Errorf("%w: it is over %d MiB", errShape, maxBody>>20)
		if isPage(body.Bytes()) {
			err = malformed(err)
		}
		return got, err
	}
	return got, nil
}

// The phases of an attempt.
const (
	waiting   int32 = iota // for the budget, or for a connection
	connected              // from here on something can have been sent
	abandoned              // a write that was given up while it waited
)

// deadline ends one attempt in time, and knows whether the attempt ever had a
// connection.
type deadline struct {
	timer  *time.Timer
	cancel context.CancelCauseFunc
	phase  atomic.Int32
	began  atomic.Pointer[time.Time] // when the transport asked for a connection; nil if it did not
	// payload is the body of a write, nil for a read.
	payload *bytes.Reader
	detach  func() bool
}

// newDeadline returns a context that ends timeout after the transport asks for a
// connection: a wait for the budget before that does not make the service slow.
// For a write, payload is its body. A write ends with parent only until it has a
// connection: cutting off a POST in flight would put its job in doubt. From then on the end
// of parent leaves it stopGrace.
func newDeadline(parent context.Context, timeout time.Duration, payload *bytes.Reader) (context.Context, *deadline) {
	d := &deadline{payload: payload, detach: func() bool { return true }}
	ctx := parent
	if payload != nil {
		ctx = context.WithoutCancel(parent)
	}
	ctx, d.cancel = context.WithCancelCause(ctx)
	if payload != nil {
		d.detach = context.AfterFunc(parent, func() {
			d.giveUp(context.Cause(parent))
			time.AfterFunc(stopGrace, func() {
				d.cancel(fmt.Errorf("docgauge was stopped and had no whole answer %v later", stopGrace))
			})
		})
		if parent.Err() != nil {
			d.giveUp(context.Cause(parent))
		}
	}
	late := fmt.Errorf("no whole answer within %v (DOCGAUGE_TIMEOUT)", timeout)
	d.timer = time.AfterFunc(math.MaxInt64, func() {
		if payload != nil {
			d.giveUp(late)
		}
		d.cancel(late)
	})
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) {
			now := time.Now()
			d.began.Store(&now)
			d.timer.Reset(timeout)
		},
		// From here on a write cannot be taken back. net/http may hand over a connection although the
		// attempt was given up, and would write the request to it. It does not send a body that is
		// shorter than its Content-Length, so emptying the body keeps the prompt here, in either order
		// of the two events.
		GotConn: func(httptrace.GotConnInfo) {
			if !d.phase.CompareAndSwap(waiting, connected) && d.phase.Load() == abandoned {
				_, _ = d.payload.Seek(0, io.SeekEnd)
			}
		},
	}), d
}

// giveUp ends a write that has no connection yet.
func (d *deadline) giveUp(cause error) {
	if d.phase.CompareAndSwap(waiting, abandoned) {
		d.cancel(cause)
	}
}

// explain returns why the attempt under ctx failed with err: the end of ctx if
// that was the reason, and whether anything can have been sent.
func (d *deadline) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if d.phase.Load() != connected {
		return fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	return err
}

// failure returns nil for a success, else the error.
func (r call) failure(got answer, body []byte, err error, key string) *Error {
	outcome, after := classify(r.method, got.status, got.header, err)
	if outcome == succeeded {
		return nil
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		after = max(0, min(time.Until(refused.RetryAt()), maxRetryAfter))
	}
	e := &Error{
		Op: r.op, Method: r.method, URL: r.url,
		Status: got.status, Outcome: outcome, RetryAfter: after,
		FromAPI: bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body),
		Message: r.redact(r.message(outcome, got, body, err), key),
	}
	if got.status != http.StatusOK && len(body) > 0 {
		e.Says = r.redact(serviceWords(body[:min(len(body), maxErrorBody)]), key)
	}
	if err != nil {
		e.Err = &opaque{r.redact(err.Error(), key), err}
	}
	return e
}

// refuse returns the error of a call that is wrong and therefore not sent.
func (r call) refuse(err error) *Error {
	return &Error{
		Op: r.op, Method: r.method, URL: r.url, Outcome: Permanent, Message: err.Error(),
		Err: &opaque{err.Error(), fmt.Errorf("%w: %w", ErrNotSent, err)},
	}
}

// message joins our advice, what went wrong here, and the service's own words.
func (r call) message(outcome Outcome, got answer, body []byte, err error) string {
	var parts []string
	if outcome == InDoubt {
		parts = append(parts, "the service may have accepted it")
	}
	advice := match(got.status, err).advice
	if advice != "" {
		fill := strings.NewReplacer("{key}", r.key.variable, "{notFound}", r.notFound, "{dial}", dialError(err))
		parts = append(parts, fill.Replace(advice))
	}
	if err != nil && advice != adviceDial {
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
	text = withoutPrompt(withoutKey(text, key), oneLine(r.prompt))
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage-1]) + "…"
	}
	return text
}
