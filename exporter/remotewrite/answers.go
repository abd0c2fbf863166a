package remotewrite

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/docgauge/docgauge/exporter"
)

const (
	// maxAnswer is the maximum number of bytes of an answer that are read.
	maxAnswer = 64 << 10
	// maxRetryAfter is the longest pause that a receiver can ask for.
	maxRetryAfter = 5 * time.Minute
)

// answers is a transport that stores the last answer, and protects the client library, which
// would read an endless answer, wait as long as it asks for, and take a truncated one for
// final.
type answers struct {
	next http.RoundTripper
	stop func() // ends the retries of the present request
	last answer // to the present request
}

// answer is a status and text, or an error.
type answer struct {
	status int
	text   string
	err    error
}

// RoundTrip sends one request.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err != nil {
		a.last = answer{err: plain(err)}
		_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
		_, unreadable := errors.AsType[*fs.PathError](err)
		if untrusted || unreadable { // the same request would fail again for certain
			a.stop()
		}
		return nil, a.last.err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil && response.StatusCode/100 != 2 {
		a.last = answer{err: err}
		return nil, err
	}
	if response.StatusCode/100 == 2 && isPage(response.Header, text) {
		a.last = answer{err: errPage}
		a.stop()
		return nil, errPage
	}
	response.Body = io.NopCloser(bytes.NewReader(text))
	a.last = answer{status: response.StatusCode, text: exporter.Quote(response.Request, string(text))}
	// Prometheus before 2.45 says that it failed if a sample is too old for its window.
	if response.StatusCode == http.StatusInternalServerError && old.MatchString(a.last.text) {
		response.StatusCode, a.last.status = http.StatusBadRequest, http.StatusBadRequest
	}
	limitPause(response.Header)
	return response, nil
}

// errPage is the error of an answer that no receiver sends.
var errPage = errors.New("the answer is an HTML page, such as a login page, and not that of a receiver: " +
	"check the URL, and the credentials that a proxy before it wants")

// isPage reports whether an answer is meant for people.
func isPage(h http.Header, text []byte) bool {
	kind := h.Get("Content-Type")
	if kind == "" {
		kind = http.DetectContentType(text)
	}
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(kind)), "text/html")
}

// limitPause shortens a Retry-After, which is seconds or a date.
func limitPause(h http.Header) {
	asked := h.Get("Retry-After")
	seconds, err := strconv.Atoi(asked)
	if at, bad := http.ParseTime(asked); err != nil && bad == nil {
		seconds = int(time.Until(at).Seconds())
	}
	h.Set("Retry-After", strconv.Itoa(min(max(seconds, 0), int(maxRetryAfter.Seconds()))))
}

// plain returns an error of the HTTP client without the URL.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
