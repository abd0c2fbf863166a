package docsapi

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

func TestClassify(t *testing.T) {
	certificate := fmt.Errorf("%w: %w", ErrNotSent, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}})
	refusedConn := fmt.Errorf("%w: %w", ErrNotSent, errors.New("connection refused"))
	cut := fmt.Errorf("%w: %w", errCut, io.ErrUnexpectedEOF)
	tested := map[string]bool{}
	for _, tc := range []struct {
		row         string
		status      int
		err         error
		read, write Outcome
	}{
		{"certificate not trusted", 0, certificate, Permanent, Permanent},
		{"no connection", 0, refusedConn, Transient, Transient},
		{"no answer", 0, io.EOF, Transient, InDoubt},
		{"200, body not as specified", 200, errShape, Permanent, InDoubt},
		{"200, body cut", 200, cut, Transient, InDoubt},
		{"200", 200, nil, OK, OK},
		{"other 2xx", 201, nil, Permanent, OK},
		{"other 2xx", 204, nil, Permanent, OK},
		{"other 2xx", 206, nil, Permanent, OK},
		{"other 2xx, no usable body", 201, errShape, Permanent, InDoubt},
		{"other 2xx, no usable body", 202, cut, Permanent, InDoubt},
		{"3xx", 301, nil, Permanent, InDoubt},
		{"3xx", 307, nil, Permanent, InDoubt},
		{"other 4xx", 400, nil, Permanent, Permanent},
		{"401", 401, nil, Permanent, Permanent},
		{"403", 403, nil, Permanent, Permanent},
		{"404", 404, nil, Permanent, Permanent},
		{"other 4xx", 405, nil, Permanent, Permanent},
		{"other 4xx", 405, cut, Permanent, Permanent},
		{"408", 408, nil, Transient, InDoubt},
		{"other 4xx", 422, nil, Permanent, Permanent},
		{"425", 425, nil, Transient, Transient},
		{"429", 429, nil, Transient, Transient},
		{"429", 429, cut, Transient, Transient},
		{"other 4xx", 499, nil, Permanent, Permanent},
		{"5xx", 500, nil, Transient, InDoubt},
		{"5xx", 503, cut, Transient, InDoubt},
		{"no HTTP status", 999, nil, Permanent, InDoubt},
		{"no HTTP status", 100, nil, Permanent, InDoubt},
	} {
		tested[tc.row] = true
		if got := match(tc.status, tc.err).name; got != tc.row {
			t.Errorf("%d, %v: row %q, want %q", tc.status, tc.err, got, tc.row)
		}
		for method, want := range map[string]Outcome{http.MethodGet: tc.read, http.MethodPost: tc.write} {
			if got, after := classify(method, tc.status, nil, tc.err); got != want || after != 0 {
				t.Errorf("%s: %d, %v: %v after %v, want %v", method, tc.status, tc.err, got, after, want)
			}
		}
	}
	for _, row := range table {
		if !tested[row.name] {
			t.Errorf("no test of row %q", row.name)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(17*time.Minute + 3*time.Second)
		at := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
		for _, tc := range []struct {
			value, date string
			want        time.Duration
		}{
			{"", "", 0},
			{"120", "", 2 * time.Minute},
			{"0", "", 0},
			{"-5", "", 0},
			{"soon", "", 0},
			{"1.5", "", 0},
			{"86401", "", 24 * time.Hour},
			{"99999999999999999999999", "", 24 * time.Hour},
			{at(90 * time.Second), "", 90 * time.Second},
			{at(-time.Hour), "", 0},
			{at(1000 * time.Hour), "", 24 * time.Hour},
			{at(time.Hour + time.Minute), at(time.Hour), time.Minute},
			{at(time.Hour), "yesterday", time.Hour},
		} {
			header := http.Header{"Retry-After": {tc.value}, "Date": {tc.date}}
			if _, got := classify(http.MethodGet, 429, header, nil); got != tc.want {
				t.Errorf("Retry-After %q at %q: %v, want %v", tc.value, tc.date, got, tc.want)
			}
		}
	})
	if _, got := classify(http.MethodGet, 302, http.Header{"Retry-After": {"5"}}, nil); got != 0 {
		t.Errorf("Retry-After of a redirect: %v, want none", got)
	}
}
