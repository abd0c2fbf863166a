package docsapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Error is a request that did not give its result. None of its texts holds a key
// or a prompt.
type Error struct {
	// Op names the operation: "visitors at offset 250", "create a job".
	Op string
	// Method and URL name the request; URL is without its query.
	Method, URL string
	// Status is the HTTP status, 0 where no answer came.
	Status  int
	Outcome Outcome
	// RetryAfter is how long the service or the transport asks to wait before
	// the next request, at most 24 h; 0 where it does not say.
	RetryAfter time.Duration
	// FromAPI reports whether the body was a JSON object: it is the service that
	// answers, not something in front of it.
	FromAPI bool
	// Message says why and what to do: redacted, one line, at most 300 characters.
	Message string
	// Err is the cause, where it is not the status alone. Its text is redacted,
	// and it answers errors.Is and errors.As as the original does.
	Err error
}

// Error returns "op: METHOD URL: HTTP status: message".
func (e *Error) Error() string {
	text := e.Op + ": " + e.Method + " " + e.URL + ": "
	if e.Status == 0 {
		return text + e.Message
	}
	text += fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
	if e.Message == "" {
		return text
	}
	return text + ": " + e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// NotSent reports whether the service knows nothing of the request: there was no
// connection, the transport refused it, or the call was wrong. A write that was
// not sent can be sent later, whatever its Outcome: that says whether something
// must change first.
func (e *Error) NotSent() bool { return errors.Is(e.Err, ErrNotSent) }

// opaque is an error whose text may quote the service, and so the key: the text
// is replaced and the chain below it hidden, what it is to errors.Is and
// errors.As stays.
type opaque struct {
	text string
	err  error
}

func (o *opaque) Error() string        { return o.text }
func (o *opaque) Is(target error) bool { return errors.Is(o.err, target) }
func (o *opaque) As(target any) bool   { return errors.As(o.err, target) }

// OutcomeOf returns the outcome an error of this package stands for: OK for nil,
// Transient for a cancelled context (reads alone return one), Permanent for an
// error that is none of ours.
func OutcomeOf(err error) Outcome {
	if err == nil {
		return OK
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Outcome
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Transient
	}
	return Permanent
}

// IsInDoubt reports whether a write may have happened.
func IsInDoubt(err error) bool { return OutcomeOf(err) == InDoubt }

// IsNotSent reports whether err is that of a request the service knows nothing of.
func IsNotSent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.NotSent()
}

// IsUnauthorized reports whether the service refused the key (401, 403):
// nothing more should be sent with it. Reads and writes can have different keys.
func IsUnauthorized(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden)
}

// IsNotFound reports whether the service itself says that there is no such thing
// (404 with a JSON object).
func IsNotFound(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusNotFound && e.FromAPI
}

// IsThrottled reports whether the service's request limit was hit (429).
// RetryAfter of the error says for how long, if the service does.
func IsThrottled(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusTooManyRequests
}

// IsMalformed reports whether the service's visitors operation has answered, with
// 200 and an object that has a page's members, but a value in it is wrong, so that
// nothing can be made of the page: a count of 1.5, a row without its path, a body
// over 16 MiB. It is that window which cannot be read. Any other answer with 200
// and an error (HTML, other JSON) is not this API's: the base URL may be wrong.
func IsMalformed(err error) bool {
	return errors.Is(err, ErrMalformed)
}

// refusal is an error of a transport that does not send before a time: the
// budget's.
type refusal interface {
	error
	RetryAt() time.Time
}

func isObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
}

// serviceWords returns what an error body says: the text of the live service's
// {"error": "…"} or of {"message": "…"}, else the body. A page of HTML has
// nothing to say to an API's user.
func serviceWords(body []byte) string {
	var fields struct{ Error, Message json.RawMessage }
	if json.Unmarshal(body, &fields) == nil {
		for _, raw := range []json.RawMessage{fields.Error, fields.Message} {
			var text string
			if json.Unmarshal(raw, &text) == nil && text != "" {
				return text
			}
		}
	}
	if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
		return text
	}
	return "an HTML page"
}
