package docsapi

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// Outcome is whether a request happened, and whether the same request can be
// sent again.
type Outcome uint8

const (
	// succeeded: it happened, and the answer is usable.
	succeeded Outcome = iota
	// Permanent: the same request would be refused again. A write did not happen.
	Permanent
	// Transient: the same request may succeed later. A write did not happen.
	Transient
	// InDoubt: a write may have happened. It must not be sent again automatically.
	InDoubt
)

// String returns the outcome's name in logs.
func (o Outcome) String() string {
	return [...]string{"ok", "permanent", "transient", "in doubt"}[o&3]
}

// maxRetryAfter is the longest Retry-After that is respected.
const maxRetryAfter = 24 * time.Hour

var (
	// ErrNotSent marks an attempt that never had a connection, and a call that was
	// refused here: the service does not know of it.
	ErrNotSent = errors.New("nothing was sent")
	// ErrMalformed marks an answer of this API that contains something that cannot
	// be kept. See [IsMalformed].
	ErrMalformed = errors.New("an answer of this API that holds something malformed")
	// errShape marks a whole answer that does not follow the specification.
	errShape = errors.New("the answer is not as in the service's specification")
	// errCut marks an answer that ends too early.
	errCut = errors.New("the answer was cut off")
)

// asAnswerError marks an error of decoding an answer as errCut or errShape.
func asAnswerError(err error) error {
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("%w: %w", errCut, err)
	case errors.Is(err, errShape):
		return err
	}
	return fmt.Errorf("%w: %w", errShape, err)
}

// malformed marks an errShape whose answer is a page of visitors nevertheless.
func malformed(err error) error { return &opaque{err.Error(), errors.Join(err, ErrMalformed)} }

// rule is one way an attempt can end, and what that means for a read (GET), which
// can be repeated, and for a write, which cannot.
type rule struct {
	name     string
	from, to int              // the statuses; 0: no answer
	when     func(error) bool // on the error of transport, body or decoding; nil: any
	read     Outcome
	write    Outcome
	// advice comes before the service's words. {key} and {notFound} are fields of the call.
	advice string
}

const (
	adviceKey = "{key} was refused: it is mistyped, revoked or of another organisation, has expired, " +
		"lacks the scope for this operation, or this address is not on its IP allow-list"
	adviceDial     = "{dial}: is DOCGAUGE_BASE_URL right? (proxy: HTTPS_PROXY)"
	adviceRedirect = "redirect not followed: check DOCGAUGE_BASE_URL"
	adviceThrottle = "the service's request limit is used up"
	adviceCert     = "the service's certificate is not trusted: " +
		"check DOCGAUGE_BASE_URL and this machine's clock and CA certificates"
	adviceStatus = "no status of this operation: check DOCGAUGE_BASE_URL"
)

var (
	badCertificate = func(err error) bool {
		_, ok := errors.AsType[*tls.CertificateVerificationError](err)
		return ok
	}
	notReached = func(err error) bool { return errors.Is(err, ErrNotSent) && dialError(err) != "" }
	failed     = func(err error) bool { return err != nil }
	is         = func(target error) func(error) bool {
		return func(err error) bool { return errors.Is(err, target) }
	}
)

// rules holds every way an attempt can end; the first rule that matches counts.
//
// The specification leaves status codes open. A read succeeds with 200 alone: 203, 204 and 206
// could be changed, empty or partial answers. A write succeeds with any 2xx whose body has an id,
// because the answer comes after the effect; without the id it is in doubt.
var rules = []rule{
	{"certificate not trusted", 0, 0, badCertificate, Permanent, Permanent, adviceCert},
	{"service not reached", 0, 0, notReached, Transient, Transient, adviceDial},
	{"no connection", 0, 0, is(ErrNotSent), Transient, Transient, ""},
	{"no answer", 0, 0, nil, Transient, InDoubt, ""},
	{"200, body not as specified", 200, 200, is(errShape), Permanent, InDoubt, ""},
	{"200, body cut", 200, 200, failed, Transient, InDoubt, ""},
	{"200", 200, 200, nil, succeeded, succeeded, ""},
	{"other 2xx, no usable body", 201, 299, failed, Permanent, InDoubt, adviceStatus},
	{"other 2xx", 201, 299, nil, Permanent, succeeded, adviceStatus},
	{"3xx", 300, 399, nil, Permanent, InDoubt, adviceRedirect},
	{"401", 401, 401, nil, Permanent, Permanent, adviceKey},
	{"403", 403, 403, nil, Permanent, Permanent, adviceKey},
	{"404", 404, 404, nil, Permanent, Permanent, "{notFound}"},
	{"408", 408, 408, nil, Transient, InDoubt, ""},
	{"425", 425, 425, nil, Transient, Transient, ""},
	{"429", 429, 429, nil, Transient, Transient, adviceThrottle},
	{"other 4xx", 400, 499, nil, Permanent, Permanent, ""},
	{"501", 501, 501, nil, Permanent, InDoubt, ""},
	{"5xx", 500, 599, nil, Transient, InDoubt, ""},
	{"no HTTP status", math.MinInt, math.MaxInt, nil, Permanent, InDoubt, adviceStatus},
}

// dialError says why an address could not be connected to, without saying how that was
// tried: "nx.invalid: no such host". It is empty for any other error.
func dialError(err error) string {
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		return e.Name + ": " + e.Err
	}
	e, ok := errors.AsType[*net.OpError](err)
	if !ok || e.Op != "dial" || e.Addr == nil {
		return ""
	}
	cause := e.Err
	if call, ok := errors.AsType[*os.SyscallError](e.Err); ok {
		cause = call.Err
	}
	return e.Addr.String() + ": " + cause.Error()
}

// match returns the rule for an attempt that ended with status (0: no answer)
// and err (of the transport, or of reading or decoding the body).
func match(status int, err error) rule {
	for _, r := range rules {
		if r.from <= status && status <= r.to && (r.when == nil || r.when(err)) {
			return r
		}
	}
	return rules[len(rules)-1] // never reached: the last rule matches everything
}

// classify returns what an attempt came to, and how long the service asks to wait
// before the next request (0: it does not say).
func classify(method string, status int, header http.Header, err error) (Outcome, time.Duration) {
	rule := match(status, err)
	var after time.Duration
	if status >= 400 {
		after = RetryAfter(header)
	}
	if method == http.MethodGet || method == http.MethodHead {
		return rule.read, after
	}
	return rule.write, after
}

// RetryAfter reads a Retry-After header: seconds, or a date, which is compared with
// the Date header where there is one, because clocks differ. A negative or
// unreadable value counts as absent.
func RetryAfter(header http.Header) time.Duration {
	value := header.Get("Retry-After")
	seconds, err := strconv.ParseUint(value, 10, 64)
	if err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	now, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, min(at.Sub(now), maxRetryAfter))
}

// Error is a request that did not give its result. None of its texts contains a
// key or a prompt.
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
	// FromAPI reports whether the body was a JSON object: the answer of the service, not of a proxy.
	FromAPI bool
	// Message is the reason and the remedy: redacted, one line, at most 300 characters.
	Message string
	// Says is what the service itself said, redacted like Message; empty where it said nothing.
	Says string
	// Err is the cause, where it is not the status alone. Its text is redacted,
	// and it answers errors.Is and errors.As as the original does.
	Err error
}

// Error returns "op: message (HTTP status; METHOD URL)".
func (e *Error) Error() string {
	request := e.Method + " " + e.URL
	switch {
	case e.Status == 0:
		return e.Op + ": " + e.Message + " (" + request + ")"
	case e.Message == "":
		return e.Op + ": " + e.status() + " (" + request + ")"
	}
	return e.Op + ": " + e.Message + " (" + e.status() + "; " + request + ")"
}

// Short returns "message (HTTP status)", for readers who know the request.
func (e *Error) Short() string {
	switch {
	case e.Status == 0:
		return e.Message
	case e.Message == "":
		return e.status()
	}
	return e.Message + " (" + e.status() + ")"
}

func (e *Error) status() string {
	return fmt.Sprintf("HTTP %d %s", e.Status, http.StatusText(e.Status))
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// opaque is an error whose text could quote the service, and so the key: its text is replaced and the
// chain below it hidden, except from errors.Is and errors.As.
type opaque struct {
	text string
	err  error
}

func (o *opaque) Error() string        { return o.text }
func (o *opaque) Is(target error) bool { return errors.Is(o.err, target) }
func (o *opaque) As(target any) bool   { return errors.As(o.err, target) }

// asError returns the *Error in err, or an empty one.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{}
}

// IsInDoubt reports whether a write may have happened.
func IsInDoubt(err error) bool { return asError(err).Outcome == InDoubt }

// IsNotSent reports whether the service does not know of the request: there was no connection, the
// transport refused it, or the call was wrong. Such a write can be sent later; the Outcome of the
// error says whether something must change first.
func IsNotSent(err error) bool { return errors.Is(asError(err).Err, ErrNotSent) }

// IsUnauthorized reports whether the service refused the key (401, 403), altogether or for what was requested:
// only its answers to other requests tell. Reads and writes can have different keys.
func IsUnauthorized(err error) bool {
	status := asError(err).Status
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// IsNotFound reports whether the service itself answered 404, with a JSON object.
func IsNotFound(err error) bool {
	e := asError(err)
	return e.Status == http.StatusNotFound && e.FromAPI
}

// IsThrottled reports whether the service's request limit was hit (429). RetryAfter of the error is
// the time to wait, if the service gave one.
func IsThrottled(err error) bool { return asError(err).Status == http.StatusTooManyRequests }

// IsMalformed reports whether the visitors operation answered with 200 and a page that has a wrong
// value: a count of 1.5, a row without its path, a body over 16 MiB. Only that window cannot be read.
// Any other unusable answer with 200 (HTML, other JSON) is not this API's: the base URL may be wrong.
func IsMalformed(err error) bool { return errors.Is(err, ErrMalformed) }

// refusal is an error of a transport that sends nothing before some time: the
// budget's.
type refusal interface {
	error
	RetryAt() time.Time
}

// serviceWords returns what an error body says: the text of the live service's
// {"error": "…"} or of {"message": "…"}, else the body. HTML is not quoted.
func serviceWords(body []byte) string {
	var fields struct{ Error, Message json.RawMessage }
	if json.Unmarshal(body, &fields) == nil {
		for _, raw := range []json.RawMessage{fields.Error, fields.Message} {
			if text := exact(raw); text != "" {
				return text
			}
		}
	}
	if text := strings.TrimSpace(string(body)); !strings.HasPrefix(text, "<") {
		return text
	}
	return "an HTML page"
}
