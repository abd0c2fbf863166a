package docsapi

import (
	"crypto/tls"
	"errors"
	"net/http"
	"strconv"
	"time"
)

// Outcome is what a request has come to: whether it happened, and whether the
// same request can be sent again.
type Outcome uint8

const (
	// OK: it happened, and the answer is usable.
	OK Outcome = iota
	// Permanent: the same request would be refused again. A write did not happen.
	Permanent
	// Transient: the same request may go through later. A write did not happen.
	Transient
	// InDoubt: a write may have happened. It must not be sent again by itself.
	InDoubt
)

// String returns the outcome's name in logs.
func (o Outcome) String() string {
	return [...]string{"ok", "permanent", "transient", "in doubt"}[o&3]
}

const (
	// maxRetryAfter caps what is believed of a Retry-After header.
	maxRetryAfter = 24 * time.Hour
	maxBody       = 16 << 20
)

var (
	// ErrNotSent marks an attempt that never had a connection, and a call that was
	// refused here: the service knows nothing of it.
	ErrNotSent = errors.New("nothing was sent")
	// errShape marks a whole answer that is not what the specification promises.
	errShape = errors.New("the answer is not that of the service's specification")
	// ErrMalformed marks an answer that is one of this API, with something in it that
	// cannot be kept. See [IsMalformed].
	ErrMalformed = errors.New("an answer of this API that holds something malformed")
	// errCut marks an answer that ends too early.
	errCut = errors.New("the answer was cut off")
)

// malformed marks an errShape whose answer is a page of visitors nevertheless.
type malformed struct{ err error }

func (m malformed) Error() string { return m.err.Error() }
func (m malformed) Unwrap() error { return m.err }

// Is makes it ErrMalformed.
func (m malformed) Is(target error) bool { return target == ErrMalformed }

// rule is one row of the table: what one way to end means for a read (GET),
// which can be repeated, and for a write, which cannot.
type rule struct {
	name        string
	matches     func(status int, err error) bool
	read, write Outcome
	// advice is said to the user, in front of the service's own words. {key} and
	// {missing} stand for what the call says.
	advice string
}

const (
	adviceKey      = "{key} was refused: it has expired, lacks the scope for this operation, or this address is not on its IP allow-list"
	adviceRedirect = "redirect not followed: check DOCGAUGE_BASE_URL"
	adviceNotFound = "{missing}"
	adviceThrottle = "the service's request limit is used up"
	adviceCert     = "the service's certificate is not trusted: check DOCGAUGE_BASE_URL and this machine's clock and CA certificates"
	adviceStatus   = "no status of this operation: check DOCGAUGE_BASE_URL"
)

// table holds every way an attempt can end; the first row that matches counts.
//
// The specification leaves status codes open. A read succeeds with 200 alone:
// 203, 204 and 206 would pass a changed, an empty or a partial answer for the
// numbers. A write succeeds with any 2xx whose body has an id, because the
// answer comes after the effect; without the id it is in doubt.
var table = []rule{
	{"certificate not trusted", badCertificate, Permanent, Permanent, adviceCert},
	{"no connection", notSent, Transient, Transient, ""},
	{"no answer", between(0, 0), Transient, InDoubt, ""},
	{"200, body not as specified", both(between(200, 200), is(errShape)), Permanent, InDoubt, ""},
	{"200, body cut", both(between(200, 200), failed), Transient, InDoubt, ""},
	{"200", between(200, 200), OK, OK, ""},
	{"other 2xx, no usable body", both(between(201, 299), failed), Permanent, InDoubt, adviceStatus},
	{"other 2xx", between(201, 299), Permanent, OK, adviceStatus},
	{"3xx", between(300, 399), Permanent, InDoubt, adviceRedirect},
	{"401", between(401, 401), Permanent, Permanent, adviceKey},
	{"403", between(403, 403), Permanent, Permanent, adviceKey},
	{"404", between(404, 404), Permanent, Permanent, adviceNotFound},
	{"408", between(408, 408), Transient, InDoubt, ""},
	{"425", between(425, 425), Transient, Transient, ""},
	{"429", between(429, 429), Transient, Transient, adviceThrottle},
	{"other 4xx", between(400, 499), Permanent, Permanent, ""},
	{"5xx", between(500, 599), Transient, InDoubt, ""},
	{"no HTTP status", func(int, error) bool { return true }, Permanent, InDoubt, adviceStatus},
}

func between(lo, hi int) func(int, error) bool {
	return func(status int, _ error) bool { return lo <= status && status <= hi }
}

func both(a, b func(int, error) bool) func(int, error) bool {
	return func(status int, err error) bool { return a(status, err) && b(status, err) }
}

func is(target error) func(int, error) bool {
	return func(_ int, err error) bool { return errors.Is(err, target) }
}

func failed(_ int, err error) bool { return err != nil }

func notSent(status int, err error) bool { return status == 0 && errors.Is(err, ErrNotSent) }

func badCertificate(status int, err error) bool {
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	return ok && status == 0
}

// match returns the row for an attempt that ended with status (0: no answer)
// and err (of the transport, or of reading or decoding the body).
func match(status int, err error) rule {
	for _, r := range table[:len(table)-1] {
		if r.matches(status, err) {
			return r
		}
	}
	return table[len(table)-1]
}

// classify says what an attempt has come to, and how long the service asks to
// wait before the next request (0: it does not say).
func classify(method string, status int, header http.Header, err error) (Outcome, time.Duration) {
	row := match(status, err)
	var after time.Duration
	if status >= 400 {
		after = RetryAfter(header)
	}
	if method == http.MethodGet || method == http.MethodHead {
		return row.read, after
	}
	return row.write, after
}

// RetryAfter reads a Retry-After header: seconds, or a date, which is held
// against the Date header where there is one (clocks differ). What is negative
// or unreadable counts as absent.
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
