package remotewrite

import (
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/config"
)

const (
	// maxAnswer is how much of an answer is read, and maxQuoted how much of it is told.
	maxAnswer = 64 << 10
	maxQuoted = 300
	// maxRetryAfter is the longest pause that a receiver can ask for.
	maxRetryAfter = 5 * time.Minute
)

// answers is a transport that keeps the last answer, and makes answers harmless for
// the client library, which would read all of one, wait as long as it says, and take
// one that was cut off for final.
type answers struct {
	next http.RoundTripper
	stop func()
	last answer
}

// answer is a status and text, or an error.
type answer struct {
	status int
	text   string
	err    error
}

// begin is called before a request; stop ends its retries.
func (a *answers) begin(stop func()) { a.stop, a.last = stop, answer{} }

// RoundTrip sends one request.
func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := a.next.RoundTrip(r)
	if err != nil {
		a.last = answer{err: plain(err)}
		if permanent(err) {
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
	a.last = answer{status: response.StatusCode, text: told(response.Request, string(text))}
	// Prometheus before 2.45 says that it failed if a sample is too old for its window.
	if response.StatusCode == http.StatusInternalServerError && old.MatchString(a.last.text) {
		response.StatusCode, a.last.status = http.StatusBadRequest, http.StatusBadRequest
	}
	limitPause(response.Header)
	return response, nil
}

// errPage is the error of an answer that is no receiver's.
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

// permanent reports whether the same request would fail again for certain.
func permanent(err error) bool {
	_, untrusted := errors.AsType[*tls.CertificateVerificationError](err)
	_, unreadable := errors.AsType[*fs.PathError](err)
	return untrusted || unreadable
}

// told is the beginning of a text on one line, without the credentials of the request
// and without control characters.
func told(r *http.Request, text string) string {
	if r != nil {
		for name, values := range r.Header {
			if _, known := config.ReservedHeaders[name]; known && name != "Authorization" {
				continue // no secret
			}
			for _, value := range values {
				text = redact(text, value)
			}
		}
	}
	text = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "\uFFFD"),
		func(c rune) bool { return c <= ' ' || c >= 0x7f && c < 0xa0 }), " ")
	if len(text) > maxQuoted {
		text = strings.ToValidUTF8(text[:maxQuoted], "") + "…"
	}
	return text
}

// shortestSecret spares words that are too short to be secret.
const shortestSecret = 4

// redact takes the value of a header out of a text: as it is, without its scheme, and
// the password of basic authentication.
func redact(text, value string) string {
	scheme, token, _ := strings.Cut(value, " ")
	secrets := []string{value, token}
	if both, err := base64.StdEncoding.DecodeString(token); err == nil && strings.EqualFold(scheme, "basic") {
		_, password, _ := strings.Cut(string(both), ":")
		secrets = append(secrets, password, url.QueryEscape(password))
	}
	for _, secret := range secrets {
		if len(secret) >= shortestSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// plain returns an error of the HTTP client without the URL.
func plain(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
